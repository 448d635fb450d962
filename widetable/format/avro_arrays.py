"""Decode rows of Avro's binary encoding to Arrow arrays, column by column, without a Python object per row.

In: decompressed bytes of records and the file's schema. Out: an Arrow type per field, and arrays of it. The kernel
finds the position of each field of each record; nested values are decoded in the same way, level by level: the
items of all arrays are records of one field, those of maps are records of two.

    boolean        1 byte                               string, bytes   length, bytes
    int, long      zigzag varint                        record          its fields in turn
    float, double  4, 8 bytes, little-endian            union           varint: which branch; here null and one other
    fixed          its size                             array, map      blocks (kernels.avro_records)
    decimal        of bytes or fixed: at most 16, big-endian two's complement
    date, time-millis, time-micros, (local-)timestamp-millis, -micros, -nanos    of an int or long

Source: Avro 1.11 specification. The "local" of logical types is ignored, because Paimon uses it the other way round
(`AvroSchemaConverter`); the table schema has the column's type. Raises DamagedError for any other schema or bytes.

Three records of (id long, tags null | array of string, x null | double), 25 bytes; id and tags
are requested, x is only skipped:

    bytes   0e 02 04 02 61 04 62 63 00 00  |  01 00 02 00 00 00 00 00 00 f0 3f  |  06 02 00 00
            7  [a, bc], x null                -1 null x = 1.0                      3  [], x null
    ranges  id      7  -1   3       a number: its value, and whether it is present
                    1   1   1
            tags    2  -1  23       an array: where its bytes start and end; -1, -1 for null
                    9  -1  24
    items   counts 2 0 0, positions 3 5: "a" and "bc" as records of one field, decoded in the same way

A field that is not requested costs only the walk over its bytes. Memory beside the result: 16 bytes per
record and requested field of each level.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, NamedTuple, NoReturn

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from widetable.errors import UnsupportedError
from widetable.format.avro_nodes import MAX_NESTED, AvroNodes, avro_damage, without_null
from widetable.kernels.arrow_buffers import bitmap, frozen
from widetable.kernels.avro_records import (
    STEP_BYTES,
    STEP_INT,
    STEP_NODE,
    Bytes,
    Nodes,
    Numbers,
    Steps,
    decode_at,
    decode_from,
    find_items,
    gather_bytes,
)

_MAX_DIGITS: Final = 38
_DECIMAL_BYTES: Final = 16
_MAX_BYTES: Final = (1 << 31) - 1
_NUMBERS: Final[dict[tuple[str, str], pa.DataType]] = {
    ("int", ""): pa.int32(),
    ("long", ""): pa.int64(),
    ("int", "date"): pa.date32(),
    ("int", "time-millis"): pa.time32("ms"),
    ("long", "time-micros"): pa.time64("us"),
    **{
        ("long", f"{local}timestamp-{name}"): pa.timestamp(unit)
        for local in ("", "local-")
        for name, unit in (("millis", "ms"), ("micros", "us"), ("nanos", "ns"))
    },
}


class Place(NamedTuple):
    """The bytes to decode, and the nodes to step over them."""

    data: Bytes
    nodes: Nodes
    subject: str

    def fail(self, finding: str) -> NoReturn:
        """Raise the error for these bytes."""
        raise avro_damage(self.subject, finding)


# Makes an array from the ranges of a field (kernels.avro_records): per row the start and end of its bytes, or (value,
# 1).
Build = Callable[[Place, Numbers, Numbers], pa.Array]


@dataclass(frozen=True)
class AvroField:
    """A field of records: how the kernel steps over it, and the function that makes an Arrow array from its ranges.

    null_branch: which branch of its union is null, -1 where it cannot be. node: steps over
    the value without its union. build: takes ranges as `kernels.avro_records` describes them
    for `step`.
    """

    name: str
    arrow: pa.DataType
    step: int
    null_branch: int
    node: int
    build: Build


def avro_fields(schema: Any, subject: str) -> tuple[tuple[AvroField, ...], Nodes]:
    """Return all fields of a file's records, and the nodes for them.

    schema: parsed from JSON. The nodes include the fields inside of arrays, maps and records.
    Raises DamagedError for an invalid schema, UnsupportedError for a union of more than null and
    one other type, and for enums.
    """
    schema_nodes = AvroNodes(schema, subject)
    fields = _Fields(schema_nodes, subject).of_record(schema, 0)
    return fields, schema_nodes.nodes()


def read_rows(
    place: Place, start: int, records: int, fields: Sequence[AvroField], names: Sequence[str]
) -> tuple[pa.RecordBatch, int]:
    """Return (so many records from a position on, the position behind them). names: the requested columns.

    The columns come in the file's order, each once. All fields are read, because only that
    shows where the next record begins. Raises DamagedError for bytes that are no such records;
    the caller checks for bytes behind the last one.
    """
    wanted = frozenset(names)
    chosen = [field for field in fields if field.name in wanted]
    ranges, end = decode_from(
        place.data, start, records, _steps(fields, wanted), place.nodes, len(chosen)
    )
    if end < 0:
        place.fail("records that do not decode")
    arrays = _arrays(place, chosen, ranges)
    return pa.RecordBatch.from_arrays(arrays, names=[field.name for field in chosen]), end


def _steps(fields: Sequence[AvroField], wanted: frozenset[str]) -> Steps:
    """Return the steps. Outputs are numbered in file order: 0, -1 and 1 for fields a, b, c when a and c are wanted."""
    outputs = np.cumsum([field.name in wanted for field in fields]) - 1
    return Steps(
        np.array([field.step for field in fields], np.int64),
        np.where([field.name in wanted for field in fields], outputs, -1).astype(np.int64),
        np.array([field.null_branch for field in fields], np.int64),
        np.array([field.node for field in fields], np.int64),
    )


def _arrays(place: Place, fields: Sequence[AvroField], ranges: Numbers) -> list[pa.Array]:
    return [
        field.build(place, ranges[2 * index], ranges[2 * index + 1])
        for index, field in enumerate(fields)
    ]


def _rows_at(place: Place, fields: Sequence[AvroField], positions: Numbers) -> list[pa.Array]:
    """Return the fields of the records at these positions.

    At a position -1, where the enclosing record is null, all fields are null. The arrays are as
    long as `positions`, so a struct has an item for each of its nulls, as Arrow requires.
    """
    steps = _steps(fields, frozenset(field.name for field in fields))
    ranges = decode_at(place.data, positions, steps, place.nodes, len(fields))
    if ranges is None:
        place.fail("values that do not decode")
    return _arrays(place, fields, ranges)


class _Fields:
    """Walks a schema.

    One walk gives each field its Arrow type and, in `nodes`, the node to step over it. depth: how many
    records, arrays and maps enclose a field; it is limited, because a named record may contain itself.
    """

    def __init__(self, nodes: AvroNodes, subject: str) -> None:
        self._nodes = nodes
        self._subject = subject

    def of_record(self, record: Any, depth: int) -> tuple[AvroField, ...]:
        fields = record.get("fields") if isinstance(record, dict) else None
        if not isinstance(fields, list) or not all(isinstance(f, dict) for f in fields):
            self._nodes.fail(f"{str(record)[:80]!r} in place of a record")
        return tuple(self.field(str(f.get("name")), f.get("type"), depth) for f in fields)

    def field(self, name: str, kind: Any, depth: int) -> AvroField:
        if depth > MAX_NESTED:
            self._nodes.fail("a schema nested too deeply")
        annotated, null_branch = without_null(kind)
        core, _ = self._nodes.unwrap(annotated)
        node = self._nodes.add(annotated)
        root = str(core.get("type") if isinstance(core, dict) else core)
        notes = annotated if isinstance(annotated, dict) else {}
        logical = str(notes.get("logicalType", ""))
        if root in _NESTED:
            arrow, build = _NESTED[root](self, core, depth + 1)
            return AvroField(name, arrow, STEP_NODE, null_branch, node, build)
        if (root, logical) in _NUMBERS or root in ("int", "long"):
            arrow = _NUMBERS.get((root, logical), _NUMBERS[root, ""])
            build = partial(_numbers, arrow)
            return AvroField(name, arrow, STEP_INT, null_branch, node, build)
        if logical == "decimal" and root in ("bytes", "fixed"):
            arrow = self._decimal(name, notes)
            step = STEP_BYTES if root == "bytes" else STEP_NODE
            return AvroField(name, arrow, step, null_branch, node, partial(_decimals, arrow))
        if root not in _PLAIN:
            raise UnsupportedError(
                f"field {name!r} of {self._subject}",
                found=f"values of the Avro type {str(annotated)[:200]}",
                expected="a type as Paimon writes it, nullable at most",
                action="Read the table with another client.",
            )
        arrow, step, build = _PLAIN[root]
        return AvroField(name, arrow, step, null_branch, node, build)

    def _decimal(self, name: str, notes: dict[str, Any]) -> pa.DataType:
        precision, scale = notes.get("precision"), notes.get("scale", 0)
        if (
            not isinstance(precision, int)
            or not isinstance(scale, int)
            or not 1 <= precision <= _MAX_DIGITS
            or not 0 <= scale <= precision
        ):
            self._nodes.fail(f"the field {name!r}, a decimal of {precision} digits, scale {scale}")
        return pa.decimal128(precision, scale)

    def record(self, core: Any, depth: int) -> tuple[pa.DataType, Build]:
        fields = self.of_record(core, depth)
        arrow = pa.struct([pa.field(field.name, field.arrow) for field in fields])
        return arrow, partial(_structs, arrow, fields)

    def array(self, core: Any, depth: int) -> tuple[pa.DataType, Build]:
        """Return type and builder of an array. The items are records of one field "element"; `whole` is
        the node that steps over an item, which `find_items` needs to find the next.
        """
        item = self.field("element", core.get("items"), depth)
        arrow = pa.list_(pa.field("element", item.arrow))
        whole = self._nodes.add(core.get("items"))
        return arrow, partial(_lists, arrow, (item,), whole)

    def map(self, core: Any, depth: int) -> tuple[pa.DataType, Build]:
        """Return type and builder of a map. An entry is a record of key and value. `find_items` steps over
        the key on its own, so `whole` is the value's node.
        """
        key = self.field("key", "string", depth)
        value = self.field("value", core.get("values"), depth)
        arrow = pa.map_(pa.field("key", key.arrow, nullable=False), pa.field("value", value.arrow))
        whole = self._nodes.add(core.get("values"))
        return arrow, partial(_lists, arrow, (key, value), whole)


_NESTED: Final[dict[str, Callable[[_Fields, Any, int], tuple[pa.DataType, Build]]]] = {
    "record": _Fields.record,
    "array": _Fields.array,
    "map": _Fields.map,
}


# Ranges → arrays


def _numbers(arrow: pa.DataType, place: Place, low: Numbers, high: Numbers) -> pa.Array:
    values = low
    if arrow.bit_width == 32:
        values = low.astype(np.int32)
        if not np.array_equal(values, low):
            place.fail("an int of more than 32 bits")
    buffers = [bitmap(high != 0), pa.py_buffer(np.ascontiguousarray(values))]
    return pa.Array.from_buffers(arrow, len(low), buffers)


def _fixed_width(place: Place, low: Numbers, width: int) -> npt.NDArray[np.uint8]:
    """Return uint8[n, width]: zeros where there is no value."""
    values = np.zeros((len(low), width), np.uint8)
    there = np.flatnonzero(low >= 0)
    values[there] = place.data[low[there, None] + np.arange(width)]
    return values


def _floats(arrow: pa.DataType, place: Place, low: Numbers, high: Numbers) -> pa.Array:
    """Copy the bytes of floats, which are those of Arrow."""
    values = _fixed_width(place, low, arrow.bit_width // 8)
    return pa.Array.from_buffers(arrow, len(low), [bitmap(low >= 0), pa.py_buffer(values)])


def _booleans(place: Place, low: Numbers, high: Numbers) -> pa.Array:
    values = _fixed_width(place, low, 1)[:, 0]
    if np.any(values > 1):
        place.fail("a boolean that is neither 0 nor 1")
    return pa.array(values.astype(np.bool_), mask=low < 0)


def _bytes(arrow: pa.DataType, place: Place, low: Numbers, high: Numbers) -> pa.Array:
    offsets, data = gather_bytes(place.data, low, high)
    if offsets[-1] > _MAX_BYTES:
        place.fail(f"{offsets[-1]} bytes in the texts of one batch")
    buffers = [bitmap(low >= 0), pa.py_buffer(offsets.astype(np.int32)), pa.py_buffer(data)]
    array = pa.Array.from_buffers(arrow, len(low), buffers)
    array.validate(full=True)  # UTF-8: a wrong text raises ArrowInvalid here, not where it is used
    return array


def _decimals(arrow: pa.DataType, place: Place, low: Numbers, high: Numbers) -> pa.Array:
    """Convert big-endian two's complement of at most 16 bytes to Arrow's 16 little-endian bytes:
    byte i of a value is the i-th from its end, or 00 or FF, by its sign, where the value has no
    more bytes.

        80 00       ->  00 80 ff ff .. ff       -32768
    """
    sizes = high - low
    data = place.data if len(place.data) else np.zeros(1, np.uint8)
    is_negative = (sizes > 0) & (data[np.maximum(low, 0)] >= 0x80)
    fill = np.where(is_negative, 0xFF, 0).astype(np.uint8)
    if np.any(sizes > _DECIMAL_BYTES):
        place.fail(f"a decimal of {sizes.max()} bytes")
    values = np.empty((len(low), _DECIMAL_BYTES), np.uint8)
    for index in range(_DECIMAL_BYTES):
        has_byte = sizes > index
        values[:, index] = np.where(has_byte, data[np.where(has_byte, high - 1 - index, 0)], fill)
    array = pa.Array.from_buffers(arrow, len(low), [bitmap(low >= 0), pa.py_buffer(values)])
    array.validate(full=True)  # digits
    return array


def _structs(
    arrow: pa.DataType, fields: Sequence[AvroField], place: Place, low: Numbers, high: Numbers
) -> pa.Array:
    children = _rows_at(place, fields, low)
    return pa.Array.from_buffers(arrow, len(low), [bitmap(low >= 0)], children=children)


def _lists(
    arrow: pa.DataType,
    fields: Sequence[AvroField],
    item: int,
    place: Place,
    low: Numbers,
    high: Numbers,
) -> pa.Array:
    """Return lists of one field's values, or maps of two fields' values."""
    is_map = len(fields) > 1
    items = find_items(place.data, low, item, place.nodes, is_map=is_map)
    if items is None:
        place.fail("an array that does not decode")
    counts, positions = items
    offsets = np.zeros(len(low) + 1, np.int32)
    np.cumsum(counts, out=offsets[1:])
    children = _rows_at(place, fields, frozen(positions))
    if is_map:
        entries = [arrow.key_field, arrow.item_field]
        children = [pa.StructArray.from_arrays(children, fields=entries)]
    return pa.Array.from_buffers(
        arrow, len(low), [bitmap(low >= 0), pa.py_buffer(offsets)], children=children
    )


_PLAIN: Final[dict[str, tuple[pa.DataType, int, Build]]] = {
    "boolean": (pa.bool_(), STEP_NODE, _booleans),
    "float": (pa.float32(), STEP_NODE, partial(_floats, pa.float32())),
    "double": (pa.float64(), STEP_NODE, partial(_floats, pa.float64())),
    "string": (pa.string(), STEP_BYTES, partial(_bytes, pa.string())),
    "bytes": (pa.binary(), STEP_BYTES, partial(_bytes, pa.binary())),
    "fixed": (pa.binary(), STEP_NODE, partial(_bytes, pa.binary())),
}
