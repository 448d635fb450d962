"""Branches: histories of their own, which share data files; nothing that is done in one is seen in another."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import widetable as wt
from tests.support.faults.faults import Fault, FaultyFileIO
from tests.support.tables.branched import create, expire_all, opened, put, rows_of
from widetable.commit.snapshots.manifest_cache import MANIFEST_CACHE
from widetable.storage.local import LocalFileIO
from widetable.storage.paths import TablePaths

IO = LocalFileIO(fsync=False)


def metadata(table: wt.Table) -> dict[str, bytes]:
    """Every file of a branch's own, but what services leave."""
    paths = table._paths
    places = (paths.schema_dir, paths.snapshot_dir, paths.tag_dir, paths.consumer_dir)
    return {
        f"{place}/{entry.name}": IO.read(f"{place}/{entry.name}")
        for place in places
        for entry in IO.list(place)
        if not entry.is_dir
    }


@pytest.fixture
def table(tmp_path: Path) -> wt.Table:
    """Two commits, the first of them tagged."""
    made = create(tmp_path)
    put(made, {1: "a", 2: "b"})
    made.create_tag("first")
    put(made, {2: "c", 3: "d"})
    return made


def test_a_branch_of_a_tag_has_its_rows(table: wt.Table) -> None:
    table.create_branch("b", tag="first")
    branch = opened(table, "b")
    assert rows_of(branch) == {1: "a", 2: "b"}
    assert list(branch.tags()) == ["first"]
    assert [s.id for s in branch.snapshots()] == [table.tags()["first"].id]
    assert branch.branch == "b"
    assert table.branch == "main"


def test_a_branch_without_a_tag_has_the_schemas_and_no_rows(table: wt.Table) -> None:
    table.alter_options({"target-file-size": "10 mb"})
    table.create_branch("b")
    branch = opened(table, "b")
    assert rows_of(branch) == {}
    assert branch.snapshots() == []
    assert branch.schema == table.schema
    put(branch, {7: "x"})
    assert rows_of(branch) == {7: "x"}
    assert branch.snapshots()[0].id == 1
    assert branch.audit().ok


def test_a_branch_has_the_schemas_up_to_the_tag(table: wt.Table) -> None:
    wt.Catalog(Path(table.path).parent.parent).alter_table(
        "db.t", add_columns=[pa.field("w", pa.int32())]
    )
    table.create_branch("b", tag="first")
    branch = opened(table, "b")
    assert branch.schema.id == 0
    assert branch.arrow_schema.names == ["k", "v"]


def test_an_altered_branch_leaves_main_alone(table: wt.Table, tmp_path: Path) -> None:
    table.create_branch("b", tag="first")
    altered = wt.Catalog(tmp_path).alter_table(
        "db.t$branch_b", add_columns=[pa.field("w", pa.int32())]
    )
    assert altered.arrow_schema.names == ["k", "v", "w"]
    assert wt.Table.open(table.path).arrow_schema.names == ["k", "v"]
    altered.write(pa.table({"k": [9], "w": pa.array([5], pa.int32())}))
    assert altered.scan().to_arrow().num_rows == 3
    assert altered.audit().ok


def test_writes_touch_only_the_branchs_own_metadata(table: wt.Table) -> None:
    table.create_branch("b", tag="first")
    branch = opened(table, "b")
    main = metadata(table)
    put(branch, {1: "B", 5: "e"})
    branch.create_tag("mine")
    branch.compact(full=True)
    branch.rollback(tag="first")
    branch.alter_options({"target-file-size": "10 mb"})
    with branch.follow(consumer_id="reader", timeout=0) as follower:
        list(follower)
    expire_all(branch)
    branch.maintain(once=True)
    assert branch.doctor().findings == ()
    assert branch.inspect().path == branch.path
    assert metadata(table) == main
    assert rows_of(table) == {1: "a", 2: "c", 3: "d"}
    assert rows_of(branch) == {1: "a", 2: "b"}
    assert rows_of(branch, tag="mine") == {1: "B", 2: "b", 5: "e"}
    branch_files = metadata(branch)
    put(table, {1: "m"})
    expire_all(table)
    assert metadata(branch) == branch_files


def test_changes_and_lookups_are_the_branchs(tmp_path: Path) -> None:
    table = create(tmp_path, **{"changelog-producer": "lookup"})
    put(table, {1: "a"})
    table.create_tag("first")
    table.create_branch("b", tag="first")
    branch = opened(table, "b")
    after = branch.snapshots()[-1].id
    put(table, {1: "main"})
    put(branch, {1: "branch"})
    for one, value in ((table, "main"), (branch, "branch")):
        events = one.changes(after, one.snapshots()[-1].id).to_pylist()
        assert sorted((e["_row_kind"], e["v"]) for e in events) == [("+U", value), ("-U", "a")]
        assert one.lookup([1])["v"].to_pylist() == [value]


