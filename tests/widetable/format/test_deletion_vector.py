"""Deletion vectors: any rows come back, in both widths; the bytes are those of the format; damage is named."""

from __future__ import annotations

import zlib
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from widetable.errors import DamagedError
from widetable.format.deletion_vector import (
    DeletedRows,
    deleted_rows,
    encode_vector,
    recorded_length,
)
from widetable.storage.local import LocalFileIO

ROWS = st.lists(st.integers(0, 2**31 - 1) | st.integers(0, 300), max_size=300, unique=True).map(
    sorted
)


def stored(folder: Path, data: bytes, start: int, length: int, rows: int | None) -> DeletedRows:
    path = folder / "index-0"
    path.write_bytes(data)
    return DeletedRows(str(path), start, length, rows)


@given(ROWS, st.booleans(), st.binary(max_size=9))
def test_any_rows_come_back(
    tmp_path_factory: pytest.TempPathFactory, rows: list[int], wide: bool, before: bytes
) -> None:
    vector = encode_vector(np.array(rows, np.int64), wide=wide)
    folder = tmp_path_factory.mktemp("v")
    place = stored(
        folder, before + vector + b"more", len(before), recorded_length(vector), len(rows)
    )
    assert deleted_rows(LocalFileIO(), place).tolist() == rows


def test_the_bytes_are_those_of_the_format() -> None:
    """The portable Roaring form of {1, 5}: cookie, one container of key 0 with 2 values, its offset, the values."""
    bitmap = bytes.fromhex("3a300000 01000000 0000 0100 10000000 0100 0500".replace(" ", ""))
    body = (1581511376).to_bytes(4, "big") + bitmap
    expected = len(body).to_bytes(4, "big") + body + zlib.crc32(body).to_bytes(4, "big")
    assert encode_vector(np.array([1, 5], np.int64)) == expected
    assert recorded_length(expected) == len(body)


@pytest.mark.parametrize("wide", [False, True])
def test_every_wrong_bit_is_named(tmp_path: Path, wide: bool) -> None:
    rows = [1, 5, 70_000]
    vector = encode_vector(np.array(rows, np.int64), wide=wide)
    for bit in range(8 * len(vector)):
        wrong = bytearray(vector)
        wrong[bit // 8] ^= 1 << bit % 8
        place = stored(tmp_path, bytes(wrong), 0, recorded_length(vector), len(rows))
        with pytest.raises(DamagedError, match="index-0"):
            deleted_rows(LocalFileIO(), place)


@pytest.mark.parametrize("end", range(24))
def test_a_file_that_ends_too_early_is_named(tmp_path: Path, end: int) -> None:
    vector = encode_vector(np.array([1, 5], np.int64))
    place = stored(tmp_path, vector[:end], 0, recorded_length(vector), 2)
    with pytest.raises(DamagedError, match="index-0"):
        deleted_rows(LocalFileIO(), place)


@pytest.mark.parametrize("start", [-5, -(2**31), 1, 23, 24, 25, 1000, 2**31 - 1])
@pytest.mark.parametrize("data", [b"", b"\x01", encode_vector(np.array([1, 5], np.int64))], ids=len)
def test_a_place_where_no_vector_is_is_named(tmp_path: Path, data: bytes, start: int) -> None:
    place = stored(tmp_path, data, start, 16, 2)
    with pytest.raises(DamagedError, match="index-0"):
        deleted_rows(LocalFileIO(), place)


def test_another_number_of_rows_than_recorded_is_named(tmp_path: Path) -> None:
    vector = encode_vector(np.array([1, 5], np.int64))
    place = stored(tmp_path, vector, 0, recorded_length(vector), 3)
    with pytest.raises(DamagedError, match="2 deleted rows"):
        deleted_rows(LocalFileIO(), place)
