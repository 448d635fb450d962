"""Read committed: what writers have noted and are about to publish is seen, and may go (`widetable.barrier-stage`)."""

from __future__ import annotations

import os
import random
import signal
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import widetable as wt
from tests.kill.killing_file_io import KillingFileIO
from tests.support.faults.faults import Fault, FaultyFileIO
from tests.support.faults.forked import in_a_child
from tests.support.models.barrier_labels import INTERVAL
from tests.support.tables.barrier_tables import NAME, new_table, rows_of
from tests.support.tables.derived_job import Job, sink_table, source_table
from widetable.commit.barriers.staged_commit import staged_commits
from widetable.errors import ConflictError, DamagedError, InvalidError, StorageError
from widetable.runtime.worker_thread import in_threads
from widetable.storage.job_names import is_staged
from widetable.storage.local import LocalFileIO

STAGED = {"widetable__barrier_stage": "true"}
OTHER = "shop.others"
COMMITTED = "ReadCommitted"


def notes(table: wt.Table) -> list[Path]:
    """Files of staged commits."""
    return [file for file in (Path(table.path) / "service").glob("*") if is_staged(file.name)]


def barriers(catalog: wt.Catalog, *tables: str) -> tuple[int | None, int | None, int | None]:
    """What sessions show: read committed, repeatable read, and what the first one fell back from."""
    named = tables or (NAME,)
    with (
        catalog.session(named, consistency=COMMITTED) as committed,
        catalog.session(named) as repeatable,
    ):
        return committed.barrier, repeatable.barrier, committed.fell_back_from


def dying(
    warehouse: Path, name: str, columns: list[str] | None = None, table: str = NAME
) -> wt.BarrierWriter:
    """A writer of a process that ends before its next commit is published: from then on nothing of it is done."""
    file_io = FaultyFileIO(LocalFileIO(fsync=False))
    writer = wt.Catalog(warehouse, file_io=file_io).writer(table, name, columns)
    file_io.fail("publish", Fault.BEFORE, "/snapshot/", times=1_000)
    file_io.fail("delete", Fault.BEFORE, times=1_000)
    return writer


def killed_before_publish(warehouse: Path) -> None:
    """A process that joins, and is killed right before its rows of barrier 20 are published."""
    catalog = wt.Catalog(warehouse, file_io=KillingFileIO("before_publish", 1))
    catalog.writer(NAME, "w").write({"id": [1], "a": [2]}, 2, barrier=20, complete=True)


def test_case_21_a_staged_commit_is_shown_and_gone_when_its_root_comes_back(tmp_path: Path) -> None:
    new_table(tmp_path, **STAGED)
    reader = wt.Catalog(tmp_path)
    root = wt.Catalog(tmp_path).writer(NAME, "w")
    root.write({"id": [1], "a": [1]}, 1, barrier=10, complete=True)
    assert barriers(reader) == (10, 10, None)
    _, status = os.waitpid(in_a_child(partial(killed_before_publish, tmp_path)), 0)
    assert os.waitstatus_to_exitcode(status) == -signal.SIGKILL
    assert barriers(reader) == (20, 10, None)
    with reader.session([NAME], consistency=COMMITTED) as session:
        assert rows_of(session.table(NAME).scan()) == [(1, 2, None, None)]
    with reader.session([NAME]) as session:
        assert rows_of(session.table(NAME).scan()) == [(1, 1, None, None)]
    root = wt.Catalog(tmp_path).writer(NAME, "w")
    assert barriers(reader) == (10, 10, 20)
    assert barriers(reader) == (10, 10, None)
    root.write({"id": [1], "a": [2]}, 2, barrier=30, complete=True)
    assert barriers(reader) == (30, 30, None)
    with reader.session([NAME], consistency=COMMITTED) as session:
        assert rows_of(session.table(NAME).scan()) == [(1, 2, None, None)]


