"""Schema evolution: which changes of type keep old files readable, and what their values become."""

from __future__ import annotations

import datetime
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.widetable.format.data_files import IO, batch_of, rewrite, table_schema, write
from widetable.errors import DamagedError, UnsupportedError
from widetable.format.column_cast import column_cast
from widetable.format.data_file_reader import open_data_file
from widetable.format.deletion_vector import DeletedRows, encode_vector, recorded_length
from widetable.schema.table_schema import TableSchema
from widetable.schema.types import DataField, arrow_type, parse_type

LTZ = "TIMESTAMP(3) WITH LOCAL TIME ZONE"


def cast(values: pa.Array, old: Any, new: Any) -> pa.Array:
    stored, wanted = parse_type(old), parse_type(new)
    step = column_cast(values.type, stored, wanted, "column 'v' of f")
    return values if step is None else step(values)


ALLOWED = [
    ("TINYINT", "SMALLINT", -128, -128),
    ("INT", "BIGINT", -(2**31), -(2**31)),
    ("BIGINT", "DOUBLE", 2**62, float(2**62)),
    ("INT", "FLOAT", 16777217, 16777216.0),
    ("INT", "DECIMAL(12, 2)", -7, Decimal("-7.00")),
    ("BIGINT", "DECIMAL(19, 0)", -(2**63), Decimal(-(2**63))),
    ("BIGINT", "STRING", -(2**63), "-9223372036854775808"),
    ("TINYINT", "VARCHAR(4)", -128, "-128"),
    ("BOOLEAN", "STRING", True, "true"),
    ("FLOAT", "DOUBLE", 0.5, 0.5),
    ("DECIMAL(9, 2)", "DECIMAL(20, 4)", Decimal("-1.25"), Decimal("-1.2500")),
    ("CHAR(3)", "VARCHAR(3)", "abc", "abc"),
    ("VARCHAR(3)", "STRING", "abc", "abc"),
    ("BINARY(2)", "BYTES", b"ab", b"ab"),
    ("DATE", "TIMESTAMP(3)", datetime.date(1969, 12, 31), datetime.datetime(1969, 12, 31)),
    ("DATE", "STRING", datetime.date(2024, 2, 29), "2024-02-29"),
    ("TIME(0)", "TIME(3)", datetime.time(1, 2), datetime.time(1, 2)),
    ("TIMESTAMP(0)", "TIMESTAMP(6)", datetime.datetime(1960, 1, 1), datetime.datetime(1960, 1, 1)),
    (LTZ, LTZ.replace("3", "6"), 0, datetime.datetime(1970, 1, 1, tzinfo=datetime.timezone.utc)),
    ("INT", "INT NOT NULL", 3, 3),
]


@pytest.mark.parametrize(("old", "new", "value", "wanted"), ALLOWED)
def test_growing_types_keep_every_value(old: str, new: str, value: Any, wanted: Any) -> None:
    found = cast(pa.array([value, None], arrow_type(parse_type(old))), old, new)
    assert found.type == arrow_type(parse_type(new))
    assert found.to_pylist() == [wanted, None]


REFUSED = [
    ("BIGINT", "INT"),
    ("DOUBLE", "FLOAT"),
    ("DOUBLE", "STRING"),
    ("FLOAT", "INT"),
    ("INT", "DECIMAL(11, 2)"),
    ("INT", "VARCHAR(10)"),
    ("INT", "BOOLEAN"),
    ("INT", "CHAR(20)"),
    ("DECIMAL(9, 2)", "DECIMAL(9, 3)"),
    ("DECIMAL(9, 2)", "DECIMAL(20, 1)"),
    ("DECIMAL(9, 2)", "STRING"),
    ("STRING", "VARCHAR(5)"),
    ("STRING", "INT"),
    ("VARCHAR(3)", "CHAR(9)"),
    ("CHAR(3)", "CHAR(4)"),
    ("STRING", "BYTES"),
    ("VARBINARY(9)", "VARBINARY(8)"),
    ("TIMESTAMP(6)", "TIMESTAMP(3)"),
    ("TIMESTAMP(3)", LTZ),
    (LTZ, "TIMESTAMP(3)"),
    ("TIMESTAMP(3)", "DATE"),
    ("DATE", LTZ),
    ("INT", {"type": "ARRAY", "element": "INT"}),
    ({"type": "ARRAY", "element": "INT"}, "INT"),
    ({"type": "ARRAY", "element": "BIGINT"}, {"type": "ARRAY", "element": "INT"}),
]


