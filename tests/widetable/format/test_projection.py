"""Rows brought into a schema: its columns in its order, null where the rows have none, and never a row less."""

from __future__ import annotations

import random

import pyarrow as pa
import pytest

from widetable.format.projection import Projection, with_columns

TYPES = (pa.int64(), pa.string(), pa.list_(pa.int8()), pa.struct([("x", pa.int32())]))
FIELDS = [
    pa.field(f"c{number}", kind, nullable=number % 3 > 0, metadata={"n": str(number % 5)})
    for number, kind in enumerate(TYPES * 4)
]


@pytest.mark.parametrize("rows", [0, 1, 3])
def test_columns_are_those_of_the_schema(rng: random.Random, rows: int) -> None:
    for _ in range(20):
        present = rng.sample(FIELDS, rng.randrange(len(FIELDS) + 1))
        wanted = rng.sample(FIELDS, rng.randrange(len(FIELDS) + 1))
        given = pa.RecordBatch.from_struct_array(
            pa.array(
                [
                    {field.name: value_of(field.type, row) for field in present}
                    for row in range(rows)
                ],
                pa.struct(present),
            )
        )
        projected = Projection(pa.schema(wanted)).of(given)
        assert projected.schema.equals(pa.schema(wanted), check_metadata=True)
        assert projected.num_rows == rows
        assert projected.to_pylist() == [
            {f.name: value_of(f.type, row) if f in present else None for f in wanted}
            for row in range(rows)
        ]


def test_the_schema_keeps_its_metadata() -> None:
    schema = pa.schema([("a", pa.int8()), ("b", pa.int8()), ("c", pa.int8())], metadata={"m": "n"})
    rows = pa.RecordBatch.from_pydict({"c": pa.array([1], pa.int8())})
    assert Projection(schema).of(rows).schema.equals(schema, check_metadata=True)


def test_the_caller_s_metadata_is_set_whether_columns_are_added_or_not() -> None:
    schema = pa.schema([("a", pa.int8()), ("b", pa.int8()), ("c", pa.int8())], metadata={"m": "n"})
    whole = pa.RecordBatch.from_pylist([{"a": 1}], schema=schema)
    for rows in (whole.select(["c"]), whole):
        projected = Projection(schema, list(schema)).of(rows, {"step": "7"})
        assert projected.schema.equals(schema.with_metadata({"step": "7"}), check_metadata=True)


def test_columns_that_rows_have_are_kept_when_others_are_added() -> None:
    rows = pa.RecordBatch.from_pydict({"a": [1, 2], "b": ["x", None]})
    assert with_columns(
        rows, [pa.field("b", pa.string()), pa.field("c", pa.int8())]
    ).to_pylist() == [
        {"a": 1, "b": "x", "c": None},
        {"a": 2, "b": None, "c": None},
    ]


def value_of(kind: pa.DataType, row: int) -> object:
    values: tuple[object, ...] = (row, f"text {row}", [row] * row, {"x": row})
    return values[TYPES.index(kind)]
