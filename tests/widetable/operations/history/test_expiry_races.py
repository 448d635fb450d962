"""Expiry and cleaning that are stopped at any operation, or overtaken at any operation by somebody else.

What is kept reads as before at every moment, and the next expiry leaves what an undisturbed one leaves.
WIDETABLE_POINTS: how many operations each sampled test tries (default 2; 0: all of them).
"""

from __future__ import annotations

import contextlib
import os
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import pytest

import widetable as wt
from tests.support.faults.faults import Fault, FaultyFileIO
from tests.support.models.kept_rows import (
    KeptRows,
    age,
    batch,
    copy_of,
    expire_all,
    files_of,
    leftovers,
    lived_in_table,
    rows,
    small_table,
    write,
)
from widetable.commit.holds.read_lease import ReadLease, hold
from widetable.commit.holds.retired_snapshots import RetiredSnapshots
from widetable.commit.snapshots.manifest_cache import MANIFEST_CACHE
from widetable.storage.local import LocalFileIO
from widetable.storage.paths import TablePaths

IO = LocalFileIO(fsync=False)
POINTS = int(os.environ.get("WIDETABLE_POINTS", "2"))
Operation = tuple[str, int]
Run = Callable[[wt.Table], object]


def expire(table: wt.Table) -> wt.ExpiryResult:
    return table.expire_snapshots(num_retained_min=2, time_retained_millis=0)


def clean(table: wt.Table) -> wt.OrphanResult:
    return table.remove_orphan_files()


def operations_of(table: wt.Table, run: Run, folder: Path) -> list[Operation]:
    """What a run asks of the storage: every operation, and how many of its kind came before."""
    MANIFEST_CACHE.clear()
    faulty = FaultyFileIO(IO)
    run(wt.Table.open(copy_of(table, folder).path, file_io=faulty))
    kinds = [kind for kind, _ in faulty.log]
    return [(kind, kinds[:at].count(kind)) for at, kind in enumerate(kinds)]


def some(operations: list[Operation], rng: random.Random) -> list[Operation]:
    return rng.sample(operations, min(POINTS, len(operations))) if POINTS else operations


def through(table: wt.Table, faulty: FaultyFileIO) -> wt.Table:
    MANIFEST_CACHE.clear()
    return wt.Table.open(table.path, file_io=faulty)


def stop(table: wt.Table, kind: str, skip: int, fault: Fault) -> None:
    """Let one operation of an expiry fail: it says so, or does without."""
    faulty = FaultyFileIO(IO)
    faulty.fail(kind, fault, skip=skip)
    if kind in ("link", "replace"):  # then fewer snapshots go, or the hint is old
        with contextlib.suppress(wt.StorageError):
            expire(through(table, faulty))
    else:
        with pytest.raises(wt.StorageError, match="injected"):
            expire(through(table, faulty))
    for snapshot in table.snapshots():
        hold(IO, TablePaths(table.path), snapshot.id, 1000).release()  # no note is left of it


def check_finished(table: wt.Table, kept: KeptRows, expected: set[str]) -> None:
    """After a run that did not end: all is as before, and the next run ends as if it had been the only one."""
    kept.check(table)
    expire(table)
    kept.check(table)
    assert files_of(table) == expected
    assert leftovers(table) == set()


def undisturbed(table: wt.Table, folder: Path) -> set[str]:
    """The files that are left after one expiry."""
    alone = copy_of(table, folder)
    expire(alone)
    return files_of(alone)


# Stopped


def test_stopped_at_any_delete(tmp_path: Path) -> None:
    table = small_table(tmp_path / "made")
    kept = KeptRows.of(table)
    expected = undisturbed(table, tmp_path / "alone")
    deletes = [each for each in operations_of(table, expire, tmp_path) if each[0] == "delete"]
    assert len(deletes) > 20
    for kind, skip in deletes:
        stopped = copy_of(table, tmp_path / "stopped")
        stop(stopped, kind, skip, Fault.BEFORE)
        check_finished(stopped, kept, expected)


