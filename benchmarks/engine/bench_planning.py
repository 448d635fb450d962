"""Planning a scan of a table with 100,000 live files, in a fresh process and again in the same one; and its files as
an Arrow table.

Manifests are what planning reads, so the files behind them are named and not there: one commit per bucket, each file
with a name and a range of keys of its own.
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from dataclasses import replace
from functools import cache

import pyarrow as pa

import widetable as wt
from benchmarks.harness import Row, child_json, scratch
from widetable.format.binary_row import encode_row
from widetable.format.column_stats import Stats
from widetable.format.data_file_meta import DataFileMeta
from widetable.schema.types import parse_type
from widetable.storage.paths import new_file_name

BUCKETS, FILES_OF_BUCKET, ROUNDS = 100, 1_000, 5
COLD_SECONDS, WARM_SECONDS, FRAME_SECONDS = 2.0, 0.2, 1.0
_SCHEMA = pa.schema([pa.field("k", pa.int64(), nullable=False), ("v", pa.int64())])


def run() -> list[Row]:
    with scratch("planning") as work:
        table = wt.Catalog(str(work)).create_table(
            "bench.planning",
            _SCHEMA,
            primary_key=["k"],
            options={"bucket": str(BUCKETS), "write-only": "true", "widetable.fsync": "false"},
        )
        with table.new_writer(_SCHEMA.names) as writer:
            writer.write(pa.table({"k": range(100 * BUCKETS), "v": [1] * 100 * BUCKETS}, _SCHEMA))
            messages = writer.finish()
        for message in messages:
            (file,) = message.new_files
            files = tuple(_named(file, number) for number in range(FILES_OF_BUCKET))
            table.commit_append([replace(message, new_files=files)])
        runs = [child_json(__name__, table.path) for _ in range(ROUNDS)]
    return [
        _row("plan", "cold", [each["cold"] for each in runs], COLD_SECONDS),
        _row("plan", "warm", [each["warm"] for each in runs], WARM_SECONDS),
        _row("inspect", "warm", [each["frame"] for each in runs], FRAME_SECONDS),
    ]


def _row(what: str, name: str, seconds: list[float], most_seconds: float) -> Row:
    median = statistics.median(seconds)
    return Row(
        f"{what} of {BUCKETS * FILES_OF_BUCKET:,} live files, {name}",
        f"{median:.2f} s",
        target=f"≤ {most_seconds:g} s",
        ok=median <= most_seconds,
        details={"runs": seconds},
    )


@cache
def _range(number: int) -> tuple[bytes, bytes]:
    low, high = (encode_row((number << 40 | end,), [parse_type("BIGINT")]) for end in (0, 99))
    return low, high


def _named(file: DataFileMeta, number: int) -> DataFileMeta:
    low, high = _range(number)
    return file._replace(
        file_name=new_file_name("data", ".parquet"),
        min_key=low,
        max_key=high,
        key_stats=Stats(low, high, (0,)),
    )


def _plan(path: str) -> float:
    start = time.perf_counter()
    splits = wt.Table.open(path).scan().splits()
    assert len(splits) == BUCKETS
    return time.perf_counter() - start


def _frame(path: str) -> float:
    start = time.perf_counter()
    files = wt.Table.open(path).inspect.files()
    assert files.num_rows == BUCKETS * FILES_OF_BUCKET
    return time.perf_counter() - start


if __name__ == "__main__":
    path = sys.argv[1]
    cold = _plan(path)
    warm, frame = (min(look(path) for _ in range(3)) for look in (_plan, _frame))
    print(json.dumps({"cold": cold, "warm": warm, "frame": frame}))
