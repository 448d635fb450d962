"""`python -m benchmarks.simulate WHAT`: what a table of a size needs, from unit costs that were measured.

    measure   measures unit costs on this machine (1.5 minutes of CPU): benchmarks/scale/unit_costs.json
    requests  counts requests to an object store only, in both files: when operations ask for less (a minute)
    check     runs other small workloads, and holds them against the model (2.5 minutes): benchmarks/scale/points.json
    page      writes the tables of docs/scale.md from these two files

The numbers of the page are always those that the committed files give; tests look.
"""

from __future__ import annotations

import argparse
import json
import logging
import resource
import sys
from dataclasses import asdict, replace
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
    parser.add_argument("what", choices=("measure", "requests", "check", "page"))
    what = parser.parse_args(arguments).what
    logging.getLogger("widetable").setLevel(
        logging.ERROR
    )  # nobody maintains these tables: as it should be
    {"measure": _measure, "requests": _requests, "check": _check, "page": _page}[what]()
    return 0


def _measure() -> None:
    from benchmarks.scale.fit import measured_costs

    with scratch("scale") as work:
        costs, trials = measured_costs(work, _SEED, _say)
    found = {"costs": costs_to_json(costs), "trials": [asdict(trial) for trial in trials]}
    UNIT_COSTS.write_text(_text(found), "utf-8")


def _requests() -> None:
    from benchmarks.scale.points import POINTS, request_points
    from benchmarks.scale.request_counts import measured_requests

    costs = replace(committed_costs(), requests=measured_requests(_SEED))
    found = json.loads(UNIT_COSTS.read_text("utf-8")) | {"costs": costs_to_json(costs)}
    UNIT_COSTS.write_text(json.dumps(found, indent=2) + "\n", "utf-8")
    found = json.loads(POINTS.read_text("utf-8"))
    others = [one for one in found["points"] if "append_requests" not in one["measured"]]
    found["points"] = [*others, *request_points(costs, _SEED + 100, _say)]
    POINTS.write_text(json.dumps(found, indent=2) + "\n", "utf-8")


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
