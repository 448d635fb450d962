"""Any Arrow type as a column: the table is refused when it is made, or it opens, takes rows and gives them back."""

from __future__ import annotations

import json
import random
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import widetable as wt

K = pa.field("k", pa.int32(), nullable=False)
PLAIN = [
    pa.null(),
    pa.bool_(),
    pa.int8(),
    pa.uint8(),
    pa.uint64(),
    pa.float16(),
    pa.float32(),
    pa.date32(),
    pa.date64(),
    pa.time32("s"),
    pa.time64("ns"),
    pa.timestamp("s"),
    pa.timestamp("ns", "Europe/Oslo"),
    pa.duration("us"),
    pa.month_day_nano_interval(),
    pa.string(),
    pa.large_string(),
    pa.string_view(),
    pa.binary(),
    pa.binary_view(),
    pa.large_binary(),
    pa.binary(0),
    pa.binary(7),
    pa.decimal256(76, 3),
    pa.decimal128(5, -2),
    pa.decimal128(5, 6),
    pa.decimal128(38, 38),
    pa.dictionary(pa.int8(), pa.string()),
    pa.run_end_encoded(pa.int32(), pa.string()),
    pa.uuid(),
    pa.struct([]),
    pa.struct([("a", pa.int8()), ("a", pa.int8())]),
    pa.struct([("", pa.int8())]),
    pa.sparse_union([pa.field("a", pa.int8())]),
]


def nested(kind: pa.DataType) -> list[pa.DataType]:
    return [
        pa.list_(kind),
        pa.large_list(kind),
        pa.list_(kind, 3),
        pa.map_(pa.int32(), kind),
        pa.map_(kind, pa.int32()),
        pa.struct([("part", kind)]),
    ]


def test_a_type_is_refused_at_once_or_works(rng: random.Random, tmp_path: Path) -> None:
    decimals = [pa.decimal128(rng.randint(1, 38), rng.randint(-10, 45)) for _ in range(20)]
    kinds = [*PLAIN, *decimals]
    kinds += [rng.choice(nested(kind)) for kind in kinds if kind != pa.null()]
    catalog = wt.Catalog(str(tmp_path))
    works = 0
    for number, kind in enumerate(kinds):
        name, fields = f"db.t{number}", pa.schema([K, ("v", kind)])
        try:
            catalog.create_table(name, fields, primary_key=["k"])
        except (wt.UnsupportedError, wt.InvalidError):
            assert name not in catalog.list_tables(), kind
            continue
        table = catalog.table(name)
        values = pa.array([None], table.arrow_schema.field("v").type)
        table.write(pa.table({"k": pa.array([1], pa.int32()), "v": values}))
        table.compact(full=True)
        assert table.scan().to_arrow()["v"].to_pylist() == [None], kind
        works += 1
    assert works > len(kinds) // 8


def test_a_nested_type_may_be_deep_but_not_endless(tmp_path: Path) -> None:
    catalog = wt.Catalog(str(tmp_path))
    for depth in (20, 5000):
        kind = pa.int32()
        for _ in range(depth):
            kind = pa.list_(kind)
        fields = pa.schema([K, ("v", kind)])
        if depth > 1000:
            with pytest.raises(wt.UnsupportedError, match="'v'"):
                catalog.create_table(f"db.t{depth}", fields, primary_key=["k"])
        else:
            table = catalog.create_table(f"db.t{depth}", fields, primary_key=["k"])
            table.write(pa.table({"k": [1], "v": pa.nulls(1, kind)}, schema=fields))
            assert table.scan().to_arrow().num_rows == 1
    assert catalog.list_tables() == ["db.t20"]


@pytest.mark.parametrize("name", ["", "\ud800", "_KEY_a", "rowkind", "_VALUE_KIND"])
def test_a_name_that_no_file_can_hold_is_refused(tmp_path: Path, name: str) -> None:
    catalog = wt.Catalog(str(tmp_path))
    try:
        fields = pa.schema([K, (name, pa.int32())])
    except UnicodeEncodeError:  # Arrow itself has no such name
        fields = pa.schema([K, ("v", pa.int32())])
        catalog.create_table("db.t", fields, primary_key=["k"])
        with pytest.raises(wt.InvalidError, match="name"):
            catalog.alter_table("db.t", rename_columns={"v": name})
        return
    with pytest.raises(wt.InvalidError, match="name"):
        catalog.create_table("db.t", fields, primary_key=["k"])