@pytest.mark.parametrize("fault", [Fault.BEFORE, Fault.AFTER])
def test_stopped_while_it_notes_what_is_to_go(tmp_path: Path, fault: Fault) -> None:
    table = small_table(tmp_path / "made")
    kept = KeptRows.of(table)
    expected = undisturbed(table, tmp_path / "alone")
    notes = [each for each in operations_of(table, expire, tmp_path) if each[0] == "link"]
    assert len(notes) > 2
    for kind, skip in notes:
        stopped = copy_of(table, tmp_path / "stopped")
        stop(stopped, kind, skip, fault)
        check_finished(stopped, kept, expected)


def test_stopped_at_any_other_operation(tmp_path: Path, rng: random.Random) -> None:
    table = lived_in_table(tmp_path / "made")
    kept = KeptRows.of(table)
    expected = undisturbed(table, tmp_path / "alone")
    for kind, skip in some(operations_of(table, expire, tmp_path), rng):
        stopped = copy_of(table, tmp_path / "stopped")
        stop(stopped, kind, skip, rng.choice([Fault.BEFORE, Fault.AFTER]))
        check_finished(stopped, kept, expected)


def test_stopped_again_and_again(tmp_path: Path, rng: random.Random) -> None:
    """Each try comes a few deletes further, or none."""
    table = lived_in_table(tmp_path / "made")
    kept = KeptRows.of(table)
    expected = undisturbed(table, tmp_path / "alone")
    for _ in range(200):
        faulty = FaultyFileIO(IO)
        faulty.fail("delete", Fault.BEFORE, skip=rng.randrange(40))
        try:
            expire(through(table, faulty))
        except wt.StorageError:
            continue
        break
    check_finished(table, kept, expected)


def test_a_cleaning_that_was_stopped(tmp_path: Path, rng: random.Random) -> None:
    table = littered(tmp_path / "made")
    kept = KeptRows.of(table)
    expected = files_of(table) - leftovers(table)
    for kind, skip in some(operations_of(table, clean, tmp_path), rng):
        stopped = copy_of(table, tmp_path / "stopped")
        faulty = FaultyFileIO(IO)
        faulty.fail(kind, Fault.BEFORE, skip=skip)
        with pytest.raises(wt.StorageError, match="injected"):
            clean(through(stopped, faulty))
        kept.check(stopped)
        clean(stopped)
        assert files_of(stopped) == expected


def littered(folder: Path) -> wt.Table:
    """Two days old, with orphans of a deleted tag, of a writer, and of nobody."""
    table = lived_in_table(folder)
    expire(table)
    table.delete_tag("early")
    writer = table.new_writer(batch(0).column_names)
    writer.write(batch(9))
    writer.finish()
    for name in ("manifest/manifest-0", "p=0/bucket-7/data-0.parquet", "p=0/bucket-0/x"):
        IO.write_new(f"{table.path}/{name}", b"")
    age(table, 2 * 86_400)
    return table


# Overtaken


