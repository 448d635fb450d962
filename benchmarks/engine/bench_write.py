"""Write rows/s from plain Python: table.write (sort, collapse, level-0 files, commit) against
pyarrow's Parquet writer on the same table.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import widetable as wt
from benchmarks.engine.wide_rows import wide_rows, wide_schema
from benchmarks.harness import Row, paired, scratch, timed

ROWS, ROUNDS = 500_000, 5


def run() -> list[Row]:
    return [_compare(columns) for columns in (10, 60)]


def _compare(columns: int) -> Row:
    with scratch(f"write-{columns}") as work:
        schema = wide_schema(columns - 1)
        keys = np.random.default_rng(5).permutation(ROWS)
        data = wide_rows(schema, keys, seed=columns)
        options = {"bucket": "1", "write-only": "true", "merge-engine": "partial-update"}
        table = wt.Catalog(str(work / "w")).create_table(
            "bench.write", schema, primary_key=["k"], options=options
        )
        table.write(data.slice(0, 1000))  # compile the kernels
        counter = iter(range(1000))

        def ours() -> float:
            return timed(lambda: table.write(data)).wall

        def theirs() -> float:
            return timed(lambda: _parquet(data, str(work / f"{next(counter)}.parquet"))).wall

        ours_s, theirs_s, ratio, pairs = paired(ours, theirs, ROUNDS)
    return Row(
        f"write, {columns} columns, Python",
        f"{ROWS / ours_s / 1e3:.0f} K rows/s",
        f"pyarrow {ROWS / theirs_s / 1e3:.0f} K rows/s",
        ratio,
        "-",
        None,
        {"pairs": pairs},
    )


def _parquet(data: pa.Table, path: str) -> None:
    pq.write_table(data, path, compression="zstd", compression_level=1)