def test_a_branch_is_opened_by_path_name_and_pickle(table: wt.Table, tmp_path: Path) -> None:
    table.create_branch("b-1.x", tag="first")
    catalog = wt.Catalog(tmp_path)
    for branch in (
        opened(table, "b-1.x"),
        catalog.table("db.t$branch_b-1.x"),
        wt.Table.open(f"{table.path}/branch/branch-b-1.x"),
        wt.Table.open(f"file://{table.path}", branch="b-1.x"),
        pickle.loads(pickle.dumps(opened(table, "b-1.x"))),
    ):
        assert branch.branch == "b-1.x"
        assert rows_of(branch) == {1: "a", 2: "b"}
        assert branch.branches() == ["b-1.x"]
        assert opened(branch, "main").path == table.path
    assert catalog.list_tables() == ["db.t"]


@pytest.mark.parametrize("name", ["", " ", "main", "12", "a/b", "..", "a$b", " a", "x" * 300, None])
def test_names_that_are_refused(table: wt.Table, name: Any) -> None:
    for call in (table.create_branch, table.drop_branch, table.fast_forward):
        with pytest.raises(wt.InvalidError):
            call(name)
    assert table.branches() == []


def test_branches_that_are_not_there(table: wt.Table, tmp_path: Path) -> None:
    table.create_branch("b")
    calls: list[Callable[[], object]] = [
        lambda: table.drop_branch("c"),
        lambda: table.fast_forward("c"),
        lambda: opened(table, "c"),
        lambda: wt.Catalog(tmp_path).table("db.t$branch_c"),
        lambda: table.create_branch("c", tag="none"),
    ]
    for call in calls:
        with pytest.raises(wt.NotFoundError, match=r"b|first"):
            call()
    assert table.branches() == ["b"]


def test_a_taken_name(table: wt.Table) -> None:
    table.create_branch("b", tag="first")
    put(opened(table, "b"), {8: "kept"})
    with pytest.raises(wt.InvalidError, match="Use another name"):
        table.create_branch("b")
    assert rows_of(opened(table, "b")) == {1: "a", 2: "b", 8: "kept"}


def test_tables_whose_options_name_others_have_no_branches(tmp_path: Path) -> None:
    table = create(tmp_path, **{"index.v": "db.by_v"})
    put(table, {1: "a"})
    table.maintain(once=True)
    for name in ("db.t", "db.by_v"):
        with pytest.raises(wt.UnsupportedError):
            wt.Catalog(tmp_path).table(name).create_branch("b")


def test_a_branch_of_a_branch(table: wt.Table) -> None:
    table.create_branch("b", tag="first")
    branch = opened(table, "b")
    put(branch, {4: "x"})
    branch.create_tag("second")
    branch.create_branch("c", tag="second")
    table.drop_branch("b")
    table.remove_orphan_files(older_than_millis=0)
    assert table.branches() == ["c"]
    assert rows_of(opened(table, "c")) == {1: "a", 2: "b", 4: "x"}


def test_a_branch_keeps_what_main_lets_go(tmp_path: Path) -> None:
    """The tag is gone, its snapshot has expired, main has compacted: all its files are the branch's alone."""
    table = create(tmp_path, **{"changelog-producer": "lookup"})
    put(table, {1: "a", 2: "b"})
    table.create_tag("first")
    put(table, {1: "z"})
    table.create_branch("b", tag="first")
    table.compact(full=True)
    table.delete_tag("first")
    expire_all(table)
    table.remove_orphan_files(older_than_millis=0)
    branch = opened(table, "b")
    assert rows_of(branch) == {1: "a", 2: "b"}
    assert branch.audit().ok
    put(branch, {3: "c"})
    branch.delete_tag("first")
    expire_all(branch)
    branch.remove_orphan_files(older_than_millis=0)
    assert rows_of(branch) == {1: "a", 2: "b", 3: "c"}
    assert rows_of(table) == {1: "z", 2: "b"}


def test_a_branch_of_a_tag_whose_snapshot_has_expired(tmp_path: Path) -> None:
    """Its changelog is gone: neither the audit nor expiry, here and in main, stumbles on that."""
    table = create(tmp_path, **{"changelog-producer": "input"})
    put(table, {1: "a"})
    table.create_tag("first")
    put(table, {1: "b"})
    expire_all(table)
    table.create_branch("b", tag="first")
    branch = opened(table, "b")
    assert branch.snapshots()[0].changelog_manifest_list is None
    for one in (table, branch):
        put(one, {2: one.branch})
        assert one.audit().ok
        expire_all(one)
        one.remove_orphan_files(older_than_millis=0)
    assert rows_of(branch) == {1: "a", 2: "b"}
    assert rows_of(table) == {1: "b", 2: "main"}