IMPOSSIBLE = [
    "DECIMAL(0, 0)",
    "DECIMAL(39, 1)",
    "DECIMAL(5, 6)",
    "TIME(12)",
    "CHAR(0)",
    "BIGINT(3)",
]


@pytest.mark.parametrize("text", [*IMPOSSIBLE, "TIMESTAMP(10)", "VARBINARY(0)", "TIME(1, 2)"])
def test_a_type_of_a_schema_file_that_cannot_be_is_damage_of_it(tmp_path: Path, text: str) -> None:
    table = wt.Catalog(str(tmp_path)).create_table(
        "db.t", pa.schema([K, ("v", pa.int32())]), primary_key=["k"]
    )
    file = Path(table.path) / "schema/schema-0"
    body = json.loads(file.read_text())
    body["fields"][1]["type"] = text
    file.write_text(json.dumps(body))
    with pytest.raises(wt.DamagedError, match="schema-0") as raised:
        wt.Table.open(table.path)
    assert text in str(raised.value)


def create(folder: Path, kind: pa.DataType) -> wt.Table:
    columns = pa.schema([K, ("v", kind)])
    return wt.Catalog(folder).create_table("db.t", columns, primary_key=["k"])


DECLARED = [
    (pa.list_(pa.float32(), 768), pa.list_(pa.float32())),
    (pa.list_view(pa.string_view()), pa.list_(pa.string())),
    (pa.large_list_view(pa.large_binary()), pa.list_(pa.binary())),
    (pa.uint8(), pa.int16()),
    (pa.uint16(), pa.int32()),
    (pa.uint32(), pa.int64()),
    (pa.float16(), pa.float32()),
    (pa.string_view(), pa.string()),
    (pa.binary_view(), pa.binary()),
    (pa.date64(), pa.date32()),
    (pa.decimal32(5, 2), pa.decimal128(5, 2)),
    (pa.decimal256(38, 2), pa.decimal128(38, 2)),
    (pa.dictionary(pa.int8(), pa.string_view()), pa.string()),
    (pa.run_end_encoded(pa.int32(), pa.int8()), pa.int8()),
]


@pytest.mark.parametrize(("declared", "column"), DECLARED, ids=str)
def test_a_declared_type_becomes_one_that_holds_all_its_values(
    tmp_path: Path, declared: pa.DataType, column: pa.DataType
) -> None:
    table = create(tmp_path, declared)
    assert table.arrow_schema.field("v").type == column
    values = pa.nulls(2, column) if pa.types.is_nested(declared) else None
    if values is None:
        ends: list[int] | None = [0, 86_400_000] if pa.types.is_date(declared) else None
        if pa.types.is_unsigned_integer(declared):
            ends = [0, 2**declared.bit_width - 1]
        values = pa.array(ends, declared) if ends else pa.nulls(2, column)
    table.write(pa.table({"k": [1, 2], "v": values}))
    assert table.scan().to_arrow()["v"].to_pylist() == values.to_pylist()


@pytest.mark.parametrize("declared", [pa.uint64(), pa.list_(pa.uint64())])
def test_what_no_column_holds_is_refused_with_what_to_declare(
    tmp_path: Path, declared: pa.DataType
) -> None:
    with pytest.raises(wt.UnsupportedError, match=r"'v'.*int64.*decimal128\(20, 0\)"):
        create(tmp_path, declared)
    advised = create(tmp_path, pa.decimal128(20, 0))
    advised.write(pa.table({"k": [1], "v": pa.array([2**64 - 1], pa.uint64())}))
    assert advised.scan().to_arrow()["v"].to_pylist() == [Decimal(2**64 - 1)]


@pytest.mark.parametrize(
    "schema",
    [
        pa.schema({"k": pa.int32(), "v": pa.string()}),
        {"k": pa.int32(), "v": pa.string()},
        [pa.field("k", pa.int32()), pa.field("v", pa.string())],
        [("k", pa.int32()), ("v", pa.string())],
        {"k": "int32", "v": "string"},
    ],
    ids=["schema", "dict", "fields", "pairs", "names of types"],
)
def test_a_schema_is_taken_in_any_form(tmp_path: Path, schema: Any) -> None:
    catalog = wt.Catalog(tmp_path)
    table = catalog.create_table("db.t", schema, primary_key=["k"])
    assert table.arrow_schema.names == ["k", "v"]
    altered = catalog.alter_table("db.t", add_columns={"e": pa.list_(pa.float32(), 4)})
    assert altered.arrow_schema.field("e").type == pa.list_(pa.float32())
