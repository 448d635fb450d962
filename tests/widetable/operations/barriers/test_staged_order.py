"""Read committed, and rows ahead of the table, keep the order of commits: what is shown before a publish is what there
is after it.
"""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import widetable as wt
from tests.support.faults.faults import Fault, FaultyFileIO
from tests.support.tables.barrier_tables import NAME, new_table, rows_of
from widetable.errors import StorageError
from widetable.operations.barriers.barrier_writer import BarrierWriter
from widetable.operations.barriers.job_writer import JobBatch, JobWriter
from widetable.operations.handle.barrier_scan import barrier_views
from widetable.operations.handle.chosen_state import state_of_view
from widetable.storage.local import LocalFileIO
from widetable.write.commit_message import CommitMessage

Found = tuple[int | None, list[tuple[int | None, ...]]]


def staged_table(warehouse: Path) -> wt.Table:
    return new_table(warehouse, widetable__barrier_stage="true", write_only="true")


def shown(table: wt.Table) -> Found:
    """What a session at read committed shows: its barrier, and its rows."""
    catalog = wt.Catalog(Path(table.path).parent.parent)
    with catalog.session([NAME], consistency="ReadCommitted") as session:
        return session.barrier, rows_of(session.table(NAME).scan())


def written(table: wt.Table, column: str, value: int = 1) -> list[CommitMessage]:
    """Files of key 1 that have their numbers, and no commit yet."""
    with table.new_writer(["id", column], named=True) as writer:
        writer.write(pa.table({"id": [1], column: [value]}))
        return writer.finish()


def joined(table: wt.Table, *names: str) -> None:
    """The table waits for these, and has their barrier 10."""
    for name in names:
        BarrierWriter(table, name, None)
    for name in names:
        job(table, name).commit([], JobBatch(0, 10))


def job(table: wt.Table, name: str) -> JobWriter:
    return JobWriter(table, name, f"run of {name}", None)


def note(table: wt.Table, name: str, messages: list[CommitMessage]) -> None:
    """A writer's process ends before its commit of barrier 20 is published."""
    file_io = FaultyFileIO(LocalFileIO(fsync=False))
    file_io.fail("publish", Fault.BEFORE, "/snapshot/", times=1_000)
    file_io.fail("delete", Fault.BEFORE, times=1_000)
    with pytest.raises(StorageError):
        job(wt.Table.open(table.path, file_io=file_io), name).commit(messages, JobBatch(1, 20))


@pytest.mark.parametrize(
    ("column", "before", "after"),
    [
        ("a", (10, []), (20, [(1, 1, None, None)])),
        ("b", (20, [(1, 2, 1, None)]), (20, [(1, 2, 1, None)])),
    ],
    ids=["the same column", "another one"],
)
def test_a_note_that_was_overtaken_is_not_shown(
    tmp_path: Path, column: str, before: Found, after: Found
) -> None:
    """It will be published with later numbers, so its rows would be shown as the earlier ones."""
    table = staged_table(tmp_path)
    joined(table, "late", "other")
    late = written(table, column)
    job(table, "other").commit(written(table, "a", 2), JobBatch(1, 20))
    note(table, "late", late)
    assert shown(table) == before
    job(table, "late").commit(late, JobBatch(1, 20))
    assert shown(table) == after


def test_a_note_is_shown_up_to_the_moment_in_which_it_is_overtaken(tmp_path: Path) -> None:
    table = staged_table(tmp_path)
    joined(table, "late", "other")
    job(table, "other").complete(20)
    note(table, "late", written(table, "a"))
    assert shown(table) == (20, [(1, 1, None, None)])
    job(table, "other").commit(written(table, "a", 2), JobBatch(1, 30))
    assert shown(table) == (10, [])


def test_of_two_notes_the_one_that_may_be_overtaken_does_not_count(tmp_path: Path) -> None:
    """Nobody knows which of them is published first."""
    table = staged_table(tmp_path)
    joined(table, "one", "two")
    for name in ("one", "two"):
        note(table, name, written(table, "a"))
    assert shown(table) == (10, [])
    BarrierWriter(table, "one", None).complete(20)
    assert shown(table) == (20, [(1, 1, None, None)])


def test_a_barrier_ahead_of_the_table_has_the_order_of_commits(tmp_path: Path) -> None:
    """A compaction gave what is earlier the number of its oldest record, so the late append kept its own numbers."""
    table = staged_table(tmp_path)
    one, other = (BarrierWriter(table, name, None) for name in ("one", "other"))
    one.write({"id": [1], "a": [0]}, barrier=10, complete=True)
    other.complete(10)
    late = written(table, "a")
    one.write({"id": [1], "a": [2]}, barrier=20, complete=True)
    other.complete(20)
    other.write({"id": [2], "a": [5]}, barrier=40)
    assert table.compact(full=True).committed
    job(table, "late").commit(late, JobBatch(0, 30))
    ahead = barrier_views(table).ahead(30, ())
    assert rows_of(state_of_view(table, ahead).scan(None)) == [(1, 1, None, None)]
    for writer in (one, other):
        writer.complete(30)
    assert rows_of(table.scan(barrier=30)) == [(1, 1, None, None)]
