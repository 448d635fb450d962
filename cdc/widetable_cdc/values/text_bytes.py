"""Arrays of texts as kernels see them: bytes and offsets."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc


class TextBytes(NamedTuple):
    """Text i of n is data[offsets[i] : offsets[i + 1]]. offsets: int64[n + 1]. is_null: bool[n]. All are read-only."""

    data: npt.NDArray[np.uint8]
    offsets: npt.NDArray[np.int64]
    is_null: npt.NDArray[np.bool_]


def text_bytes(texts: pa.Array) -> TextBytes:
    """View a large_string array, which may be a slice."""
    _, offsets_buffer, data_buffer = texts.buffers()
    data = np.frombuffer(data_buffer or b"", np.uint8)
    offsets = np.zeros(1, np.int64)
    if len(texts):
        offsets = np.frombuffer(offsets_buffer, np.int64, len(texts) + 1, texts.offset * 8)
    is_null = pc.is_null(texts).to_numpy(zero_copy_only=False)
    for array in (data, offsets, is_null):
        array.flags.writeable = False
    return TextBytes(data, offsets, is_null)
