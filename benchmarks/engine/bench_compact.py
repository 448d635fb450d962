"""Peak memory of a full compaction of a bucket whose rows take four times the budget
(`write-buffer-size`), in a process of its own.

Growth = peak anonymous memory of the process minus what it had before the compaction (after a small
one has warmed the kernels).
"""

from __future__ import annotations

import json
import sys

import numpy as np

import widetable as wt
from benchmarks.engine.wide_rows import wide_rows, wide_schema
from benchmarks.harness import PeakMemory, Row, child_json, scratch

BUDGET_BYTES, TIMES, RUNS, COLUMNS = 64 << 20, 4, 4, 60
OPTIONS = {
    "bucket": "1",
    "write-only": "true",
    "merge-engine": "partial-update",
    "write-buffer-size": f"{BUDGET_BYTES}b",
}


def run() -> list[Row]:
    with scratch("compact") as work:
        schema = wide_schema(COLUMNS - 1)
        catalog = wt.Catalog(str(work))
        row_bytes = wide_rows(schema, np.arange(10_000), seed=1).nbytes / 10_000
        rows = int(BUDGET_BYTES * TIMES / row_bytes)
        for name, count in (("small", rows // 50), ("large", rows)):
            table = catalog.create_table(
                f"bench.{name}", schema, primary_key=["k"], options=OPTIONS
            )
            for part in range(RUNS):
                table.write(wide_rows(schema, np.arange(part, count, RUNS), seed=part))
        done = child_json("benchmarks.engine.bench_compact", str(work))
    growth, budget = done["peak"] - done["before"], BUDGET_BYTES
    return [
        Row(
            "peak memory, bucket 4x its budget",
            f"{growth / 2**20:.0f} MiB grown",
            f"budget {budget / 2**20:.0f} MiB, rows {done['bytes'] / 2**20:.0f} MiB",
            growth / budget,
            "< 4 budgets (bounded)",
            growth < TIMES * budget,
            done,
        )
    ]


def _child(warehouse: str) -> None:
    catalog = wt.Catalog(warehouse)
    catalog.table("bench.small").compact(full=True)
    table = catalog.table("bench.large")
    with PeakMemory() as memory:
        done = table.compact(full=True)
    assert done.committed
    print(
        json.dumps(
            {
                "before": memory.before_bytes,
                "peak": memory.peak_bytes,
                "bytes": BUDGET_BYTES * TIMES,
            }
        )
    )


if __name__ == "__main__":
    _child(sys.argv[1])
