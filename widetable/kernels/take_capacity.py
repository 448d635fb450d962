"""Check whether the texts of chosen rows fit into one array, whose 32-bit offsets hold 2 GiB, as Arrow does from 26 on.

Older versions overflow silently (observed with 25.0.1): 300 rows of 8 MiB get negative offsets, 600 of them wrong ones
that look valid. In: an array, rows of it, -1 for none. Raises pyarrow.ArrowInvalid, as Arrow 26 does.

The limit is per array: where several columns are taken each has its own. Views and 64-bit
offsets have none.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from widetable.kernels.arrow_buffers import ArrowArray, ArrowColumn, chunks_of

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
    sizes = np.concatenate([_text_bytes(chunk) for chunk in chunks_of(column)])
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


def _text_bytes(array: ArrowArray) -> npt.NDArray[np.int64]:
    """Return the bytes of the texts in each row.

    [["ab", "c"], null, ["d"]]      3 0 1
    {a: "xy", b: "z"}               3
    """
    kind, none = array.type, np.zeros(len(array), np.int64)
    if not len(array):
        return none
    if pa.types.is_string(kind) or pa.types.is_binary(kind):
        return _between(_offsets(array))
    if pa.types.is_struct(kind):
        parts = [_text_bytes(array.field(number)) for number in range(kind.num_fields)]
        return sum(parts, none)
    if pa.types.is_list(kind) or pa.types.is_map(kind):
        values = [array.values] if pa.types.is_list(kind) else [array.keys, array.items]
        parts = [_text_bytes(value) for value in values]
        # The bytes before each item, so that the bytes of a list are the difference of two of them.
        sums = np.append(0, np.cumsum(sum(parts[1:], parts[0])))
        return _between(sums[_offsets(array)])
    return none


def _offsets(array: ArrowArray) -> npt.NDArray[np.int64]:
    offsets = np.frombuffer(array.buffers()[1], np.int32)
    return offsets[array.offset : array.offset + len(array) + 1].astype(np.int64)


def _between(ends: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    return ends[1:] - ends[:-1]
