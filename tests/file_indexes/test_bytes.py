"""The bytes of file indexes: what Paimon's Java 2.x wrote is read and, where the order is given, written alike."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pyarrow as pa
import pytest

import widetable as wt
from widetable.format.file_index.bitmap_index import BitmapBuilder, BitmapIndex
from widetable.format.file_index.bloom_filter import BloomFilter, BloomFilterBuilder
from widetable.format.file_index.index_container import (
    IndexPart,
    container_parts,
    encode_container,
)
from widetable.format.file_index.indexed_values import sought_values
from widetable.kernels.arrow_buffers import bytes_view
from widetable.kernels.hashing.value_hash import bytes_hashes, number_hashes
from widetable.schema.file_index_options import BitmapOption, BloomFilterOption
from widetable.schema.type_text import type_from_text
from widetable.schema.types import arrow_type

# What Java embedded into its manifest: a filter for so many items as there are; and bitmaps of both versions.
FILTER_OF_TEXTS: Final = (
    "00054e4ed01a35ae00000001000000350000000100016300000001000c626c6f6f6d2d66696c746572"
    "000000350000000600000000000000040b7a"
)
FILTER_OF_TIMES: Final = (
    "00054e4ed01a35ae00000001000000350000000100016300000001000c626c6f6f6d2d66696c746572"
    "0000003500000006000000000000000690fd"
)
BITMAPS_OF_TEXTS: Final = (
    "00054e4ed01a35ae000000010000002f000000010001630000000100066269746d61700000002f00000069"
    "00000000020000000500000002010000000000000014000000010000000161000000000000001e00000002"
    "000000016100000014000000140000000162ffffffffffffffff3a30000001000000000001001000000002"
    "0004003a30000001000000000001001000000001000300"
)
BITMAPS_1_OF_NUMBERS: Final = (
    "00054e4ed01a35ae000000010000002f000000010001630000000100066269746d61700000002f0000002e"
    "0000000001000000030000000200fffffff9fffffffe00000007000000003a300000010000000000010010"
    "00000000000200"
)
BITMAPS_OF_NUMBERS: Final = (
    "00054e4ed01a35ae000000010000002f000000010001630000000100066269746d61700000002f00000052"
    "0000000002000000040000000201fffffffc0000001200000001fffffff9000000000000001c00000002ff"
    "fffff9fffffffeffffffff0000000700000000000000143a30000001000000000001001000000000000200"
)


class Held:
    """Bytes in memory."""

    def __init__(self, data: bytes) -> None:
        self.size = len(data)
        self.data = data

    def read(self, at: int, count: int) -> bytes:
        return self.data[at : at + count]


def part_of(data: bytes) -> IndexPart:
    return IndexPart(Held(data), 0, len(data), "x.index")


def java_part(text: str, kind: str) -> IndexPart:
    parts = container_parts(Held(bytes.fromhex(text)), "x.index")
    assert list(parts) == ["c"]
    return parts["c"][kind]


def column(kind: str, values: list[Any]) -> pa.Array:
    made = arrow_type(type_from_text(kind))
    number = pa.int64() if pa.types.is_temporal(made) else made
    return pa.array(values, number).cast(made)


@pytest.mark.parametrize(
    ("text", "hashed"),
    [
        (b"", 0xEF46DB3751D8E999),
        (b"a", 0xD24EC4F1A98C6E5B),
        (b"abc", 0x44BC2CF5AD770999),
        (b"Nobody inspects the spammish repetition", 0xFBCEA83C8A378BF1),
    ],
)
def test_texts_are_hashed_by_xxh64(text: bytes, hashed: int) -> None:
    """Published values of XXH64 with the seed 0."""
    assert bytes_hashes(bytes_view(pa.array([b"another", text])))[1] == hashed


def test_numbers_are_hashed_by_their_value_whatever_their_width() -> None:
    small = [np.array([-7, 5], f"i{width}") for width in (1, 2, 4, 8)]
    assert len({tuple(number_hashes(numbers).tolist()) for numbers in small}) == 1


@pytest.mark.parametrize(
    ("java", "kind", "values"),
    [
        (FILTER_OF_TEXTS, "STRING", ["a", "b", None, "grüße"]),
        (FILTER_OF_TIMES, "TIMESTAMP(6)", [-1, 5, None]),
    ],
)
def test_a_filter_has_the_bits_of_java(java: str, kind: str, values: list[Any]) -> None:
    part = java_part(java, "bloom-filter")
    builder = BloomFilterBuilder(BloomFilterOption("c"), type_from_text(kind))
    for value in [*values, values[0]]:
        builder.add(column(kind, [value]))
    assert builder.build() == part.read(0, part.length)


@pytest.mark.parametrize(
    ("java", "kind", "values"),
    [
        (BITMAPS_OF_TEXTS, "STRING", ["b", "a", None, "a", None]),
        (BITMAPS_OF_NUMBERS, "INT", [7, -7, 7, None]),
    ],
)
def test_bitmaps_have_the_bytes_of_java(java: str, kind: str, values: list[Any]) -> None:
    part = java_part(java, "bitmap")
    builder = BitmapBuilder(BitmapOption("c"), type_from_text(kind))
    builder.add(column(kind, values[:2]))
    builder.add(column(kind, values[2:]))
    assert builder.build() == part.read(0, part.length)


@pytest.mark.parametrize(
    ("java", "kind", "values"),
    [
        (BITMAPS_OF_TEXTS, "STRING", [b"b", b"a", None, b"a", None]),
        (BITMAPS_OF_NUMBERS, "INT", [7, -7, 7, None]),
        (BITMAPS_1_OF_NUMBERS, "INT", [7, -7, 7]),
    ],
)
def test_bitmaps_of_java_have_the_rows_of_each_value(
    java: str, kind: str, values: list[Any]
) -> None:
    type_ = type_from_text(kind)
    index = BitmapIndex(java_part(java, "bitmap"), len(values), type_)
    absent = b"c" if kind == "STRING" else 9
    for value in {*values, absent} - {None}:
        expected = [row for row, each in enumerate(values) if each == value]
        assert list(index.rows_with(sought_values([value], type_)) or []) == expected
    nulls = [row for row, each in enumerate(values) if each is None]
    assert list(index.null_rows() or []) == nulls


def test_a_container_has_any_names() -> None:
    names = ["a", "grüße", "\0", "\U0001f600", "x" * 300]
    indexes = {name: {"bitmap": b"1" * at, "other": b"2"} for at, name in enumerate(names)}
    parts = container_parts(Held(encode_container(indexes)), "x.index")
    actual = {
        name: {kind: part.read(0, part.length) for kind, part in each.items()}
        for name, each in parts.items()
    }
    assert actual == indexes


@pytest.mark.parametrize("block", [64, 16 << 10])
@pytest.mark.parametrize("long", [1, 300], ids=["short", "longer than a block"])
def test_values_of_many_blocks_are_all_there(block: int, long: int) -> None:
    values = [f"{at % 700:03d}" * long if at % 11 else None for at in range(2000)]
    type_ = type_from_text("STRING")
    builder = BitmapBuilder(BitmapOption("c", block), type_)
    builder.add(pa.array(values))
    index = BitmapIndex(part_of(builder.build()), len(values), type_)
    for value in {*values} - {None}:
        rows = index.rows_with(sought_values([str(value).encode()], type_))
        assert list(rows or []) == [row for row, each in enumerate(values) if each == value]
    assert list(index.null_rows() or []) == list(range(0, 2000, 11))


def test_a_filter_is_as_fine_as_was_asked_for() -> None:
    type_ = type_from_text("BIGINT")
    for share in (0.2, 0.01):
        builder = BloomFilterBuilder(BloomFilterOption("c", false_positives=share), type_)
        builder.add(pa.array(range(2000)))
        bloom = BloomFilter(part_of(builder.build()), 2000, type_)
        others = range(10_000, 14_000)
        seen = sum(bloom.rows_with(sought_values([value], type_)) is None for value in others)
        assert 0.5 * share < seen / len(others) < 2 * share
        assert bloom.rows_with(sought_values([1999], type_)) is None


def test_wrong_bytes_are_said() -> None:
    type_ = type_from_text("INT")
    part = java_part(BITMAPS_OF_NUMBERS, "bitmap")
    data = part.read(0, part.length)

    def ask(wrong: bytes) -> None:
        index = BitmapIndex(part_of(wrong), 4, type_)
        index.rows_with(sought_values([7], type_))
        index.null_rows()

    # Another version, two ends that are too early, and another magic of the bitmap.
    for wrong in (b"\3" + data[1:], data[:1], data[:20], data[:-20] + b"\xff" * 20):
        with pytest.raises(wt.DamagedError, match=r"x\.index"):
            ask(wrong)
    with pytest.raises(wt.DamagedError, match="4 rows"):
        BitmapIndex(part, 5, type_).null_rows()
    for wrong in (b"", b"\0\0\0", b"\0\0\0\0"):
        with pytest.raises(wt.DamagedError):
            BloomFilter(part_of(wrong), 4, type_).rows_with(sought_values([7], type_))
