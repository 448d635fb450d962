"""Blocks of LZ4 against Arrow's, which wants to know how long they are."""

from __future__ import annotations

import random

import numpy as np
import pyarrow as pa
import pytest

from widetable.kernels.arrow_buffers import frozen
from widetable.kernels.lz4_block import lz4_block

CODEC = pa.Codec("lz4_raw")


def decoded(block: bytes, most: int) -> bytes | None:
    return lz4_block(frozen(np.frombuffer(block, np.uint8)), most)


def drawn(rng: random.Random) -> bytes:
    """Of few different bytes or many, in repeats near and far."""
    letters = rng.choice([1, 2, 10, 256])
    part = bytes(rng.randrange(letters) for _ in range(rng.randrange(1, 600)))
    return part * rng.choice([1, 1, 2, 9]) + rng.randbytes(rng.randrange(20)) + part[:50]


@pytest.mark.parametrize("round_", range(30))
def test_a_block_gives_what_arrow_compressed(rng: random.Random, round_: int) -> None:
    data = drawn(rng)
    block = CODEC.compress(data, asbytes=True)
    assert decoded(block, len(data)) == data
    assert decoded(block, len(data) + 100) == data
    assert decoded(block, len(data) - 1) is None


def test_long_literals_and_long_matches(rng: random.Random) -> None:
    for size in (14, 15, 16, 269, 270, 271, 70_000):
        for data in (rng.randbytes(size), bytes(size), rng.randbytes(size) * 2):
            assert decoded(CODEC.compress(data, asbytes=True), 200_000) == data


@pytest.mark.parametrize("round_", range(30))
def test_damage_is_none_or_what_arrow_gives(rng: random.Random, round_: int) -> None:
    block = bytearray(CODEC.compress(drawn(rng), asbytes=True))
    for _ in range(3):
        block[rng.randrange(len(block))] = rng.randrange(256)
    damaged = bytes(block[: rng.choice([len(block), rng.randrange(1, len(block) + 1)])])
    found = decoded(damaged, 20_000)
    if found is None:
        return
    assert len(found) <= 20_000
    try:
        expected = CODEC.decompress(damaged, len(found), asbytes=True)
    except OSError:  # it wants literals at the end
        return
    assert found == expected


@pytest.mark.parametrize(
    "block",
    [
        b"\x10",  # a literal that is not there
        b"\xf0",  # a length without an end
        b"\xf0\xff",
        b"\x10a\x00\x00",  # a match of the bytes to come
        b"\x10a\x02\x00",  # and of those before the first
        b"\x10a\x01",
        b"\x1fa\x01\x00",
        b"\x00\x01\x00",
    ],
)
def test_bytes_that_are_no_block(block: bytes) -> None:
    assert decoded(block, 1000) is None


def test_a_block_says_too_much_before_room_is_made() -> None:
    """67,000,000 bytes in 263 kB."""
    block = CODEC.compress(bytes(67_000_000), asbytes=True)
    assert decoded(block, 1 << 20) is None


def test_an_empty_block_is_empty() -> None:
    assert decoded(b"\x00", 0) == b""
    assert decoded(b"", 0) == b""
