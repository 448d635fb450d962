"""Avro files of any schema, written by fastavro: known fields are read, unknown ones stepped over, the rest refused."""

from __future__ import annotations

import io
import random
from functools import partial
from typing import Any

import fastavro
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.faults.damage import damaged_copies, refused_subject
from widetable.errors import DamagedError
from widetable.format.avro_file import read_avro, write_avro
from widetable.format.avro_nodes import Schema
from widetable.format.avro_schema import array, field, nullable

INNER = {
    "type": "record",
    "name": "inner",
    "fields": [field("x", "bytes"), field("y", nullable("long"))],
}
EXPECTED: Schema = {
    "type": "record",
    "name": "ours",
    "fields": [
        field("number", "long"),
        field("text", nullable("string")),
        field("inner", INNER),
        field("counts", nullable(array(nullable("long")))),
        field("names", array("string")),
        field("longs", nullable(array("long"))),
    ],
}
LONGS = st.integers(-(2**63), 2**63 - 1)
OURS: dict[str, st.SearchStrategy[Any]] = {
    "number": st.sampled_from([-(2**63), -1, 0, 63, 64, 2**63 - 1]) | LONGS,
    "text": st.none() | st.text(),
    "inner": st.fixed_dictionaries({"x": st.binary(), "y": st.none() | LONGS}),
    "counts": st.none() | st.lists(st.none() | LONGS, max_size=4),
    "names": st.lists(st.text(), max_size=4),
    "longs": st.none() | st.lists(LONGS, max_size=4),
}

Foreign = tuple[Any, st.SearchStrategy[Any]]
PRIMITIVES: list[Foreign] = [
    ("null", st.none()),
    ("boolean", st.booleans()),
    ("int", st.integers(-(2**31), 2**31 - 1)),
    ("long", LONGS),
    ("float", st.floats(width=32)),
    ("double", st.floats()),
    ("bytes", st.binary(max_size=9)),
    ("string", st.text(max_size=9)),
    ({"type": "long", "logicalType": "timestamp-micros"}, st.just(0)),
]


@st.composite
def foreign_types(draw: st.DrawFn, name: str, depth: int = 0) -> Foreign:
    """Any type, named types called after `name`, and values for it."""
    shapes = (
        ["primitive"]
        if depth == 3
        else ["primitive", "array", "map", "record", "union", "enum", "fixed"]
    )
    shape = draw(st.sampled_from(shapes))
    if shape == "primitive":
        return draw(st.sampled_from(PRIMITIVES))
    if shape == "enum":
        return {"type": "enum", "name": name, "symbols": ["A", "B"]}, st.sampled_from("AB")
    if shape == "fixed":
        return {"type": "fixed", "name": name, "size": 3}, st.binary(min_size=3, max_size=3)
    kind, values = draw(foreign_types(f"{name}i", depth + 1))
    if shape == "array":
        # An item that takes no byte is beyond what we step over.
        kind, values = (kind, values) if kind != "null" else ("int", st.just(1))
        return array(kind), st.lists(values, max_size=3)
    if shape == "map":
        return {"type": "map", "values": kind}, st.dictionaries(
            st.text(max_size=3), values, max_size=3
        )
    if shape == "union":
        return ["null", kind] if kind != "null" and not isinstance(kind, list) else "null", (
            st.none() | values if kind != "null" and not isinstance(kind, list) else st.none()
        )
    other_kind, other_values = draw(foreign_types(f"{name}j", depth + 1))
    record = {
        "type": "record",
        "name": name,
        "fields": [{"name": "p", "type": kind}, {"name": "q", "type": other_kind}],
    }
    return record, st.fixed_dictionaries({"p": values, "q": other_values})


@st.composite
def files(draw: st.DrawFn) -> tuple[bytes, list[dict[str, Any]]]:
    """A file with our fields and foreign ones in any order, some of ours left out, and its records."""
    left_out = draw(st.sets(st.sampled_from(["text", "counts", "longs"])))
    kept = [f for f in EXPECTED["fields"] if f["name"] not in left_out]
    values = {f["name"]: OURS[f["name"]] for f in kept}
    fields = [{"name": f["name"], "type": f["type"]} for f in kept]
    for i in range(draw(st.integers(0, 4))):
        kind, strategy = draw(foreign_types(f"f{i}"))
        fields.append({"name": f"foreign{i}", "type": kind})
        values[f"foreign{i}"] = strategy
    schema = {"type": "record", "name": "theirs", "fields": draw(st.permutations(fields))}
    records = draw(st.lists(st.fixed_dictionaries(values), max_size=6))
    out = io.BytesIO()
    codec = draw(st.sampled_from(["null", "deflate", "zstandard"]))
    fastavro.writer(
        out, schema, records, codec=codec, sync_interval=draw(st.sampled_from([1, 10**6]))
    )
    return out.getvalue(), records


def columns_of(records: list[dict[str, Any]]) -> dict[str, list[Any]]:
    def get(name: str) -> list[Any]:
        values = [record.get(name) for record in records]
        return [tuple(v) if isinstance(v, list) else v for v in values]

    inner = [record["inner"] for record in records]
    columns = {name: get(name) for name in ("number", "text", "counts", "names", "longs")}
    return columns | {"inner.x": [i["x"] for i in inner], "inner.y": [i["y"] for i in inner]}


