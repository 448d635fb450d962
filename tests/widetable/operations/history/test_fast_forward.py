"""Fast-forward: a table goes on as its branch, and loses nothing that it is not told to lose."""

from __future__ import annotations

import shutil
from pathlib import Path

import pyarrow as pa
import pytest

import widetable as wt
from tests.support.faults.faults import Fault, FaultyFileIO
from tests.support.tables.branched import Rows, put, rows_of
from widetable.commit.holds.retired_snapshots import RetiredSnapshots
from widetable.commit.snapshots.manifest_cache import MANIFEST_CACHE
from widetable.storage.local import LocalFileIO

IO = LocalFileIO(fsync=False)


@pytest.fixture
def table(tmp_path: Path) -> wt.Table:
    """One commit, tagged; a branch `b` of it with two more."""
    made = wt.Catalog(tmp_path).create_table(
        "db.t",
        {"k": "BIGINT", "v": "STRING"},
        primary_key=["k"],
        options={"widetable.fsync": "false", "write-only": "true", "changelog-producer": "input"},
    )
    put(made, {1: "a", 2: "b"})
    made.create_tag("first")
    made.create_branch("b", tag="first")
    put(branch_of(made), {2: "B", 3: "c"})
    put(branch_of(made), {4: "d"})
    return made


def branch_of(table: wt.Table) -> wt.Table:
    return wt.Table.open(table.path, branch="b")


THEN: Rows = {1: "a", 2: "B", 3: "c", 4: "d"}


def test_main_gets_what_the_branch_has(table: wt.Table) -> None:
    branch_of(table).create_tag("second")
    done = table.fast_forward("b")
    assert done == wt.FastForwardResult("b", 1, snapshots=(2, 3), tags=("second",))
    assert rows_of(table) == THEN
    assert rows_of(table, tag="second") == THEN
    assert rows_of(table, tag="first") == {1: "a", 2: "b"}
    assert [snapshot.id for snapshot in table.snapshots()] == [1, 2, 3]
    put(table, {5: "e"})
    assert rows_of(branch_of(table)) == THEN
    assert table.audit().ok


def test_a_dry_run_says_and_does_nothing(table: wt.Table) -> None:
    planned = table.fast_forward("b", dry_run=True)
    assert rows_of(table) == {1: "a", 2: "b"}
    assert table.fast_forward("b") == planned


def test_again_and_again(table: wt.Table) -> None:
    table.fast_forward("b")
    assert table.fast_forward("b") == wt.FastForwardResult("b", 3)
    put(branch_of(table), {1: "z"})
    assert table.fast_forward("b") == wt.FastForwardResult("b", 3, snapshots=(4,))
    assert rows_of(table) == {**THEN, 1: "z"}


def test_readers_of_changes_go_on(table: wt.Table) -> None:
    with table.follow(consumer_id="reader", timeout=0) as follower:
        list(follower)
    assert table.consumers() == {"reader": 2}
    table.fast_forward("b")
    assert table.consumers() == {"reader": 2}
    events = table.changes(1, 3).to_pylist()
    assert [event["k"] for event in events] == [2, 3, 4]


def test_what_only_main_has_is_dropped_when_asked_for(table: wt.Table) -> None:
    put(table, {1: "main"})
    table.create_tag("mine")
    with table.follow(consumer_id="reader", timeout=0) as follower:
        list(follower)
    with pytest.raises(wt.ConflictError, match=r"snapshot 2, tag mine, consumer reader"):
        table.fast_forward("b")
    assert rows_of(table) == {1: "main", 2: "b"}
    done = table.fast_forward("b", replace=True)
    assert done == wt.FastForwardResult(
        "b",
        1,
        snapshots=(2, 3),
        dropped_snapshots=(2,),
        dropped_tags=("mine",),
        dropped_consumers=("reader",),
    )
    assert rows_of(table) == THEN
    assert list(table.tags()) == ["first"]
    assert table.consumers() == {}
    assert table.remove_orphan_files(older_than_millis=0).paths != ()
    assert rows_of(table) == THEN
    assert table.audit().ok


def test_who_opened_main_before_is_told_what_was_dropped(table: wt.Table) -> None:
    put(table, {1: "main"})
    before = wt.Table.open(table.path)
    source = before.change_source()
    table.fast_forward("b", replace=True)
    with pytest.raises(wt.InvalidError, match="continues as a branch"):
        put(before, {7: "late"})
    assert source.identity != wt.Table.open(table.path).change_source().identity
    put(table, {7: "x"})
    assert rows_of(wt.Table.open(table.path)) == {**THEN, 7: "x"}


def test_who_opened_main_before_goes_on_when_nothing_was_dropped(table: wt.Table) -> None:
    before = wt.Table.open(table.path)
    table.fast_forward("b")
    put(before, {7: "x"})
    assert rows_of(table) == {**THEN, 7: "x"}


