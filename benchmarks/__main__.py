"""`python -m benchmarks [--short|--tiny] [NAME ...]`: prints a table, writes build/bench.json."""

from __future__ import annotations

import argparse
import sys

from benchmarks.harness import Row, Size, machine, print_table, report
from benchmarks.menu import MENU


def main(arguments: list[str]) -> int:
    names, size = _asked(arguments)
    rows: list[Row] = []
    print(f"machine: {machine()}", flush=True)
    for name in names or MENU:
        workload = MENU[name]
        print(f"== {name}: {workload.sentence}", flush=True)
        if size is not Size.FULL and workload.only_full:
            print(f"left out: it has no {size.value} size")
            continue
        done = workload.run(size)
        print_table(done)
        rows.extend(done)
    report(rows)
    return 0


def _asked(arguments: list[str]) -> tuple[list[str], Size]:
    menu = "\n".join(f"  {name:16} {workload.sentence}" for name, workload in MENU.items())
    parser = argparse.ArgumentParser(
        "python -m benchmarks",
        epilog=f"workloads:\n{menu}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("names", nargs="*", metavar="NAME", choices=[[], *MENU])
    for size in (Size.SHORT, Size.TINY):
        parser.add_argument(
            f"--{size.value}", dest="size", action="store_const", const=size, default=Size.FULL
        )
    asked = parser.parse_args(arguments)
    return asked.names, asked.size


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
