"""A user's data is checked before it is a row batch: every refusal names the column, what was found and expected."""

from __future__ import annotations

import datetime
import decimal
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from widetable.errors import InvalidError, UnsupportedError, WidetableError
from widetable.schema.new_schema import new_schema
from widetable.schema.table_schema import SEQUENCE_NUMBER, VALUE_KIND, TableSchema
from widetable.schema.types import DataField, arrow_type, parse_type
from widetable.write.owned_columns import owned_columns
from widetable.write.safe_cast import safe_cast
from widetable.write.sequence import SequenceAllocator
from widetable.write.write_batch import BatchNormalizer

ARROW = pa.schema(
    [
        ("k", pa.int32()),
        ("v", pa.int64()),
        ("s", pa.string()),
        pa.field("n", pa.int32(), nullable=False),
    ]
)


def table(options: dict[str, str] | None = None, arrow: pa.Schema = ARROW) -> TableSchema:
    return new_schema(arrow, primary_key=["k"], options=options or {})


def row_batch(
    schema: TableSchema, data: dict[str, Any], row_kind: str | None = "_row_kind"
) -> pa.RecordBatch:
    batch = pa.RecordBatch.from_pydict(data)
    columns = owned_columns(schema, batch.schema.names, row_kind)
    return BatchNormalizer(schema, columns, SequenceAllocator(100)).row_batch(batch)


def data(**changed: Any) -> dict[str, Any]:
    """Two right rows, with changed columns; None removes one."""
    whole = {
        "k": pa.array([1, 2], pa.int32()),
        "v": pa.array([10, None], pa.int64()),
        "s": pa.array(["a", None]),
        "n": pa.array([5, 6], pa.int32()),
        **changed,
    }
    return {name: column for name, column in whole.items() if column is not None}


def test_rows_get_numbers_kinds_and_the_schema_s_order() -> None:
    given = dict(reversed(data().items()))
    rows = row_batch(table(), given)
    assert rows.schema.names == [SEQUENCE_NUMBER, VALUE_KIND, "k", "v", "s", "n"]
    assert rows.column(SEQUENCE_NUMBER).to_pylist() == [100, 101]
    assert rows.column(VALUE_KIND).to_pylist() == [0, 0]
    assert rows.column("v").to_pylist() == [10, None]


def test_columns_may_be_left_out_but_not_key_and_not_null_ones() -> None:
    assert row_batch(table(), data(s=None)).schema.names[2:] == ["k", "v", "n"]
    for name in ("k", "n"):
        with pytest.raises(InvalidError, match=f"'{name}'"):
            row_batch(table(), data(**{name: None}))


@pytest.mark.parametrize("name", ["k", "n"])
def test_null_in_key_and_not_null_columns_is_refused_with_the_count(name: str) -> None:
    with pytest.raises(InvalidError, match=f"'{name}'.*null in 1 of 2 rows"):
        row_batch(table(), data(**{name: pa.array([None, 1], pa.int32())}))


def test_unknown_and_repeated_columns_are_refused() -> None:
    with pytest.raises(InvalidError, match="'x'"):
        row_batch(table(), data(x=pa.array([1, 2])))
    with pytest.raises(InvalidError, match=r"'v'.*twice"):
        owned_columns(table(), ["k", "v", "n", "v"])


@pytest.mark.parametrize(
    "kinds",
    [
        pa.array(["+i", "-D"]),
        pa.array(["+I", "-d"]).dictionary_encode(),
        pa.array(["+I", "-D"], pa.large_string()),
        pa.array([0, 3], pa.int8()),
        pa.array([0, 3], pa.int64()),
    ],
    ids=lambda kinds: str(kinds.type),
)
def test_row_kinds_come_from_a_column_of_the_data(kinds: pa.Array) -> None:
    rows = row_batch(table(), data(_row_kind=kinds))
    assert rows.column(VALUE_KIND).to_pylist() == [0, 3]
    assert "_row_kind" not in rows.schema.names