def test_a_barrier_counts_when_all_tables_have_it_or_note_it(tmp_path: Path) -> None:
    new_table(tmp_path, **STAGED)
    catalog = wt.Catalog(tmp_path)
    options = {"bucket": "2", "widetable.barrier-interval": f"{INTERVAL} ms"}
    catalog.create_table(OTHER, {"id": "BIGINT"}, primary_key=["id"], options=options)
    other, wb = catalog.writer(OTHER, "w"), catalog.writer(NAME, "wb", ["b"])
    catalog.writer(NAME, "wa", ["a"]).complete(10)
    wa = dying(tmp_path, "wa", ["a"])
    other.complete(10)
    wb.complete(10)
    with pytest.raises(StorageError):
        wa.write({"id": [1], "a": [1]}, barrier=20, complete=True)
    assert barriers(catalog, NAME, OTHER) == (10, 10, None), "wb is at 10"
    wb.write({"id": [1], "b": [5]}, barrier=20, complete=True)
    assert barriers(catalog, NAME, OTHER) == (10, 10, None), "the other table is at 10"
    other.complete(20)
    assert barriers(catalog, NAME, OTHER) == (20, 10, None)
    with catalog.session([NAME, OTHER], consistency=COMMITTED) as session:
        assert rows_of(session.table(NAME).scan()) == [(1, 1, 5, None)]
        assert session.snapshot_ids()[NAME] is None
    with catalog.session([NAME], consistency=COMMITTED, as_of=20) as session:
        assert rows_of(session.table(NAME).scan()) == [(1, 1, 5, None)]
    with pytest.raises(wt.NotFoundError, match=r"missing: wa \(at 10\)"):
        catalog.session([NAME], as_of=20)


def test_a_staged_barrier_is_shown_only_where_each_job_comes_to_it(tmp_path: Path) -> None:
    """A job that is ahead has rows of later barriers, and may have passed this one over."""
    source = source_table(tmp_path, "x", **STAGED)
    options = {"widetable.barrier-stage": "true", "merge-engine": "partial-update"}
    sink = sink_table(tmp_path, "s", ["x"], **options)
    catalog = wt.Catalog(tmp_path)
    writer = catalog.writer("d.x", "w")
    job = Job("counts", {"x": source}, sink)
    writer.write({"id": [10], "v": [1]}, barrier=10, complete=True)
    assert job.run() == [10]
    catalog.writer("d.s", "by hand", []).complete(10)
    for barrier in (20, 30, 40):
        writer.write({"id": [barrier], "v": [1]}, barrier=barrier, complete=True)
    assert job.run() == [40]
    for barrier, shown in ((20, 10), (40, 40)):
        root = dying(tmp_path, "by hand", [], table="d.s")
        with pytest.raises(StorageError):
            root.write({"id": [7]}, barrier=barrier, complete=True)
        assert barriers(catalog, "d.s")[:2] == (shown, 10), "the job went from 10 to 40"


def test_a_commit_that_fails_takes_back_what_it_staged(tmp_path: Path) -> None:
    table = new_table(tmp_path, **STAGED)
    file_io = FaultyFileIO(LocalFileIO(fsync=False))
    catalog = wt.Catalog(tmp_path, file_io=file_io)
    writer = catalog.writer(NAME, "w")
    file_io.fail("publish", Fault.BEFORE, "/snapshot/", times=1_000)
    with pytest.raises(StorageError):
        writer.write({"id": [1], "a": [1]}, barrier=10, complete=True)
    assert not notes(table)
    file_io.heal()
    writer.write({"id": [1], "a": [1]}, barrier=10, complete=True)
    assert barriers(catalog) == (10, 10, None)


@pytest.mark.parametrize("fault", [Fault.FULL, Fault.BEFORE, Fault.AFTER])
def test_a_note_that_cannot_be_written_fails_its_commit(tmp_path: Path, fault: Fault) -> None:
    """Nobody is shown half of it, and the same commit goes through later."""
    table = new_table(tmp_path, **STAGED)
    file_io = FaultyFileIO(LocalFileIO(fsync=False))
    catalog = wt.Catalog(tmp_path, file_io=file_io)
    writer = catalog.writer(NAME, "w")
    writer.write({"id": [1], "a": [1]}, 1, barrier=10, complete=True)
    file_io.fail("replace", fault, "widetable-staged-")
    with pytest.raises(StorageError):
        writer.write({"id": [1], "a": [2]}, 2, barrier=20, complete=True)
    assert not notes(table)
    assert barriers(catalog) == (10, 10, None)
    assert writer.write({"id": [1], "a": [2]}, 2, barrier=20, complete=True).committed
    assert barriers(catalog) == (20, 20, None)


