"""Keys are found among mapped rows, whatever their types, order of magnitude and the cuts between batches."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import widetable as wt
from tests.lookup.mapped_rows import cut, key_columns, map_rows, write_rows
from tests.lookup.test_memcomparable import KEY_COLUMNS
from widetable_lookup.memcomparable import encode_keys

pytestmark = pytest.mark.usefixtures("tier")

_MORE = [
    (pa.date32(), st.integers(-(2**31), 2**31 - 1)),
    (pa.time32("ms"), st.integers(0, 86_399_999)),
    (pa.timestamp("us"), st.integers(-(2**60), 2**60)),
]


def _columns(kinds: list[pa.DataType], rows: list[tuple[Any, ...]]) -> list[pa.Array]:
    return [pa.array([row[i] for row in rows], kind) for i, kind in enumerate(kinds)]


def _ordered(
    kinds: list[pa.DataType], values: list[tuple[Any, ...]]
) -> tuple[list[bytes], list[pa.Array]]:
    """Each once, by their encoded bytes, which tests of their own cover; and the columns that they have, the leading
    ones perhaps.
    """
    width = len(values[0])
    columns = _columns(kinds[:width], values)
    encoded = encode_keys(columns, [f"k{i}" for i in range(width)]).to_list()
    first = {key: number for number, key in reversed(list(enumerate(encoded)))}
    chosen = pa.array([first[key] for key in sorted(first)], pa.int64())
    return sorted(first), [column.take(chosen) for column in columns]


def _search(
    kinds: list[pa.DataType],
    rows: list[tuple[Any, ...]],
    asked: list[tuple[Any, ...]],
    ends: list[int],
) -> None:
    names = [f"k{i}" for i in range(len(kinds))]

    row_keys, row_columns = _ordered(kinds, rows)
    request_keys, asked_columns = _ordered(kinds, asked)
    batch = pa.RecordBatch.from_arrays(row_columns, names)
    with TemporaryDirectory() as folder:
        write_rows(Path(folder), cut(batch, [end % (len(row_keys) + 1) for end in ends]))
        mapped = map_rows(Path(folder), batch.schema)
        keys = key_columns(mapped, names, kinds)
        hits, positions = keys.search(asked_columns)
        expected = [
            (number, row_keys.index(key))
            for number, key in enumerate(request_keys)
            if key in row_keys
        ]
        assert list(zip(hits.tolist(), positions.tolist(), strict=True)) == expected
        assert keys.confirm(encode_keys(asked_columns, names), hits, positions)
        if len(positions) and mapped.rows > len(positions):
            others = np.setdiff1d(np.arange(mapped.rows), positions)[: len(positions)]
            assert not keys.confirm(encode_keys(asked_columns, names), hits[: len(others)], others)


@given(data=st.data())
def test_keys_of_any_types_are_found(data: st.DataObject) -> None:
    kinds = data.draw(st.lists(st.sampled_from(KEY_COLUMNS + _MORE), min_size=1, max_size=3))
    row = st.tuples(*[values for _, values in kinds])
    rows = data.draw(st.lists(row, min_size=1, max_size=12))
    asked = data.draw(st.lists(st.one_of(st.sampled_from(rows), row), min_size=1, max_size=12))
    ends = data.draw(st.lists(st.integers(0, 12), max_size=4))
    _search([kind for kind, _ in kinds], rows, asked, ends)


@given(data=st.data())
def test_all_rows_of_leading_columns_are_found(data: st.DataObject) -> None:
    kinds = data.draw(st.lists(st.sampled_from(KEY_COLUMNS + _MORE), min_size=2, max_size=3))
    width = data.draw(st.integers(1, len(kinds) - 1))
    few = [data.draw(st.lists(values, min_size=1, max_size=3)) for _, values in kinds]
    row = st.tuples(*[st.sampled_from(values) for values in few])
    rows = data.draw(st.lists(row, min_size=1, max_size=12))
    asked = data.draw(st.lists(st.one_of(st.sampled_from(rows), row), min_size=1, max_size=6))
    ends = data.draw(st.lists(st.integers(0, 12), max_size=4))
    _search_prefixes([kind for kind, _ in kinds], rows, [each[:width] for each in asked], ends)


@pytest.mark.parametrize("largest", [2**63 - 1, 2**63 - 2, -1, 255])
def test_all_rows_of_the_largest_leading_value_are_found(largest: int) -> None:
    """Encoded as FF alone, nothing comes behind it."""
    rows = [(largest - 1, b"a"), (largest, b""), (largest, b"\xff" * 9)]
    _search_prefixes([pa.int64(), pa.binary()], rows, [(largest - 1,), (largest,)], [1])


def _search_prefixes(
    kinds: list[pa.DataType],
    rows: list[tuple[Any, ...]],
    asked: list[tuple[Any, ...]],
    ends: list[int],
) -> None:
    names = [f"k{i}" for i in range(len(kinds))]

    row_keys, row_columns = _ordered(kinds, rows)
    prefixes, asked_columns = _ordered(kinds, asked)
    batch = pa.RecordBatch.from_arrays(row_columns, names)
    with TemporaryDirectory() as folder:
        write_rows(Path(folder), cut(batch, [end % (len(row_keys) + 1) for end in ends]))
        keys = key_columns(map_rows(Path(folder), batch.schema), names, kinds)
        hits, positions = keys.search_prefixes(asked_columns)
    expected = [
        (number, position)
        for number, prefix in enumerate(prefixes)
        for position, key in enumerate(row_keys)
        if key.startswith(prefix)
    ]
    assert list(zip(hits.tolist(), positions.tolist(), strict=True)) == expected


_BYTES = st.lists(st.sampled_from([0, 1, 7, 255]), max_size=19).map(bytes)


@given(st.lists(_BYTES, min_size=1, max_size=20), st.lists(_BYTES, min_size=1), st.integers(0, 20))
@example([b"12345678\x00", b"12345678\x00\x01"], [b"12345678", b"12345678\x00"], 1)
def test_bytes_with_zeros_are_found(rows: list[bytes], asked: list[bytes], end: int) -> None:
    _search([pa.binary()], [(row,) for row in rows], [(key,) for key in asked], [end])


@pytest.mark.parametrize("kind", [pa.int64(), pa.int16(), pa.string(), pa.decimal128(30, 1)])
def test_many_keys_in_many_batches(kind: pa.DataType, tmp_path: Path, rng: Any) -> None:
    def column(values: list[int]) -> pa.Array:
        texts = [f"key-of-{value:07d}" for value in values]
        return pa.array(texts) if pa.types.is_string(kind) else pa.array(values).cast(kind)

    held = sorted(rng.sample(range(30_000), 9000))
    batch = pa.RecordBatch.from_arrays([column(held)], ["k"])
    write_rows(tmp_path, cut(batch, rng.sample(range(9000), 40)))
    keys = key_columns(map_rows(tmp_path, batch.schema), ["k"], [kind])
    for count in (1, 30, 3000, 30_000):
        asked = sorted(rng.sample(range(30_000), count))
        hits, positions = keys.search([column(asked)])
        place = {value: number for number, value in enumerate(held)}
        expected = [(n, place[value]) for n, value in enumerate(asked) if value in place]
        assert list(zip(hits.tolist(), positions.tolist(), strict=True)) == expected


def _random_texts(rng: random.Random, count: int) -> list[tuple[Any, ...]]:
    """Many that begin alike, some that are prefixes of others."""
    letters = [b"\x00", b"\x01", b"ab", b"\xff"]
    return [(b"".join(rng.choices(letters, k=rng.randrange(14))),) for _ in range(count)]


def _random_pairs(rng: random.Random, count: int) -> list[tuple[Any, ...]]:
    return [(rng.random() < 0.5, rng.randrange(-200, 200), "x" * 9) for _ in range(count)]


@pytest.mark.parametrize(
    ("kinds", "draw"),
    [([pa.binary()], _random_texts), ([pa.bool_(), pa.int32(), pa.string()], _random_pairs)],
)
def test_keys_between_fences_that_say_little(
    kinds: list[pa.DataType], draw: Callable[[random.Random, int], Any], rng: random.Random
) -> None:
    rows = draw(rng, 700)
    for count in (5, 600):
        asked = draw(rng, count) + rng.sample(rows, count)
        _search(kinds, rows, asked, [rng.randrange(700) for _ in range(5)])


def test_keys_that_begin_like_no_row(rng: random.Random) -> None:
    rows = [(f"user-{number}",) for number in rng.sample(range(10_000), 300)]
    beside = [("",), ("a",), ("user",), ("user,",), ("user-",), ("user.",), ("v",), ("z" * 99,)]
    _search([pa.string()], rows, [*beside, *rng.sample(rows, 20)], [100])
    _search([pa.string()], rows[:1], [*beside, rows[0]], [])
    _search([pa.string()], rows, beside[:1], [])
    _search([pa.string()], rows, beside[-1:], [])


def test_a_null_is_refused(tmp_path: Path) -> None:
    batch = pa.RecordBatch.from_pydict({"k": pa.array([1, 2])})
    write_rows(tmp_path, [batch])
    keys = key_columns(map_rows(tmp_path, batch.schema), ["k"], [pa.int64()])
    with pytest.raises(wt.InvalidError, match="'k'"):
        keys.search([pa.array([None], pa.int64())])
