"""`python -m benchmarks.simulate measure | check | page`: what a table of a size needs, from measured unit costs.

    measure   measures unit costs on this machine (about four minutes of CPU): benchmarks/scale/unit_costs.json
    check     runs other small workloads, and holds them against the model: benchmarks/scale/points.json
    page      writes the tables of docs/scale.md from these two files

The numbers of the page are always those that the committed files give; tests look.
"""

from __future__ import annotations

import argparse
import json
import logging
import resource
import sys
from dataclasses import asdict
from datetime import datetime, timezone
from typing import Any

from benchmarks.harness import machine, scratch
from benchmarks.scale.costs import UNIT_COSTS, committed_costs, costs_to_json

_SEED = 7


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(
        "python -m benchmarks.simulate",
        description=__doc__,
        formatter_class=argparse.RawTextHelpFormatter,
    )
    parser.add_argument("what", choices=("measure", "check", "page"))
    what = parser.parse_args(arguments).what
    logging.getLogger("widetable").setLevel(
        logging.ERROR
    )  # nobody maintains these tables: as it should be
    {"measure": _measure, "check": _check, "page": _page}[what]()
    return 0


def _measure() -> None:
    from benchmarks.scale.fit import measured_costs

    with scratch("scale") as work:
        costs, trials = measured_costs(work, _SEED, _say)
    found = {"costs": costs_to_json(costs), "trials": [asdict(trial) for trial in trials]}
    UNIT_COSTS.write_text(_text(found), "utf-8")


def _check() -> None:
    from benchmarks.scale.points import POINTS, measured_points

    with scratch("scale") as work:
        points = measured_points(work, committed_costs(), _SEED + 100, _say)
    POINTS.write_text(_text({"points": points}), "utf-8")


def _page() -> None:
    from benchmarks.scale.page import write_page

    write_page()


def _text(found: dict[str, Any]) -> str:
    """With where it comes from."""
    used = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    facts = {
        "date": datetime.now(timezone.utc).date().isoformat(),
        "machine": {name: value for name, value in machine().items() if name != "load"},
        "cpu_seconds": round(sum(each.ru_utime + each.ru_stime for each in used)),
    }
    return json.dumps(facts | found, indent=2) + "\n"


def _say(line: str) -> None:
    print(line, flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
