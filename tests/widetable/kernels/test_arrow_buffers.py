"""Arrow columns as numpy arrays: nobody can write through them, so that kernels see one array type per parameter."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from widetable.kernels.arrow_buffers import bitmap, bool_values, bytes_view, fixed_values, validity

OFFSETS = np.array([0, 1, 3], np.int32)


def over_writable_buffers(kind: pa.DataType, *values: bytes) -> pa.Array:
    """Two rows, a null and a value, of buffers that Arrow does not protect: those that it computes are such."""
    buffers = [pa.py_buffer(bytearray(value)) for value in (b"\x02", *values)]
    assert all(buffer.is_mutable for buffer in buffers)
    return pa.Array.from_buffers(kind, 2, buffers, null_count=1)


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        (pa.int64(), [bytes(16)]),
        (pa.string(), [OFFSETS.tobytes(), b"abc"]),
        (pa.large_binary(), [OFFSETS.astype(np.int64).tobytes(), b"abc"]),
        (pa.binary(3), [b"abcdef"]),
        (pa.bool_(), [b"\x01"]),
    ],
    ids=["int64", "string", "large binary", "binary of 3", "bool"],
)
def test_a_view_of_a_buffer_that_may_be_written_is_read_only(
    kind: pa.DataType, values: list[bytes]
) -> None:
    array = over_writable_buffers(kind, *values)
    if kind == pa.int64():
        views = [fixed_values(array, np.int64)]
    elif kind == pa.bool_():
        views = [bool_values(array)]
    else:
        views = [*bytes_view(array)]
    valid = validity(array)
    assert valid is not None
    assert valid.tolist() == [False, True]
    assert not [view for view in (*views, valid) if view.flags.writeable]
    with pytest.raises(ValueError, match="read-only"):
        views[0][0] = 1


def test_a_bitmap_is_the_inverse_of_validity() -> None:
    for given in ([1, None, 3] * 5, [1, 2], [None], []):
        array = pa.array(given, pa.int64())
        valid = array.is_valid().to_numpy(zero_copy_only=False)
        for found in (bitmap(validity(array)), bitmap(valid), bitmap(valid.astype(np.uint8))):
            assert (found is None) == (array.null_count == 0)
            buffers = [found, array.buffers()[1]]
            assert pa.Array.from_buffers(pa.int64(), len(array), buffers).to_pylist() == given
