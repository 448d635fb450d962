"""Store TIMESTAMP(7) to (9) as Parquet's int96, which all versions of Paimon read correctly.

On disk: never change (Paimon `ParquetSchemaConverter`, `TimestampColumnReader`; format.md section 7):

    int96  = nanos day              little-endian, 8 and 4 bytes
    nanos  = nanoseconds since midnight
    day    = Julian day number; 1970-01-01 is 2440588

Arrow writes either all timestamps of a file as int96 or none. We pass fixed-size binaries of 12 bytes, which have the
same bytes in pages as int96; then the footer is changed to say int96 (`marked_tail`). Binaries of the
table's own types never have a fixed size, and decimals have a logical type, so no other column looks like that.

Pure. Raises ValueError for bytes that are no footer.

Three nanosecond timestamps as they are stored:

    1970-01-01 00:00                    00 00 00 00 00 00 00 00  8c 3d 25 00     day 2440588
    1970-01-01 00:00 less 1 ns          ff ff 4e 91 94 4e 00 00  8b 3d 25 00     the day before
    1970-01-02 00:00                    00 00 00 00 00 00 00 00  8d 3d 25 00

The order of values is not that of their bytes, so such columns have no minima and maxima in the
file (`parquet_layout.statistics_columns`), and key columns of this type do not bound row groups.

The steps of a writer: `stored_field` for the schema, `stored_column` for each row group,
`marked_tail` for the footer, then the seal.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np
import pyarrow as pa

from widetable.format.thrift_compact import Struct, read_struct
from widetable.kernels.arrow_buffers import bitmap, fixed_values, validity

INT96_BYTES: Final = 12
_STORED: Final = pa.binary(INT96_BYTES)
_DAY_NANOS: Final = 86_400_000_000_000
_EPOCH_JULIAN_DAY: Final = 2_440_588
_VALUE: Final = np.dtype([("nanos", "<i8"), ("day", "<i4")])

# Field numbers of parquet.thrift.
_SCHEMA, _ROW_GROUPS = 2, 4  # of FileMetaData
_TYPE, _TYPE_LENGTH, _CHILDREN, _CONVERTED_TYPE, _LOGICAL_TYPE = 1, 2, 5, 6, 10  # SchemaElement
_COLUMNS, _META_DATA = 1, 3  # of RowGroup, of ColumnChunk; the type of a ColumnMetaData is _TYPE
_INT96: Final = 3
_FIXED: Final = 7


def stored_field(field: pa.Field) -> pa.Field:
    """Return the field for Arrow's writer."""
    return field.with_type(_stored_type(field.type))


def stored_column(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return the values of a column for Arrow's writer."""
    kind = _stored_type(column.type)
    return pa.chunked_array([_stored(chunk) for chunk in column.chunks], kind)


def leaf_paths(field: pa.Field) -> Iterator[tuple[str, bool]]:
    """Yield (path of a leaf in Parquet, whether it is an int96) for a stored field.

    The paths are those of Arrow's writer, which takes them to choose columns with statistics:

        m MAP<STRING, ARRAY<TIMESTAMP(9)>>      m.key_value.key                       False
                                                m.key_value.value.list.element        True
    """
    for path, kind in _leaves(field.name, field.type):
        yield path, kind == _STORED


def _leaves(path: str, kind: pa.DataType) -> Iterator[tuple[str, pa.DataType]]:
    if pa.types.is_struct(kind):
        for part in kind:
            yield from _leaves(f"{path}.{part.name}", part.type)
    elif pa.types.is_list(kind):
        yield from _leaves(f"{path}.list.{kind.value_field.name}", kind.value_type)
    elif pa.types.is_map(kind):
        yield from _leaves(f"{path}.key_value.key", kind.key_type)
        yield from _leaves(f"{path}.key_value.value", kind.item_type)
    else:
        yield path, kind


def _stored_type(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_timestamp(kind) and kind.unit == "ns":
        return _STORED
    if pa.types.is_struct(kind):
        return pa.struct([stored_field(part) for part in kind])
    if pa.types.is_list(kind):
        return pa.list_(stored_field(kind.value_field))
    if pa.types.is_map(kind):
        return pa.map_(stored_field(kind.key_field), stored_field(kind.item_field))
    return kind


def _stored(array: pa.Array) -> pa.Array:
    kind = _stored_type(array.type)
    if kind == array.type:
        return array
    if kind == _STORED:
        return _int96_values(array)
    nulls = array.is_null()
    if pa.types.is_struct(kind):
        parts = [_stored(array.field(index)) for index in range(kind.num_fields)]
        return pa.StructArray.from_arrays(parts, fields=list(kind), mask=nulls)
    # Offsets are copied, because sliced offsets do not accept a mask.
    offsets = pa.array(array.offsets.to_numpy(zero_copy_only=False).copy(), pa.int32())
    if pa.types.is_list(kind):
        return pa.ListArray.from_arrays(offsets, _stored(array.values), type=kind, mask=nulls)
    keys, items = _stored(array.keys), _stored(array.items)
    return pa.MapArray.from_arrays(offsets, keys, items, type=kind, mask=nulls)


def _int96_values(array: pa.Array) -> pa.Array:
    """Return the stored form of timestamps. Days are rounded down, so that times before 1970 have a positive part of
    their day, as Java reads them.
    """
    days, nanos = np.divmod(fixed_values(array, np.int64), _DAY_NANOS)
    values = np.empty(len(array), _VALUE)
    values["nanos"], values["day"] = nanos, days + _EPOCH_JULIAN_DAY
    buffers = [bitmap(validity(array)), pa.py_buffer(values)]
    return pa.Array.from_buffers(_STORED, len(array), buffers)


def marked_tail(tail: bytes) -> bytes:
    """Return the end of a file, from its footer on, in which every fixed-size binary of 12 bytes without a logical type
    has become an int96.

    Two places have a column's type: the schema, and each of its column chunks. Both are one
    byte, because the zigzag of a number below 64 takes one, and 7 (fixed) becomes 3 (int96) in
    place: no length and no position changes. The length of the type stays in the schema;
    readers of int96 ignore it. Leaves are counted like in Parquet, without the groups
    around them, so that a leaf's number is the number of its column chunk in every row group.
    """
    metadata, marked = read_struct(tail), bytearray(tail)
    leaves = [element for element in metadata[_SCHEMA] if _CHILDREN not in element]
    chosen = [index for index, leaf in enumerate(leaves) if _is_stored_leaf(leaf)]
    types = [leaves[index][_TYPE] for index in chosen]
    for group in metadata[_ROW_GROUPS]:
        types += [group[_COLUMNS][index][_META_DATA][_TYPE] for index in chosen]
    for number in types:
        marked[number.position] = _zigzag(_INT96)
    return bytes(marked)


def _is_stored_leaf(leaf: Struct) -> bool:
    if _CONVERTED_TYPE in leaf or _LOGICAL_TYPE in leaf or leaf[_TYPE].value != _FIXED:
        return False
    return bool(leaf[_TYPE_LENGTH].value == INT96_BYTES)


def _zigzag(number: int) -> int:
    """Return the one byte of a small number."""
    return 2 * number