def test_thirty_two_at_once_stage_their_own(tmp_path: Path) -> None:
    table = new_table(tmp_path, **STAGED)
    writers = [wt.Catalog(tmp_path).writer(NAME, f"w{at}", []) for at in range(32)]

    def write(at: int) -> None:
        for barrier in (10, 20):
            writers[at].write({"id": [at]}, barrier=barrier, complete=True)

    in_threads(write, range(32), 32)
    assert len(notes(table)) == 32
    with wt.Catalog(tmp_path).session([NAME], consistency=COMMITTED) as session:
        assert (session.barrier, session.table(NAME).scan().count()) == (20, 32)


def test_nothing_is_staged_of_what_completes_no_barrier_or_is_in(tmp_path: Path) -> None:
    table = new_table(tmp_path, **STAGED)
    catalog = wt.Catalog(tmp_path)
    writer = catalog.writer(NAME, "w")
    writer.write({"id": [1], "a": [1]}, barrier=10)
    assert not notes(table), "the barrier is open"
    writer.write({"id": [1], "a": [2]}, 1, barrier=10, complete=True)
    (note,) = notes(table)
    before = note.read_bytes()
    assert not writer.write({"id": [1], "a": [2]}, 1, barrier=20, complete=True).committed
    assert note.read_bytes() == before, "the commit is in: it is not noted as one of barrier 20"
    assert barriers(catalog) == (10, 10, None)
    older = catalog.writer(NAME, "w")
    catalog.writer(NAME, "w")
    with pytest.raises(ConflictError):
        older.write({"id": [1], "a": [3]}, 2, barrier=20, complete=True)
    assert barriers(catalog) == (10, 10, None)
    catalog.writer(NAME, "w").leave()
    assert not notes(table)


def test_what_a_session_shows_of_a_staged_commit_stays_when_it_is_published(tmp_path: Path) -> None:
    table = new_table(tmp_path, **STAGED)
    file_io = FaultyFileIO(LocalFileIO(fsync=False))
    reader = wt.Catalog(tmp_path)
    writer = wt.Catalog(tmp_path, file_io=file_io).writer(NAME, "w")
    writer.write({"id": [1, 2], "a": [1, 1]}, barrier=10, complete=True)
    opened: list[wt.Session] = []

    def look() -> None:
        opened.append(reader.session([NAME], consistency=COMMITTED))

    file_io.run_before("publish", look, "/snapshot/")
    writer.write({"id": [1], "a": [2]}, barrier=20, complete=True)
    with opened[0] as session:
        assert session.barrier == 20
        rows = rows_of(session.table(NAME).scan())
        assert rows == [(1, 2, None, None), (2, 1, None, None)]
        for barrier in (30, 40):
            writer.write({"id": [1], "a": [barrier]}, barrier=barrier, complete=True)
            table.compact(full=True)
            table.expire_snapshots(1, 1)
        assert rows_of(session.table(NAME).scan()) == rows
        assert reader.session([NAME], consistency=COMMITTED).barrier == 40


def test_a_damaged_note_is_named(tmp_path: Path) -> None:
    table = new_table(tmp_path, **STAGED)
    catalog = wt.Catalog(tmp_path)
    catalog.writer(NAME, "w").write({"id": [1], "a": [1]}, barrier=10, complete=True)
    (note,) = notes(table)
    whole = note.read_bytes()
    for data in (b"", b"{}", whole[:-1], whole.replace(b'"files": "', b'"files": "!')):
        note.write_bytes(data)
        with pytest.raises(DamagedError, match=note.name):
            catalog.session([NAME], consistency=COMMITTED)
        assert catalog.session([NAME]).barrier == 10


def test_the_option_needs_barriers_and_is_off(tmp_path: Path) -> None:
    table = new_table(tmp_path)
    wt.Catalog(tmp_path).writer(NAME, "w").write({"id": [1]}, barrier=10, complete=True)
    assert not notes(table)
    with pytest.raises(InvalidError, match=r"barrier-stage.*no commit completes a barrier"):
        wt.Catalog(tmp_path).create_table(
            OTHER,
            {"id": "BIGINT"},
            primary_key=["id"],
            options={"bucket": "1", "widetable.barrier-stage": "true"},
        )


