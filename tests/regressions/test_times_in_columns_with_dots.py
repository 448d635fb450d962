"""Nanoseconds in a column with a dot in its name were once read as whole milliseconds."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import widetable as wt

NANOS = pa.timestamp("ns")


@pytest.mark.parametrize(
    "kind", [NANOS, pa.struct([("x", NANOS)]), pa.list_(NANOS)], ids=["flat", "row", "array"]
)
def test_nanoseconds_of_a_column_with_dots_are_kept(tmp_path: Path, kind: pa.DataType) -> None:
    columns = pa.schema([("k", pa.int32()), ("a", pa.int32()), ("a.b", kind), ("a.b.c", kind)])
    table = wt.Catalog(str(tmp_path)).create_table("d.t", columns, primary_key=["k"])
    value: object = 1_234_567_891_234_567_891
    if kind != NANOS:
        value = {"x": value} if pa.types.is_struct(kind) else [value]
    table.write(pa.table({"k": [1], "a": [2], "a.b": [value], "a.b.c": [value]}, columns))
    found = table.scan().to_arrow()
    for name in ("a.b", "a.b.c"):
        assert found[name].combine_chunks() == pa.chunked_array([[value]], kind).combine_chunks()
