"""A copy on a storage whose directories get no other names: no table, an empty one, or the whole."""

from __future__ import annotations

import shutil
from pathlib import Path

import pyarrow as pa
import pytest

import widetable as wt
from tests.support.faults.faults import READS, WRITES, Fault, FaultyFileIO
from tests.support.models.random_table import live_files
from tests.support.tables.branched import put, rows_of
from tests.widetable.operations.maintenance.test_table_copy import (
    EXPECTED,
    assert_alone,
    killed_before,
    made,
)
from widetable.storage.local import LocalFileIO


class StillDirs(LocalFileIO):
    """A disk on which directories get no other names, and files are written over, as in an object store."""

    def open_output(self, path: str) -> pa.NativeFile:
        self.delete(path)
        return super().open_output(path)

    def moves_dirs(self) -> bool:
        return False

    def move_dir(self, source: str, target: str) -> bool:
        raise AssertionError(f"{source} is to become {target}")


def of_two_schemas(folder: Path) -> wt.Table:
    made(folder)
    wt.Catalog(folder).alter_table("db.t", add_columns=[pa.field("later", pa.int32())])
    return wt.Catalog(folder).table("db.t")


def there_and_empty(folder: Path) -> bool:
    catalog = wt.Catalog(folder)
    return "db.u" in catalog.list_tables() and not catalog.table("db.u").snapshots()


def test_in_its_place_a_copy_is_as_one_that_gets_its_name_last(tmp_path: Path) -> None:
    table = of_two_schemas(tmp_path)
    copy = wt.Catalog(tmp_path, file_io=StillDirs(fsync=False)).copy_table("db.t", "db.u")
    assert rows_of(copy) == EXPECTED
    assert live_files(copy.path) == live_files(table.path)
    assert_alone(copy.path)
    put(copy, {1: "later"})
    assert rows_of(copy) == {**EXPECTED, 1: "later"}
    for taken in ("db.t", "db.u"):
        with pytest.raises(wt.InvalidError, match="a table or another directory"):
            wt.Catalog(tmp_path, file_io=StillDirs()).copy_table("db.t", taken)


@pytest.mark.parametrize("step", [*WRITES, *READS])
@pytest.mark.parametrize("fault", [Fault.BEFORE, Fault.AFTER])
def test_in_its_place_what_fails_leaves_no_table_or_an_empty_one(
    tmp_path: Path, step: str, fault: Fault
) -> None:
    table = of_two_schemas(tmp_path)
    outcomes = set()
    for number in range(1000):
        storage = FaultyFileIO(StillDirs(fsync=False))
        storage.fail(step, fault, skip=number)
        try:
            wt.Catalog(tmp_path, file_io=storage).copy_table("db.t", "db.u")
        except (wt.StorageError, wt.InvalidError):  # what was done before the error is there
            pass
        else:
            if storage._points and storage._points[0].times:
                break
        shutil.rmtree(tmp_path / "db.db/.widetable-copies", ignore_errors=True)
        catalog = wt.Catalog(tmp_path)
        if "db.u" not in catalog.list_tables():
            outcomes.add("none")
            shutil.rmtree(tmp_path / "db.db/u", ignore_errors=True)
        elif there_and_empty(tmp_path):
            outcomes.add("empty")
            catalog.drop_table("db.u")
        else:
            outcomes.add("whole")
            copy = catalog.table("db.u")
            assert rows_of(copy) == EXPECTED
            assert live_files(copy.path) == live_files(table.path)
            catalog.drop_table("db.u")
    assert number == 0 or outcomes


@pytest.mark.parametrize("step", ["publish", "open_output", "sync", "write_new", "replace"])
def test_killed_in_its_place_the_next_copy_goes_on_or_an_empty_table_is_named(
    tmp_path: Path, step: str
) -> None:
    of_two_schemas(tmp_path)
    for number in range(1000):
        if not killed_before(tmp_path, StillDirs(fsync=False), step, number):
            break
        catalog = wt.Catalog(tmp_path, file_io=StillDirs(fsync=False))
        if there_and_empty(tmp_path):
            with pytest.raises(wt.InvalidError, match="a table or another directory"):
                catalog.copy_table("db.t", "db.u")
            catalog.drop_table("db.u")
        if "db.u" not in catalog.list_tables():
            catalog.copy_table("db.t", "db.u")
        assert rows_of(catalog.table("db.u")) == EXPECTED
        aside = tmp_path / "db.db/.widetable-copies"
        left = [path.name for path in aside.rglob("*") if path.is_file()]
        assert left in ([], ["begun"], ["lease"], ["begun", "lease"], ["lease", "begun"])
        report = catalog.table("db.u").audit()
        assert report.ok, report.findings
        assert catalog.table("db.u").remove_orphan_files(0, dry_run=True).paths == ()
        catalog.drop_table("db.u")
        assert not [path for path in aside.rglob("begun")]
        shutil.rmtree(aside, ignore_errors=True)
    assert number > 0