@dataclass
class Meanwhile:
    """What somebody else did in the middle of a run, once, and what must be true of it at the end."""

    table: wt.Table
    kept: KeptRows
    rng: random.Random
    check: Callable[[], object] = lambda: None
    leases: list[ReadLease] = field(default_factory=list)

    def another_expiry(self) -> None:
        expire(self.table)

    def an_expiry_that_goes_further(self) -> None:
        expire_all(self.table)

    def a_cleaning(self) -> None:
        self.table.remove_orphan_files(older_than_millis=0)

    def commits(self) -> None:
        for number in range(8, 11):
            assert write(self.table, number).committed
        self.table.compact(full=True)
        expected = rows(self.table)
        self.check = lambda: self._same(expected)

    def a_commit_and_an_expiry(self) -> None:
        self.commits()
        expire_all(self.table)

    def a_tag(self) -> None:
        """Of any snapshot that is there: either it is refused, or it holds."""
        id = self.rng.choice(sorted(self.kept.snapshots))
        with contextlib.suppress(wt.NotFoundError):
            self.table.create_tag("new", id)
            self.check = lambda: self._same(self.kept.snapshots[id], tag="new")

    def a_deleted_tag(self) -> None:
        self.table.delete_tag(self.rng.choice(sorted(self.kept.tags)))

    def a_lease(self) -> None:
        id = self.rng.choice(sorted(self.kept.snapshots))
        with contextlib.suppress(wt.NotFoundError):
            self.leases.append(hold(IO, TablePaths(self.table.path), id, 600_000))
            self.check = lambda: self._same(self.kept.snapshots[id], snapshot_id=id)

    def _same(self, expected: list[str], **how: object) -> None:
        MANIFEST_CACHE.clear()
        assert rows(self.table, **how) == expected


ACTIONS = (
    Meanwhile.another_expiry,
    Meanwhile.an_expiry_that_goes_further,
    Meanwhile.a_cleaning,
    Meanwhile.commits,
    Meanwhile.a_commit_and_an_expiry,
    Meanwhile.a_tag,
    Meanwhile.a_deleted_tag,
    Meanwhile.a_lease,
)


@pytest.mark.parametrize("action", ACTIONS, ids=lambda action: action.__name__)
def test_expiry_that_is_overtaken(
    tmp_path: Path, rng: random.Random, action: Callable[[Meanwhile], None]
) -> None:
    table = lived_in_table(tmp_path / "made")
    kept = KeptRows.of(table)
    for kind, skip in some(operations_of(table, expire, tmp_path), rng):
        mine = copy_of(table, tmp_path / "overtaken")
        other = Meanwhile(mine, kept, rng)
        faulty = FaultyFileIO(IO)
        faulty.run_before(kind, partial(action, other), skip=skip)
        expire(through(mine, faulty))
        other.check()
        kept.check(mine)
        expire(mine)
        other.check()
        for lease in other.leases:
            lease.release()
        expire(mine)
        kept.check(mine)
        if action is not Meanwhile.a_deleted_tag:  # what only it kept is an orphan
            assert leftovers(mine) == set(), (kind, skip)


CLEANING_ACTIONS = (
    Meanwhile.another_expiry,
    Meanwhile.an_expiry_that_goes_further,
    Meanwhile.a_cleaning,
    Meanwhile.commits,
    Meanwhile.a_commit_and_an_expiry,
    Meanwhile.a_tag,
)


@pytest.mark.parametrize("action", CLEANING_ACTIONS, ids=lambda action: action.__name__)
def test_cleaning_that_is_overtaken(
    tmp_path: Path, rng: random.Random, action: Callable[[Meanwhile], None]
) -> None:
    table = littered(tmp_path / "made")
    kept = KeptRows.of(table)
    orphans = leftovers(table)
    for kind, skip in some(operations_of(table, clean, tmp_path), rng):
        mine = copy_of(table, tmp_path / "overtaken")
        other = Meanwhile(mine, kept, rng)
        faulty = FaultyFileIO(IO)
        faulty.run_before(kind, partial(action, other), skip=skip)
        clean(through(mine, faulty))
        other.check()
        kept.check(mine)
        assert not orphans & files_of(mine)
        expire(mine)
        other.check()
        kept.check(mine)


def test_a_tag_whose_snapshot_then_expires_is_seen_by_a_cleaning(
    tmp_path: Path, rng: random.Random
) -> None:
    """Between any two operations of the cleaning: the tag comes, and its snapshot goes."""
    table = littered(tmp_path / "made")
    kept = KeptRows.of(table)
    first = min(kept.snapshots)

    def tag_and_expire(mine: wt.Table) -> None:
        mine.create_tag("new", first)
        expire_all(mine)

    for kind, skip in some(operations_of(table, clean, tmp_path), rng):
        mine = copy_of(table, tmp_path / "overtaken")
        faulty = FaultyFileIO(IO)
        faulty.run_before(kind, partial(tag_and_expire, mine), skip=skip)
        clean(through(mine, faulty))
        MANIFEST_CACHE.clear()
        assert rows(mine, tag="new") == kept.snapshots[first], (kind, skip)


