"""The table that holds a join: what each change of its sources makes of it, and what it refuses."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import widetable as wt
from tests.support.tables.joined import FAST, Joined, ManyToMany, changes, joined_at, newest
from widetable.commit.notes.consumer_store import ConsumerStore
from widetable.derive.changes.row_difference import row_difference
from widetable.derive.joins import delta_join, join_difference, join_side
from widetable.derive.joins.delta_join import join_round


def test_case_23_both_sides_in_one_round_add_a_row(tmp_path: Path) -> None:
    joined = Joined(tmp_path)
    joined.write_a(("+I", 7, 1, 10))
    joined.write_b(("+I", 7, "Ann"))
    assert joined.round() == [("+I", 7, 1, 10, "Ann")]
    assert joined.rows == [(7, 1, 10, "Ann")]


def test_case_24_a_new_name_updates_the_rows_of_its_key_only(tmp_path: Path) -> None:
    joined = joined_at("inner", tmp_path)
    joined.write_a(("+I", 8, 1, 20))
    joined.write_b(("+I", 8, "Bob"))
    joined.join.run_once()
    joined.write_b(("+I", 7, "Anna"), ("+I", 8, "Bob"))
    assert joined.round() == [("+U", 7, 1, 10, "Anna"), ("-U", 7, 1, 10, "Ann")]


@pytest.mark.parametrize("how", ["inner", "left"])
def test_case_25_a_row_that_is_deleted_on_the_left_goes(how: str, tmp_path: Path) -> None:
    joined = joined_at(how, tmp_path)
    joined.write_a(("-D", 7, 1, 10))
    assert joined.round() == [("-D", 7, 1, 10, "Ann")]


def test_case_26_a_row_that_is_deleted_on_the_right_goes_or_leaves_nulls(tmp_path: Path) -> None:
    joined = joined_at("inner", tmp_path / "inner")
    joined.write_b(("-D", 7, None))
    assert joined.round() == [("-D", 7, 1, 10, "Ann")]
    joined = joined_at("left", tmp_path / "left")
    joined.write_b(("-D", 7, None))
    assert joined.round() == [("+U", 7, 1, 10, None), ("-U", 7, 1, 10, "Ann")]


def test_case_27_a_row_moves_to_another_key(tmp_path: Path) -> None:
    joined = joined_at("inner", tmp_path)
    joined.write_a(("-D", 7, 1, 10), ("+I", 8, 1, 10))
    joined.write_b(("+I", 8, "Bob"))
    assert joined.round() == [("+I", 8, 1, 10, "Bob"), ("-D", 7, 1, 10, "Ann")]


@pytest.mark.parametrize("moved", [0, 1, 2])
def test_case_28_killed_before_the_progress_is_stored_the_next_round_adds_nothing(
    tmp_path: Path, moved: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    joined = joined_at("inner", tmp_path)
    joined.write_a(("+I", 7, 2, 11))
    joined.write_b(("+I", 7, "Anna"))
    with monkeypatch.context() as patch:
        kill_at_consumer(patch, moved)
        with pytest.raises(KeyboardInterrupt):
            joined.join.run_once()
    assert joined.rows == [(7, 1, 10, "Anna"), (7, 2, 11, "Anna")]
    assert joined.round() == []
    assert joined.a.consumers()["join-db.out"] == newest(joined.a)
    assert joined.b.consumers()["join-db.out"] == newest(joined.b)


def kill_at_consumer(patch: pytest.MonkeyPatch, number: int) -> None:
    """So many consumers are moved, the next one is not."""
    record, left = ConsumerStore.record, [number]

    def recorded(self: ConsumerStore, consumer_id: str, next_snapshot: int) -> None:
        if not left[0]:
            raise KeyboardInterrupt
        left[0] -= 1
        record(self, consumer_id, next_snapshot)

    patch.setattr(ConsumerStore, "record", recorded)


def test_progress_stands_in_the_commit(tmp_path: Path) -> None:
    joined = joined_at("inner", tmp_path)
    joined.write_a(("+I", 9, 1, 10))  # without a match
    done = joined.join.run_once()
    assert done == wt.JoinRound(2, 1, 0, 0, done.snapshot_id)
    (commit,) = [each for each in joined.out.snapshots() if each.id == done.snapshot_id]
    assert (commit.properties["join.left"], commit.properties["join.right"]) == ("2", "1")
    assert joined.join.run_once() == wt.JoinRound(2, 1)


def test_a_table_without_a_join_has_no_rounds(tmp_path: Path) -> None:
    joined = Joined(tmp_path)
    assert join_round(joined.a) is None


# Many to many


def test_many_to_many_has_a_row_for_each_pair(tmp_path: Path) -> None:
    joined = ManyToMany(tmp_path)
    assert joined.out.schema.primary_keys == ("u", "o", "tag")
    assert joined.out.schema.bucket_keys == ("u",)
    joined.write_a(("+I", 7, 1, 10), ("+I", 7, 2, 20), ("+I", 8, 1, 30))
    joined.write_b(("+I", 7, "x", 1.0), ("+I", 7, "y", 2.0), ("+I", 9, "x", 3.0))
    joined.join.run_once()
    pairs = [(7, 1, 10, "x", 1.0), (7, 1, 10, "y", 2.0), (7, 2, 20, "x", 1.0), (7, 2, 20, "y", 2.0)]
    assert joined.rows == pairs
    joined.write_b(("-D", 7, "x", 1.0), ("+I", 7, "y", 2.5))
    joined.write_a(("-D", 7, 2, 20))
    assert joined.round() == [
        ("+U", 7, 1, 10, "y", 2.5),
        ("-D", 7, 1, 10, "x", 1.0),
        ("-D", 7, 2, 20, "x", 1.0),
        ("-D", 7, 2, 20, "y", 2.0),
        ("-U", 7, 1, 10, "y", 2.0),
    ]


@pytest.mark.parametrize(("lefts", "rights", "name"), [(4, 1, "u"), (1, 4, "w"), (2, 2, "u")])
def test_a_join_key_with_too_many_rows_is_named(
    tmp_path: Path, lefts: int, rights: int, name: str
) -> None:
    joined = ManyToMany(tmp_path, max_matches=3)
    joined.write_a(*(("+I", 7, n, n) for n in range(lefts)))
    joined.write_b(*(("+I", 7, str(n), 0.0) for n in range(rights)))
    with pytest.raises(
        wt.InvalidError, match=rf"join.max-matches.*4 rows of the key {{'{name}': 7}}"
    ):
        joined.join.run_once()
    joined.out.alter_options({"join.max-matches": "4"})
    done = join_round(joined.out)
    assert done is not None
    assert done.rows_added == 4


def test_the_option_may_be_raised_as_the_error_says(tmp_path: Path) -> None:
    joined = Joined(tmp_path, max_matches=1)
    joined.write_a(("+I", 7, 1, 10), ("+I", 7, 2, 20))
    joined.write_b(("+I", 7, "Ann"))
    joined.join.run_once()
    joined.write_b(("+I", 7, "Anna"))
    with pytest.raises(wt.InvalidError, match="Raise the option"):
        joined.join.run_once()
    joined.out.alter_options({"join.max-matches": "2"})
    assert joined.join.run_once().rows_added == 2


def test_too_many_rows_of_a_right_row_that_changes_are_named(tmp_path: Path) -> None:
    joined = Joined(tmp_path, max_matches=2)
    joined.write_a(*(("+I", 7, n, n) for n in range(3)))
    joined.write_b(("+I", 7, "Ann"))
    joined.join.run_once()  # all rows, each by its own key
    joined.write_b(("+I", 7, "Anna"))
    with pytest.raises(wt.InvalidError, match=r"3 rows of the key {'u': 7}"):
        joined.join.run_once()


# What differs and what does not


def test_rows_that_were_written_again_write_nothing(tmp_path: Path) -> None:
    joined = joined_at("left", tmp_path)
    joined.write_a(("+I", 7, 1, 10))
    joined.write_b(("+I", 7, "Ann"))
    assert joined.round() == []
    assert newest(joined.a) == 2


def test_a_change_in_columns_that_the_join_has_not_writes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    joined = joined_at("inner", tmp_path)
    for name in ("db.a", "db.b"):
        joined.catalog.alter_table(name, add_columns=[pa.field(f"more_{name[-1]}", pa.int64())])
    joined.a.write(pa.table({"u": [7], "o": [1], "amt": [10], "more_a": [1]}))
    joined.b.write(pa.table({"u": [7], "name": ["Ann"], "more_b": [1]}))
    with monkeypatch.context() as patch:  # nor is any other row looked at
        patch.setattr(join_side.JoinSide, "matches", None)
        before = newest(joined.out)
        assert joined.join.run_once().rows_added == 0
    assert changes(joined.out, before, newest(joined.out)) == []
    assert joined.out.schema.names == ("u", "o", "amt", "name")


def test_a_left_row_that_changes_costs_no_other_row_of_its_join_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    joined = Joined(tmp_path)
    joined.write_a(*(("+I", 7, n, n) for n in range(100)))
    joined.write_b(("+I", 7, "Ann"))
    joined.join.run_once()
    seen: list[int] = []
    difference = row_difference

    def counted(old: pa.Table, new: pa.Table, *more: Any, **others: Any) -> pa.Table:
        seen.append(old.num_rows + new.num_rows)
        return difference(old, new, *more, **others)

    monkeypatch.setattr(join_difference, "row_difference", counted)
    joined.write_a(("+I", 7, 5, -5))
    assert joined.round() == [("+U", 7, 5, -5, "Ann"), ("-U", 7, 5, 5, "Ann")]
    assert sum(seen) == 2


def test_an_input_changelog_has_the_rows_before(tmp_path: Path) -> None:
    joined = Joined(tmp_path)
    joined.catalog.drop_table("db.out")
    joined.out = joined.join.create({"changelog-producer": "input", **FAST})
    joined.write_a(("+I", 7, 1, 10))
    joined.write_b(("+I", 7, "Ann"))
    assert joined.round() == [("+I", 7, 1, 10, "Ann")]
    joined.write_a(("+U", 7, 1, 11))
    joined.write_b(("+I", 7, "Anna"))
    assert joined.round() == [("+U", 7, 1, 11, "Anna"), ("-U", 7, 1, 10, "Ann")]


# What makes a round begin from nothing


def test_a_range_that_has_expired_is_made_up_for(tmp_path: Path) -> None:
    joined = joined_at("left", tmp_path)
    joined.write_a(("+I", 8, 1, 20))
    joined.write_b(("+I", 8, "Bob"))
    joined.join.run_once()
    for table in (joined.a, joined.b):
        table.delete_consumer("join-db.out")
    joined.write_a(("-D", 7, 1, 10))
    joined.write_b(("-D", 8, None))
    for table in (joined.a, joined.b):
        table.write(table.scan().to_arrow())
        table.expire_snapshots(num_retained_min=1, num_retained_max=1, time_retained_millis=0)
    assert joined.round() == [
        ("+U", 8, 1, 20, None),
        ("-D", 7, 1, 10, "Ann"),
        ("-U", 8, 1, 20, "Bob"),
    ]


@pytest.mark.parametrize("many", [False, True])
def test_rows_whose_key_is_gone_from_both_tables_go_too(tmp_path: Path, many: bool) -> None:
    joined = ManyToMany(tmp_path) if many else Joined(tmp_path)
    right = ("x", 0.5) if many else ("Ann",)
    for key in (7, 8):
        joined.write_a(("+I", key, 1, 10))
        joined.write_b(("+I", key, *right))
    joined.join.run_once()
    joined.write_a(("-D", 7, 1, 10))
    joined.write_b(("-D", 7, *right))
    for table in (joined.a, joined.b):
        table.delete_consumer("join-db.out")
        table.expire_snapshots(num_retained_min=1, num_retained_max=1, time_retained_millis=0)
    assert joined.round() == [("-D", 7, 1, 10, *right)]


def test_what_a_round_needs_does_not_expire(tmp_path: Path) -> None:
    joined = joined_at("inner", tmp_path)
    for number in range(3):
        joined.write_b(("+I", 7, f"Ann {number}"))
        joined.b.expire_snapshots(num_retained_min=1, num_retained_max=1, time_retained_millis=0)
    assert [snapshot.id for snapshot in joined.b.snapshots()] == [1, 2, 3, 4]
    joined.join.run_once()
    joined.b.expire_snapshots(num_retained_min=1, num_retained_max=1, time_retained_millis=0)
    assert [snapshot.id for snapshot in joined.b.snapshots()] == [4]


@pytest.mark.parametrize("many", [False, True])
def test_a_source_that_was_made_again_is_another_table(tmp_path: Path, many: bool) -> None:
    joined = ManyToMany(tmp_path) if many else joined_at("inner", tmp_path)
    value = (0.5,) if many else ()
    joined.write_a(("+I", 7, 1, 10))
    joined.write_b(("+I", 7, "Ann", *value))
    joined.join.run_once()
    schema, key, options = (
        joined.b.arrow_schema,
        joined.b.schema.primary_keys,
        joined.b.schema.options,
    )
    joined.catalog.drop_table("db.b")
    joined.b = joined.catalog.create_table("db.b", schema, primary_key=key, options=options)
    for name in ("Una", "Uma", "Eve"):
        joined.write_b(("+I", 5, name, *value))
    joined.join.run_once()
    assert joined.rows == []


def test_what_somebody_else_did_to_the_joined_table_is_undone(tmp_path: Path) -> None:
    joined = joined_at("inner", tmp_path)
    joined.write_b(("+I", 7, "Anna"))
    joined.join.run_once()
    joined.out.rollback(snapshot_id=2)
    assert joined.rows == [(7, 1, 10, "Ann")] or joined.rows == []
    joined.join.run_once()
    assert joined.rows == [(7, 1, 10, "Anna")]
    assert joined.round() == []


def test_a_column_that_the_joined_table_gains_is_filled(tmp_path: Path) -> None:
    joined = joined_at("inner", tmp_path)
    more = [pa.field("city", pa.string())]
    joined.catalog.alter_table("db.b", add_columns=more)
    joined.b.write(pa.table({"u": [7], "name": ["Ann"], "city": ["Oslo"]}))
    joined.join.run_once()
    joined.catalog.alter_table("db.out", add_columns=more)
    joined.join.run_once()
    assert joined.rows == [(7, 1, 10, "Ann", "Oslo")]


# Two joiners


def test_a_joiner_that_was_slower_gives_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has pinned older snapshots, and lost its lease: its commit does not go in."""
    joined = joined_at("inner", tmp_path)
    joined.write_b(("+I", 7, "Anna"))
    pieces = join_difference.JoinDifference.pieces
    other: list[int] = []

    def overtaken(self: Any, since: Any) -> Any:
        if not other:
            other.append(1)
            joined.write_b(("+I", 7, "Ann"))
            Path(joined.out._paths.join_lease).unlink()
            assert joined.join.run_once().right_snapshot == 3
        return pieces(self, since)

    monkeypatch.setattr(join_difference.JoinDifference, "pieces", overtaken)
    before = newest(joined.out)
    assert joined.join.run_once().gave_way
    assert joined.rows == [(7, 1, 10, "Ann")]
    assert changes(joined.out, before, newest(joined.out)) == []
    assert joined.join.run_once() == wt.JoinRound(1, 3)


def test_a_round_that_gives_way_says_to_whom(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    joined = joined_at("inner", tmp_path)
    joined.write_b(("+I", 7, "Anna"))

    def refuse(*_: Any, **__: Any) -> Any:
        raise wt.ConflictError("db.out", found="keys of another", expected="none", action="Again.")

    monkeypatch.setattr(delta_join, "append_messages", refuse)
    with caplog.at_level("INFO", "widetable"):
        assert joined.join.run_once().gave_way
    assert "gave way: db.out: found keys of another" in caplog.text


def test_one_joiner_waits_while_another_has_the_lease(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    joined = joined_at("inner", tmp_path)
    joined.write_b(("+I", 7, "Anna"))
    pieces, seen = join_difference.JoinDifference.pieces, []

    def met(self: Any, since: Any) -> Any:
        seen.append(joined.join.run_once())
        return pieces(self, since)

    monkeypatch.setattr(join_difference.JoinDifference, "pieces", met)
    assert joined.join.run_once().snapshot_id is not None
    assert seen == [wt.JoinRound(gave_way=True)]
