"""A maintainer makes the changelog of tables that nobody else compacts, and survives what is not the user's to mend."""

from __future__ import annotations

import contextlib
import json
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pytest

import widetable as wt
from tests.support.faults.faults import Fault, FaultyFileIO
from tests.support.faults.patience import PATIENCE_SECONDS, wait_for
from widetable.commit.notes.clock import SystemClock
from widetable.operations.compaction.compaction import Compacted
from widetable.operations.maintenance import maintenance
from widetable.operations.maintenance.cleaner import Cleaner
from widetable.operations.maintenance.maintenance import Maintainer, Upkeep
from widetable.operations.maintenance.maintenance_result import MaintenanceResult
from widetable.storage.local import LocalFileIO

SCHEMA = pa.schema(
    [pa.field("k", pa.int64(), nullable=False), ("a", pa.string()), ("b", pa.int64())]
)
LOOKUP = {
    "bucket": "2",
    "widetable.fsync": "false",
    "write-only": "true",
    "merge-engine": "partial-update",
    "changelog-producer": "lookup",
}


class Hand:
    """A clock that is turned by hand."""

    def __init__(self) -> None:
        self.millis = 0.0

    def now_nanos(self) -> int:
        return time.time_ns()

    def monotonic_millis(self) -> float:
        return self.millis

    def sleep_millis(self, millis: float) -> None:
        self.millis += millis


def a_side(*keys: int, value: str = "a") -> pa.Table:
    schema = pa.schema([SCHEMA.field("k"), SCHEMA.field("a")])
    return pa.table({"k": keys, "a": [f"{value}{k}" for k in keys]}, schema)


@pytest.fixture
def make(tmp_path: Path) -> Callable[..., wt.Table]:
    def make_table(**options: str) -> wt.Table:
        return wt.Catalog(str(tmp_path)).create_table(
            "db.t", SCHEMA, primary_key=["k"], options={**LOOKUP, **options}
        )

    return make_table


@pytest.fixture
def clock() -> Hand:
    return Hand()


@contextlib.contextmanager
def running(table: wt.Table) -> Iterator[list[MaintenanceResult]]:
    """A maintainer in a thread, as long as the block runs. What it did is in the list afterwards."""
    stop = threading.Event()
    done: list[MaintenanceResult] = []
    with ThreadPoolExecutor(1) as pool:
        run = pool.submit(table.maintain, interval_millis=10, stop=stop)
        try:
            yield done
        finally:
            stop.set()
            done.append(run.result(PATIENCE_SECONDS))


def waiting_files(table: wt.Table) -> int:
    return table.inspect().backlog.files


def lease_file(table: wt.Table) -> Path:
    return Path(table.path, "service", "widetable-compaction-lease")


# What it does


def test_once_makes_the_changelog_of_all_that_waits(make: Callable[..., wt.Table]) -> None:
    table = make()
    table.write(a_side(1, 2, 3))
    table.write(a_side(2, value="b"))
    done = table.maintain(once=True)
    assert (done.compactions, done.snapshot_id) == (1, 3)
    kinds = table.changes(0, 3).to_pylist()
    assert {(row["k"], row["a"], row["_row_kind"]) for row in kinds} == {
        (1, "a1", "+I"),
        (2, "b2", "+I"),
        (3, "a3", "+I"),
    }
    assert table.maintain(once=True).is_idle
    assert not lease_file(table).exists()