@given(files())
def test_known_fields_of_any_file_are_read(file: tuple[bytes, list[dict[str, Any]]]) -> None:
    data, records = file
    assert read_avro(data, EXPECTED, "m") == columns_of(records)


@given(files(), st.randoms(use_true_random=False))
def test_damage_is_refused_or_read(
    file: tuple[bytes, list[dict[str, Any]]], random: random.Random
) -> None:
    for copy in damaged_copies(file[0], random):
        assert refused_subject(partial(read_avro, copy, EXPECTED, "m")) in (None, "m")


RECORD = {
    "number": 1,
    "text": None,
    "inner": {"x": b"", "y": None},
    "counts": None,
    "names": ["a"],
    "longs": [1],
}


def with_type(name: str, kind: Any, value: Any) -> bytes:
    fields = [{"name": name, "type": kind} if f["name"] == name else f for f in EXPECTED["fields"]]
    out = io.BytesIO()
    fastavro.writer(out, {**EXPECTED, "fields": fields}, [{**RECORD, name: value}])
    return out.getvalue()


@pytest.mark.parametrize(
    ("name", "kind", "value"),
    [
        ("number", "string", "1"),
        ("number", "double", 1.0),
        ("number", ["null", "long"], 1),
        ("text", ["null", "bytes"], b""),
        ("text", ["null", "string", "long"], "x"),
        ("inner", "long", 1),
        ("counts", ["null", array(["long", "null"])], [1]),
        ("names", array("bytes"), [b""]),
        ("longs", array(["long", "null"]), [1]),
        ("names", {"type": "map", "values": "string"}, {}),
    ],
)
def test_known_field_of_another_type_is_named(name: str, kind: Any, value: Any) -> None:
    with pytest.raises(DamagedError, match=name):
        read_avro(with_type(name, kind, value), EXPECTED, "m")


@pytest.mark.parametrize(
    ("name", "kind", "value"),
    [
        ("number", "int", 7),
        ("number", {"type": "long", "logicalType": "timestamp-millis"}, 7),
        ("text", "string", "x"),
        ("text", ["string", "null"], "x"),
        ("text", ["string", "null"], None),
        ("longs", array("int"), [7]),
    ],
)
def test_harmless_differences_are_read(name: str, kind: Any, value: Any) -> None:
    (found,) = read_avro(with_type(name, kind, value), EXPECTED, "m")[name]
    assert found == (tuple(value) if isinstance(value, list) else value)


def test_array_in_sized_blocks_is_read() -> None:
    """Writers may put the size in bytes behind a negative count."""
    data = write_avro(
        {"type": "record", "name": "r", "fields": [field("n", "long"), field("a", array("long"))]},
        [],
    )
    expected = {"type": "record", "name": "r", "fields": [field("a", array("long"))]}
    sync = data[-16:]
    # n = 1; a = a block of -2 items in 2 bytes (3, 4), a block of one item (5), the end
    record = bytes([2, 3, 4, 6, 8, 2, 10, 0])
    head = data[:-16].replace(b"\x12zstandard", b"\x08null")
    file = head + sync + bytes([2, 2 * len(record)]) + record + sync
    assert read_avro(file, expected, "m") == {"a": [(3, 4, 5)]}
    assert read_avro(
        file, {"type": "record", "name": "r", "fields": [field("n", "long")]}, "m"
    ) == {"n": [1]}


def test_recursive_foreign_type_is_stepped_over() -> None:
    tree = {"type": "record", "name": "tree", "fields": [{"name": "kids", "type": array("tree")}]}
    schema = {
        "type": "record",
        "name": "r",
        "fields": [{"name": "t", "type": tree}, field("n", "long")],
    }
    expected = {"type": "record", "name": "r", "fields": [field("n", "long")]}
    out = io.BytesIO()
    deep: dict[str, Any] = {"kids": []}
    for _ in range(20):
        deep = {"kids": [deep, {"kids": []}]}
    fastavro.writer(out, schema, [{"t": deep, "n": 7}])
    assert read_avro(out.getvalue(), expected, "m") == {"n": [7]}
    for _ in range(100):
        deep = {"kids": [deep]}
    out = io.BytesIO()
    fastavro.writer(out, schema, [{"t": deep, "n": 7}])
    with pytest.raises(DamagedError):
        read_avro(out.getvalue(), expected, "m")


def test_claim_of_too_many_records_gets_no_room() -> None:
    schema = {"type": "record", "name": "r", "fields": [field("n", "long"), field("m", "long")]}
    out = io.BytesIO()
    fastavro.writer(out, schema, [{"n": 1, "m": 1}] * 8)
    data = bytearray(out.getvalue())
    at = data.index(data[-16:]) + 16
    assert data[at] == 16  # 8 records
    data[at] = 32
    with pytest.raises(DamagedError, match="16 records"):
        read_avro(bytes(data), schema, "m")