def test_a_name_of_any_writer_stands_in_its_note(tmp_path: Path) -> None:
    table = new_table(tmp_path, **STAGED)
    for at, name in enumerate(("ü/%", "a b", "." * 9, "n" * 200)):
        writer = wt.Catalog(tmp_path).writer(NAME, name, [])
        writer.write({"id": [at]}, barrier=10 * (at + 1), complete=True)
    found = staged_commits(table._file_io, table._paths)
    assert sorted(one.writer for one in found) == sorted(("ü/%", "a b", "." * 9, "n" * 200))


@dataclass
class Owner:
    """A writer of one column, as it should be seen. puts: label, key and value. noted: its last ones, not published."""

    column: str
    frontier: int = 0
    puts: list[tuple[int, int, int]] = field(default_factory=list)
    noted: list[tuple[int, int, int]] = field(default_factory=list)

    @property
    def came_to(self) -> int:
        return self.noted[0][0] if self.noted else self.frontier


class Shop:
    """Two writers of one table, each of its own column, whose processes end and begin."""

    def __init__(self, warehouse: Path, rng: random.Random) -> None:
        self.warehouse, self.rng = warehouse, rng
        self.table = new_table(
            warehouse, **STAGED, changelog_producer=rng.choice(("none", "lookup"))
        )
        self.owners = {name: Owner(name) for name in "ab"}
        self.writers = {name: self.begun(name) for name in self.owners}

    def begun(self, column: str) -> wt.BarrierWriter:
        return wt.Catalog(self.warehouse).writer(NAME, f"w{column}", [column])

    def step(self) -> None:
        owner = self.owners[self.rng.choice("ab")]
        what = self.rng.random()
        if what < 0.25:
            self.table.compact(full=self.rng.random() < 0.3)
        elif what < 0.35:
            self.table.expire_snapshots(1, 1)
        elif owner.noted:
            owner.noted = []
            self.writers[owner.column] = self.begun(owner.column)
        else:
            self.write(owner, dies=what < 0.6)

    def write(self, owner: Owner, *, dies: bool) -> None:
        barrier = owner.frontier + INTERVAL * self.rng.randrange(1, 3)
        keys = self.rng.sample(range(6), self.rng.randrange(0, 4))
        puts = [(barrier, key, self.rng.randrange(1000)) for key in keys]
        rows = {"id": keys, owner.column: [value for _, _, value in puts]}
        if not dies:
            self.writers[owner.column].write(rows, barrier=barrier, complete=True)
            owner.puts += puts
            owner.frontier = barrier
            return
        dead = dying(self.warehouse, f"w{owner.column}", [owner.column])
        with pytest.raises(StorageError):
            dead.write(rows, barrier=barrier, complete=True)
        owner.noted = puts or [(barrier, -1, 0)]

    def expected(self) -> tuple[int, list[tuple[Any, ...]]]:
        """The barrier of read committed, and its rows."""
        barrier = min(owner.came_to for owner in self.owners.values())
        rows: dict[int, dict[str, int]] = {}
        for owner in self.owners.values():
            for label, key, value in (*owner.puts, *owner.noted):
                if label <= barrier and key >= 0:
                    rows.setdefault(key, {})[owner.column] = value
        found = ((key, row.get("a"), row.get("b"), None) for key, row in rows.items())
        return barrier, sorted(found, key=lambda row: row[0])


def test_read_committed_shows_what_writers_did_however_they_end(
    tmp_path: Path, rng: random.Random
) -> None:
    fell_back = seen = 0
    for life in range(3):
        shop = Shop(tmp_path / str(life), rng)
        reader = wt.Catalog(tmp_path / str(life))
        for _ in range(40):
            shop.step()
            barrier, rows = shop.expected()
            if not barrier:
                continue
            with reader.session([NAME], consistency=COMMITTED) as session:
                assert session.barrier == barrier
                assert rows_of(session.table(NAME).scan()) == rows
                fell_back += session.fell_back_from is not None
            committed = min(owner.frontier for owner in shop.owners.values())
            seen += committed < barrier
            if committed:
                assert reader.session([NAME]).barrier == committed
    assert seen, "nothing staged was ever read: this test could not fail"
    assert fell_back