@pytest.mark.parametrize(
    "kinds",
    [
        pa.array(["+I", "x"]),
        pa.array(["+I", None]),
        pa.array([0, 4], pa.int8()),
        pa.array([0, None], pa.int8()),
        pa.array([-1, 0]),
        pa.array([0.0, 1.0]),
    ],
    ids=lambda kinds: str(kinds.to_pylist()),
)
def test_wrong_row_kinds_are_refused(kinds: pa.Array) -> None:
    with pytest.raises(InvalidError, match="_row_kind"):
        row_batch(table(), data(_row_kind=kinds))


def test_row_kinds_of_a_table_column_stay_in_it() -> None:
    schema = table({"rowkind.field": "s"})
    rows = row_batch(schema, data(s=pa.array(["+I", "-u"])))
    assert rows.column(VALUE_KIND).to_pylist() == [0, 1]
    assert rows.column("s").to_pylist() == ["+I", "-u"]
    for wrong in (data(s=None), data(), data(s=pa.array(["+I", "+I"]), _row_kind=pa.array([0, 0]))):
        with pytest.raises(InvalidError):
            row_batch(schema, wrong)


def test_a_table_column_of_that_name_is_a_column() -> None:
    schema = table(arrow=pa.schema([("k", pa.int32()), ("op", pa.string())]))
    batch = {"k": pa.array([1], pa.int32()), "op": pa.array(["-D"])}
    rows = row_batch(schema, batch, row_kind="op")
    assert rows.column(VALUE_KIND).to_pylist() == [0]
    assert rows.column("op").to_pylist() == ["-D"]


@pytest.mark.parametrize(
    ("option", "left"), [("ignore-delete", [0, 2]), ("ignore-update-before", [0, 2, 3])]
)
def test_filters_drop_kinds_before_numbers_are_given(option: str, left: list[int]) -> None:
    kinds = pa.array([0, 1, 2, 3], pa.int8())
    four = {n: pa.array([1, 2, 3, 4], pa.int32()) for n in ("k", "n")}
    rows = row_batch(table({option: "true"}), {**four, "_row_kind": kinds})
    assert rows.column(VALUE_KIND).to_pylist() == left
    assert rows.column(SEQUENCE_NUMBER).to_pylist() == list(range(100, 100 + len(left)))


def test_all_rows_may_be_dropped() -> None:
    rows = row_batch(table({"ignore-delete": "true"}), data(_row_kind=pa.array(["-D", "-U"])))
    assert rows.num_rows == 0


def test_records_are_brought_into_normal_form() -> None:
    options = {"merge-engine": "partial-update", "fields.v.sequence-group": "s"}
    rows = row_batch(table(options), data(s=pa.array(["gone", "gone"]), v=pa.array([1, None])))
    assert rows.column("s").to_pylist() == ["gone", None]


def test_a_set_of_columns_that_the_engine_cannot_take_is_refused() -> None:
    options = {"merge-engine": "partial-update", "fields.v.sequence-group": "s"}
    with pytest.raises(InvalidError, match="'v'"):
        owned_columns(table(options), ["k", "n", "s"])


def test_default_values_are_refused_by_name() -> None:
    fields = tuple(
        DataField(f.id, f.name, f.type, default="1" if f.name == "v" else None)
        for f in table().fields
    )
    schema = TableSchema(0, fields, 3, (), ("k",), {})
    with pytest.raises(UnsupportedError, match="'v'"):
        owned_columns(schema, ["k", "n"])


def no_rows(names: Sequence[str]) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.nulls(0)] * len(names), names)


def test_every_batch_has_the_same_columns() -> None:
    columns = owned_columns(table(), ["k", "n", "v"])
    normalizer = BatchNormalizer(table(), columns, SequenceAllocator(0))
    for names in (["k", "n"], ["k", "n", "v", "s"], ["k", "n", "v", "v"]):
        with pytest.raises(InvalidError):
            normalizer.check_batch(no_rows(names))
    normalizer.check_batch(no_rows(["v", "n", "k"]))


