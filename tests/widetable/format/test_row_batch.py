"""Rows brought into a schema: its columns in its order, null where the rows have none, and never a row less."""

from __future__ import annotations

import random

import pyarrow as pa
import pytest

from widetable.format.row_batch import project

TYPES = (pa.int64(), pa.string(), pa.list_(pa.int8()), pa.struct([("x", pa.int32())]))
FIELDS = [pa.field(f"c{number}", kind) for number, kind in enumerate(TYPES * 2)]


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
        found = project(given, pa.schema(wanted))
        assert found.schema == pa.schema(wanted)
        assert found.num_rows == rows
        assert found.to_pylist() == [
            {f.name: value_of(f.type, row) if f in present else None for f in wanted}
            for row in range(rows)
        ]


def value_of(kind: pa.DataType, row: int) -> object:
    values: tuple[object, ...] = (row, f"text {row}", [row] * row, {"x": row})
    return values[TYPES.index(kind)]
