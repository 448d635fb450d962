"""Avro schemas that are JSON and nothing else: whatever stands in any place of one, the file is read or refused as
damaged.
"""

from __future__ import annotations

import copy
import io
import json
from collections.abc import Iterator
from functools import partial
from typing import Any

import fastavro
import pytest

from tests.support.faults.damage import refused_subject
from widetable.errors import DamagedError
from widetable.format.avro_arrays import avro_fields
from widetable.format.avro_file import read_avro
from widetable.format.avro_nodes import AvroNodes, Schema
from widetable.format.avro_schema import array, nullable

JUNK: list[Any] = [["long"], {}, {"type": []}, [[]], 7, None, True, "", "name", [None], [{}]]


def record(name: str, **fields: Any) -> Schema:
    parts = [{"name": key, "type": kind} for key, kind in fields.items()]
    return {"type": "record", "name": name, "fields": parts}


EXPECTED = record(
    "ours",
    number="long",
    inner=record("inner", x="bytes", y=nullable("long")),
    counts=nullable(array(nullable("long"))),
    parts=nullable(array(record("part", f0="string", f1="int", f2="int"))),
)
FOUND = record(
    "theirs",
    size={"type": "fixed", "name": "size", "size": 2},
    kind={"type": "enum", "name": "kind", "symbols": ["A"]},
    map={"type": "map", "values": "long"},
    **{part["name"]: part["type"] for part in EXPECTED["fields"]},
)
RECORD: dict[str, Any] = {
    "size": b"ab",
    "kind": "A",
    "map": {"x": 1},
    "number": 5,
    "inner": {"x": b"x", "y": None},
    "counts": [1, None],
    "parts": [{"f0": "x", "f1": 1, "f2": 2}],
}


def places(node: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Of every part of a schema."""
    yield path
    if isinstance(node, (dict, list)):
        for key, part in node.items() if isinstance(node, dict) else enumerate(node):
            yield from places(part, (*path, key))


def replaced(schema: Any, path: tuple[Any, ...], part: Any) -> Any:
    if not path:
        return part
    schema = copy.deepcopy(schema)
    around = schema
    for key in path[:-1]:
        around = around[key]
    around[path[-1]] = part
    return schema


def with_schema(schema: Any) -> bytes:
    """One record, under a schema that may not be its own."""
    out = io.BytesIO()
    fastavro.schemaless_writer(out, FOUND, RECORD)
    block, sync, text = out.getvalue(), bytes(16), json.dumps(schema).encode()
    head = [b"Obj\x01", long(1), long(11), b"avro.schema", long(len(text)), text, long(0), sync]
    return b"".join([*head, long(1), long(len(block)), block, sync])


def long(value: int) -> bytes:
    value, out = value << 1, b""
    while value > 127:
        out, value = out + bytes([value & 127 | 128]), value >> 7
    return out + bytes([value])


def test_the_schema_itself_is_read() -> None:
    assert read_avro(with_schema(FOUND), EXPECTED, "m")["number"] == [5]


@pytest.mark.parametrize("junk", JUNK, ids=str)
def test_anything_in_any_place_of_a_schema_is_read_or_damage(junk: Any) -> None:
    refused = 0
    for path in places(FOUND):
        schema = replaced(FOUND, path, junk)
        for decode in (
            partial(read_avro, with_schema(schema), EXPECTED, "m"),
            partial(avro_fields, schema, "m"),
        ):
            subject = refused_subject(decode)
            assert subject is None or "m" in subject
            refused += subject is not None
    assert refused > 50


EMPTY: list[Any] = [
    array("null"),
    array(record("r")),
    array({"type": "fixed", "name": "f", "size": 0}),
    array(record("r", a="null")),
    array(record("r", a=record("s"), b={"type": "fixed", "name": "f", "size": 0})),
    record("r", a=array(record("s", b="null"))),
    {"type": "map", "values": array("null")},
    # Each level of such records would double the steps over no byte.
    record("r", a=record("s", a=record("t"), b="t"), b="s"),
]


@pytest.mark.parametrize("kind", EMPTY)
def test_what_would_be_many_values_of_no_byte_is_refused(kind: Any) -> None:
    """Else a few bytes would claim any number of them."""
    schema = record(
        "theirs", empty=kind, **{part["name"]: part["type"] for part in FOUND["fields"]}
    )
    nodes = AvroNodes(schema, "m")
    nodes.add(schema)
    with pytest.raises(DamagedError, match="take no bytes"):
        nodes.nodes()
    with pytest.raises(DamagedError):
        read_avro(with_schema(schema), EXPECTED, "m")


def test_single_values_of_no_byte_are_read() -> None:
    fields, _ = avro_fields(record("theirs", empty=record("r"), some=record("s", a="int")), "m")
    assert [str(field.arrow) for field in fields] == ["struct<>", "struct<a: int32>"]
    more = record("theirs", **{part["name"]: part["type"] for part in FOUND["fields"]}, no="null")
    assert read_avro(with_schema(more), EXPECTED, "m")["number"] == [5]
