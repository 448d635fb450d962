"""Pins of lookup joins: who makes them, what they keep, and how a replay is told from a first run."""

from __future__ import annotations

import json
import threading
import time
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import widetable as wt
from tests.support.faults.faults import Fault, FaultyFileIO
from tests.support.faults.torn_bytes import GARBAGE
from tests.support.models.kept_rows import copy_of
from widetable.commit.holds.lookup_pin import (
    ChooseMoment,
    PinnedBatch,
    check_join,
    newest_moment,
    pin_batch,
)
from widetable.commit.holds.pin_file import LookupPin, damaged_pins, forget_pins, pinned_snapshots
from widetable.commit.holds.read_lease import ReadLease, held_snapshots, hold
from widetable.commit.holds.snapshot_holds import kept_snapshots
from widetable.commit.notes.clock import SystemClock
from widetable.commit.snapshots.manifest_cache import MANIFEST_CACHE
from widetable.storage.local import LocalFileIO
from widetable.storage.paths import TablePaths

IO = LocalFileIO(fsync=False)
QUERY = "7ba1f9c6-5a2c-4f0c-9f1c-0d7ab1f0a001"
DAY = 86_400_000
YEAR = 365 * DAY


class Hand(SystemClock):
    """A clock that is turned by hand."""

    def __init__(self, millis: int) -> None:
        self.millis = millis

    def now_nanos(self) -> int:
        return self.millis * 1_000_000


@pytest.fixture
def table(tmp_path: Path) -> wt.Table:
    """With the snapshots 1 and 2."""
    made = wt.Catalog(tmp_path).create_table(
        "db.t", pa.schema([("k", pa.int64()), ("v", pa.string())]), primary_key=["k"]
    )
    for value in "ab":
        write(made, value)
    return made


def write(table: wt.Table, value: str) -> int:
    table.write(pa.table({"k": [1], "v": [value]}))
    return table.snapshots()[-1].id


def newest(
    paths: TablePaths, partitions: tuple[bytes, ...] | None = None, file_io: Any = IO
) -> ChooseMoment:
    return lambda clock: newest_moment(file_io, paths, lambda snapshot: partitions, clock)


def pin(
    table: wt.Table,
    batch_id: int,
    *,
    join: str = "0",
    file_io: Any = IO,
    clock: Any = None,
    duration_millis: int = DAY,
) -> LookupPin:
    batch = PinnedBatch(QUERY, join, batch_id)
    paths = TablePaths(table.path)
    return pin_batch(file_io, paths, batch, newest(paths, None, file_io), duration_millis, clock)


def pinned(table: wt.Table, clock: Any = None) -> list[int]:
    return pinned_snapshots(table._state(), clock)


def forget(table: wt.Table, clock: Any) -> int:
    return len(forget_pins(table._state(), 0, clock))


def file_of(table: wt.Table, batch_id: int, join: str = "0") -> Path:
    return Path(TablePaths(table.path).lookup_pin(f"{QUERY}-{join}", batch_id))


def expire(table: wt.Table) -> tuple[int, ...]:
    return table.expire_snapshots(1, 1, 0).ids


def test_a_batch_pins_the_newest_snapshot_once(table: wt.Table) -> None:
    first = pin(table, 0)
    assert (first.snapshot_id, first.partitions) == (2, None)
    write(table, "c")
    assert pin(table, 0) == first
    assert pin(table, 1).snapshot_id == 3
    assert pin(table, 1, join="another").snapshot_id == 3
    assert held_snapshots(IO, TablePaths(table.path)) == []


def test_on_disk_it_is_a_file_of_its_own(table: wt.Table) -> None:
    clock = Hand(5_000)
    batch, paths = PinnedBatch(QUERY, "orders", 7), TablePaths(table.path)
    rows = (b"\x00\x01", b"\xff")
    pin_batch(IO, paths, batch, newest(paths, rows), 100, clock)
    name = f"widetable-lookup-pin-{QUERY}-orders-7"
    assert json.loads(Path(table.path, "service", name).read_text()) == {
        "snapshot_id": 2,
        "schema_id": 0,
        "time_millis": table.snapshots()[-1].time_millis,
        "partitions": "0001,ff",
        "expires_millis": 5_100,
    }
    again = pin_batch(IO, paths, batch, newest(paths, ()), 100, clock)
    assert again.partitions == rows