@pytest.mark.parametrize(("old", "new"), REFUSED)
def test_other_changes_are_refused_by_name(old: Any, new: Any) -> None:
    values = pa.nulls(1, arrow_type(parse_type(old)))
    with pytest.raises(UnsupportedError, match="column 'v' of f"):
        cast(values, old, new)


STORED = [
    (pa.array([1, None], pa.int32()), "TINYINT", [1, None]),
    (pa.array([b"abcd", None], pa.binary(4)), "BINARY(4)", [b"abcd", None]),
    (pa.array(["a", None], pa.large_string()), "STRING", ["a", None]),
    (pa.array(["a", None]).dictionary_encode(), "STRING", ["a", None]),
    (pa.array(["a", None], pa.string_view()), "STRING", ["a", None]),
    (pa.array([b"a", None], pa.binary()), "STRING", ["a", None]),
    (
        pa.array([Decimal("1.50"), None], pa.decimal128(20, 2)),
        "DECIMAL(9, 2)",
        [Decimal("1.50"), None],
    ),
    (
        pa.array([1000, None], pa.timestamp("us")),
        "TIMESTAMP(3)",
        [datetime.datetime(1970, 1, 1, 0, 0, 0, 1000), None],
    ),
    (
        pa.array([0, None], pa.timestamp("ms")),
        LTZ,
        [datetime.datetime(1970, 1, 1, tzinfo=datetime.timezone.utc), None],
    ),
    (pa.array([1_000_000, None], pa.time64("us")), "TIME(3)", [datetime.time(0, 0, 1), None]),
    (
        pa.array([[1], None], pa.large_list(pa.int64())),
        {"type": "ARRAY", "element": "BIGINT"},
        [[1], None],
    ),
]


@pytest.mark.parametrize(
    ("values", "kind", "wanted"), STORED, ids=lambda v: str(getattr(v, "type", ""))[:40] or None
)
def test_other_forms_of_a_type_are_read(values: pa.Array, kind: Any, wanted: list[Any]) -> None:
    found = cast(values, kind, kind)
    assert found.type == arrow_type(parse_type(kind))
    assert found.to_pylist() == wanted


@pytest.mark.parametrize(
    ("found", "kind"),
    [
        (pa.int64(), "STRING"),
        (pa.string(), "INT"),
        (pa.float64(), "FLOAT"),
        (pa.int32(), "DECIMAL(9, 2)"),
        (pa.date32(), "TIMESTAMP(3)"),
        (pa.string(), {"type": "ARRAY", "element": "INT"}),
        (pa.list_(pa.int32()), {"type": "MAP", "key": "INT", "value": "INT"}),
        (pa.list_(pa.int32()), {"type": "ROW", "fields": []}),
        (
            pa.struct([("y", pa.int32())]),
            {"type": "ROW", "fields": [{"id": 1, "name": "x", "type": "INT"}]},
        ),
    ],
    ids=str,
)
def test_values_that_the_schema_does_not_name_are_damage(found: pa.DataType, kind: Any) -> None:
    with pytest.raises(DamagedError, match="column 'v' of f"):
        column_cast(found, parse_type(kind), parse_type(kind), "column 'v' of f")


def row_of(*fields: tuple[int, str, Any]) -> dict[str, Any]:
    return {"type": "ROW", "fields": [{"id": i, "name": n, "type": t} for i, n, t in fields]}


def test_row_is_rebuilt_by_field_id() -> None:
    old = row_of((5, "a", "INT"), (6, "b", "STRING"), (7, "gone", "INT"))
    new = row_of((8, "gone", "DATE"), (6, "renamed", "STRING"), (5, "a", "BIGINT"))
    values = pa.array(
        [{"a": 1, "b": "x", "gone": 2}, None, {"a": None, "b": None, "gone": 3}],
        arrow_type(parse_type(old)),
    )
    for rows in (values, values.slice(1)):
        assert cast(rows, old, new).to_pylist() == [
            None if row is None else {"gone": None, "renamed": row["b"], "a": row["a"]}
            for row in rows.to_pylist()
        ]


