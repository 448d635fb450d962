"""The bytes of each row of a column, and whether the texts of chosen rows fit into one array.

    [["ab", "c"], null, ["d"]]      texts alone 3 0 1, all 15 4 9: each list and each text has an offset of 4 bytes
    {a: "xy", b: 7}                 texts alone 2, all 14 for a 64-bit 7

An array holds 2 GiB of texts, because its offsets have 32 bits. The limit is per array: where several columns are taken
each has its own. Views and 64-bit offsets have none. Older versions of Arrow than 26 overflow silently (observed with
25.0.1): 300 rows of 8 MiB get negative offsets, 600 of them wrong ones that look valid. Pure. In: an array, rows of it,
-1 for none. Raises pyarrow.ArrowInvalid, as Arrow 26 does.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from widetable.kernels.arrow_buffers import ArrowArray, ArrowColumn, chunks_of

Widths = npt.NDArray[np.int64]

_OFFSET_BYTES: Final = 4
_SAYS_SO: Final = 26
_ARROW: Final = int(pa.__version__.split(".")[0])
_MAX_BYTES: Final = (1 << 31) - 1


def check_capacity(
    column: ArrowColumn, indices: npt.NDArray[np.int64], arrow: int = _ARROW
) -> None:
    """Raise when the texts of the chosen rows do not fit. arrow: the major version of pyarrow. The texts of all parts
    of nested values count together.

    In most calls a bound makes adding up unnecessary: every chosen row could have all bytes
    of the column.
    """
    if arrow >= _SAYS_SO or not len(indices) or not _has_text(column.type):
        return
    if column.get_total_buffer_size() * len(indices) <= _MAX_BYTES:
        return  # any choice fits
    sizes = np.concatenate([row_widths(chunk, texts_only=True) for chunk in chunks_of(column)])
    if int(sizes[indices[indices >= 0]].sum()) > _MAX_BYTES:
        raise pa.ArrowInvalid("Take operation overflowed binary array capacity")


def check_capacity_of_rows(
    rows: pa.RecordBatch | pa.Table, indices: npt.NDArray[np.int64], arrow: int = _ARROW
) -> None:
    """Raise when the texts of the chosen rows do not fit in some column."""
    if arrow < _SAYS_SO:
        for column in rows.columns:
            check_capacity(column, indices, arrow)


def _has_text(kind: pa.DataType) -> bool:
    if pa.types.is_string(kind) or pa.types.is_binary(kind):
        return True
    return any(_has_text(kind.field(number).type) for number in range(kind.num_fields))


def varies(kind: pa.DataType) -> bool:
    """Return whether values of a type differ in their size. Types of one size have a `bit_width`."""
    try:
        return not kind.bit_width
    except ValueError:
        return True


def row_widths(array: ArrowArray, *, texts_only: bool = False) -> Widths:
    """Return int64[n], without validity. array: of a table's own types. texts_only: without numbers and offsets."""
    kind, none = array.type, np.zeros(len(array), np.int64)
    offset_bytes = 0 if texts_only else _OFFSET_BYTES
    if not len(array):
        return none
    if pa.types.is_string(kind) or pa.types.is_binary(kind):
        return np.diff(_offsets(array)) + offset_bytes
    if pa.types.is_struct(kind):
        fields = (array.field(number) for number in range(kind.num_fields))
        return sum((row_widths(field, texts_only=texts_only) for field in fields), none)
    if pa.types.is_list(kind) or pa.types.is_map(kind):
        values = [array.values] if pa.types.is_list(kind) else [array.keys, array.items]
        items = (_items_widths(value, _offsets(array), texts_only=texts_only) for value in values)
        return sum(items, none + offset_bytes)
    return none if texts_only or varies(kind) else none + (kind.bit_width + 7) // 8


def _items_widths(items: ArrowArray, offsets: Widths, *, texts_only: bool) -> Widths:
    """Return the bytes of the items of each list. items: of all lists of the column; those of a slice are some of
    them.
    """
    if not varies(items.type):
        return np.diff(offsets) * (0 if texts_only else (items.type.bit_width + 7) // 8)
    first = int(offsets[0])
    widths = row_widths(items.slice(first, int(offsets[-1]) - first), texts_only=texts_only)
    # The bytes before each item, so that the bytes of a list are the difference of two of them.
    before = np.append(0, np.cumsum(widths))
    return np.diff(before[offsets - first])


def _offsets(array: ArrowArray) -> Widths:
    offsets = np.frombuffer(array.buffers()[1], np.int32)
    return offsets[array.offset : array.offset + len(array) + 1].astype(np.int64)
