"""Aggregate functions: merging four overlapping runs of ten columns that a function fills, against the same rows with
last_non_null_value. Both merge in memory, so that reading files does not hide what functions cost.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from benchmarks.harness import Row, Size, paired, timed
from widetable.merge.engine import engine_of
from widetable.merge.sorted_merge import merge_runs
from widetable.schema.new_schema import new_schema
from widetable.schema.row_kind import INSERT
from widetable.schema.table_schema import SEQUENCE_NUMBER, VALUE_KIND

COLUMNS, RUNS = 10, 4
ROUNDS = {Size.FULL: 9, Size.SHORT: 3, Size.TINY: 1}
ROWS = {Size.FULL: 500_000, Size.SHORT: 100_000, Size.TINY: 20}
TARGET = 0.5
BATCH_ROWS = 131_072
BATCH_BYTES = 64 << 20
FUNCTIONS = {
    "sum": ("BIGINT", "INT", "DOUBLE", "DECIMAL(18, 2)", "DECIMAL(38, 2)"),
    "product": ("BIGINT", "DOUBLE"),
    "max": ("BIGINT", "DOUBLE", "STRING"),
    "min": ("BIGINT", "DOUBLE", "STRING"),
    "bool_and": ("BOOLEAN",),
    "bool_or": ("BOOLEAN",),
    "first_value": ("BIGINT", "STRING"),
    "first_non_null_value": ("BIGINT", "STRING"),
    "last_value": ("BIGINT", "STRING"),
}


@dataclass(frozen=True)
class _Runs:
    """Sorted runs, oldest first, and the type of their columns."""

    kind: str
    batches: list[list[pa.RecordBatch]]


def run(size: Size) -> list[Row]:
    kinds = sorted({kind for kinds in FUNCTIONS.values() for kind in kinds})
    found = []
    for kind in kinds:
        runs = _runs(kind, ROWS[size])
        functions = [name for name, taken in FUNCTIONS.items() if kind in taken]
        found += [_compare(runs, name, size) for name in functions]
    return found


def _compare(runs: _Runs, function: str, size: Size) -> Row:
    rows = sum(batch.num_rows for batches in runs.batches for batch in batches)
    ours_s, theirs_s, ratio, pairs = paired(
        lambda: _seconds(runs, function),
        lambda: _seconds(runs, "last_non_null_value"),
        ROUNDS[size],
    )
    return Row(
        f"{function} of {runs.kind}, {COLUMNS} columns",
        f"{rows / ours_s / 1e3:,.0f} K records/s",
        f"last_non_null_value {rows / theirs_s / 1e3:,.0f} K records/s",
        ratio,
        f">= {TARGET} of last_non_null_value",
        None if size is Size.TINY else ratio >= TARGET,
        {"pairs": pairs},
    )


def _seconds(runs: _Runs, function: str) -> float:
    columns = {"k": "BIGINT", **{f"c{i}": runs.kind for i in range(COLUMNS)}}
    schema = new_schema(
        columns,
        primary_key=["k"],
        options={
            "bucket": "1",
            "merge-engine": "aggregation",
            "fields.default-aggregate-function": function,
        },
    )

    def merge() -> None:
        readers: list[Iterator[pa.RecordBatch]] = [iter(batches) for batches in runs.batches]
        merged = merge_runs(
            readers,
            schema,
            engine_of(schema),
            schema.names,
            keep_deletes=False,
            batch_bytes=BATCH_BYTES,
        )
        for _ in merged:
            pass

    gc.collect()
    return timed(merge).wall


def _runs(kind: str, rows: int) -> _Runs:
    """Each run has three of four keys, in order, and a null in every tenth place."""
    rng = np.random.default_rng(7)
    found = []
    for number in range(RUNS):
        keys = np.flatnonzero(rng.random(rows) < 0.75)
        columns = {
            "k": pa.array(keys, pa.int64()),
            SEQUENCE_NUMBER: pa.array(np.full(len(keys), number + 1), pa.int64()),
            VALUE_KIND: pa.array(np.full(len(keys), INSERT, np.int8)),
        }
        columns |= {f"c{i}": _values(kind, rng, len(keys)) for i in range(COLUMNS)}
        batch = pa.RecordBatch.from_pydict(columns)
        found.append([batch.slice(at, BATCH_ROWS) for at in range(0, batch.num_rows, BATCH_ROWS)])
    return _Runs(kind, found)


def _values(kind: str, rng: np.random.Generator, count: int) -> pa.Array:
    nulls = rng.random(count) < 0.1
    if kind == "STRING":
        return pa.array(np.char.mod("value-%d", rng.integers(0, 1 << 20, count)), mask=nulls)
    if kind == "BOOLEAN":
        return pa.array(rng.random(count) < 0.5, mask=nulls)
    if kind == "DOUBLE":
        return pa.array(rng.random(count), mask=nulls)
    small: npt.NDArray[np.int64] = rng.integers(-300, 300, count)
    arrow = {"BIGINT": pa.int64(), "INT": pa.int32()}.get(kind)
    if arrow is None:
        whole = pa.array(small, mask=nulls).cast(pa.int32()).cast(pa.decimal128(10, 0))
        return whole.cast(pa.decimal128(int(kind[8:10]), 2))
    return pa.array(small, mask=nulls).cast(arrow)