def test_fields_without_ids_of_their_own_are_read_while_they_stay() -> None:
    old = row_of((0, "a", "INT"), (0, "b", "INT"))
    values = pa.array([{"a": 1, "b": 2}, None], arrow_type(parse_type(old)))
    assert cast(values, old, old).to_pylist() == values.to_pylist()
    wider = row_of((0, "a", "INT"), (0, "b", "BIGINT"))
    assert cast(values, old, wider).to_pylist() == values.to_pylist()
    for new in (row_of((0, "b", "INT"), (0, "a", "INT")), row_of((0, "a", "INT"))):
        with pytest.raises(UnsupportedError, match=r"column 'v' of f: .*duplicate ids"):
            cast(values, old, new)


def array_of(kind: Any) -> dict[str, Any]:
    return {"type": "ARRAY", "element": kind}


def map_to(kind: Any) -> dict[str, Any]:
    return {"type": "MAP", "key": "INT NOT NULL", "value": kind}


A = row_of((5, "a", "INT"))
FORBIDDEN = [
    (A, row_of((5, "a", "INT NOT NULL")), [{"a": 1}, None], [{"a": None}]),
    (A, row_of((5, "a", "INT"), (6, "b", "INT NOT NULL")), [None], [{"a": 1}]),
    (A, row_of((5, "a", "BIGINT NOT NULL")), [{"a": 1}, None], [{"a": None}]),
    (array_of("INT"), array_of("INT NOT NULL"), [[1], None, []], [[1, None]]),
    (array_of(A), array_of({**A, "type": "ROW NOT NULL"}), [[{"a": None}], None], [[None]]),
    (map_to("INT"), map_to("INT NOT NULL"), [[(1, 1)], None], [[(1, None)]]),
    (array_of(A), array_of(row_of((5, "a", "INT NOT NULL"))), [[{"a": 1}], None], [[{"a": None}]]),
    (map_to(A), map_to(row_of((5, "a", "INT NOT NULL"))), [None, [(1, {"a": 1})]], [[(1, {})]]),
    (array_of("TIMESTAMP(3)"), array_of("TIMESTAMP(6) NOT NULL"), [None, [0]], [[0, None]]),
]


@pytest.mark.parametrize(("old", "new", "sound", "wrong"), FORBIDDEN)
def test_nulls_from_before_not_null_are_refused_and_no_damage(
    old: Any, new: Any, sound: list[Any], wrong: list[Any]
) -> None:
    kind = arrow_type(parse_type(old))
    assert len(cast(pa.array(sound, kind), old, new)) == len(sound)
    assert cast(pa.array(sound, kind), old, new).type == arrow_type(parse_type(new))
    rows = pa.array([*sound, *wrong, *sound], kind)
    with pytest.raises(UnsupportedError, match=r"column 'v' of f: found .* became NOT NULL"):
        cast(rows, old, new)
    for start in (0, len(sound) + len(wrong)):
        found = cast(rows.slice(start, len(sound)), old, new)
        found.validate(full=True)
        assert found.equals(cast(pa.array(sound, kind), old, new))


def test_a_column_that_became_not_null_has_no_nulls_in_old_files(path: Path) -> None:
    old = table_schema({"k": "INT", "a": "INT", "b": "INT"})
    meta = write(path, old, [batch_of(old, {"k": [1], "a": [None], "b": [3]})], ["k", "a"])
    key, a, b = old.fields
    for column, found in ((a, "1 null in 1 row"), (b, "no such column")):
        new = with_fields(old, key, replace(column, type=column.type.not_null()))
        with pytest.raises(UnsupportedError, match=f"column '{column.name}' of .*: found {found}"):
            read(path, meta, new, old)


