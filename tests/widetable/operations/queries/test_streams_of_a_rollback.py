"""Streams of changes end before a rollback: no changes say which rows went."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import widetable as wt
from widetable.read.stream_plan import Limits, Offset, advance, pieces_between

WAY_ON = r"rollback to snapshot 2.*latest-full.*from snapshot 5 on"


@pytest.fixture(params=["none", "input", "lookup"])
def table(tmp_path: Path, request: pytest.FixtureRequest) -> wt.Table:
    """Three commits, each of a snapshot, or of two where a compaction makes the changelog."""
    options = {"bucket": "1", "changelog-producer": request.param, "widetable.fsync": "false"}
    made = wt.Catalog(str(tmp_path)).create_table(
        "db.t", {"k": "INT", "v": "INT"}, primary_key=["k"], options=options
    )
    for key in (1, 2, 3):
        made.write([{"k": key, "v": key}])
    return made


def keys(follower: Iterator[object]) -> list[int]:
    return [key for batch in follower for key in batch.column("k").to_pylist()]  # type: ignore[attr-defined]


def test_a_follower_ends_before_a_rollback_and_says_how_to_go_on(table: wt.Table) -> None:
    last = table.snapshots()[-1].id
    follower = table.follow("c", "from-snapshot", 1, timeout=0.2)
    given = [next(follower).column("k").to_pylist() for _ in range(3)]
    done = table.rollback(last - 1 if last == 3 else 4)
    assert done.snapshot_id is not None
    table.write([{"k": 9, "v": 9}])
    assert given == [[1], [2], [3]]
    message = f"rollback to snapshot {done.target_id}.*from snapshot {done.snapshot_id + 1} on"
    with pytest.raises(wt.InvalidError, match=message):
        next(follower)
    with pytest.raises(wt.InvalidError, match=message):  # and so does the next one of its consumer
        keys(table.follow("c", timeout=0))
    assert keys(table.follow("d", timeout=0)) == [1, 2, 9]
    behind = table.follow("e", "from-snapshot", done.snapshot_id + 1, timeout=0)
    assert keys(behind) == [9]


def test_what_comes_before_a_rollback_is_given_out(tmp_path: Path) -> None:
    options = {"bucket": "1", "write-only": "true", "widetable.fsync": "false"}
    table = wt.Catalog(str(tmp_path)).create_table(
        "db.t", {"k": "INT", "v": "INT"}, primary_key=["k"], options=options
    )
    for key in (1, 2, 3):
        table.write([{"k": key, "v": key}])
    table.rollback(2)
    table.write([{"k": 9, "v": 9}])
    source = table.change_source()
    start = Offset(1, table=source.identity)
    end = advance(start, source.step, 5, Limits()).offset
    assert end == source.end(3)
    assert [piece.step.snapshot_id for piece in pieces_between(start, end, source.step)] == [
        1,
        2,
        3,
    ]
    with pytest.raises(wt.InvalidError, match=WAY_ON):
        advance(end, source.step, 5, Limits())
    with pytest.raises(wt.InvalidError, match=WAY_ON):  # a batch of a version that passed it by
        pieces_between(start, source.end(5), source.step)
    full = Offset(4, is_full=True, table=source.identity)
    assert advance(full, source.step, 5, Limits()).offset == source.end(5)


def test_a_range_of_changes_over_a_rollback_is_refused_and_a_difference_has_it(
    table: wt.Table,
) -> None:
    """Changes of both histories do not make the rows; up to the rollback and behind it they are given."""
    before = table.snapshots()[-1].id
    done = table.rollback(before - 1 if before == 3 else 4)
    back = done.snapshot_id
    assert back is not None
    table.write([{"k": 9, "v": 9}])
    last = table.snapshots()[-1].id
    for read in (
        lambda: table.changes(0, last),
        lambda: list(table.change_batches(before, back)),
        lambda: table.scan_changes(1, last).to_arrow(),
        lambda: table.scan_changes(1, last).count(),
    ):
        with pytest.raises(wt.InvalidError, match=rf"snapshot {back} .*'diff'.*after {back}"):
            read()
    assert table.changes(0, back - 1)["k"].to_pylist() == [1, 2, 3]
    assert table.changes(back, last)["k"].to_pylist() == [9]
    difference = table.changes(before, last, mode="diff").sort_by("k")
    assert difference.select(["k", "_row_kind"]).to_pylist() == [
        {"k": 3, "_row_kind": "-D"},
        {"k": 9, "_row_kind": "+I"},
    ]
    assert table.changes(0, last, mode="delta")["k"].to_pylist() == [1, 2, 3, 9]


def test_batches_and_scans_find_a_rollback_when_they_come_to_it(table: wt.Table) -> None:
    """To look for one before would read each snapshot twice; a preview needs none behind what it shows."""
    done = table.rollback(table.snapshots()[-1].id - 1)
    assert done.snapshot_id is not None
    batches = table.change_batches(0, done.snapshot_id)
    assert next(batches).num_rows
    message = f"snapshot {done.snapshot_id} in the range, a rollback"
    with pytest.raises(wt.InvalidError, match=message):
        list(batches)
    scan = table.scan_changes(0, done.snapshot_id)
    assert scan.limit(1).to_arrow().num_rows == 1
    with pytest.raises(wt.InvalidError, match=message):
        scan.to_arrow()


def test_an_overwrite_that_is_no_rollback_is_passed_by_as_before(tmp_path: Path) -> None:
    options = {"bucket": "1", "write-only": "true", "widetable.fsync": "false"}
    table = wt.Catalog(str(tmp_path)).create_table(
        "db.t", {"k": "INT", "v": "INT"}, primary_key=["k"], options=options
    )
    table.write([{"k": 1, "v": 1}])
    table.rollback(1)  # these rows are there: nothing is committed
    table.overwrite([{"k": 2, "v": 2}])
    table.write([{"k": 3, "v": 3}])
    assert keys(table.follow(scan_mode="from-snapshot", snapshot_id=1, timeout=0)) == [1, 3]