@pytest.mark.parametrize("rows", [(), (b"\x01",), None])
def test_partitions_come_back_as_they_were(table: wt.Table, rows: tuple[bytes, ...] | None) -> None:
    batch = PinnedBatch(QUERY, "0", 0)
    paths = TablePaths(table.path)
    assert pin_batch(IO, paths, batch, newest(paths, rows), DAY).partitions == rows
    assert pin_batch(IO, paths, batch, newest(paths, (b"others",)), DAY).partitions == rows


def test_a_table_without_snapshots_is_joined_as_such_again(tmp_path: Path) -> None:
    empty = wt.Catalog(tmp_path).create_table(
        "db.t", {"k": pa.int64(), "v": pa.string()}, primary_key=["k"]
    )
    assert pin(empty, 0).snapshot_id == 0
    write(empty, "a")
    assert pin(empty, 0).snapshot_id == 0
    assert pinned(empty) == []
    assert pin(empty, 1).snapshot_id == 1


def test_two_batches_are_kept(table: wt.Table) -> None:
    for batch_id in range(5):
        pin(table, batch_id)
        pin(table, batch_id, join="0-1")
    kept = sorted(path.name for path in Path(table.path, "service").glob("*-pin-*"))
    assert [name.partition(f"{QUERY}-")[2] for name in kept] == ["0-1-3", "0-1-4", "0-3", "0-4"]


@pytest.mark.parametrize("name", ["", "a/b", "a\\b", "..", "n\n", "x" * 130, 7, None])
def test_a_name_that_no_file_can_have_is_refused(name: Any) -> None:
    with pytest.raises(wt.InvalidError, match="name"):
        check_join(name)


def test_the_longest_name_is_taken(table: wt.Table) -> None:
    longest = next(n for n in range(255, 0, -1) if _is_taken("x" * n))
    batch = PinnedBatch(QUERY, "x" * longest, 2**63 - 1)
    pin_batch(IO, TablePaths(table.path), batch, newest(TablePaths(table.path)), DAY)
    assert pinned(table) == [2]


def _is_taken(name: str) -> bool:
    try:
        return bool(check_join(name))
    except wt.InvalidError:
        return False


# Races


def test_who_comes_second_takes_the_pin_of_the_first(table: wt.Table) -> None:
    """The other task publishes right before this one does, another snapshot."""
    faulty = FaultyFileIO(IO)

    def other() -> None:
        faulty.heal()
        write(table, "c")
        assert pin(table, 0).snapshot_id == 3

    faulty.run_before("publish", other, "lookup-pin")
    assert pin(table, 0, file_io=faulty).snapshot_id == 3
    assert held_snapshots(IO, TablePaths(table.path)) == []


def test_processes_agree_on_every_batch(table: wt.Table) -> None:
    context = get_context("forkserver")
    barrier, answers = context.Barrier(4), context.Queue()
    processes = [
        context.Process(target=_pin_many, args=(table, barrier, answers)) for _ in range(4)
    ]
    for process in processes:
        process.start()
    stop = threading.Event()

    def commit() -> None:
        while not stop.is_set():
            write(table, "more")
            expire(table)

    writer = threading.Thread(target=commit)
    writer.start()
    try:
        found = [answers.get() for _ in processes]
    finally:
        stop.set()
        writer.join()
        for process in processes:
            process.join()
    assert found == [found[0]] * 4
    assert len(set(found[0])) > 1, "nobody committed meanwhile"


def _pin_many(table: wt.Table, barrier: Any, answers: Any) -> None:
    """The snapshots of 10 batches; the rows of each are read. It waits at every batch, as Spark does."""
    found = []
    for batch_id in range(10):
        barrier.wait()
        pinned = pin(table, batch_id)
        found.append(pinned.snapshot_id)
        assert table.lookup([1], snapshot_id=pinned.snapshot_id).num_rows == 1
    answers.put(found)