def test_a_column_that_became_not_null_may_have_nulls_in_deleted_rows(path: Path) -> None:
    old = table_schema({"k": "INT", "a": "INT"})
    rows: dict[str, Any] = {"k": list(range(300)), "a": [None, *range(1, 299), None]}
    meta = write(path, old, [batch_of(old, rows)])
    key, a = old.fields
    new = with_fields(old, key, replace(a, type=a.type.not_null()))
    for deleted, nulls_left in (([0, 7], 1), ([7, 299], 1), ([0, 299], 0)):
        vector = encode_vector(np.array(deleted, np.int64))
        place = path.with_name("index-0")
        place.write_bytes(vector)
        found = DeletedRows(str(place), 0, recorded_length(vector), len(deleted))
        if nulls_left:
            with pytest.raises(UnsupportedError, match="became NOT NULL"):
                read(path, meta._replace(deleted=found), new, old)
        else:
            kept = read(path, meta._replace(deleted=found), new, old)
            assert kept.column("a").to_pylist() == list(range(1, 299))


def test_lists_and_maps_are_rebuilt_around_their_values() -> None:
    old = {"type": "ARRAY", "element": row_of((5, "a", "INT"))}
    new = {"type": "ARRAY", "element": row_of((6, "b", "INT"), (5, "c", "BIGINT"))}
    values = pa.array([[{"a": 1}], None, [], [{"a": 2}, None]], arrow_type(parse_type(old)))
    wanted = [[{"b": None, "c": 1}], None, [], [{"b": None, "c": 2}, None]]
    assert cast(values, old, new).to_pylist() == wanted
    assert cast(values.slice(2), old, new).to_pylist() == wanted[2:]
    old_map = {"type": "MAP", "key": "INT NOT NULL", "value": "FLOAT"}
    new_map = {"type": "MAP", "key": "BIGINT NOT NULL", "value": "DOUBLE"}
    maps = pa.array([[(1, 0.5)], None, [(2, None), (3, 1.0)]], arrow_type(parse_type(old_map)))
    assert cast(maps, old_map, new_map).to_pylist() == maps.to_pylist()
    assert cast(maps.slice(1), old_map, new_map).to_pylist() == maps.to_pylist()[1:]
    cast(maps, old_map, new_map).validate(full=True)


# Through files


def with_fields(schema: TableSchema, *fields: DataField) -> TableSchema:
    return replace(schema, id=1, fields=fields)


def read(path: Path, meta: Any, new: TableSchema, old: TableSchema) -> pa.Table:
    with open_data_file(IO, str(path), meta, new, old) as file:
        return pa.Table.from_batches(file.batches(200), file.schema)


def test_renamed_dropped_and_added_columns_are_known_by_id(path: Path) -> None:
    old = table_schema({"k": "INT", "a": "INT", "b": "STRING"})
    meta = write(path, old, [batch_of(old, {"k": [1], "a": [7], "b": ["x"]})])
    key, a, b = old.fields
    # b is renamed to a and widened nowhere, a is dropped and added again with another id.
    new = with_fields(
        old, replace(b, name="a"), replace(key, name="id"), replace(a, id=9, name="b")
    )
    new = replace(new, primary_keys=("id",))
    back = read(path, meta, new, old)
    assert back.column_names == ["_SEQUENCE_NUMBER", "_VALUE_KIND", "a", "id"]
    assert back.column("a").to_pylist() == ["x"]
    assert back.column("id").to_pylist() == [1]


def test_widened_columns_are_cast(path: Path) -> None:
    old = table_schema({"k": "INT", "a": "INT"})
    meta = write(path, old, [batch_of(old, {"k": [1, 2], "a": [7, None]})])
    new = with_fields(old, old.fields[0], replace(old.fields[1], type=parse_type("STRING")))
    assert read(path, meta, new, old).column("a").to_pylist() == ["7", None]


@pytest.mark.parametrize(
    ("old_type", "new_type", "value"),
    [
        ("DATE", "TIMESTAMP(6)", 2**31 - 1),
        ("TIMESTAMP(3)", "TIMESTAMP(6)", 2**62),
        ("TIMESTAMP(3)", "TIMESTAMP(6)", -(2**62)),
    ],
)
def test_value_that_the_wider_type_does_not_hold_is_no_damage(
    path: Path, old_type: str, new_type: str, value: int
) -> None:
    """Who repaired the table would lose rows that are there."""
    old = table_schema({"k": "INT", "a": old_type})
    kind = arrow_type(parse_type(old_type))
    stored = pa.array([value], pa.int32() if old_type == "DATE" else pa.int64()).view(kind)
    batch = batch_of(old, {"k": [1], "a": [None]})
    meta = write(path, old, [batch.set_column(3, batch.schema.field(3), stored)])
    new = with_fields(old, old.fields[0], replace(old.fields[1], type=parse_type(new_type)))
    with pytest.raises(UnsupportedError, match=f"column 'a' of {path}.*does not hold"):
        read(path, meta, new, old)


