"""Convert Arrow columns to numpy arrays, without copies where the bytes already have the right form.

Every view respects the array's offset and is read-only; kernels get one array type per parameter,
so each of them is compiled once. Values at a null are undefined. Hosts must be little-endian, as
Arrow buffers are.
"""

from __future__ import annotations

import sys
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

ArrowArray: TypeAlias = pa.Array
ArrowColumn: TypeAlias = pa.Array | pa.ChunkedArray

if sys.byteorder != "little":  # pragma: no cover
    raise ImportError(
        "widetable.kernels: found a big-endian host, expected a little-endian one; use another machine"
    )


class BytesView(NamedTuple):
    """Strings or binaries: value i is data[offsets[i] : offsets[i + 1]]; the first offset may be above 0."""

    data: npt.NDArray[np.uint8]
    offsets: npt.NDArray[np.int64]


def chunks_of(column: ArrowColumn) -> list[ArrowArray]:
    """Return the non-empty arrays of a column, in order."""
    arrays = column.chunks if isinstance(column, pa.ChunkedArray) else [column]
    return [array for array in arrays if len(array)]


def one_array(column: ArrowColumn) -> ArrowArray:
    """Return the column as one array; copy only when it has several non-empty chunks."""
    if not isinstance(column, pa.ChunkedArray):
        return column
    chunks = chunks_of(column)
    if not chunks:
        return pa.array([], type=column.type)
    if len(chunks) == 1:
        return chunks[0]
    if pa.types.is_dictionary(column.type):
        chunks = chunks_of(column.unify_dictionaries())
    return pa.concat_arrays(chunks)


