"""`python -m benchmarks [NAME ...]`: prints a table, writes build/bench.json."""

from __future__ import annotations

import sys

from benchmarks.harness import ROOT, Row, machine, print_table, write_json
from benchmarks.menu import MENU


def main(names: list[str]) -> int:
    unknown = [name for name in names if name not in MENU]
    if unknown:
        print(f"unknown: {', '.join(unknown)}; there are:")
        for name, (sentence, _) in MENU.items():
            print(f"  {name:8} {sentence}")
        return 2
    rows: list[Row] = []
    print(f"machine: {machine()}", flush=True)
    for name in names or MENU:
        sentence, run = MENU[name]
        print(f"== {name}: {sentence}", flush=True)
        done = run()
        print_table(done)
        rows.extend(done)
    print()
    print_table(rows)
    target = ROOT / "build" / "bench.json"
    write_json(rows, target)
    print(f"written to {target.relative_to(ROOT)}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