# Casts

_MAP = {"type": "MAP", "key": "STRING NOT NULL", "value": "INT NOT NULL"}
_ROW = {
    "type": "ROW",
    "fields": [
        {"id": 1, "name": "x", "type": "BIGINT"},
        {"id": 2, "name": "y", "type": "INT NOT NULL"},
    ],
}
_UTC = datetime.timezone.utc
_NOON = datetime.datetime(2026, 2, 3, 12)
_STRUCT = pa.struct([("x", pa.int8()), ("y", pa.int32())])


def cast(kind: Any, array: pa.Array) -> pa.Array:
    field = DataField(0, "c", parse_type(kind))
    result = safe_cast(array, field, arrow_type(field.type))
    assert result.type == arrow_type(field.type)
    result.validate(full=True)
    return result


TAKEN = [
    ("BIGINT", pa.array([1, None], pa.int8()), [1, None]),
    ("INT", pa.array([65535], pa.uint16()), [65535]),
    ("BIGINT", pa.nulls(2), [None, None]),
    ("DOUBLE", pa.array([1.5], pa.float32()), [1.5]),
    ("FLOAT", pa.array(np.array([0.5], np.float16)), [0.5]),
    ("STRING", pa.array(["ä", None], pa.large_string()), ["ä", None]),
    ("STRING", pa.array(["ä"], pa.string_view()), ["ä"]),
    ("STRING", pa.array(["a", "b", "a"]).dictionary_encode(), ["a", "b", "a"]),
    ("VARCHAR(3)", pa.array(["ä€𝄞", ""]), ["ä€𝄞", ""]),
    ("BYTES", pa.array([b"ab"], pa.binary(2)), [b"ab"]),
    ("BINARY(2)", pa.array([b"ab", b"a"], pa.large_binary()), [b"ab", b"a"]),
    (
        "DECIMAL(10, 2)",
        pa.array([decimal.Decimal("1.5")], pa.decimal128(3, 1)),
        [decimal.Decimal("1.50")],
    ),
    (
        "DECIMAL(4, 1)",
        pa.array([decimal.Decimal("1.50")], pa.decimal128(38, 2)),
        [decimal.Decimal("1.5")],
    ),
    (
        "DECIMAL(4, 1)",
        pa.array([decimal.Decimal("1.5")], pa.decimal256(50, 1)),
        [decimal.Decimal("1.5")],
    ),
    ("INT", pa.array([1, -(1 << 31)], pa.int64()), [1, -(1 << 31)]),
    ("TINYINT", pa.array([127], pa.uint64()), [127]),
    ({"type": "ARRAY", "element": "INT"}, pa.array([[1]]), [[1]]),
    ("DATE", pa.array([_NOON.date()], pa.date64()), [_NOON.date()]),
    ("TIME(3)", pa.array([5_000_000], pa.time64("us")), [datetime.time(0, 0, 5)]),
    ("TIMESTAMP(6)", pa.array([_NOON], pa.timestamp("s")), [_NOON]),
    ("TIMESTAMP(3)", pa.array([_NOON], pa.timestamp("ns")), [_NOON]),
    (
        "TIMESTAMP_LTZ(3)",
        pa.array([_NOON], pa.timestamp("us", "Asia/Tokyo")),
        [_NOON.replace(tzinfo=_UTC)],
    ),
    (
        {"type": "ARRAY", "element": "BIGINT"},
        pa.array([[1, None], None], pa.large_list(pa.int32())),
        [[1, None], None],
    ),
    (_MAP, pa.array([[("a", 1)], None], pa.map_(pa.string(), pa.int32())), [[("a", 1)], None]),
    (_ROW, pa.array([{"x": None, "y": 2}, None], _STRUCT), [{"x": None, "y": 2}, None]),
]


