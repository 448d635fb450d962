"""A table at another place: the rows of one snapshot, files as they were, and a life of its own from then on."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import widetable as wt
from tests.support.faults.faults import READS, WRITES, Fault, FaultyFileIO
from tests.support.faults.small_disk import fill, free_bytes, small_disk  # noqa: F401
from tests.support.models.changelog_follower import change_texts, changes_of
from tests.support.models.plain_rows import python_rows, row_texts
from tests.support.models.random_table import live_files
from tests.support.tables.branched import OPTIONS, Rows, create, expire_all, opened, put, rows_of
from tests.support.tables.fixture_tables import ROOT as FIXTURES
from tests.widetable.operations.compaction import test_deletion_vectors as vectors
from tests.widetable.operations.writes import test_dynamic_tables as dynamic
from widetable.storage.local import LocalFileIO

EXPECTED: Rows = {1: "a", 2: "c", 3: "b"}


def made(folder: Path, **options: str) -> wt.Table:
    """With files at several levels, and rows EXPECTED."""
    table = create(folder, **options)
    put(table, {1: "a", 2: "a"})
    table.compact(full=True)
    put(table, {2: "b", 3: "b"})
    put(table, {2: "c"})
    return table


def copied(table: wt.Table, name: str = "db.u", **how: object) -> wt.Table:
    catalog = wt.Catalog(Path(table.path).parent.parent)
    return catalog.copy_table("db.t", name, **how)  # type: ignore[arg-type]


def assert_alone(path: str) -> None:
    """Nothing but the tables is in its database, and nothing in the table that no snapshot names."""
    assert not list(Path(path).parent.glob(".*"))
    table = wt.Table.open(path)
    assert table.remove_orphan_files(0, dry_run=True).paths == ()
    report = table.audit()
    assert report.ok, report.findings


@pytest.mark.parametrize("producer", ["none", "lookup", "input", "full-compaction"])
def test_a_copy_has_the_rows_and_the_files_and_nothing_else(tmp_path: Path, producer: str) -> None:
    table = made(tmp_path, **{"changelog-producer": producer, "write-only": "true"})
    table.create_tag("here")
    table.create_branch("side", tag="here")
    copy = copied(table, target_warehouse=tmp_path / "other")
    assert copy.path == str(tmp_path / "other/db.db/u")
    assert rows_of(copy) == rows_of(table) == EXPECTED
    assert live_files(copy.path) == live_files(table.path)
    for path in Path(copy.path).glob("bucket-*/*"):
        assert path.read_bytes() == Path(table.path, path.relative_to(copy.path)).read_bytes()
    assert [one.id for one in copy.snapshots()] == [1]
    assert (copy.tags(), copy.branches(), copy.consumers()) == ({}, [], {})
    assert copy._committer.identity != table._committer.identity
    assert copy.find_commit("stream", 1) is None
    assert_alone(copy.path)
    wt.Catalog(tmp_path).drop_table("db.t")
    assert rows_of(copy) == EXPECTED


def test_both_go_on_by_themselves_with_the_same_changes(tmp_path: Path) -> None:
    """Level-0 files that nobody has compacted get their changelog in either table."""
    table = made(tmp_path, **{"changelog-producer": "lookup", "write-only": "true"})
    copy = copied(table)
    changes = []
    for each in (table, copy):
        last = each.snapshots()[-1].id
        put(each, {1: "new", 2: "d", 4: "e"})
        each.compact()
        changes.append(change_texts(changes_of(each, last, each.snapshots()[-1].id)))
        assert rows_of(each) == {1: "new", 2: "d", 3: "b", 4: "e"}
    assert sorted(changes[0]) == sorted(changes[1])
    rows = [(1, "a", "-U"), (1, "new", "+U"), (2, "a", "-U"), (2, "d", "+U"), (3, "b", "+I")]
    expected = [(kind, {"k": k, "v": v}) for k, v, kind in [*rows, (4, "e", "+I")]]
    assert sorted(changes[1]) == sorted(change_texts(expected))
    copy.compact(full=True)
    assert rows_of(copy) == {1: "new", 2: "d", 3: "b", 4: "e"}
    assert_alone(copy.path)


def test_rows_that_a_deletion_vector_takes_out_stay_out(tmp_path: Path) -> None:
    table, expected = vectors.three_levels(tmp_path)
    copy = copied(table)
    assert vectors.values(copy) == expected
    assert vectors.vectors(copy) == vectors.vectors(table) != {}
    vectors.write(copy, range(50, 60), 9)
    assert vectors.values(copy) == expected | dict.fromkeys(range(50, 60), 9)
    assert vectors.values(table) == expected
    assert_alone(copy.path)


def test_keys_stay_in_their_dynamic_bucket(tmp_path: Path) -> None:
    table = dynamic.create(tmp_path)
    for start in (0, 4, 8):
        table.write(dynamic.rows(range(start, start + 6)))
    copy = copied(table)
    assert dynamic.entries(copy) == dynamic.entries(table)
    before = dynamic.places(table)
    copy.write(dynamic.rows(range(14), 100))
    assert dynamic.places(copy) == before
    assert all(len(buckets) == 1 for buckets in before.values())
    assert copy.scan().to_arrow().sort_by("v")["v"].to_pylist() == list(range(100, 114))
    assert_alone(copy.path)


def test_files_of_older_schemas_are_read_with_the_newest_columns(tmp_path: Path) -> None:
    catalog = wt.Catalog(tmp_path)
    columns = {"k": "BIGINT", "a": "INT", "gone": "STRING"}
    table = catalog.create_table("db.t", columns, primary_key=["k"], options=OPTIONS)
    table.write({"k": [1, 2], "a": [10, 20], "gone": ["x", "y"]})
    table.create_tag("old")
    table = catalog.alter_table(
        "db.t",
        rename_columns={"a": "b"},
        change_types={"a": pa.int64()},
        drop_columns=["gone"],
    )
    table.write({"k": [2, 3], "b": [1 << 40, 30]})
    table = catalog.alter_table("db.t", add_columns=[pa.field("c", pa.string())])
    copy = catalog.copy_table("db.t", "db.u")
    expected = {"k": [1, 2, 3], "b": [10, 1 << 40, 30], "c": [None] * 3}
    assert copy.scan().to_arrow().sort_by("k").to_pydict() == expected
    assert sorted(os.listdir(f"{copy.path}/schema")) == ["schema-0", "schema-1", "schema-2"]
    copy.write({"k": [1], "c": ["z"]})
    copy.compact(full=True)
    assert copy.lookup([1]).to_pylist() == [{"k": 1, "b": None, "c": "z"}]
    assert_alone(copy.path)
    old = catalog.copy_table("db.t", "db.v", tag="old")
    expected = {"k": [1, 2], "a": [10, 20], "gone": ["x", "y"]}
    assert old.scan().to_arrow().sort_by("k").to_pydict() == expected
    assert os.listdir(f"{old.path}/schema") == ["schema-0"]
    assert_alone(old.path)


def test_an_older_snapshot_a_tag_and_a_time_are_chosen(tmp_path: Path) -> None:
    table = create(tmp_path, **{"write-only": "true"})
    for number in range(1, 4):
        put(table, {number: str(number)})
    table.create_tag("first", 1)
    assert rows_of(copied(table, "db.a", snapshot_id=2)) == {1: "1", 2: "2"}
    millis = table.snapshots()[-1].time_millis
    assert rows_of(copied(table, "db.b", timestamp=millis)) == {1: "1", 2: "2", 3: "3"}
    expire_all(table)
    assert rows_of(copied(table, "db.c", tag="first")) == {1: "1"}
    with pytest.raises(wt.NotFoundError):
        copied(table, "db.d", snapshot_id=2)
    with pytest.raises(wt.InvalidError, match="more than one"):
        copied(table, "db.d", snapshot_id=3, tag="first")
    assert wt.Catalog(tmp_path).list_tables() == ["db.a", "db.b", "db.c", "db.t"]
    assert sorted(os.listdir(tmp_path / "db.db")) == ["a", "b", "c", "t"]


def test_a_branch_becomes_a_table(tmp_path: Path) -> None:
    table = made(tmp_path)
    table.create_tag("here")
    table.create_branch("side", tag="here")
    put(opened(table, "side"), {9: "side"})
    copy = wt.Catalog(tmp_path).copy_table("db.t$branch_side", "db.u")
    assert rows_of(copy) == {**EXPECTED, 9: "side"}
    assert_alone(copy.path)


def test_what_has_no_rows_is_copied_too(tmp_path: Path) -> None:
    table = create(tmp_path)
    copy = copied(table, "db.a")
    assert copy.snapshots() == []
    assert copy.arrow_schema == table.arrow_schema
    put(table, {1: "a"})
    table.overwrite(pa.table({"k": pa.array([], pa.int64()), "v": pa.array([], pa.string())}))
    copy = copied(table, "db.b")
    assert rows_of(copy) == {}
    assert len(copy.snapshots()) == 1
    put(copy, {1: "b"})
    assert rows_of(copy) == {1: "b"}


def test_the_watermark_comes_along_and_remembered_commits_do_not(tmp_path: Path) -> None:
    table = create(tmp_path)
    rows = pa.table({"k": [1], "v": ["a"]})
    with table.new_writer(["k", "v"]) as writer:
        writer.write(rows)
        table.commit_append(writer.finish(), "stream", 7, watermark=123)
    copy = copied(table)
    assert copy.snapshots()[0].watermark == 123
    assert not table.write(rows, "stream", 7).committed
    assert copy.write(rows, "stream", 7).committed


def of_others(folder: Path, name: str) -> wt.Catalog:
    """A warehouse with this one of the tables that Java wrote: whoever copies one, writes a lease into it."""
    path = f"others.db/{name}"
    shutil.copytree(FIXTURES / "wh_others" / path, folder / path)
    return wt.Catalog(folder)


@pytest.mark.parametrize("name", ["append", "append_parts", "append_dv", "cross_deduplicate"])
def test_tables_of_others_that_are_only_scanned_are_copied(tmp_path: Path, name: str) -> None:
    catalog = of_others(tmp_path, name)
    source = catalog.table(f"others.{name}")
    copy = catalog.copy_table(f"others.{name}", "db.u", target_warehouse=tmp_path / "new")
    expected = row_texts(python_rows(source.scan().to_arrow()))
    assert row_texts(python_rows(copy.scan().to_arrow())) == expected != []
    first = [Path(each.path, "schema/schema-0").read_text() for each in (copy, source)]
    ours, theirs = map(json.loads, first)
    assert ours.pop("widetable.uuid")
    assert ours == theirs


def test_rows_that_wait_for_their_bucket_are_refused(tmp_path: Path) -> None:
    catalog = of_others(tmp_path, "postponed")
    with pytest.raises(wt.UnsupportedError, match="wait for their bucket"):
        catalog.copy_table("others.postponed", "others.u")
    assert catalog.list_tables() == ["others.postponed"]


def test_what_is_made_of_others_is_refused_by_the_options_of_the_copied_snapshot(
    tmp_path: Path,
) -> None:
    table = create(tmp_path, **{"index.v": "db.by_v"})
    put(table, {1: "a"})
    table.alter_options(remove_options=["index.v"])
    put(table, {2: "b"})
    with pytest.raises(wt.UnsupportedError, match=r"index\.v"):
        copied(table, snapshot_id=1)
    assert rows_of(copied(table)) == {1: "a", 2: "b"}


def test_a_name_that_something_has_is_refused(tmp_path: Path) -> None:
    table = made(tmp_path)
    (tmp_path / "db.db/file").write_text("mine")
    (tmp_path / "db.db/folder").mkdir()
    for name in ("db.t", "db.file", "db.folder"):
        with pytest.raises(wt.InvalidError, match="a table or another directory"):
            copied(table, name)
    assert (tmp_path / "db.db/file").read_text() == "mine"
    assert sorted(os.listdir(tmp_path / "db.db")) == ["file", "folder", "t"]
    assert rows_of(table) == EXPECTED


def test_of_two_who_make_a_table_one_wins(tmp_path: Path) -> None:
    table = made(tmp_path)
    storage = FaultyFileIO(LocalFileIO(fsync=False))
    catalog = wt.Catalog(tmp_path, file_io=storage)
    columns = {"k": "BIGINT"}
    late = wt.Catalog(tmp_path)
    storage.run_before("move_dir", lambda: late.create_table("db.u", columns, primary_key=["k"]))
    with pytest.raises(wt.InvalidError, match="a table or another directory"):
        catalog.copy_table("db.t", "db.u")
    assert late.table("db.u").schema.names == ("k",)
    assert sorted(os.listdir(tmp_path / "db.db")) == ["t", "u"]

    def second() -> None:
        with pytest.raises(wt.ConflictError, match="another copy"):
            late.copy_table("db.t", "db.v")

    storage.run_before("move_dir", second)
    assert rows_of(catalog.copy_table("db.t", "db.v")) == EXPECTED
    assert rows_of(table) == EXPECTED


def test_expiry_leaves_what_is_being_copied(tmp_path: Path) -> None:
    table = made(tmp_path)
    storage = FaultyFileIO(LocalFileIO(fsync=False))

    def others_go_on() -> None:
        put(table, {1: "later"})
        table.compact(full=True)
        expire_all(table)

    storage.run_before("open_output", others_go_on, ".widetable-copies")
    assert rows_of(wt.Catalog(tmp_path, file_io=storage).copy_table("db.t", "db.u")) == EXPECTED
    assert rows_of(table) == {**EXPECTED, 1: "later"}
    storage.run_before("replace", others_go_on, "read-lease")  # before it holds what is newest
    copy = wt.Catalog(tmp_path, file_io=storage).copy_table("db.t", "db.v")
    assert rows_of(copy) == {**EXPECTED, 1: "later"}
    assert storage._points[-1].times == 0
    put(table, {1: "last"})
    assert expire_all(table).ids  # nothing holds them any more


def truncated(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1])


def spoilt(path: Path) -> None:
    """One bit of the footer, in a name of its statistics or columns."""
    data = bytearray(path.read_bytes())
    data[-9 - int.from_bytes(data[-8:-4], "little") // 2] ^= 1
    path.write_bytes(data)


@pytest.mark.parametrize("harm", [Path.unlink, truncated, spoilt])
def test_a_damaged_file_is_not_copied(tmp_path: Path, harm: Callable[[Path], None]) -> None:
    table = made(tmp_path)
    bucket, files = next(iter(live_files(table.path).items()))
    path = Path(table.path, f"bucket-{bucket.number}", files[0].file_name)
    harm(path)
    with pytest.raises(wt.DamagedError, match=path.name):
        copied(table)
    assert os.listdir(tmp_path / "db.db") == ["t"]


def test_a_storage_that_keeps_other_bytes_is_found_out(tmp_path: Path) -> None:
    made(tmp_path)
    storage = FaultyFileIO(LocalFileIO(fsync=False))

    def flip() -> None:
        path = next((tmp_path / "db.db/.widetable-copies").rglob("data-*"))
        data = path.read_bytes()
        path.write_bytes(data[:10] + bytes([data[10] ^ 1]) + data[11:])

    storage.run_before("sync", flip, ".widetable-copies")
    with pytest.raises(wt.StorageError, match="other bytes"):
        wt.Catalog(tmp_path, file_io=storage).copy_table("db.t", "db.u")
    assert os.listdir(tmp_path / "db.db") == ["t"]


STEPS = [(step, fault) for step in (*WRITES, "move_dir") for fault in (Fault.BEFORE, Fault.AFTER)]
STEPS += [(step, Fault.BEFORE) for step in READS] + [("write_new", Fault.TORN)]


@pytest.mark.parametrize(("step", "fault"), STEPS)
def test_whatever_fails_the_copy_is_whole_or_not_there(
    tmp_path: Path, step: str, fault: Fault
) -> None:
    """Each step once; then the copy is made, if it is not there, and nothing is left of the other."""
    table = made(tmp_path)
    for number in range(1000):
        storage = FaultyFileIO(LocalFileIO(fsync=False))
        storage.fail(step, fault, skip=number)
        name = f"db.u{number}"
        try:
            wt.Catalog(tmp_path, file_io=storage).copy_table("db.t", name)
        except wt.StorageError:
            pass
        else:
            if storage._points and storage._points[0].times:
                break
        aside = Path(tmp_path, "db.db/.widetable-copies")
        if aside.exists():  # a lease that nobody could take back runs out
            assert [path.name for path in aside.rglob("*") if path.is_file()] in ([], ["lease"])
            shutil.rmtree(aside)
        if name not in wt.Catalog(tmp_path).list_tables():
            assert not Path(tmp_path, "db.db", f"u{number}").exists()
            copied(table, name)
        copy = wt.Catalog(tmp_path).table(name)
        assert rows_of(copy) == EXPECTED
        assert live_files(copy.path) == live_files(table.path)
        assert not aside.exists()
        wt.Catalog(tmp_path).drop_table(name)
    assert number > 0 or step in ("replace", "link", "size")


def killed_before(folder: Path, disk: LocalFileIO, step: str, number: int) -> bool:
    """Whether a copy in a process of its own came so far that it was killed before a step."""
    child = os.fork()
    if child == 0:
        storage = FaultyFileIO(disk)
        storage.run_before(step, lambda: os._exit(9), skip=number)
        wt.Catalog(folder, file_io=storage).copy_table("db.t", "db.u")
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) != 0


@pytest.mark.parametrize("step", ["publish", "open_output", "sync", "write_new", "move_dir"])
def test_killed_it_leaves_no_table_and_the_next_copy_cleans_up(tmp_path: Path, step: str) -> None:
    made(tmp_path)
    for number in range(1000):
        if not killed_before(tmp_path, LocalFileIO(fsync=False), step, number):
            break
        assert wt.Catalog(tmp_path).list_tables() == ["db.t"]
        catalog = wt.Catalog(tmp_path)
        assert rows_of(catalog.copy_table("db.t", "db.u")) == EXPECTED
        assert sorted(os.listdir(tmp_path / "db.db")) == ["t", "u"]
        catalog.drop_table("db.u")
    assert number > 0


@pytest.mark.parametrize("filled", [False, True])
def test_a_full_disk_keeps_nothing(
    tmp_path: Path,
    small_disk: Path,  # noqa: F811
    filled: bool,
) -> None:
    table = create(tmp_path / "source", bucket="4")
    noise = np.random.default_rng(5).bytes(12 << 20)
    put(table, {key: noise[key << 16 : (key + 1) << 16].hex() for key in range(192)})
    if filled:
        fill(small_disk)
    before = free_bytes(small_disk)
    with pytest.raises(wt.StorageError, match="No space left"):
        copied(table, target_warehouse=small_disk)
    assert wt.Catalog(small_disk).list_tables() == []
    assert free_bytes(small_disk) >= before - (1 << 16)
    assert not list(small_disk.rglob("data-*"))
