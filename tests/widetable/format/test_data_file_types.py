"""Values of every type, and keys, through a data file and back."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.models.row_values import row_of
from tests.widetable.format.data_files import (
    IO,
    batch_of,
    read,
    table_schema,
    write,
)
from widetable.format import data_file_writer
from widetable.format.binary_row import decode_row
from widetable.format.data_file_reader import open_data_file
from widetable.schema.table_schema import TableSchema
from widetable.schema.types import DataType, parse_type

COLUMN_TYPES: list[Any] = [
    "BOOLEAN",
    "TINYINT",
    "SMALLINT",
    "INT",
    "BIGINT",
    "FLOAT",
    "DOUBLE",
    "STRING",
    "CHAR(5)",
    "BYTES",
    "BINARY(3)",
    "DATE",
    "TIME(3)",
    "DECIMAL(9, 2)",
    "DECIMAL(18, 4)",
    "DECIMAL(19, 0)",
    "DECIMAL(38, 38)",
    "TIMESTAMP(0)",
    "TIMESTAMP(3)",
    "TIMESTAMP(6)",
    "TIMESTAMP(9)",
    "TIMESTAMP(3) WITH LOCAL TIME ZONE",
    "TIMESTAMP(6) WITH LOCAL TIME ZONE",
    "TIMESTAMP(9) WITH LOCAL TIME ZONE",
    {"type": "ARRAY", "element": "INT"},
    {"type": "ARRAY", "element": {"type": "ARRAY", "element": "STRING NOT NULL"}},
    {"type": "MAP", "key": "STRING NOT NULL", "value": "DECIMAL(10, 2)"},
    {"type": "MULTISET", "element": "INT"},
    {
        "type": "ROW",
        "fields": [
            {"id": 0, "name": "x", "type": "TIMESTAMP(9)"},
            {"id": 0, "name": "y", "type": {"type": "ARRAY", "element": "BYTES"}},
            {
                "id": 0,
                "name": "z",
                "type": {"type": "ROW", "fields": [{"id": 0, "name": "q", "type": "INT"}]},
            },
        ],
    },
]


def integers(bits: int) -> st.SearchStrategy[int]:
    low, high = -(2 ** (bits - 1)), 2 ** (bits - 1) - 1
    return st.sampled_from([low, -1, 0, high]) | st.integers(low, high)


def decimals(kind: DataType) -> st.SearchStrategy[Any]:
    top = 10 ** (kind.precision or 0) - 1
    return st.integers(-top, top).map(lambda v: Decimal(f"{v}e-{kind.scale}"))


def maps(kind: DataType) -> st.SearchStrategy[Any]:
    key, value = (kind.key, kind.value) if kind.root == "MAP" else (kind.element, None)
    assert key is not None
    values = integers(32) if value is None else values_of(value)
    return st.dictionaries(values_of(key.not_null()), values, max_size=3).map(
        lambda d: list(d.items())
    )


def arrays(kind: DataType) -> st.SearchStrategy[Any]:
    assert kind.element is not None
    return st.lists(values_of(kind.element), max_size=3)


def structs(kind: DataType) -> st.SearchStrategy[Any]:
    return st.fixed_dictionaries({f.name: values_of(f.type) for f in kind.fields})


def values_of(kind: DataType) -> st.SearchStrategy[Any]:
    """Values that pyarrow takes for the type, null among them where it may be."""
    bits = {
        "TINYINT": 8,
        "SMALLINT": 16,
        "INT": 32,
        "BIGINT": 64,
        "TIMESTAMP": 64,
        "TIMESTAMP_LTZ": 64,
    }
    makers = {"DECIMAL": decimals, "MAP": maps, "MULTISET": maps, "ARRAY": arrays, "ROW": structs}
    plain: dict[str, st.SearchStrategy[Any]] = {
        "BOOLEAN": st.booleans(),
        "FLOAT": st.floats(width=32),
        "DOUBLE": st.floats(),
        "CHAR": st.text(max_size=5),
        "VARCHAR": st.text(max_size=20),
        "BINARY": st.binary(max_size=3),
        "VARBINARY": st.binary(max_size=20),
        "DATE": integers(32),
        "TIME": st.integers(0, 86_399_999),
    }
    if kind.root in bits:
        strategy: st.SearchStrategy[Any] = integers(bits[kind.root])
    elif kind.root in makers:
        strategy = makers[kind.root](kind)
    else:
        strategy = plain[kind.root]
    return st.none() | strategy if kind.nullable else strategy


@st.composite
def tables(draw: st.DrawFn) -> tuple[TableSchema, pa.RecordBatch]:
    """A batch with a key and some columns of any types, under its schema."""
    types = draw(st.lists(st.sampled_from(COLUMN_TYPES), min_size=1, max_size=5))
    count = draw(st.integers(1, 30))
    schema = table_schema({"k": "INT", **{f"v{i}": json for i, json in enumerate(types)}})
    columns = {
        f.name: draw(st.lists(values_of(f.type), min_size=count, max_size=count))
        for f in schema.fields[1:]
    }
    return schema, batch_of(schema, {"k": list(range(count)), **columns})


def check_round_trip(schema: TableSchema, batch: pa.RecordBatch, path: Path) -> None:
    meta = write(path, schema, [batch])
    back = read(path, meta, schema)
    assert back.schema == batch.schema
    for name in schema.names:
        assert same(back.column(name).combine_chunks(), batch.column(name))


@given(table=tables())
def test_any_table_comes_back(
    table: tuple[TableSchema, pa.RecordBatch], tmp_path_factory: pytest.TempPathFactory
) -> None:
    check_round_trip(*table, tmp_path_factory.mktemp("tables") / "data.parquet")


@pytest.mark.parametrize("json", COLUMN_TYPES, ids=lambda j: str(parse_type(j)))
@settings(max_examples=5)
@given(data=st.data())
def test_every_type_comes_back(
    json: Any, data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    schema = table_schema({"k": "INT", "v": json})
    values = data.draw(st.lists(values_of(schema.field("v").type), min_size=1, max_size=20))
    batch = batch_of(schema, {"k": list(range(len(values))), "v": values})
    check_round_trip(schema, batch, tmp_path_factory.mktemp("types") / "data.parquet")


def same(left: pa.Array, right: pa.Array) -> bool:
    """Equal, NaN equal to NaN."""
    if pa.types.is_floating(left.type):
        integer = pa.int32() if left.type == pa.float32() else pa.int64()
        return bool(left.view(integer).equals(right.view(integer)))
    return bool(left.equals(right))


KEY_TYPES = [
    "INT",
    "BIGINT",
    "STRING",
    "BYTES",
    "DATE",
    "DECIMAL(9, 2)",
    "DECIMAL(38, 3)",
    "TIMESTAMP(6)",
    "TIMESTAMP(9)",
]


def key_values(text: str) -> list[Any]:
    """Three ascending ones."""
    texts: list[Any] = ["", "a", "é"]
    blobs: list[Any] = [b"", b"\x7f", b"\xff" * 30]
    return {"STRING": texts, "BYTES": blobs}.get(text, [1, 2, 3])


@pytest.mark.parametrize("group_rows", [1, 2, 10])
@pytest.mark.parametrize("text", KEY_TYPES)
def test_keys_bound_the_meta_and_the_row_groups(
    text: str, group_rows: int, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(data_file_writer, "ROW_GROUP_ROWS", group_rows)
    low, middle, high = key_values(text)
    schema = table_schema({"a": text, "b": "TINYINT", "v": "INT"}, key=("b", "a"))
    rows = {"a": [low, middle, high, low], "b": [-1, -1, -1, 4], "v": [None] * 4}
    meta = write(path, schema, [batch_of(schema, rows)])
    types = [parse_type("TINYINT NOT NULL"), parse_type(text).not_null()]
    assert meta.min_key == row_of((-1, low), types)
    assert meta.max_key == row_of((4, low), types)
    # Java compares the bytes of bounds as signed numbers.
    least, greatest = (None, None) if text == "BYTES" else (low, high)
    assert meta.key_stats.min_values == row_of((-1, least), types)
    assert meta.key_stats.max_values == row_of((4, greatest), types)
    assert meta.key_stats.null_counts == (0, 0)
    with open_data_file(IO, str(path), meta, schema, schema) as file:
        groups = file.row_group_key_ranges()
    bounds: dict[int, list[tuple[Any, Any]]] = {
        1: [
            ((-1, low), (-1, low)),
            ((-1, middle), (-1, middle)),
            ((-1, high), (-1, high)),
            ((4, low), (4, low)),
        ],
        2: [((-1, low), (-1, middle)), ((-1, low), (4, high))],
        10: [((-1, low), (4, high))],
    }
    assert [g.rows for g in groups] == [min(group_rows, 4)] * len(groups)
    for group, (first, last) in zip(groups, bounds[group_rows], strict=True):
        known = decode_row(row_of(first, types), types), decode_row(row_of(last, types), types)
        if text == "TIMESTAMP(9)" and len(groups) > 1:  # int96 has no order of its own
            known = (*known[0][:1], None), (*known[1][:1], None)
        assert (group.minima, group.maxima) == known


@pytest.mark.parametrize("group_rows", [1, 2])
def test_float_keys_have_no_range_to_skip_by(
    path: Path, group_rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(data_file_writer, "ROW_GROUP_ROWS", group_rows)
    schema = table_schema({"k": "DOUBLE"})
    meta = write(path, schema, [batch_of(schema, {"k": [1.0, 2.0]})])
    with open_data_file(IO, str(path), meta, schema, schema) as file:
        assert {g.maxima for g in file.row_group_key_ranges()} == {(None,)}
