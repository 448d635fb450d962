"""Positions grow as the log does, and the full copy lies below all of them."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

import widetable as wt
from tests.cdc.embedded.recorded_batches import recorded
from widetable_cdc.embedded.binlog_position import (
    FIRST_IN_LOG,
    binlog_position,
    is_in_snapshot,
    offset_position,
    position_text,
    source_position,
)

PLACES = st.tuples(st.integers(1, 2**31 - 1), st.integers(0, 2**32 - 1))


@given(PLACES, PLACES)
def test_positions_are_ordered_as_files_and_places_in_them(
    left: tuple[int, int], right: tuple[int, int]
) -> None:
    numbers = [binlog_position(f"bin.{file:06d}", pos) for file, pos in (left, right)]
    assert (numbers[0] < numbers[1]) == (left < right)
    assert all(FIRST_IN_LOG <= number < 2**63 for number in numbers)


@pytest.mark.parametrize("file", ["bin", "bin.", "bin.0", "bin.x1", "bin.-1", "bin.²"])
def test_a_file_without_a_number_is_refused(file: str) -> None:
    with pytest.raises(wt.DamagedError, match="offset of Debezium"):
        binlog_position(file, 4)


def test_recorded_offsets() -> None:
    offset = '{"ts_sec":1,"file":"mysql-bin.000003","pos":154,"gtids":"0-1-7"}'
    assert offset_position(offset) == 3 * 2**32 + 154
    assert not is_in_snapshot(offset)
    assert is_in_snapshot(recorded()[0]["offset"])


@pytest.mark.parametrize("offset", ["", "[]", "{}", '{"file":"bin.1"}', '{"file":null,"pos":1}'])
def test_other_offsets_are_damage(offset: str) -> None:
    with pytest.raises(wt.DamagedError):
        offset_position(offset)


def test_recorded_changes_have_positions_that_grow() -> None:
    payloads = [
        json.loads(record["value"])["payload"]
        for record in recorded()
        if record["topic"].count(".") == 2
    ]
    places = [source_position(each["source"]) for each in payloads if each["op"] != "r"]
    assert places == sorted(places)
    # Two rows of one event, and the two records of a changed key.
    assert (len(places), len(set(places))) == (8, 6)


def test_texts() -> None:
    assert position_text(3 * 2**32 + 154) == "binlog 3:154"
    assert position_text(5) == "the snapshot"