@pytest.mark.parametrize("operation", ["publish", "exists"])
def test_a_tag_of_a_snapshot_that_expires_meanwhile_is_taken_back(
    tmp_path: Path, operation: str
) -> None:
    """Before it is written the snapshot goes, files and all; after that, the tag is seen."""
    table = lived_in_table(tmp_path)
    expected = rows(table, snapshot_id=1)
    faulty = FaultyFileIO(IO)
    where = "tag/tag-new" if operation == "publish" else "snapshot/snapshot-1"
    opened = through(table, faulty)
    assert opened.schema.names
    faulty.run_before(operation, lambda: expire(table), where)
    with pytest.raises(wt.NotFoundError, match="expired"):
        opened.create_tag("new", 1)
    assert "new" not in table.tags()
    if operation == "exists":  # the expiry kept what the tag named then: it is an orphan now
        assert leftovers(table)
    same = lived_in_table(tmp_path / "same")
    same.create_tag("new", 1)
    expire(same)
    assert rows(same, tag="new") == expected


@pytest.mark.parametrize("operation", ["replace", "exists"])
def test_a_lease_and_an_expiry_in_the_middle_of_it(tmp_path: Path, operation: str) -> None:
    """Before it is written the snapshot goes, and it is refused; after that, the snapshot stays."""
    table = lived_in_table(tmp_path)
    expected = rows(table, snapshot_id=1)
    faulty = FaultyFileIO(IO)
    faulty.run_before(operation, lambda: expire(table), "/service/")
    if operation == "replace":
        with pytest.raises(wt.NotFoundError, match="expired"):
            hold(faulty, TablePaths(table.path), 1, 600_000)
        return
    lease = hold(faulty, TablePaths(table.path), 1, 600_000)
    assert lease.snapshot_id == 1
    assert rows(table, snapshot_id=1) == expected


def test_a_lease_between_the_choice_and_the_removal_is_seen(tmp_path: Path) -> None:
    """The exact moments: before the notes are made it holds, after them it is refused."""
    for moment, holds in (("link", True), ("delete", False)):
        table = lived_in_table(tmp_path / moment)
        expected = rows(table, snapshot_id=1)
        taken: list[ReadLease | None] = []

        def take(table: wt.Table = table, taken: list[ReadLease | None] = taken) -> None:
            try:
                taken.append(hold(IO, TablePaths(table.path), 1, 600_000))
            except wt.NotFoundError:
                taken.append(None)

        faulty = FaultyFileIO(IO)
        faulty.run_before(moment, take, "retired" if moment == "link" else "snapshot/snapshot-1")
        expire(through(table, faulty))
        assert [lease is not None for lease in taken] == [holds]
        if holds:
            assert rows(table, snapshot_id=1) == expected
        else:
            with pytest.raises(wt.NotFoundError):
                table.scan(snapshot_id=1)


def test_an_audit_begins_behind_what_a_stopped_expiry_has_chosen(tmp_path: Path) -> None:
    """Its notes stand for ten minutes, and nobody can hold these snapshots meanwhile."""
    table = small_table(tmp_path)
    first, second, third = (snapshot.id for snapshot in table.snapshots()[:3])
    retired = RetiredSnapshots(IO, TablePaths(table.path))
    assert retired.note(first)
    assert retired.note(second)
    report = table.audit()
    assert report.ok, report.findings
    assert report.first_snapshot_id == third
    with pytest.raises(wt.NotFoundError, match="expired"):
        table.audit(start=second)