def test_days_of_any_year_become_texts() -> None:
    """Arrow's text of a year after 32767 says that it is out of range."""
    days = [0, -1, None, -719_528, -719_529, 2_932_896, 2_932_897, 2**31 - 1, -(2**31)]
    assert cast(pa.array(days, pa.int32()).view(pa.date32()), "DATE", "STRING").to_pylist() == [
        "1970-01-01",
        "1969-12-31",
        None,
        "0000-01-01",
        "-0001-12-31",
        "9999-12-31",
        "+10000-01-01",
        "+5881580-07-11",
        "-5877641-06-23",
    ]
    assert cast(pa.nulls(2, pa.date32()), "DATE", "STRING").to_pylist() == [None, None]


def test_value_that_does_not_fit_its_stored_type_is_damage(path: Path) -> None:
    old = table_schema({"k": "INT", "a": "TINYINT"})
    meta = write(path, old, [batch_of(old, {"k": [1], "a": [7]})])
    table = pq.read_table(path)
    rewrite(table.set_column(3, "a", pa.array([300], pa.int32())), path)
    with pytest.raises(DamagedError, match=str(path)):
        read(path, meta._replace(file_size=path.stat().st_size), old, old)


@pytest.mark.skipif(
    int(pa.__version__.split(".")[0]) < 25, reason="its writer of int96 wraps such years around"
)
@pytest.mark.parametrize("digits", [0, 3, 6])
def test_int96_is_read_in_the_column_s_unit(path: Path, digits: int) -> None:
    schema = table_schema({"k": "INT", "t": f"TIMESTAMP({digits})", "z": LTZ})
    moment = datetime.datetime(1600, 1, 1, 12)  # no nanoseconds since 1970 hold it
    utc = moment.replace(tzinfo=datetime.timezone.utc)
    meta = write(path, schema, [batch_of(schema, {"k": [1], "t": [moment], "z": [utc]})])
    rewrite(pq.read_table(path), path, use_deprecated_int96_timestamps=True)
    assert pq.ParquetFile(path).schema.column(3).physical_type == "INT96"
    back = read(path, meta._replace(file_size=path.stat().st_size), schema, schema)
    assert back.column("t").to_pylist() == [moment]
    assert back.column("z").to_pylist() == [utc]


@pytest.mark.parametrize("text", ["TIMESTAMP(9)", "TIMESTAMP(7) WITH LOCAL TIME ZONE"])
def test_int96_of_another_client_that_nanoseconds_cannot_hold_is_refused(
    path: Path, text: str
) -> None:
    """Java's TIMESTAMP(9) knows the year 9999; wrapped around it would be another time."""
    schema = table_schema({"k": "INT", "t": text})
    meta = write(path, schema, [batch_of(schema, {"k": [1, 2], "t": [None, None]})])
    for year, is_refused in ((9999, True), (2262, True), (2261, False), (1678, False)):
        moment = datetime.datetime(year, 12, 31)
        micros = [None, moment.replace(tzinfo=datetime.timezone.utc) if "ZONE" in text else moment]
        kind = pa.timestamp("us", tz="UTC" if "ZONE" in text else None)
        table = pq.read_table(path).set_column(3, "t", pa.array(micros, kind))
        rewrite(table, path, use_deprecated_int96_timestamps=True)
        path.write_bytes(
            path.read_bytes().replace(b"parquet-cpp-arrow", b"parquet-mr version"[:17])
        )
        meta = meta._replace(file_size=path.stat().st_size)
        if is_refused:
            with pytest.raises(UnsupportedError, match="years 1677 to 2262"):
                read(path, meta, schema, schema)
        else:
            assert read(path, meta, schema, schema).column("t").cast(kind).to_pylist() == micros