def test_in_its_place_of_two_who_make_a_table_one_wins(tmp_path: Path) -> None:
    table = made(tmp_path)
    storage = FaultyFileIO(StillDirs(fsync=False))
    catalog, late = wt.Catalog(tmp_path, file_io=storage), wt.Catalog(tmp_path)
    columns = {"k": "BIGINT"}
    storage.run_before("publish", lambda: late.create_table("db.u", columns, primary_key=["k"]))
    with pytest.raises(wt.InvalidError, match="a table or another directory"):
        catalog.copy_table("db.t", "db.u")
    assert late.table("db.u").schema.names == ("k",)
    assert_alone(late.table("db.u").path)

    def write() -> None:
        put(late.table("db.v"), {7: "mine"})

    seen = []
    storage.run_before(
        "publish", lambda: seen.append(rows_of(late.table("db.w"))), "w/snapshot/snap"
    )
    assert rows_of(catalog.copy_table("db.t", "db.w")) == EXPECTED
    assert seen == [{}], "others see a table that is empty yet"
    storage.run_before("publish", write, "db.db/v/snapshot/snapshot-1")
    with pytest.raises(wt.ConflictError, match="which another process has committed"):
        catalog.copy_table("db.t", "db.v")
    assert rows_of(late.table("db.v")) == {7: "mine"}
    assert rows_of(table) == EXPECTED


def test_a_copy_that_failed_is_gone_on_with(tmp_path: Path) -> None:
    table = made(tmp_path)
    storage = FaultyFileIO(StillDirs(fsync=False))
    storage.fail("publish", Fault.BEFORE, name="u/schema")
    catalog = wt.Catalog(tmp_path, file_io=storage)
    with pytest.raises(wt.StorageError, match="schema-0"):
        catalog.copy_table("db.t", "db.u")
    assert catalog.list_tables() == ["db.t"]
    assert list(Path(tmp_path, "db.db/u").rglob("data-*")), "what the next one goes on with"
    copy = catalog.copy_table("db.t", "db.u")
    assert live_files(copy.path) == live_files(table.path)
    assert_alone(copy.path)


def test_a_drop_of_the_name_takes_the_files_and_the_copy_says_so(tmp_path: Path) -> None:
    made(tmp_path)
    storage = FaultyFileIO(StillDirs(fsync=False))
    other = wt.Catalog(tmp_path, file_io=StillDirs(fsync=False))

    def made_and_dropped() -> None:
        other.create_table("db.u", {"k": "BIGINT"}, primary_key=["k"])
        other.drop_table("db.u")

    storage.run_before("publish", made_and_dropped, "u/schema/schema-0")
    with pytest.raises(wt.ConflictError, match="dropped meanwhile"):
        wt.Catalog(tmp_path, file_io=storage).copy_table("db.t", "db.u")
    assert there_and_empty(tmp_path)
    other.drop_table("db.u")
    assert rows_of(other.copy_table("db.t", "db.u")) == EXPECTED


def test_who_stood_still_while_another_copy_was_made_harms_nothing(tmp_path: Path) -> None:
    """Its lease has run out, and the files of both have the same names."""
    table = made(tmp_path)

    def other() -> None:
        Path(tmp_path, "db.db/.widetable-copies/u/lease").unlink()
        wt.Catalog(tmp_path, file_io=StillDirs(fsync=False)).copy_table("db.t", "db.u")

    for step, name in (
        ("publish", "u/schema/schema-0"),
        ("open_output", "u/bucket"),
        ("sync", "u/"),
    ):
        storage = FaultyFileIO(StillDirs(fsync=False))
        storage.run_before(step, other, name)
        with pytest.raises(wt.InvalidError, match="a table or another directory"):
            wt.Catalog(tmp_path, file_io=storage).copy_table("db.t", "db.u")
        copy = wt.Catalog(tmp_path).table("db.u")
        assert rows_of(copy) == EXPECTED
        assert live_files(copy.path) == live_files(table.path)
        assert copy.audit().findings == ()
        wt.Catalog(tmp_path).drop_table("db.u")
