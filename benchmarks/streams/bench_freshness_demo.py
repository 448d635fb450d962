"""How old a record of the demo is when it is in the changelog and in the second layer, with all queries running.

The whole demo (examples/flights) in a process of its own; the first batch of each stream, which starts Spark's Python
processes, is not counted. `python -m benchmarks.streams.bench_freshness_demo <folder> [arguments of the demo]` runs it
once and prints p50 and p99 of each stage, in seconds since the file came, as JSON.
"""

from __future__ import annotations

import json
import sys

from benchmarks.harness import Row, child_json, scratch
from examples.flights.__main__ import run_demo
from examples.flights.report.freshness import STAGES, Freshness

TARGETS_SECONDS = {"told": (3.0, 10.0)}
_TEXTS = {
    "taken": "taken by Spark",
    "stored": "in the table",
    "told": "in the changelog",
    "counted": "in the second layer",
}


def run() -> list[Row]:
    with scratch("freshness_demo") as work:
        found = child_json("benchmarks.streams.bench_freshness_demo", work / "demo")
    return [_row(stage, *quantiles) for stage, quantiles in found.items()]


def _row(stage: str, p50: float, p99: float) -> Row:
    target = TARGETS_SECONDS.get(stage)
    return Row(
        f"a record of the demo is {_TEXTS[stage]}",
        f"p50 {p50:.2f} s, p99 {p99:.2f} s",
        ratio=None if target is None else p50 / target[0],
        target="" if target is None else f"p50 <= {target[0]:.0f} s, p99 <= {target[1]:.0f} s",
        ok=None if target is None else p50 <= target[0] and p99 <= target[1],
        details={"p50": p50, "p99": p99},
    )


def quantiles_of(freshness: Freshness) -> dict[str, tuple[float, float]]:
    """p50 and p99 of every stage, without the first batches."""
    later = freshness.without_first_batches()
    return {
        stage: (later.quantile(stage, 0.5), later.quantile(stage, 0.99))
        for stage in ("taken", *STAGES)
    }


def main() -> None:
    findings = run_demo(["--root", *sys.argv[1:]])
    print(json.dumps(quantiles_of(findings.freshness)))


if __name__ == "__main__":
    main()