@pytest.mark.parametrize("writes", ["added", "k"])
@pytest.mark.parametrize("branch_adds", [True, False])
def test_files_whose_schema_went_are_refused_whichever_handle_commits_them(
    table: wt.Table, tmp_path: Path, writes: str, branch_adds: bool
) -> None:
    """Both have a schema of the same number. Their columns would have been read under each other's ids."""
    catalog = wt.Catalog(tmp_path)
    catalog.alter_table("db.t", add_columns=[pa.field("added", pa.int32())])
    if branch_adds:
        catalog.alter_table("db.t$branch_b", add_columns=[pa.field("other", pa.string())])
    with wt.Table.open(table.path).new_writer(sorted({"k", writes})) as writer:
        writer.write(pa.table({name: pa.array([9], _type(name)) for name in {"k", writes}}))
        messages = writer.finish()
    goes_on = wt.Table.open(table.path)
    goes_on.fast_forward("b", replace=True)
    for handle in (goes_on, wt.Table.open(table.path)):
        for commit in (handle.commit_append, handle.commit_overwrite):
            with pytest.raises(wt.InvalidError, match="a schema 1 which the table no longer has"):
                commit(messages)
    assert rows_of(goes_on) == THEN
    assert goes_on.audit().ok


def _type(column: str) -> pa.DataType:
    return pa.int64() if column == "k" else pa.int32()


def test_schemas_come_and_go(table: wt.Table, tmp_path: Path) -> None:
    """The branch has a column, main has options under the same number."""
    wt.Catalog(tmp_path).alter_table("db.t$branch_b", add_columns=[pa.field("w", pa.int32())])
    branch = branch_of(table)
    branch.write(pa.table({"k": [9], "w": pa.array([5], pa.int32())}))
    table.alter_options({"target-file-size": "10 mb"})
    with pytest.raises(wt.ConflictError, match="schema 1"):
        table.fast_forward("b")
    done = table.fast_forward("b", replace=True)
    assert (done.schemas, done.dropped_schemas) == ((1,), (1,))
    assert table.arrow_schema.names == ["k", "v", "w"]
    assert "target-file-size" not in table.schema.options
    assert table.scan(filter="k = 9").to_arrow()["w"].to_pylist() == [5]


def test_nothing_in_common(table: wt.Table) -> None:
    """A branch that was made without a tag, and main, which has expired: one history for the other."""
    table.create_branch("e")
    empty = wt.Table.open(table.path, branch="e")
    with pytest.raises(wt.InvalidError, match="without snapshots"):
        table.fast_forward("e")
    put(empty, {8: "e"})
    put(table, {1: "main"})
    done = table.fast_forward("e", replace=True)
    assert (done.common_id, done.snapshots, done.dropped_snapshots) == (None, (1,), (1, 2))
    assert done.dropped_tags == ("first",)
    assert rows_of(table) == {8: "e"}
    put(table, {9: "f"})
    table.remove_orphan_files(older_than_millis=0)
    assert rows_of(table) == {8: "e", 9: "f"}
    assert rows_of(branch_of(table)) == THEN


def test_a_branch_behind_a_gap(table: wt.Table) -> None:
    """It has expired what it shared with main: main's older snapshots go too, so that there is no gap."""
    branch = branch_of(table)
    branch.delete_tag("first")
    branch.expire_snapshots(1, 1, 0)
    done = table.fast_forward("b", replace=True)
    assert (done.common_id, done.snapshots, done.dropped_snapshots) == (None, (3,), (1,))
    assert rows_of(table, tag="first") == {1: "a", 2: "b"}
    table.remove_orphan_files(older_than_millis=0)
    assert rows_of(table, tag="first") == {1: "a", 2: "b"}
    assert rows_of(table) == THEN


def test_notes_of_expiry_do_not_outlive_what_they_mean(table: wt.Table) -> None:
    """Main has expired 1 to 4; the 2 and 3 that come from the branch stay whole through main's next expiries."""
    for number in range(4):
        put(table, {number: "main"})
    table.expire_snapshots(1, 1, 0)
    notes = RetiredSnapshots(IO, table._paths)
    assert notes.note(5)
    table.fast_forward("b", replace=True)
    assert notes.noted() == set()
    put(table, {5: "e"})
    table.expire_snapshots(1, 1, 0)
    assert rows_of(table) == {**THEN, 5: "e"}
    assert rows_of(branch_of(table)) == THEN


def test_tags_of_main_outlive_a_history_that_is_not_theirs(table: wt.Table) -> None:
    """`first` has files that `second` has not, and that the branch's snapshots delete under main's numbers."""
    put(table, {1: "main"})
    table.compact(full=True)
    table.create_tag("second")
    branch = branch_of(table)
    put(branch, {4: "d"})
    branch.expire_snapshots(1, 1, 0)
    branch.delete_tag("first")
    branch.compact(full=True)
    table.fast_forward("b", replace=True)
    assert sorted(table.tags()) == ["first", "second"]
    table.drop_branch("b")
    put(table, {9: "x"})
    table.expire_snapshots(1, 1, 0)
    MANIFEST_CACHE.clear()
    assert rows_of(table, tag="first") == {1: "a", 2: "b"}
    assert rows_of(table, tag="second") == {1: "main", 2: "b"}
    assert rows_of(table) == {**THEN, 9: "x"}


