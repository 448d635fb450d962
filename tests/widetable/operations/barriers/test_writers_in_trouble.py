"""Writers of tables under barriers that lost their name, that hold a table, or that are ahead of the clock."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

import pytest

import widetable as wt
from tests.support.models.barrier_labels import INTERVAL
from tests.support.tables.barrier_tables import (
    NAME,
    commit_without_barriers,
    new_table,
    newest_snapshot,
    properties,
    rows_of,
)
from tests.widetable.derive.widening.orders import WIDENER, Orders
from widetable.commit.barriers.barrier_state import BarrierState, Member
from widetable.operations.barriers import barrier_writer
from widetable.operations.barriers.barrier_writer import BarrierWriter
from widetable.operations.barriers.departed_writer import let_leave
from widetable.operations.handle.barrier_scan import barrier_views
from widetable.operations.health import upkeep_check
from widetable.operations.health.barrier_advice import Remedy, barrier_advice

NOW = 1_800_000_000_000


@pytest.mark.parametrize("number", [None, 0, 1, 2, 3])
@pytest.mark.parametrize("digest", [None, "of another one"])
def test_who_lost_its_name_is_told_so_whatever_number_it_gives(
    tmp_path: Path, number: int | None, digest: str | None
) -> None:
    """Also where the other process has a commit of that number: the rows of this one are not in."""
    table = new_table(tmp_path)
    old = wt.Catalog(tmp_path).writer(NAME, "w")
    old.write({"id": [1], "a": [0]}, 0, barrier=10, digest="of 0")
    new = wt.Catalog(tmp_path).writer(NAME, "w")
    for identifier in (1, 2):
        new.write({"id": [1], "a": [identifier]}, identifier, barrier=10, digest=f"of {identifier}")
    with pytest.raises(wt.ConflictError, match="another process that has taken its name since"):
        old.write({"id": [1], "a": [99]}, number, barrier=10, digest=digest if number else None)
    assert table.scan().to_arrow()["a"].to_pylist() == [2]
    again = new.write({"id": [1], "a": [2]}, 2, barrier=10, digest="of 2")
    assert not again.committed
    with pytest.raises(wt.InvalidError, match=r"commit 1 of the user 'w'.*Continue above it"):
        new.write({"id": [1], "a": [1]}, 1, barrier=10, digest="of another one")


def state_of(**frontiers: int) -> BarrierState:
    state = BarrierState.new(INTERVAL)
    for name in frontiers:
        state = state.with_member(name, Member(0, 0, "run"))
    for name, frontier in frontiers.items():
        state = state.with_member(name, Member(frontier, frontier, "run"))
    return state


@pytest.mark.parametrize(
    ("before", "now", "held_by"),
    [
        ({"a": 20, "b": 10}, {"a": 30, "b": 10}, ["b"]),
        ({"a": 20, "b": 10, "c": 10}, {"a": 20, "b": 10, "c": 20}, ["b"]),
        ({"a": 20, "b": 0}, {"a": 20, "b": 0}, ["b"]),
        ({"a": 20, "b": 10}, {"a": 30, "b": 20}, []),  # it has come on
        ({"a": 10, "b": 10}, {"a": 30, "b": 10}, []),  # nobody waited so long
        ({"a": 20}, {"a": 30, "b": 20}, []),  # it has just joined
        (None, {"a": 30, "b": 10}, []),
    ],
)
def test_who_holds_a_table_for_long_is_named(
    before: dict[str, int] | None, now: dict[str, int], held_by: list[str]
) -> None:
    known = None if before is None else state_of(**before)
    advice = list(barrier_advice(state_of(**now), known, NOW))
    assert [(each.writer, each.remedy) for each in advice] == [
        (name, Remedy.LEAVE) for name in held_by
    ]


def test_who_is_ahead_of_the_clock_is_named() -> None:
    for ahead, names in ((60_010, []), (60_020, ["a"])):
        advice = list(barrier_advice(state_of(a=NOW + ahead, b=NOW), None, NOW))
        assert [each.writer for each in advice] == names
    state = state_of(a=NOW, b=NOW)
    member = replace(state.members["b"], last=NOW + 86_400_000)
    (each,) = barrier_advice(state.with_member("b", member), None, NOW)
    assert (each.writer, each.found) == (
        "b",
        f"barrier {NOW + 86_400_000}, 1 d ahead of this machine's clock",
    )


DAY = 86_400_000
TICK = NOW // INTERVAL * INTERVAL


def turn_clock(monkeypatch: pytest.MonkeyPatch, millis: int) -> None:
    monkeypatch.setattr(barrier_writer, "now_millis", lambda: millis)


@pytest.mark.parametrize("is_complete", [True, False])
@pytest.mark.parametrize("lives_on", ["after a leave", "let go by another"])
@pytest.mark.parametrize(
    "options", [{}, {"merge_engine": "deduplicate"}], ids=["own", "whole rows"]
)
def test_a_writer_whose_clock_was_ahead_leaves_and_joins_at_the_frontier(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    is_complete: bool,
    lives_on: str,
    options: dict[str, str],
) -> None:
    """Its rows are in the barriers of now, whichever compaction runs, and in that of the wrong clock, too."""
    table, catalog = new_table(tmp_path, **options), wt.Catalog(tmp_path)
    columns = {"a": None, "b": None} if options else {"a": ["a"], "b": ["b"]}
    turn_clock(monkeypatch, TICK)
    right, wrong = (BarrierWriter(table, name, columns[name]) for name in "ba")
    right.write({"id": [1], "b": [1]}, complete=True)
    turn_clock(monkeypatch, TICK + DAY)
    wrong.write({"id": [1, 2], "a": [1, 1]}, complete=is_complete)
    turn_clock(monkeypatch, TICK + INTERVAL)
    (advice,) = barrier_advice(barrier_views(table).newest(), None, TICK + INTERVAL)
    assert advice.remedy is Remedy.REJOIN
    assert "let it leave" in advice.action
    if lives_on == "after a leave":
        wrong.leave()
        wrong = BarrierWriter(table, "a", columns["a"])
    else:
        let_leave(table, "a")
    wrong.write({"id": [1], "a": [2]}, complete=True)
    assert barrier_advice(barrier_views(table).newest(), None, TICK + INTERVAL) == ()
    right.complete()
    table.compact(full=True)
    with catalog.session([NAME]) as session:
        assert session.barrier == TICK + INTERVAL
        assert rows_of(session.table(NAME).scan()) == [(1, 2, None if options else 1, None)]
    turn_clock(monkeypatch, TICK + DAY)
    wrong.complete()
    right.complete()
    for _ in range(2):
        assert rows_of(table.scan(barrier=TICK + DAY)) == rows_of(table.scan())
        assert [row[:2] for row in rows_of(table.scan())] == [(1, 2), (2, 1)]
        table.compact(full=True)


def test_a_program_that_gives_its_barriers_keeps_them_when_it_comes_back(tmp_path: Path) -> None:
    """They may be numbers, or event times that no clock has come to."""
    table = new_table(tmp_path)
    first = BarrierWriter(table, "b", ["b"])
    first.complete(10)
    writer = BarrierWriter(table, "a", ["a"])
    writer.write({"id": [1], "a": [1]}, barrier=60)
    writer.leave()
    assert writer.write({"id": [1], "a": [2]}, barrier=20).committed
    assert properties(table)["widetable.barrier"] == "60"


def test_the_only_writer_of_a_table_goes_on_behind_a_clock_that_was_ahead(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table, catalog = new_table(tmp_path), wt.Catalog(tmp_path)
    turn_clock(monkeypatch, TICK + DAY)
    writer = BarrierWriter(table, "a", ["a"])
    writer.write({"id": [1], "a": [1]}, complete=True)
    turn_clock(monkeypatch, TICK)
    (advice,) = barrier_advice(barrier_views(table).newest(), None, TICK)
    assert advice.remedy is Remedy.NONE
    assert "barrier=" in advice.action
    frontier = writer.frontier
    assert frontier == TICK + DAY
    writer.write({"id": [1], "a": [2]}, barrier=frontier + INTERVAL, complete=True)
    with catalog.session([NAME]) as session:
        assert rows_of(session.table(NAME).scan()) == [(1, 2, None, None)]


def test_a_doctor_and_an_inspection_say_who_holds_a_table_and_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = new_table(tmp_path)
    catalog = wt.Catalog(tmp_path)
    ahead, slow = (catalog.writer(NAME, name, [name]) for name in "ab")
    for barrier in (10, 20):
        ahead.write({"id": [1], "a": [barrier]}, barrier=barrier, complete=True)
    assert table.doctor().ok
    assert table.inspect().warnings == ()
    monkeypatch.setattr(upkeep_check, "HELD_MILLIS", 0)
    time.sleep(0.01)
    (finding,) = table.doctor().findings
    assert finding.subject == f"writer 'b' of {table.path}"
    assert finding.found == "barrier 0 for more than 10 min, while the table has reached 20"
    assert finding.command == f"widetable meta leave {tmp_path} {NAME} b"
    (warning,) = table.inspect().warnings
    assert warning.startswith("WT-W806 writer 'b' is at barrier 0 for more than 10 min")
    slow.complete(20)
    assert table.doctor().ok
    monkeypatch.undo()
    slow.write({"id": [1], "b": [1]}, barrier=4_000_000_000_000_000)
    (finding,) = table.doctor().findings
    assert "ahead of this machine's clock" in finding.found
    assert finding.command == ""
    assert "ahead of this machine's clock" in table.inspect().warnings[0]


def test_a_widener_that_nobody_runs_is_named_with_the_maintainer_that_it_needs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    orders = Orders(tmp_path)
    orders.round()
    orders.write("cust", {1: 1}, INTERVAL)
    orders.write("amount", {1: 5}, INTERVAL)
    orders.write("dim", {1: ("O", 1)}, INTERVAL)
    monkeypatch.setattr(upkeep_check, "HELD_MILLIS", 0)
    time.sleep(0.01)
    (finding,) = [each for each in orders.fact.doctor().findings if "writer" in each.subject]
    assert finding.subject == f"writer {WIDENER!r} of {orders.fact.path}"
    assert "Let a maintainer run" in finding.action
    assert finding.command == f"widetable maintain {orders.fact.path}"
    orders.round()
    assert [each for each in orders.fact.doctor().findings if "writer" in each.subject] == []


@pytest.mark.parametrize("damage", [b"", b"{", None])
def test_an_inspection_says_what_it_can_of_snapshots_that_are_damaged(
    tmp_path: Path, damage: bytes | None
) -> None:
    """The one that it would have looked at for the time before."""
    table = new_table(tmp_path)
    writer = wt.Catalog(tmp_path).writer(NAME, "w")
    for barrier in (10, 20):
        writer.write({"id": [1], "a": [barrier]}, barrier=barrier, complete=True)
    table.compact(full=True)
    writer.write({"id": [1], "a": [3]}, barrier=30)
    newest = table.snapshots()[-1].id
    first = Path(table.path, "snapshot/snapshot-1")
    first.unlink() if damage is None else first.write_bytes(damage)
    assert wt.Table.open(table.path).inspect().latest_snapshot_id == newest


def test_an_inspection_says_nothing_where_nobody_says_who_is_there(tmp_path: Path) -> None:
    """Another client's expiry has left snapshots of another client alone."""
    table = new_table(tmp_path)
    wt.Catalog(tmp_path).writer(NAME, "w").write({"id": [1], "a": [1]}, barrier=10)
    commit_without_barriers(table, {"id": [1], "b": [2]})
    newest = newest_snapshot(table)
    for file in newest.parent.glob("snapshot-*"):
        if file != newest:
            file.unlink()
    (newest.parent / "EARLIEST").write_text(newest.name.rpartition("-")[2])
    left = wt.Table.open(table.path)
    with pytest.raises(wt.NotFoundError, match="other clients' snapshots"):
        left.scan(barrier=10)
    assert left.inspect().warnings == ()
    assert [each for each in left.doctor().findings if "writer" in each.subject] == []


def test_a_position_of_a_log_is_no_time() -> None:
    """A database that has written 2 TiB has positions above the milliseconds of the clock."""
    position = 2 << 40
    assert position > NOW + 86_400_000
    counted = replace(state_of(**{"cdc/shop": position}), interval=1)
    assert list(barrier_advice(counted, None, NOW)) == []
    by_clock = replace(counted, interval=INTERVAL)
    assert [each.writer for each in barrier_advice(by_clock, None, NOW)] == ["cdc/shop"]
    others = replace(state_of(a=position), interval=1)
    assert [each.writer for each in barrier_advice(others, None, NOW)] == ["a"]