def test_an_expiry_at_any_moment_leaves_what_is_pinned(table: wt.Table, tmp_path: Path) -> None:
    """Before any operation of the pin the table changes, and all is expired that may be."""
    log = FaultyFileIO(IO)
    pin(copy_of(table, tmp_path / "x"), 0, file_io=log)
    kinds = [kind for kind, _ in log.log]
    assert len(kinds) > 5
    for at, kind in enumerate(kinds):
        copy = copy_of(table, tmp_path / "y")
        faulty = FaultyFileIO(IO)

        def overtake(copy: wt.Table = copy, faulty: FaultyFileIO = faulty) -> None:
            faulty.heal()
            write(copy, "c")
            expire(copy)

        faulty.run_before(kind, overtake, skip=kinds[:at].count(kind))
        found = pin(copy, 0, file_io=faulty)
        assert copy.snapshots()[-1].id == 3
        expire(copy)
        expected = "b" if found.snapshot_id == 2 else "c"
        assert copy.lookup([1], snapshot_id=found.snapshot_id)["v"].to_pylist() == [expected]


def test_a_pin_at_any_moment_of_an_expiry_has_its_snapshot(table: wt.Table, tmp_path: Path) -> None:
    """The other way round: the pin is made before any operation of an expiry."""
    write(table, "c")
    MANIFEST_CACHE.clear()
    log = FaultyFileIO(IO)
    expire(wt.Table.open(copy_of(table, tmp_path / "x").path, file_io=log))
    kinds = [kind for kind, _ in log.log]
    assert len(kinds) > 20
    for at, kind in enumerate(kinds):
        copy = copy_of(table, tmp_path / "y")
        faulty = FaultyFileIO(IO)
        found: list[LookupPin] = []
        MANIFEST_CACHE.clear()

        def overtake(
            copy: wt.Table = copy, faulty: FaultyFileIO = faulty, found: list[LookupPin] = found
        ) -> None:
            faulty.heal()
            found.append(pin(copy, 0))
            write(copy, "d")

        faulty.run_before(kind, overtake, skip=kinds[:at].count(kind))
        expire(wt.Table.open(copy.path, file_io=faulty))
        expire(copy)
        (made,) = found
        assert copy.lookup([1], snapshot_id=made.snapshot_id)["v"].to_pylist() == ["c"]


def test_who_lets_a_lease_go_for_a_pin_is_seen_by_the_one_or_the_other(table: wt.Table) -> None:
    """In the middle of any look of an expiry, too."""
    paths = TablePaths(table.path)
    for at in range(2):
        lease = hold(IO, paths, 2, renews=False)
        faulty = FaultyFileIO(IO)

        def exchange(lease: ReadLease = lease, at: int = at) -> None:
            pin(table, 0, join=f"{at}")
            lease.release()

        faulty.run_before("list", exchange, "/service", skip=at)
        looking = wt.Table.open(table.path, file_io=faulty)._state()
        assert 2 in kept_snapshots(looking)
        assert faulty.count("list", "/service") == 2
        file_of(table, 0, f"{at}").unlink()


@pytest.mark.parametrize("fault", [Fault.BEFORE, Fault.AFTER])
def test_a_pin_whose_answer_got_lost_is_taken_by_the_next_try(
    table: wt.Table, fault: Fault
) -> None:
    faulty = FaultyFileIO(IO)
    faulty.fail("publish", fault, "lookup-pin")
    with pytest.raises(wt.StorageError, match="injected"):
        pin(table, 0, file_io=faulty)
    assert held_snapshots(IO, TablePaths(table.path)) == []
    write(table, "c")
    assert pin(table, 0).snapshot_id == (3 if fault is Fault.BEFORE else 2)


# Expiry


def test_expiry_leaves_what_a_pin_holds(table: wt.Table) -> None:
    pin(table, 0)
    write(table, "c")
    assert expire(table) == (1,)
    assert table.inspect().held_snapshot_ids == (2,)
    pin(table, 1)
    pin(table, 2)
    assert expire(table) == (2,)


def test_the_option_says_for_how_long(table: wt.Table) -> None:
    table.alter_options({"widetable.lookup-pin-retention": "1 min"})
    pin(table, 0, duration_millis=60_000)
    assert kept_snapshots(table._state()) == [2]
    # Longer than anybody can have taken it for: a clock that is wrong.
    pin(table, 0, join="ahead", duration_millis=180_000)
    assert kept_snapshots(table._state()) == [2]