def test_another_clients_branch_without_its_changelog(tmp_path: Path) -> None:
    """Others copy the tag as it is."""
    table = create(tmp_path, **{"changelog-producer": "input"})
    put(table, {1: "a"})
    table.create_tag("first")
    put(table, {1: "b"})
    expire_all(table)
    paths = TablePaths(table.path).of_branch("b")
    kept = table.tags()["first"]
    assert kept.changelog_manifest_list is not None
    IO.write_new(paths.snapshot(kept.id), kept.to_json().encode())
    IO.write_new(paths.schema(0), IO.read(table._paths.schema(0)))
    put(table, {3: "c"})
    MANIFEST_CACHE.clear()
    expire_all(table)
    table.remove_orphan_files(older_than_millis=0)
    branch = opened(table, "b")
    put(branch, {2: "x"})
    expire_all(branch)
    assert rows_of(branch) == {1: "a", 2: "x"}
    assert rows_of(table) == {1: "b", 3: "c"}


def test_a_dropped_branch_leaves_orphans(table: wt.Table) -> None:
    table.remove_orphan_files(older_than_millis=0)
    table.create_branch("b", tag="first")
    put(opened(table, "b"), {5: "only here"})
    assert table.remove_orphan_files(older_than_millis=0).paths == ()
    table.drop_branch("b")
    assert table.branches() == []
    assert table.remove_orphan_files(older_than_millis=0).paths != ()
    assert rows_of(table) == {1: "a", 2: "c", 3: "d"}
    assert table.audit().ok


def test_a_branch_that_was_dropped_and_made_again_is_another_one(table: wt.Table) -> None:
    table.create_branch("b", tag="first")
    old = opened(table, "b")
    put(old, {5: "x"})
    table.drop_branch("b")
    with pytest.raises(wt.NotFoundError):
        put(old, {6: "y"})
    if IO.list(old.path):  # what the late writer left
        table.drop_branch("b")
    table.create_branch("b", tag="first")
    with pytest.raises(wt.InvalidError, match="made again"):
        put(old, {6: "y"})
    assert rows_of(opened(table, "b")) == {1: "a", 2: "b"}


def test_main_may_begin_after_its_branch(tmp_path: Path) -> None:
    """Manifests of branches are no sign that main has lost snapshots."""
    table = create(tmp_path)
    table.create_branch("b")
    branch = opened(table, "b")
    for number in range(4):
        put(branch, {number: "b"})
    with pytest.raises(wt.DamagedError, match="after its first commit"):
        branch.remove_orphan_files(older_than_millis=0)
    put(table, {1: "main"})
    table.remove_orphan_files(older_than_millis=0)
    assert rows_of(table) == {1: "main"}
    assert rows_of(branch) == dict.fromkeys(range(4), "b")


@pytest.mark.parametrize("fault", [Fault.BEFORE, Fault.AFTER])
def test_the_making_stops_anywhere(table: wt.Table, fault: Fault) -> None:
    """There is a whole branch or none, and main is as it was."""
    points = 0
    for kind in ("publish", "replace"):
        for skip in range(10):
            faulty = FaultyFileIO(IO)
            faulty.fail(kind, fault, skip=skip)
            try:
                wt.Table.open(table.path, file_io=faulty).create_branch("b", tag="first")
            except wt.StorageError:
                points += 1
            else:
                assert rows_of(opened(table, "b")) == {1: "a", 2: "b"}
            if "b" in table.branches():
                assert rows_of(opened(table, "b")) == {1: "a", 2: "b"}
            if IO.list(f"{table.path}/branch/branch-b"):
                table.drop_branch("b")
            table.remove_orphan_files(older_than_millis=0)
            assert rows_of(table, tag="first") == {1: "a", 2: "b"}
    assert points > 4


def test_a_damaged_branch_stops_deletions_and_is_named(table: wt.Table) -> None:
    table.create_branch("b", tag="first")
    branch = opened(table, "b")
    put(branch, {5: "x"})
    IO.delete(branch._paths.manifest(branch.snapshots()[-1].base_manifest_list))
    MANIFEST_CACHE.clear()
    with pytest.raises(wt.DamagedError, match="branch 'b'"):
        table.remove_orphan_files(older_than_millis=0)
    table.drop_branch("b")
    table.remove_orphan_files(older_than_millis=0)
