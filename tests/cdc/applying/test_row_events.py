"""Events of single keys: case by case, as C6 of the specification says."""

from __future__ import annotations

import numpy as np
import pytest

from tests.cdc.applying.written_changes import Change, batches, relation
from widetable import InvalidError
from widetable_cdc.applying.row_events import RowEvent, RowEvents, row_events
from widetable_cdc.log.changes import Kind, OldRow

FORM = relation("id", "name", "big")
WHOLE = relation("id", "name", "big", identity="f")
BIG = frozenset(("big",))


def events_of(*changes: Change, key: tuple[str, ...] = ("id",)) -> RowEvents:
    (batch,) = batches(changes)
    return row_events(batch, key)


def said(events: RowEvents) -> list[tuple[str, str | None]]:
    keys = events.keys["id"].to_pylist()
    return [(RowEvent(kind).name, key) for kind, key in zip(events.kinds, keys, strict=True)]


def test_each_change_becomes_its_events() -> None:
    events = events_of(
        Change(FORM, Kind.INSERT, {"id": "1"}, xid=901),
        Change(FORM, Kind.UPDATE, {"id": "1", "name": "x"}, xid=902),
        Change(FORM, Kind.UPDATE, {"id": "2"}, {"id": "1"}, OldRow.KEY, xid=903, end_lsn=77),
        Change(FORM, Kind.DELETE, old={"id": "2"}, old_row=OldRow.KEY, xid=904),
        Change(FORM, Kind.TRUNCATE, xid=905),
    )
    assert said(events) == [
        ("INSERT", "1"),
        ("UPDATE", "1"),
        ("DELETE", "1"),
        ("INSERT", "2"),
        ("DELETE", "2"),
        ("TRUNCATE", None),
    ]
    assert events.rows.tolist() == [0, 1, 2, 2, 3, 4]
    assert events.event_xids.tolist() == [901, 902, 903, 903, 904, 905]
    assert events.event_end_lsns.tolist() == [1000, 1000, 77, 77, 1000, 1000]
    assert events.is_moved.tolist() == [False, False, False, True, False, False]


def test_a_whole_old_row_of_the_same_key_is_no_change_of_the_key() -> None:
    old = {"id": "1", "name": "x", "big": "B"}
    events = events_of(
        Change(WHOLE, Kind.UPDATE, {"id": "1", "name": "y"}, old, OldRow.FULL, BIG),
        Change(WHOLE, Kind.UPDATE, {"id": "1", "name": None, "big": None}, old, OldRow.FULL),
        Change(WHOLE, Kind.UPDATE, {"id": "3", "name": "y"}, old, OldRow.FULL, BIG),
        Change(WHOLE, Kind.DELETE, old=old | {"id": "3"}, old_row=OldRow.FULL),
    )
    assert said(events) == [
        ("UPDATE", "1"),
        ("UPDATE", "1"),
        ("DELETE", "1"),
        ("INSERT", "3"),
        ("DELETE", "3"),
    ]
    # The old row carries the value that the new row leaves out, and only that.
    assert events.values["big"].to_pylist() == ["B", None, "B", None]
    assert events.values["name"].to_pylist() == ["y", None, "y", None]
    assert dict(events.unchanged) == {}


def test_a_value_that_no_old_row_carries_stays_unchanged() -> None:
    events = events_of(
        Change(FORM, Kind.UPDATE, {"id": "1"}, unchanged=BIG),
        Change(FORM, Kind.UPDATE, {"id": "2"}, {"id": "1"}, OldRow.KEY, BIG),
        Change(FORM, Kind.UPDATE, {"id": "2", "big": "C"}),
    )
    assert events.unchanged["big"].tolist() == [True, True, False]


def test_a_big_key_that_is_unchanged_is_taken_from_the_old_row() -> None:
    old = {"id": "long"}
    events = events_of(
        Change(FORM, Kind.UPDATE, {"name": "x"}, old, OldRow.KEY, frozenset(("id",))),
        Change(FORM, Kind.UPDATE, {"id": "2"}, old, OldRow.KEY),
    )
    assert said(events) == [("UPDATE", "long"), ("DELETE", "long"), ("INSERT", "2")]


def test_columns_get_the_names_of_the_target_and_others_are_left_out() -> None:
    (batch,) = batches([Change(FORM, Kind.INSERT, {"id": "1", "name": "x", "big": "B"})])
    events = row_events(batch, ["key"], {"id": "key", "name": "label"})
    assert {name: column.to_pylist() for name, column in events.keys.items()} == {"key": ["1"]}
    assert {name: column.to_pylist() for name, column in events.values.items()} == {"label": ["x"]}


def test_events_that_are_left_out_mark_the_row_they_moved() -> None:
    moves = [
        Change(FORM, Kind.UPDATE, {"id": to}, {"id": old}, OldRow.KEY)
        for old, to in (("1", "2"), ("3", "4"))
    ]
    events = events_of(*moves)
    assert events.kept(np.array([True, True, True, True])).is_lost.tolist() == [False] * 4
    kept = events.kept(np.array([True, True, False, True]))
    assert said(kept) == [("DELETE", "1"), ("INSERT", "2"), ("INSERT", "4")]
    assert kept.is_lost.tolist() == [False, False, True]
    assert len(events.kept(np.zeros(4, dtype=np.bool_))) == 0


def test_an_identity_without_the_key_of_the_target_is_refused() -> None:
    """A unique index as identity has its own columns only: a delete would not say which row is gone."""
    other = relation("id", "name", key=("name",), identity="i")
    with pytest.raises(InvalidError, match=r"public\.t.*without 'id'"):
        events_of(Change(other, Kind.INSERT, {"id": "1", "name": "x"}))


def test_a_delete_without_its_row_is_refused() -> None:
    with pytest.raises(InvalidError, match="a delete without its old row"):
        events_of(Change(FORM, Kind.DELETE))