def test_a_pin_holds_until_its_time_is_up(table: wt.Table) -> None:
    clock = Hand(1_000)
    pin(table, 0, clock=clock, duration_millis=500)
    clock.millis += 499
    assert pinned(table, clock) == [2]
    clock.millis += 1
    assert pinned(table, clock) == []
    assert pin(table, 0, clock=clock).snapshot_id == 2  # it is there still


def test_pins_that_are_over_go_but_for_the_newest_which_goes_after_a_year(
    table: wt.Table,
) -> None:
    clock = Hand(1_000)
    for batch_id in range(2):
        pin(table, batch_id, clock=clock, duration_millis=500)
    pin(table, 0, join="other", clock=clock, duration_millis=900)
    assert forget(table, clock) == 0
    clock.millis += 500
    assert forget(table, clock) == 1
    assert not file_of(table, 0).exists()
    clock.millis += YEAR - 1
    assert forget(table, clock) == 0
    clock.millis += 1
    assert forget(table, clock) == 1
    clock.millis += 400
    assert forget(table, clock) == 1


# Replays


def test_a_replay_whose_snapshot_has_expired_is_an_error_that_names_both(table: wt.Table) -> None:
    clock = Hand(int(time.time() * 1000) - DAY)
    pin(table, 4, clock=clock, duration_millis=500)
    write(table, "c")
    clock.millis += DAY
    forget(table, clock)
    assert expire(table) == (1, 2)
    for _ in range(2):
        with pytest.raises(wt.NotFoundError, match=r"batch 4 .*snapshot 2 .*expired") as raised:
            pin(table, 4, clock=clock)
        assert "new checkpoint" in raised.value.action
        assert str(Path(table.path, "service")) in raised.value.action


def test_a_batch_whose_successors_have_pins_is_no_new_one(table: wt.Table) -> None:
    for batch_id in range(4):
        pin(table, batch_id)
    for batch_id in (2, 3):
        assert pin(table, batch_id).snapshot_id == 2
    for batch_id in (0, 1):
        with pytest.raises(wt.NotFoundError, match=rf"batch {batch_id} .*snapshot 2") as raised:
            pin(table, batch_id)
        assert raised.value.action.endswith("* first.")
        assert not file_of(table, batch_id).exists()
    assert pin(table, 0, join="new").snapshot_id == 2


def test_batches_without_tasks_leave_gaps(table: wt.Table) -> None:
    pin(table, 2)
    assert pin(table, 9).snapshot_id == 2
    assert not file_of(table, 2).exists()


def test_another_snapshot_of_the_same_number_is_not_taken(table: wt.Table) -> None:
    """A client may take snapshots away; their numbers come again."""
    pin(table, 0)
    Path(TablePaths(table.path).snapshot(2)).unlink()
    Path(TablePaths(table.path).latest_hint).unlink()
    assert write(table, "another") == 2
    body = json.loads(file_of(table, 0).read_text())
    file_of(table, 0).write_text(json.dumps({**body, "time_millis": body["time_millis"] - 1}))
    with pytest.raises(wt.NotFoundError, match=r"batch 0 .*snapshot 2 .*rollback"):
        pin(table, 0)


# Damage


@pytest.mark.parametrize(
    "content",
    [
        *(each for each in GARBAGE if not each.isdigit()),
        b'{"snapshot_id": 2, "schema_id": 0, "time_millis": 0, "partitions": "xy", "expires_millis": 9}',
        b'{"snapshot_id": 2, "schema_id": 0, "time_millis": 0, "partitions": "a,bcd", "expires_millis": 9}',
        b'{"snapshot_id": -1, "schema_id": 0, "time_millis": 0, "partitions": null, "expires_millis": 9}',
    ],
)
def test_a_damaged_pin_is_named_and_never_taken_for_none(table: wt.Table, content: bytes) -> None:
    pin(table, 0)
    file_of(table, 0).write_bytes(content)
    with pytest.raises(wt.DamagedError, match=str(file_of(table, 0))):
        pin(table, 0)
    assert [each.subject for each in damaged_pins(IO, TablePaths(table.path))] == [
        str(file_of(table, 0))
    ]
    assert pinned(table) == []
    assert expire(table) == (1,)
    assert file_of(table, 0).exists(), "it is the mark of how far the query has come"
    assert pin(table, 1).snapshot_id == 2
