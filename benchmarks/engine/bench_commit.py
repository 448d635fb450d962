"""Commit time while snapshots and live files grow: one-row appends by one writer, never compacted.

Only the commit is timed (its data file is written before), as the median of 50 commits at each
size, over three tables in turn.
"""

from __future__ import annotations

import statistics
import time

import pyarrow as pa

import widetable as wt
from benchmarks.harness import Row, scratch

SIZES, SAMPLES, TARGET = (10, 100, 1_000, 10_000), 50, 2.0


def run() -> list[Row]:
    with scratch("commit") as work:
        schema = pa.schema([pa.field("k", pa.int64(), nullable=False), pa.field("v", pa.int64())])
        options = {"bucket": "1", "write-only": "true", "widetable.fsync": "false"}
        table = wt.Catalog(str(work)).create_table(
            "bench.commit", schema, primary_key=["k"], options=options
        )
        seconds = [_commit(table, number) for number in range(max(SIZES) + SAMPLES)]
    at = {size: statistics.median(seconds[size : size + SAMPLES]) for size in SIZES}
    worst = {size: max(seconds[size : size + SAMPLES]) for size in SIZES}
    growth = at[SIZES[-1]] / at[SIZES[0]]
    text = ", ".join(f"{size}: {at[size] * 1e3:.1f} ms" for size in SIZES)
    return [
        Row(
            "commit, 10 -> 10,000 snapshots",
            text,
            "",
            growth,
            f"<= {TARGET:.0f}x",
            growth <= TARGET,
            {"median": at, "worst": worst, "mean": statistics.mean(seconds)},
        )
    ]


def _commit(table: wt.Table, number: int) -> float:
    writer = table.new_writer(["k", "v"])
    writer.write(
        pa.record_batch({"k": pa.array([number], pa.int64()), "v": pa.array([number], pa.int64())})
    )
    messages = writer.finish()
    start = time.perf_counter()
    table.commit_append(messages, commit_user="bench", commit_identifier=number)
    return time.perf_counter() - start
