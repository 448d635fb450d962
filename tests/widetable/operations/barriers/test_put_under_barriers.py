"""What is at work while a table is put under barriers is refused by name and leaves nothing, or was in before."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

import widetable as wt
from tests.support.faults.faults import Fault, FaultyFileIO
from tests.support.faults.other_machine import OtherMachine
from tests.support.tables.barrier_tables import NAME, UNDER_BARRIERS, rows_of
from tests.support.tables.later_barriers import OLD, old_table, put, written
from widetable.errors import (
    ConflictError,
    InvalidError,
    NotFoundError,
    StorageError,
    UnsupportedError,
)
from widetable.lsm.bucket_plan import Scope
from widetable.operations.barriers.job_writer import JobBatch, JobWriter
from widetable.operations.compaction.compaction import compact_all
from widetable.runtime.worker_thread import in_threads
from widetable.storage.local import LocalFileIO

IO = LocalFileIO(fsync=False)
_WRITERS = 4


def data_files(table: wt.Table) -> set[str]:
    return {file.name for file in Path(table.path).glob("bucket-*/*") if file.is_file()}


Act = Callable[[wt.Table], object]
_REFUSED: dict[str, tuple[Act, type[Exception]]] = {
    "write": (lambda table: table.write({"id": [1], "a": [99]}), InvalidError),
    "delete": (lambda table: table.delete("id = 1", rewrite=True), UnsupportedError),
    "overwrite": (
        lambda table: table.overwrite({"id": [1], "a": [99]}, whole_table=True),
        UnsupportedError,
    ),
    "rescale": (lambda table: table.rescale(2), UnsupportedError),
    "rollback": (lambda table: table.rollback(snapshot_id=1), UnsupportedError),
}


@pytest.mark.parametrize("what", _REFUSED)
def test_who_has_files_and_did_not_publish_yet_is_refused_by_name(
    tmp_path: Path, what: str
) -> None:
    """Its files are there, its look at the schema was before: the snapshot that it wants is taken."""
    table = old_table(tmp_path, write_only="true")
    table.compact(full=True)
    act, refused = _REFUSED[what]
    before = data_files(table)
    files = FaultyFileIO(IO)
    files.run_before("publish", lambda: put(tmp_path), "/snapshot-")
    with pytest.raises(refused, match="barrier-interval"):
        act(wt.Table.open(table.path, file_io=files))
    assert rows_of(table.scan()) == OLD
    assert data_files(table) == before, "its files are left"
    wt.Catalog(tmp_path).writer(NAME, "w").complete(20)
    assert rows_of(table.scan(barrier=20)) == OLD
    assert not table.audit().findings


@pytest.mark.parametrize("what", _REFUSED)
def test_who_is_faster_than_the_snapshot_was_in_before(tmp_path: Path, what: str) -> None:
    """The schema is there, the snapshot with which barriers begin is not yet."""
    table = old_table(tmp_path, write_only="true")
    table.compact(full=True)
    act, _ = _REFUSED[what]
    files, slow = FaultyFileIO(IO), FaultyFileIO(IO)

    def put_schema_alone() -> None:
        slow.fail("publish", Fault.BEFORE, "/snapshot-")
        with pytest.raises(StorageError):
            wt.Catalog(tmp_path, file_io=slow).alter_table(NAME, set_options=UNDER_BARRIERS)

    files.run_before("publish", put_schema_alone, "/snapshot-")
    act(wt.Table.open(table.path, file_io=files))
    rows = rows_of(table.scan())
    put(tmp_path)
    writer = wt.Catalog(tmp_path).writer(NAME, "w", ["b"])
    writer.write({"id": [7], "b": [7]}, barrier=20, complete=True)
    assert rows_of(table.scan(barrier=20)) == [*rows, (7, None, 7, None)]
    with pytest.raises(NotFoundError, match="20 or a later"):
        table.scan(barrier=10)
    assert not table.audit().findings


def test_a_handle_of_before_is_refused_and_goes_on_with_a_writer(tmp_path: Path) -> None:
    table = old_table(tmp_path)
    messages = written(table, {"id": [3], "a": [30]})
    put(tmp_path)
    with pytest.raises(InvalidError, match="an append without a writer"):
        table.commit_append(messages, "stream", 1)
    job = JobWriter(table, "stream", "stream", ["a"])
    job.commit(messages, JobBatch(1, 20, is_first=True))
    assert rows_of(table.scan(barrier=20)) == [*OLD, (3, 30, None, None)]


@pytest.mark.parametrize("producer", ["none", "lookup"])
def test_a_compaction_of_before_takes_nothing_of_an_open_barrier(
    tmp_path: Path, producer: str
) -> None:
    """Files of a newer schema it leaves anyway; this one was written before, and is committed since."""
    table = old_table(tmp_path, write_only="true", changelog_producer=producer)
    before = table._state()
    messages = written(table, {"id": [1], "a": [11]})
    catalog = put(tmp_path)
    job = JobWriter(table, "stream", "stream", None)
    writer = catalog.writer(NAME, "w", [])
    job.commit(messages, JobBatch(1, 20, is_first=True))
    stale = wt.Table.open(table.path)._committer
    with pytest.raises(ConflictError, match="files of barrier 20"):
        compact_all(before, stale, Scope.FULL)
    assert {row["level"] for row in table.inspect.files().to_pylist()} == {0}
    writer.complete(20)
    assert compact_all(before, stale, Scope.FULL).result.committed
    assert 0 not in {row["level"] for row in table.inspect.files().to_pylist()}
    writer.leave()
    job.commit(written(table, {"id": [1], "a": [12]}), JobBatch(2, 30))
    writer = catalog.writer(NAME, "x", ["b"])
    writer.write({"id": [2], "b": [12]}, barrier=40, complete=True)
    job.complete(40)
    assert rows_of(table.scan(barrier=40)) == [(1, 12, None, None), (2, 20, 12, None)]
    assert rows_of(table.scan(barrier=20)) == [(1, 11, None, None), (2, 20, None, None)]
    assert not table.audit().findings


def test_main_does_not_go_on_as_a_branch_when_it_was_put_under_barriers_meanwhile(
    tmp_path: Path,
) -> None:
    table = old_table(tmp_path)
    table.create_tag("now")
    table.create_branch("b", tag="now")
    wt.Catalog(tmp_path).table(f"{NAME}$branch_b").write({"id": [9], "a": [9]})
    files = FaultyFileIO(IO)
    files.run_before("replace", lambda: put(tmp_path), "read-lease")
    with pytest.raises(UnsupportedError, match="barrier-interval"):
        wt.Table.open(table.path, file_io=files).fast_forward("b", replace=True)
    wt.Catalog(tmp_path).writer(NAME, "w").complete(20)
    assert rows_of(table.scan(barrier=20)) == OLD


def test_a_rescaling_does_not_set_its_number_of_buckets_any_more(tmp_path: Path) -> None:
    table = old_table(tmp_path)
    files = FaultyFileIO(IO)
    files.run_before("publish", lambda: put(tmp_path), "/schema-")
    with pytest.raises(UnsupportedError, match="barrier-interval"):
        wt.Table.open(table.path, file_io=files).rescale(2)
    assert table.schema.num_buckets == 1


def test_an_expiry_that_began_before_leaves_what_barriers_need(tmp_path: Path) -> None:
    table = old_table(tmp_path)
    files = FaultyFileIO(IO)

    def put_and_write() -> None:
        catalog = put(tmp_path)
        writer = catalog.writer(NAME, "w")
        writer.complete(20)
        for barrier in (30, 40):
            writer.write({"id": [1], "a": [barrier]}, barrier=barrier)

    files.run_before("list", put_and_write, "/service")
    wt.Table.open(table.path, file_io=files).expire_snapshots(1, 1, 0)
    assert rows_of(table.scan(barrier=20)) == OLD


@pytest.mark.parametrize("file_io", [LocalFileIO, OtherMachine])
def test_writers_at_full_speed_are_in_before_or_refused(
    tmp_path: Path, file_io: type[LocalFileIO]
) -> None:
    table = old_table(tmp_path, changelog_producer="lookup")
    has_written = threading.Barrier(_WRITERS + 1)

    def write(number: int) -> int:
        """How many commits are in until one is refused."""
        own = wt.Table.open(table.path, file_io=file_io(fsync=False))
        done: list[int] = []

        def write_on() -> None:
            while True:
                if len(done) == 2:
                    has_written.wait(60)
                own.write({"id": [number], "b": [len(done)]})
                done.append(number)

        with pytest.raises(InvalidError, match="without a writer"):
            write_on()
        return len(done)

    def put_then(number: int) -> int:
        if number:
            return write(number * 10)
        has_written.wait(60)
        put(tmp_path)
        return 0

    done = in_threads(put_then, range(_WRITERS + 1), _WRITERS + 1, "writer")
    wt.Catalog(tmp_path).writer(NAME, "w").complete(20)
    table.compact()
    rows = [(number * 10, None, done[number] - 1, None) for number in range(1, _WRITERS + 1)]
    assert rows_of(table.scan(barrier=20)) == rows_of(table.scan()) == [*OLD, *rows]
    events: Counter[tuple[object, ...]] = Counter()
    for batch in table.follow(scan_mode="from-snapshot", snapshot_id=1, timeout=0):
        for event in batch.to_pylist():
            sign = 1 if event.pop("_row_kind") in ("+I", "+U") else -1
            events[tuple(event.values())] += sign
    assert {event: n for event, n in events.items() if n} == dict.fromkeys([*OLD, *rows], 1)
    assert not table.audit().findings
