"""Sections and runs: key ranges decoded from metadata and compared as files are sorted."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.models.row_values import row_of
from tests.widetable.lsm.test_universal_compaction import file_of
from widetable.errors import DamagedError
from widetable.format.data_file_meta import DataFileMeta
from widetable.kernels.key_lanes import key_lanes
from widetable.lsm.sorted_run import key_types, sections, sort_key
from widetable.schema.new_schema import new_schema
from widetable.schema.table_schema import TableSchema

INT_KEY = new_schema(pa.schema([("k", pa.int32()), ("v", pa.int32())]), primary_key=["k"])
ORDERED: dict[pa.DataType, list[Any]] = {
    pa.string(): ["", "a", "a\x00", "aa", "z", "ä", "€", "\uffff", "𝄞"],
    pa.binary(): [b"", b"\x00", b"a", b"\x80", b"\xff\x00"],
    pa.float64(): [float("-inf"), -2.0, -0.0, 0.0, 1e-300, 2.0, float("inf"), float("nan")],
    pa.float32(): [float("-inf"), -2.0, -0.0, 0.0, 2.0, float("inf"), float("nan")],
    pa.int64(): [-(2**63), -1, 0, 1, 2**63 - 1],
    pa.bool_(): [False, True],
    pa.timestamp("ns"): [-(10**18), -1, 0, 1, 10**18],
}


def ranged(
    number: int, level: int, low: int, high: int, schema: TableSchema = INT_KEY
) -> DataFileMeta:
    types = key_types(schema)
    file = file_of(number, level, 1)
    return file._replace(min_key=row_of([low], types), max_key=row_of([high], types))


@pytest.mark.parametrize("kind", ORDERED, ids=str)
def test_keys_compare_as_files_are_sorted(kind: pa.DataType) -> None:
    """Against the lanes that writers sort by."""
    schema = new_schema(pa.schema([("k", kind), ("v", pa.int32())]), primary_key=["k"])
    values = ORDERED[kind]
    keys = [sort_key(row_of([value], key_types(schema)), key_types(schema)) for value in values]
    assert keys == sorted(keys)
    assert len(set(keys)) == len(keys)
    lanes = key_lanes([pa.array(values, kind)])
    assert [tuple(lane) for lane in lanes.tolist()] == sorted(map(tuple, lanes.tolist()))


def test_composite_keys_compare_left_to_right() -> None:
    schema = new_schema(pa.schema([("a", pa.string()), ("b", pa.int32())]), primary_key=["b", "a"])
    types = key_types(schema)
    keys: Sequence[Any] = [(1, "z"), (2, ""), (2, "b"), (10, "a")]
    ordered = [sort_key(row_of(key, types), types) for key in keys]
    assert ordered == sorted(ordered)


def test_files_that_touch_in_one_key_are_one_section() -> None:
    files = [ranged(1, 0, 0, 5), ranged(2, 0, 5, 9), ranged(3, 0, 10, 12)]
    assert [set(s.files) for s in sections(files, INT_KEY)] == [set(files[:2]), {files[2]}]


def test_a_wide_file_joins_what_lies_below_it() -> None:
    files = [ranged(1, 5, 0, 1), ranged(2, 5, 3, 4), ranged(3, 5, 8, 9), ranged(4, 0, 1, 3)]
    (first, last) = sections(files, INT_KEY)
    assert [run.files for run in first.runs] == [(files[0], files[1]), (files[3],)]
    assert [run.files for run in last.runs] == [(files[2],)]


def test_runs_are_oldest_first() -> None:
    newest, older = ranged(9, 0, 0, 9), ranged(8, 0, 0, 9)
    deep, deeper = ranged(100, 2, 0, 9), ranged(101, 4, 0, 9)
    (section,) = sections([newest, deep, older, deeper], INT_KEY)
    assert [run.files for run in section.runs] == [(deeper,), (deep,), (older,), (newest,)]


def test_overlapping_files_of_a_level_are_damage() -> None:
    files = [ranged(1, 1, 0, 5), ranged(2, 1, 5, 9)]
    with pytest.raises(DamagedError) as raised:
        sections(files, INT_KEY)
    assert files[1].file_name in raised.value.subject


ranges = st.tuples(st.integers(0, 40), st.integers(0, 8)).map(lambda r: (r[0], r[0] + r[1]))


@given(st.lists(ranges, max_size=12))
def test_sections_are_what_overlap_connects(spans: list[tuple[int, int]]) -> None:
    files = [ranged(i, 0, low, high) for i, (low, high) in enumerate(spans)]
    groups: list[set[int]] = []
    for i, (low, high) in enumerate(spans):
        met = [g for g in groups if any(spans[j][0] <= high and low <= spans[j][1] for j in g)]
        groups = [g for g in groups if g not in met] + [{i}.union(*met)]
    expected = sorted(groups, key=lambda g: min(spans[j] for j in g))
    found = [{files.index(file) for file in s.files} for s in sections(files, INT_KEY)]
    assert found == expected
    for one, following in itertools.pairwise(found):
        assert max(spans[j][1] for j in one) < min(spans[j][0] for j in following)
