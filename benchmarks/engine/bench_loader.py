"""Batches for a training: `Table.to_batches` against plain Parquet batches to numpy, and shuffled against not.

Twenty numeric columns, 1,024 rows a batch, one compacted bucket. The rival reads a Parquet file of the same rows by
`ParquetFile.iter_batches`, and makes an array of numpy of each column: nothing that loads the rows can do less.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

import widetable as wt
from benchmarks.harness import Row, Size, paired, scratch, timed

ROWS = {Size.FULL: 4_000_000, Size.SHORT: 1_000_000, Size.TINY: 20_000}
ROUNDS = {Size.FULL: 7, Size.SHORT: 5, Size.TINY: 1}
NUMBERS, BATCH_ROWS = 20, 1024
PLAIN_TARGET, SHUFFLED_TARGET = 0.7, 0.5
Batch = dict[str, npt.NDArray[Any]]


def run(size: Size) -> list[Row]:
    with scratch("loader") as work:
        rows = ROWS[size]
        table, file = _made(work, rows)
        names = [f"c{number}" for number in range(NUMBERS)]

        def plain() -> Iterable[Batch]:
            return table.to_batches(names, batch_rows=BATCH_ROWS)

        def shuffled() -> Iterable[Batch]:
            return table.to_batches(names, batch_rows=BATCH_ROWS, shuffle_seed=1)

        def rival() -> Iterable[Batch]:
            for batch in pq.ParquetFile(file).iter_batches(BATCH_ROWS, columns=names):
                yield {name: batch.column(name).to_numpy() for name in names}

        expected = _totals(rival())
        for ours in (plain, shuffled):
            assert _totals(ours()) == expected
        return [
            _compared("plain Parquet batches", plain, rival, rows, size, PLAIN_TARGET),
            _compared("not shuffled", shuffled, plain, rows, size, SHUFFLED_TARGET),
        ]


def _compared(
    rival: str,
    ours: Callable[[], Iterable[Batch]],
    theirs: Callable[[], Iterable[Batch]],
    rows: int,
    size: Size,
    target: float,
) -> Row:
    ours_s, theirs_s, ratio, pairs = paired(
        lambda: timed(lambda: _drained(ours())).wall,
        lambda: timed(lambda: _drained(theirs())).wall,
        ROUNDS[size],
    )
    return Row(
        f"batches of {BATCH_ROWS:,} rows of {NUMBERS} columns",
        f"{ours.__name__} {rows / ours_s / 1e6:.2f} M rows/s",
        f"{rival} {rows / theirs_s / 1e6:.2f} M rows/s",
        ratio,
        f">= {target}",
        None if size is Size.TINY else ratio >= target,
        {"pairs": pairs},
    )


def _drained(batches: Iterable[Batch]) -> int:
    return sum(len(batch["c0"]) for batch in batches)


def _totals(batches: Iterable[Batch]) -> list[int]:
    """The rows, and the sum of each column modulo 2**64, of the values' bits: the order does not matter."""
    totals = np.zeros(NUMBERS + 1, np.uint64)
    for batch in batches:
        columns = [
            array.view(f"u{array.itemsize}").sum(dtype=np.uint64) for array in batch.values()
        ]
        totals += np.array([len(batch["c0"]), *columns], np.uint64)
    return [int(total) for total in totals]


def _made(work: Path, rows: int) -> tuple[wt.Table, Path]:
    """A table of one compacted bucket, and a Parquet file with its columns."""
    rng = np.random.default_rng(5)
    columns: dict[str, npt.NDArray[Any]] = {"k": np.arange(rows)}
    for number in range(NUMBERS):
        columns[f"c{number}"] = rng.random(rows) if number % 2 else rng.integers(0, 1 << 40, rows)
    data = pa.table(columns)
    types = {name: "DOUBLE" if data[name].type == pa.float64() else "BIGINT" for name in columns}
    table = wt.Catalog(str(work)).create_table(
        "bench.loader", types, primary_key=["k"], options={"bucket": "1"}
    )
    table.write(data)
    table.compact(full=True)
    file = work / "plain.parquet"
    pq.write_table(data.drop_columns(["k"]), file, compression="zstd", row_group_size=128 << 10)
    return table, file