def test_changes_of_a_bucket_are_there_before_all_buckets_are_done(
    make: Callable[..., wt.Table], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(maintenance, "GROUP_SECONDS", 0.0)
    table = make(bucket="4")
    table.write(a_side(*range(100)))
    table.maintain(once=True)
    compactions = table.snapshots()[1:]
    assert [snapshot.commit_kind for snapshot in compactions] == ["COMPACT"] * 4
    assert sum(snapshot.changelog_record_count or 0 for snapshot in compactions) == 100


def test_it_follows_a_table_and_stops(make: Callable[..., wt.Table]) -> None:
    table = make()
    with running(table) as done:
        for number in range(5):
            table.write(a_side(*range(10), value=f"v{number}-"))
            wait_for(lambda: waiting_files(table) == 0)
        wait_for(lambda: table.inspect().lease_holder is not None)
        assert table.inspect().warnings == ()
    assert done[0].compactions == 5
    assert done[0].failures == done[0].waits == 0
    assert not lease_file(table).exists()
    report = table.audit()
    assert report.ok, report.findings
    assert report.checks["chain"] == 10 + 4 * 20


def test_an_idle_round_looks_at_next_to_nothing(make: Callable[..., wt.Table]) -> None:
    table = make()
    table.write(a_side(1))
    storage = FaultyFileIO(LocalFileIO(fsync=False))
    with wt.Table(table.path, storage).maintainer(Upkeep()) as maintainer:
        while not maintainer.round().is_idle:
            pass
        storage.log.clear()
        assert maintainer.round().is_idle
    looks = [entry for entry in storage.log if "lease" not in entry[1]]
    assert len(looks) < 6
    assert {operation for operation, _ in looks} <= {"read", "exists", "list"}


def test_rounds_that_always_miss_something_come_later_each_time(
    make: Callable[..., wt.Table],
) -> None:
    table = make()
    table.write(a_side(1))

    def compact(*given: object) -> Compacted:
        raise wt.NotFoundError("a file", found="none", expected="one", action="Wait.")

    with table.maintainer(Upkeep(interval_millis=1000), compact) as maintainer:
        waits = []
        for _ in range(4):
            assert maintainer.round().failures == 1
            waits.append(maintainer.wait_millis)
    assert waits == [1000, 2000, 4000, 8000]


def test_full_compactions_make_the_changelog_that_lives_on_them(
    make: Callable[..., wt.Table], clock: Hand
) -> None:
    table = make(**{"changelog-producer": "full-compaction"})
    upkeep = Upkeep(full_compaction_interval_millis=5000)
    maintainer = Maintainer(
        lambda: table._state(table.schema), table._committer, upkeep, clock=clock
    )
    with maintainer:
        table.write(a_side(1))
        assert maintainer.round().full_compactions == 1
        table.write(a_side(2))
        assert maintainer.round().is_idle
        clock.sleep_millis(5000)
        assert maintainer.round().full_compactions == 1
        assert maintainer.round().is_idle
        clock.sleep_millis(5000)
        assert maintainer.round().is_idle
    assert table.changes(0, 4).num_rows == 2


def test_snapshots_expire_and_orphans_go(make: Callable[..., wt.Table]) -> None:
    table = make(
        **{
            "snapshot.num-retained.min": "1",
            "snapshot.num-retained.max": "2",
            "snapshot.time-retained": "1 ms",
        }
    )
    for number in range(4):
        table.write(a_side(number))
    stray = Path(table.path, "bucket-0", "data-stray-0.parquet")
    stray.parent.mkdir(exist_ok=True)
    stray.write_bytes(b"x")
    done = table.maintain(once=True, expire=False)
    assert (done.expired_snapshots, done.orphan_files) == (0, 0)
    done = table.maintain(once=True, orphans_older_than_millis=0)
    assert done.expired_snapshots == 4
    assert done.orphan_files == 1
    assert not stray.exists()
    assert [snapshot.id for snapshot in table.snapshots()] == [5]


def test_what_may_not_expire_is_reported_and_compacted_all_the_same(
    make: Callable[..., wt.Table], caplog: pytest.LogCaptureFixture
) -> None:
    table = make()
    schema = Path(table.path, "schema", "schema-0")
    body = json.loads(schema.read_text())
    body["options"]["changelog.time-retained"] = "1 h"
    schema.write_text(json.dumps(body))
    table = wt.Table.open(table.path)
    table.write(a_side(1))
    with table.maintainer(Upkeep()) as maintainer:
        rounds = [maintainer.round() for _ in range(4)]
    assert [(one.compactions, one.failures) for one in rounds] == [(1, 0), (0, 0), (0, 0), (0, 0)]
    reported = [r for r in caplog.records if "do not expire" in r.getMessage()]
    assert len(reported) == 1


def test_what_may_not_expire_may_by_other_options(make: Callable[..., wt.Table]) -> None:
    """Without a start of the maintainer anew: the warning says which option to remove."""
    table = make(**{"snapshot.num-retained.min": "1", "snapshot.num-retained.max": "1"})
    for number in range(3):
        table.write(a_side(number))
    schema = Path(table.path, "schema", "schema-0")
    body = json.loads(schema.read_text())
    kept = dict(body["options"])
    body["options"]["changelog.time-retained"] = "1 h"
    schema.write_text(json.dumps(body))
    table = wt.Table.open(table.path)
    cleaner = Cleaner(table._committer, SystemClock(), expires=True, older_than_millis=None)
    assert cleaner.clean(table._state(), 3, at_once=True).expired_snapshots == 0
    schema.with_name("schema-1").write_text(json.dumps({**body, "id": 1, "options": kept}))
    table = wt.Table.open(table.path)
    assert cleaner.clean(table._state(), 3, at_once=True).expired_snapshots > 0


def test_a_note_of_an_append_that_waits_is_answered(make: Callable[..., wt.Table]) -> None:
    table = make()
    table.write(a_side(1))
    note = Path(table.path, "service", "widetable-compaction-wanted")
    with table.maintainer(Upkeep(expire=False)) as maintainer:
        while not maintainer.round().is_idle:
            pass
        note.parent.mkdir(exist_ok=True)
        note.write_bytes(b"")
        maintainer.round()
        assert not note.exists()


# Several


def test_a_second_maintainer_waits_and_takes_over(make: Callable[..., wt.Table]) -> None:
    table = make()
    with table.maintainer(Upkeep()) as second:
        with table.maintainer(Upkeep()) as first:
            table.write(a_side(1))
            assert first.round().compactions == 1
            table.write(a_side(2))
            assert second.round().waits == 1
            assert waiting_files(table) > 0
            assert first.round().compactions == 1
        table.write(a_side(3))
        assert second.round().compactions == 1
    assert waiting_files(table) == 0


def test_a_maintainer_shows_that_it_is_there_before_there_is_anything_to_do(
    make: Callable[..., wt.Table], caplog: pytest.LogCaptureFixture
) -> None:
    table = make()
    with table.maintainer(Upkeep()) as maintainer:
        assert maintainer.round().is_idle
        assert table.inspect().lease_holder is not None
        table.write(a_side(1))
    assert caplog.records == []


def test_a_maintainer_that_lost_its_lease_waits(make: Callable[..., wt.Table]) -> None:
    table = make()
    with table.maintainer(Upkeep()) as first, table.maintainer(Upkeep()) as second:
        table.write(a_side(1))
        assert first.round().compactions == 1
        lease_file(table).unlink()  # it ran out
        table.write(a_side(2))
        assert second.round().compactions == 1
        table.write(a_side(3))
        assert first.round().waits == 1


def test_writers_that_compact_get_the_lease_between_rounds(
    make: Callable[..., wt.Table],
) -> None:
    table = make(**{"write-only": "false"})
    with table.maintainer(Upkeep()) as maintainer:
        table.write(a_side(1))
        assert waiting_files(table) == 0
        maintainer.round()
        assert not lease_file(table).exists()
        table.write(a_side(2))
        assert waiting_files(table) == 0


def test_maintainers_that_work_at_once_leave_one_right_changelog(
    make: Callable[..., wt.Table],
) -> None:
    """As when leases do not help at all: each compacts whatever it sees."""
    table = make()
    stop = threading.Event()

    def compact_always() -> None:
        own = wt.Table.open(table.path)
        while not stop.is_set():
            with contextlib.suppress(wt.ConflictError):
                own.maintain(once=True)

    with ThreadPoolExecutor(2) as pool:
        runs = [pool.submit(compact_always) for _ in range(2)]
        try:
            for number in range(15):
                table.write(a_side(*range(number, number + 5), value=f"v{number}-"))
            wait_for(lambda: waiting_files(table) == 0 or any(run.done() for run in runs))
        finally:
            stop.set()
        for run in runs:
            run.result(PATIENCE_SECONDS)
    report = table.audit()
    assert report.ok, report.findings
    assert report.checks["fold"] > 1


# Errors


def test_a_storage_that_fails_for_a_while_is_survived(make: Callable[..., wt.Table]) -> None:
    table = make()
    table.write(a_side(1))
    storage = FaultyFileIO(LocalFileIO(fsync=False))
    with wt.Table(table.path, storage).maintainer(Upkeep()) as maintainer:
        storage.fail("open_output", Fault.FULL, "changelog-", times=2)
        assert maintainer.round() == MaintenanceResult(rounds=1, failures=1)
        assert maintainer.wait_millis == 2000
        assert maintainer.round().failures == 1
        assert maintainer.wait_millis == 4000
        assert maintainer.round().compactions == 1
        assert maintainer.wait_millis == 1000
    assert table.audit().ok


def test_storage_errors_at_random_leave_a_right_table(
    make: Callable[..., wt.Table], rng: object
) -> None:
    table = make()
    storage = FaultyFileIO(LocalFileIO(fsync=False), seed=hash(repr(rng)) & 0xFFFF, rate=0.0)
    with wt.Table(table.path, storage).maintainer(Upkeep(interval_millis=0)) as maintainer:
        for number in range(10):
            table.write(a_side(number, number + 1))
            storage.rate = 0.05
            maintainer.round()
        storage.heal()
        while not maintainer.round().is_idle:
            pass
    assert waiting_files(table) == 0
    report = table.audit()
    assert report.ok, report.findings


def test_once_raises_every_error(make: Callable[..., wt.Table]) -> None:
    table = make()
    table.write(a_side(1))
    storage = FaultyFileIO(LocalFileIO(fsync=False))
    storage.fail("open_output", Fault.FULL, "changelog-")
    with pytest.raises(wt.StorageError):
        wt.Table(table.path, storage).maintain(once=True)


def test_metadata_that_stays_damaged_ends_maintenance(make: Callable[..., wt.Table]) -> None:
    table = make()
    with table.maintainer(Upkeep()) as maintainer:
        table.write(a_side(1))
        Path(table.path, "snapshot", "snapshot-1").write_bytes(b"{")
        assert maintainer.round().failures == 1
        assert maintainer.round().failures == 1
        with pytest.raises(wt.DamagedError):
            maintainer.round()


def test_a_table_that_is_dropped_ends_maintenance(
    make: Callable[..., wt.Table], tmp_path: Path
) -> None:
    table = make()
    table.write(a_side(1))
    with table.maintainer(Upkeep()) as maintainer:
        maintainer.round()
        wt.Catalog(str(tmp_path)).drop_table("db.t")
        with pytest.raises(wt.NotFoundError):
            maintainer.round()


def test_negative_times_are_refused() -> None:
    with pytest.raises(wt.InvalidError, match="interval_millis"):
        Upkeep(interval_millis=-1)
