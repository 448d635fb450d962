"""The list of workloads, one sentence each; `python -m benchmarks` runs them in this order."""

from __future__ import annotations

from collections.abc import Callable

from benchmarks import (
    bench_commit,
    bench_compact,
    bench_merge,
    bench_scan,
    bench_stream,
    bench_write,
)
from benchmarks.harness import Row

MENU: dict[str, tuple[str, Callable[[], list[Row]]]] = {
    "merge": (
        "Compact a 60-column bucket against plain Parquet decode + encode of the same rows.",
        bench_merge.run,
    ),
    "write": (
        "Write 10 and 60 columns from Python against pyarrow's Parquet writer.",
        bench_write.run,
    ),
    "stream": (
        "Write 10 and 60 columns through the Spark sink against Spark's own Parquet sink.",
        bench_stream.run,
    ),
    "scan": ("Merge-read a table of overlapping runs against pypaimon.", bench_scan.run),
    "commit": (
        "Commit time while snapshots and live files grow from 10 to 10,000.",
        bench_commit.run,
    ),
    "compact": (
        "Peak memory of compacting a bucket four times larger than its budget.",
        bench_compact.run,
    ),
}
