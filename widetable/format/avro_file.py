"""The Avro files of manifests and manifest lists, written whole and read into one list per field.

The format is that of avro_container; the codec is Paimon's `manifest.compression`. fastavro writes the files with the
codec zstandard. This module reads them, because manifests are long and all their records are needed. Logical types are
not applied: a timestamp stays a long. All damage raises DamagedError naming the subject, another codec
UnsupportedError.

The kernel decodes each field into ranges (`kernels.avro_records`), which become Python
values, field by field: a manifest of 100,000 entries makes no dictionary per record. Where a
field has the same bytes as in the record before, as partitions, buckets and schema ids mostly
have, the ranges are equal, and the value is made once.

    bytes of a field    p1   p1   p1   p2   p2      starts    0 3
    values made         p1             p2           repeated  3 2
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable
from itertools import chain, repeat
from typing import Any, Final, TypeAlias

import fastavro
import numpy as np

from widetable.format.avro_container import SYNC_BYTES, AvroCursor, AvroHeader, read_header
from widetable.format.avro_nodes import Schema, avro_damage
from widetable.format.avro_plans import column_plan
from widetable.format.avro_schema import AvroLeaf
from widetable.kernels.avro_records import Numbers, decode_records

Record: TypeAlias = dict[str, Any]
Columns: TypeAlias = dict[str, list[Any]]

_BLOCK_BYTES: Final = 1 << 20
# To look for runs of equal ranges costs more than to make the values of so few.
_FEW_RECORDS: Final = 16


def write_avro(schema: Schema, records: Iterable[Record]) -> bytes:
    """Return a whole container file. records: dictionaries by field name, with the right types (not checked).

    A dictionary with a missing or wrong value makes fastavro raise one of its errors: records come
    from our own code only. The sync mark is random, so equal records do not give equal bytes.
    """
    out = io.BytesIO()
    fastavro.writer(out, schema, records, codec="zstandard", sync_interval=_BLOCK_BYTES)
    return out.getvalue()


def read_avro(data: bytes, expected: Schema, subject: str) -> Columns:
    """Return the fields of all records, by path ("_FILE._KEY_STATS._MIN_VALUES"), each a list in record order.

    Values are int, bytes, str, and tuples of these for arrays; None for null, and for fields that the file lacks.
    expected: the schema that we write, see `avro_schema`. subject: the file's path, for messages.

    Values are shared between records and must not be changed; they are immutable. Record arrays
    come as tuples of tuples in the order of the file's fields, which may lack the last ones.
    """
    header, records, payload = _plain_blocks(data, subject)
    plan = column_plan(header, expected, subject)
    # Each requested field takes a byte at least: memory is not allocated for more records.
    if records * plan.outputs > len(payload):
        raise avro_damage(subject, f"{records} records in {len(payload)} bytes")
    data_array = np.frombuffer(payload, np.uint8)
    ranges = decode_records(data_array, records, plan.steps, plan.nodes, plan.outputs)
    if ranges is None:
        raise avro_damage(subject, "records that do not decode")
    reader = _ColumnReader(payload, subject)
    columns = {}
    for leaf in plan.leaves:
        if leaf.output is None:
            columns[leaf.path] = [None] * records
        else:
            low, high = ranges[2 * leaf.output], ranges[2 * leaf.output + 1]
            columns[leaf.path] = reader.column(leaf, low, high)
    return columns


def _plain_blocks(data: bytes, subject: str) -> tuple[AvroHeader, int, bytes]:
    """Return (the header, the number of records, all blocks decompressed)."""
    cursor = AvroCursor(data, subject)
    header = read_header(cursor)
    records, blocks = 0, []
    while cursor.at < len(data):
        count, size = cursor.long(), cursor.long()
        block = header.decompress(cursor.take(size), subject)
        # Every record of a manifest starts with a number, so it takes a byte at least.
        if not 0 <= count <= len(block):
            cursor.fail(f"a block of {len(block)} bytes that claims {count} records")
        if cursor.take(SYNC_BYTES) != header.sync:
            cursor.fail(f"another sync mark than the header's before offset {cursor.at}")
        records += count
        blocks.append(block)
    return header, records, b"".join(blocks)


class _ColumnReader:
    """Turns byte ranges of the payload into values. Equal bytes become the same object, and so do equal arrays.

    Most fields of a manifest repeat from one record to the next. Bytes that equal those of the record before get the
    same range from the kernel (avro_records.py), so a value is made once for each run of equal ranges.
    """

    def __init__(self, payload: bytes, subject: str) -> None:
        self._payload = payload
        self._subject = subject
        self._bytes: dict[bytes, bytes] = {}

    def column(self, leaf: AvroLeaf, low: Numbers, high: Numbers) -> list[Any]:
        """Return the values of one leaf; `kernels.avro_records` explains the ranges."""
        if len(low) <= _FEW_RECORDS:
            return self._values(leaf, low.tolist(), high.tolist())
        # Starts of runs of equal ranges. Without records there is none, not even 0.
        changes = np.flatnonzero((low[1:] != low[:-1]) | (high[1:] != high[:-1])) + 1
        starts = np.concatenate([[0], changes])[: len(low)]
        values = self._values(leaf, low[starts].tolist(), high[starts].tolist())
        if len(starts) == len(low):
            return values
        lengths = np.diff(starts, append=len(low)).tolist()
        return list(chain.from_iterable(map(repeat, values, lengths)))

    def _values(self, leaf: AvroLeaf, low: list[int], high: list[int]) -> list[Any]:
        """Return one value per run. low, high: the range of each run."""
        if leaf.kind == "int":
            return [value if there else None for value, there in zip(low, high, strict=True)]
        payload, seen = self._payload, self._bytes
        spans = [
            None if start < 0 else payload[start:end] for start, end in zip(low, high, strict=True)
        ]
        if leaf.kind == "bytes":
            return [None if span is None else seen.setdefault(span, span) for span in spans]
        return self._parsed(spans, _PARSERS[leaf.kind])

    def _parsed(
        self, spans: list[bytes | None], parse: Callable[[bytes, str], object]
    ) -> list[Any]:
        """Parse texts or arrays. Values are cached by their bytes, so equal bytes are parsed once."""
        parsed: dict[bytes | None, object] = {None: None}
        for span in spans:
            if span not in parsed:
                assert span is not None
                parsed[span] = parse(span, self._subject)
        return [parsed[span] for span in spans]


def _text(span: bytes, subject: str) -> str:
    try:
        return span.decode()
    except UnicodeDecodeError as cause:
        raise avro_damage(subject, f"text that is no UTF-8: {cause}") from cause


def _array_of(item: Callable[[AvroCursor], object]) -> Callable[[bytes, str], object]:
    """Return a parser of arrays; the kernel determined the bytes, so the array must end with them."""

    def parse(span: bytes, subject: str) -> tuple[object, ...]:
        cursor = AvroCursor(span, subject)
        items: list[object] = []
        for count in cursor.counts("an array of {} items in {} bytes"):
            items.extend(item(cursor) for _ in range(count))
        if cursor.at != len(span):
            cursor.fail(f"{len(span) - cursor.at} bytes behind the end of an array")
        return tuple(items)

    return parse


def _nullable(item: Callable[[AvroCursor], object]) -> Callable[[AvroCursor], object]:
    """Return a parser of a union of null and another type, null first; `avro_schema` checks the order."""

    def parse(cursor: AvroCursor) -> object:
        branch = cursor.long()
        if branch not in (0, 1):
            cursor.fail(f"the branch {branch} of a union of two")
        return item(cursor) if branch else None

    return parse


def _record(*members: Callable[[AvroCursor], object]) -> Callable[[AvroCursor], object]:
    return lambda cursor: tuple(member(cursor) for member in members)


def _array_text(cursor: AvroCursor) -> str:
    return _text(cursor.take(cursor.long()), cursor.subject)


# Ranges of deletion vectors; older writers did not count their rows.
_RANGE: Final = _record(_array_text, AvroCursor.long, AvroCursor.long)
_COUNTED_RANGE: Final = _record(
    _array_text, AvroCursor.long, AvroCursor.long, _nullable(AvroCursor.long)
)
_RANGE_KIND: Final = "record(f0 string, f1 int, f2 int"

_PARSERS: Final[dict[str, Callable[[bytes, str], object]]] = {
    "string": _text,
    "array of int": _array_of(AvroCursor.long),
    "array of nullable int": _array_of(_nullable(AvroCursor.long)),
    "array of string": _array_of(_array_text),
    f"array of {_RANGE_KIND})": _array_of(_RANGE),
    f"array of nullable {_RANGE_KIND})": _array_of(_nullable(_RANGE)),
    f"array of {_RANGE_KIND}, _CARDINALITY nullable int)": _array_of(_COUNTED_RANGE),
    f"array of nullable {_RANGE_KIND}, _CARDINALITY nullable int)": _array_of(
        _nullable(_COUNTED_RANGE)
    ),
}