def test_a_fast_forward_of_another_client_keeps_both_histories(table: wt.Table) -> None:
    """It lays the branch's files over main's, though the branch has expired what they share."""
    put(table, {1: "main"})
    table.compact(full=True)
    branch = branch_of(table)
    branch.expire_snapshots(1, 1, 0)
    branch.compact(full=True)
    branch.delete_tag("first")
    for snapshot in branch.snapshots():
        data = IO.read(branch._paths.snapshot(snapshot.id))
        IO.replace(table._paths.snapshot(snapshot.id), data)
    IO.delete(table._paths.latest_hint)
    table.drop_branch("b")
    before = {s.id: rows_of(table, snapshot_id=s.id) for s in table.snapshots()}
    put(table, {9: "x"})
    table.remove_orphan_files(older_than_millis=0)
    for kept in range(len(before), 0, -1):
        table.expire_snapshots(kept, kept, 0)
        for snapshot in table.snapshots():
            if snapshot.id in before:
                assert rows_of(table, snapshot_id=snapshot.id) == before[snapshot.id]
    assert rows_of(table, tag="first") == {1: "a", 2: "b"}
    assert rows_of(table) == {**THEN, 9: "x"}


def test_the_branch_itself(table: wt.Table) -> None:
    with pytest.raises(wt.InvalidError, match="itself"):
        branch_of(table).fast_forward("b")


@pytest.mark.parametrize("is_shared", [True, False])
@pytest.mark.parametrize("fault", [Fault.BEFORE, Fault.AFTER])
def test_it_stops_anywhere_and_is_called_again(
    table: wt.Table, fault: Fault, is_shared: bool, tmp_path: Path
) -> None:
    put(table, {1: "main"})
    table.create_tag("mine")
    name = "b"
    if not is_shared:
        table.create_branch("e")
        put(wt.Table.open(table.path, branch="e"), dict(THEN))
        name = "e"
    points = 0
    for kind in ("publish", "replace", "delete"):
        for skip in range(12):
            copy = tmp_path / f"{kind}{skip}.db" / "t"
            shutil.copytree(table.path, copy)
            faulty = FaultyFileIO(IO)
            faulty.fail(kind, fault, skip=skip)
            try:
                wt.Table.open(copy, file_io=faulty).fast_forward(name, replace=True)
            except wt.StorageError:
                points += 1
            again = wt.Table.open(copy)
            again.fast_forward(name, replace=True)
            assert rows_of(again) == THEN
            assert list(again.tags()) == (["first"] if is_shared else [])
            put(again, {6: "x"})
            assert again.audit().ok
    assert points > 6


def test_a_branch_of_another_client_whose_first_changelog_has_expired(tmp_path: Path) -> None:
    """It is a copy of the tag, which names a changelog that is gone; main does not name it then."""
    table = wt.Catalog(tmp_path).create_table(
        "db.t",
        {"k": "BIGINT", "v": "STRING"},
        primary_key=["k"],
        options={"widetable.fsync": "false", "changelog-producer": "input"},
    )
    put(table, {1: "a"})
    table.create_tag("first", 1)
    for number in range(2, 5):
        put(table, {number: "b"})
    table.expire_snapshots(1, 1, 0)
    table.remove_orphan_files(older_than_millis=0)
    branch = Path(table.path, "branch/branch-b")
    for kind in ("schema", "snapshot", "tag"):
        (branch / kind).mkdir(parents=True)
    shutil.copy(Path(table.path, "schema/schema-0"), branch / "schema/schema-0")
    for name in ("tag/tag-first", "snapshot/snapshot-1"):
        shutil.copy(Path(table.path, "tag/tag-first"), branch / name)
    MANIFEST_CACHE.clear()
    put(branch_of(table), {7: "c"})
    table.fast_forward("b", replace=True)
    MANIFEST_CACHE.clear()
    table = wt.Table.open(table.path)
    table.remove_orphan_files(older_than_millis=0)
    assert rows_of(table) == {1: "a", 7: "c"}
    put(table, {8: "d"})
    assert table.expire_snapshots(1, 1, 0).ids == (1, 2)
    assert table.doctor(deep=True).ok


def test_other_schemas_behind_the_same_snapshot_are_refused(table: wt.Table) -> None:
    """Who has the table open would not see it: it is known by its newest snapshot."""
    table.create_branch("new")
    branch = wt.Table.open(table.path, branch="new")
    branch.alter_options({"target-file-size": "10 mb"})
    table.alter_options({"target-file-size": "20 mb"})
    with pytest.raises(wt.InvalidError, match="Write to the branch first"):
        table.fast_forward("new", replace=True)
    assert table.schema.options["target-file-size"] == "20 mb"
    put(branch, {7: "x"})
    table.fast_forward("new", replace=True)
    assert table.schema.options["target-file-size"] == "10 mb"