def ids_of(cases: Sequence[tuple[Any, ...]]) -> list[str]:
    return [f"{i}-{case[1].type}-to-{parse_type(case[0]).root}" for i, case in enumerate(cases)]


@pytest.mark.parametrize(("kind", "array", "values"), TAKEN, ids=ids_of(TAKEN))
def test_lossless_casts_are_taken(kind: Any, array: pa.Array, values: list[Any]) -> None:
    assert cast(kind, array).to_pylist() == values
    longer = pa.concat_arrays([array, array])
    assert cast(kind, longer.slice(len(array))).to_pylist() == values


REFUSED = [
    ("INT", pa.array([1, 1 << 31], pa.int64())),
    ("INT", pa.array([1 << 31], pa.uint32())),
    ("TINYINT", pa.array([-129])),
    ("BIGINT", pa.array([1.0])),
    ("BIGINT", pa.array(["1"])),
    ("BIGINT", pa.array([True])),
    ("BOOLEAN", pa.array([1])),
    ("FLOAT", pa.array([1.0], pa.float64())),
    ("DOUBLE", pa.array([1])),
    ("STRING", pa.array([b"a"])),
    ("STRING", pa.array([1])),
    ("BYTES", pa.array(["a"])),
    ("VARCHAR(3)", pa.array(["abcd"])),
    ("CHAR(1)", pa.array(["ab"])),
    ("VARBINARY(1)", pa.array([b"ab"])),
    ("DECIMAL(4, 1)", pa.array([decimal.Decimal("1.55")])),
    ("DECIMAL(4, 1)", pa.array([decimal.Decimal("12345.0")])),
    ("DECIMAL(4, 1)", pa.array([1.5])),
    ("DATE", pa.array([1], pa.date64())),
    ("DATE", pa.array([_NOON])),
    ("TIME(3)", pa.array([1], pa.time64("us"))),
    ("TIMESTAMP(3)", pa.array([1], pa.timestamp("us"))),
    ("TIMESTAMP(6)", pa.array([_NOON], pa.timestamp("us", "UTC"))),
    ("TIMESTAMP_LTZ(6)", pa.array([_NOON], pa.timestamp("us"))),
    ({"type": "ARRAY", "element": "INT"}, pa.array([[1 << 31]])),
    ({"type": "ARRAY", "element": "BIGINT NOT NULL"}, pa.array([[1, None]])),
    (
        {"type": "MULTISET", "element": "STRING"},
        pa.array([[("a", 1), ("b", None)]], pa.map_(pa.string(), pa.int32())),
    ),
    (_MAP, pa.array([[("a", None)]], pa.map_(pa.string(), pa.int32()))),
    (_ROW, pa.array([{"x": 1}], pa.struct([("x", pa.int64())]))),
    (_ROW, pa.array([{"y": 1, "x": 1}], pa.struct([("y", pa.int32()), ("x", pa.int64())]))),
    (_ROW, pa.array([{"x": 1, "y": 1, "z": 1}])),
    (_ROW, pa.array([{"x": 1, "y": None}], _STRUCT)),
]


@pytest.mark.parametrize(("kind", "array"), REFUSED, ids=ids_of(REFUSED))
def test_what_could_lose_something_is_refused(kind: Any, array: pa.Array) -> None:
    with pytest.raises(InvalidError, match="'c'") as raised:
        cast(kind, array)
    assert isinstance(raised.value, WidetableError)
    assert str(parse_type(kind)) in raised.value.expected


def test_an_empty_batch_is_checked_like_any_other() -> None:
    """Streams check the columns and types before the first row."""
    empty = {name: column.slice(0, 0) for name, column in data().items()}
    for kinds in (pa.array([], pa.string()), pa.array([], pa.int8())):
        assert row_batch(table(), {**empty, "_row_kind": kinds}).num_rows == 0
    with pytest.raises(InvalidError, match="'v'"):
        row_batch(table(), {**empty, "v": pa.array([], pa.string())})