def fixed_values(array: ArrowArray, dtype: npt.DTypeLike) -> npt.NDArray[Any]:
    """View the value buffer of a fixed-width array (except booleans) as `dtype`, whose size divides the
    width of a value.

    A value wider than `dtype` gives several items: decimal128 as int64 is low word, high word, low
    word, ...

        decimal128(20, 0) of 1      as int64: 1, 0

    Raises ValueError for a buffer that is shorter than the array says.
    """
    dtype = np.dtype(dtype)
    buffer = array.buffers()[1]
    items = (array.type.bit_width // 8) // dtype.itemsize
    if buffer is None or not len(array):
        return frozen(np.empty(0, dtype))
    return buffer_view(buffer, dtype, len(array) * items, array.offset * items * dtype.itemsize)


def buffer_view(
    buffer: pa.Buffer, dtype: npt.DTypeLike, count: int = -1, offset: int = 0
) -> npt.NDArray[Any]:
    """View `count` items, or all, from byte `offset` on. The view is read-only, even where Arrow's buffer is not.
    Raises ValueError for a buffer that is shorter.
    """
    return frozen(np.frombuffer(buffer, dtype, count, offset))


def frozen(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Make the array read-only and return it. All arguments of kernels are read-only, so that these compile once."""
    array.flags.writeable = False
    return array


def number_type(kind: pa.DataType) -> np.dtype[Any]:
    """Return numpy's type of a signed integer or float of Arrow, without pandas, which Arrow's own function imports."""
    return np.dtype(f"{'f' if pa.types.is_floating(kind) else 'i'}{kind.bit_width // 8}")


def bool_values(array: ArrowArray) -> npt.NDArray[np.bool_]:
    """Return the values of a boolean array, one byte each."""
    return _bits(array.buffers()[1], array.offset, len(array))


def validity(array: ArrowArray) -> npt.NDArray[np.bool_] | None:
    """Return bool[n], true where the array has a value; None when it has no nulls."""
    if array.null_count == 0:
        return None
    if pa.types.is_null(array.type):
        return frozen(np.zeros(len(array), np.bool_))
    return _bits(array.buffers()[0], array.offset, len(array))


def valid_of(array: ArrowArray) -> npt.NDArray[np.bool_]:
    """Return bool[n], true where the array has a value."""
    valid = validity(array)
    return frozen(np.ones(len(array), np.bool_)) if valid is None else valid


def bitmap(valid: npt.NDArray[Any] | None) -> pa.Buffer | None:
    """Return the validity bitmap of an array without offset; None when all are valid. valid: booleans or bytes."""
    if valid is None or valid.all():
        return None
    return pa.py_buffer(np.packbits(valid, bitorder="little"))


def time_millis(array: ArrowArray) -> npt.NDArray[np.int32]:
    """Return the millisecond of the day of a time32 or time64 array; finer digits are cut off."""
    unit = array.type.unit
    if unit == "ms":
        return fixed_values(array, np.int32)
    if unit == "s":
        return fixed_values(array, np.int32) * np.int32(1000)
    return (fixed_values(array, np.int64) // (1_000 if unit == "us" else 1_000_000)).astype(
        np.int32
    )


def is_bytes(kind: pa.DataType) -> bool:
    """Whether `bytes_view` takes arrays of this type."""
    types = pa.types
    is_string = types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind)
    is_binary = types.is_binary(kind) or types.is_large_binary(kind) or types.is_binary_view(kind)
    return bool(is_string or is_binary or types.is_fixed_size_binary(kind))


def bytes_view(array: ArrowArray) -> BytesView:
    """Return the bytes of a string, binary (32- or 64-bit offsets, or views) or fixed-size binary
    array.

        ["ab", "", "cde"], the last two      data "abcde", offsets 2 2 5

    `data` is the whole buffer, even of a slice; nothing is copied, except views, which
    become one buffer.
    """
    kind = array.type
    if pa.types.is_fixed_size_binary(kind):
        # Offsets count from the start of the buffer, which is aligned, not of the array.
        offsets = (
            np.arange(array.offset, array.offset + len(array) + 1, dtype=np.int64) * kind.byte_width
        )
        buffer = array.buffers()[1]
        return BytesView(buffer_view(buffer, np.uint8) if buffer else _NO_BYTES, frozen(offsets))
    if pa.types.is_string_view(kind) or pa.types.is_binary_view(kind):
        array = array.cast(
            pa.large_string() if pa.types.is_string_view(kind) else pa.large_binary()
        )
        kind = array.type
    if not len(array):
        return BytesView(_NO_BYTES, frozen(np.zeros(1, np.int64)))
    wide = pa.types.is_large_string(kind) or pa.types.is_large_binary(kind)
    _, offset_buffer, data_buffer = array.buffers()
    dtype = np.dtype(np.int64 if wide else np.int32)
    offsets = buffer_view(offset_buffer, dtype, len(array) + 1, array.offset * dtype.itemsize)
    data = (
        buffer_view(data_buffer, np.uint8)
        if data_buffer is not None and data_buffer.size
        else _NO_BYTES
    )
    return BytesView(data, offsets if wide else frozen(offsets.astype(np.int64)))


def as_words(data: npt.NDArray[np.uint8]) -> tuple[npt.NDArray[np.uint64], np.uint64]:
    """Return bytes as 64-bit words, and the rest as one word filled with zeros; no copy if aligned.

    9 bytes are one word and a rest whose low byte is the ninth. Kernels read eight
    bytes at once and must not read past the end.
    """
    if data.ctypes.data % 8:
        data = frozen(data.copy())
    whole = len(data) // 8 * 8
    return data[:whole].view(np.uint64), np.uint64(int.from_bytes(data[whole:].tobytes(), "little"))


def _bits(buffer: pa.Buffer, offset: int, length: int) -> npt.NDArray[np.bool_]:
    if not length:
        return frozen(np.empty(0, np.bool_))
    start = offset // 8
    packed = buffer_view(buffer, np.uint8, (offset + length + 7) // 8 - start, start)
    skip = offset - start * 8
    return frozen(
        np.unpackbits(packed, count=skip + length, bitorder="little")[skip:].view(np.bool_)
    )


_NO_BYTES: npt.NDArray[np.uint8] = frozen(np.empty(0, np.uint8))
