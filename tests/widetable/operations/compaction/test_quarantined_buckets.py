"""One damaged file costs one bucket: all others are compacted, and it is passed by until it is mended."""

from __future__ import annotations

import gc
import logging
import random
import weakref
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

import widetable as wt
from tests.support.faults.broken_files import BREAKS, break_file
from tests.support.faults.counting_file_io import CountingFileIO
from tests.support.faults.faults import Fault, FaultyFileIO
from widetable.operations.compaction import quarantined_buckets as sick_buckets
from widetable.operations.maintenance.maintenance import Maintainer, Upkeep
from widetable.storage.local import LocalFileIO

SCHEMA = pa.schema([pa.field("k", pa.int64(), nullable=False), ("a", pa.string())])
OPTIONS = {
    "bucket": "3",
    "widetable.fsync": "false",
    "write-only": "true",
    "num-sorted-run.compaction-trigger": "2",
    "compaction.size-ratio": "100",
}
KEYS = range(60)


def rows(value: str) -> pa.Table:
    return pa.table({"k": list(KEYS), "a": [f"{value}{k}" for k in KEYS]}, SCHEMA)


@pytest.fixture(params=["none", "lookup"])
def table(tmp_path: Path, request: pytest.FixtureRequest) -> wt.Table:
    options = {**OPTIONS, "changelog-producer": request.param}
    made = wt.Catalog(str(tmp_path)).create_table("d.t", SCHEMA, primary_key=["k"], options=options)
    for value in "ab":
        made.write(rows(value))
    return made


def file_of(table: wt.Table, bucket: int = 1) -> Path:
    return sorted(Path(table.path, f"bucket-{bucket}").glob("data-*"))[0]


def waiting(table: wt.Table) -> set[int]:
    """Buckets with level-0 files."""
    entries = table._committer.live_files.live_entries(table.snapshots()[-1])
    return {entry.bucket for entry in entries if entry.file.level == 0}


def files(table: wt.Table) -> Counter[int]:
    """Live files by bucket."""
    entries = table._committer.live_files.live_entries(table.snapshots()[-1])
    return Counter(entry.bucket for entry in entries)


@pytest.mark.parametrize("how", BREAKS)
def test_a_compaction_does_all_other_buckets_then_names_the_file(
    table: wt.Table, how: str, rng: random.Random
) -> None:
    path = file_of(table)
    break_file(path, how, rng)
    before = {p for p in path.parent.iterdir()}
    with pytest.raises(wt.DamagedError) as raised:
        table.compact(full=True)
    assert path.name in raised.value.subject
    assert waiting(table) == {1}
    assert {p for p in path.parent.iterdir()} == before  # nothing half-made is left


@pytest.mark.parametrize("how", ["truncated in a page", "missing"])
def test_maintenance_goes_on_with_the_others_round_after_round(
    table: wt.Table, how: str, rng: random.Random, caplog: pytest.LogCaptureFixture
) -> None:
    break_file(file_of(table), how, rng)
    with table.maintainer(Upkeep(expire=False)) as maintainer:
        for number, value in enumerate("cdefg"):
            done = maintainer.round()
            assert (done.failures, done.damaged_buckets) == (0, 1)
            found = files(table)
            assert found[1] == 2 + number
            assert max(found[0], found[2]) <= 2
            table.write(rows(value))
    named = [r for r in caplog.records if file_of(table).parent.name.replace("-", " ") in r.message]
    assert len([r for r in named if r.levelno == logging.WARNING]) == 1


def test_once_cleans_and_compacts_the_others_then_raises(table: wt.Table) -> None:
    path = file_of(table)
    path.write_bytes(b"")
    with pytest.raises(wt.DamagedError, match=path.name):
        table.maintain(once=True)
    assert waiting(table) == {1}


def test_a_sick_bucket_is_not_read_anew_in_every_round(table: wt.Table) -> None:
    path = file_of(table)
    path.write_bytes(path.read_bytes()[:-9] + b"x" * 9)
    counting = CountingFileIO()
    with wt.Table(table.path, counting).maintainer(Upkeep(expire=False)) as maintainer:
        maintainer.round()
        counting.opened.clear()
        table.write(rows("c"))
        maintainer.round()
        assert counting.opened
        assert not [name for name in counting.opened if "bucket-1/" in name]


def test_a_bucket_is_compacted_when_its_file_is_back(table: wt.Table) -> None:
    path = file_of(table)
    whole = path.read_bytes()
    path.unlink()
    with table.maintainer(Upkeep(expire=False)) as maintainer:
        maintainer.round()
        path.write_bytes(whole)
        table.write(rows("c"))
        maintainer.round()
    assert max(files(table).values()) <= 2
    assert table.scan().to_arrow().sort_by("k") == rows("c")


def test_a_bucket_is_looked_at_again_after_a_while_without_a_commit(
    table: wt.Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also when the file looks as before: a disk may give wrong bytes for a time."""
    monkeypatch.setattr(sick_buckets, "RETRY_SECONDS", 0.0)
    storage = FaultyFileIO(LocalFileIO(fsync=False))
    path = file_of(table)
    whole = path.read_bytes()
    path.unlink()
    clock = Hand()
    state = wt.Table(table.path, storage)
    with Maintainer(
        lambda: state._state(state.schema), state._committer, Upkeep(expire=False), clock=clock
    ) as maintainer:
        assert any(maintainer.round().is_idle for _ in range(9))
        path.write_bytes(whole)
        assert maintainer.round().is_idle
        clock.millis += 60_000
        assert maintainer.round().compactions == 1
    assert waiting(table) == set()


class Hand:
    """A clock that is turned by hand."""

    def __init__(self) -> None:
        self.millis = 0.0

    def now_nanos(self) -> int:
        return 0

    def monotonic_millis(self) -> float:
        return self.millis

    def sleep_millis(self, millis: float) -> None:
        self.millis += millis


def test_a_file_that_the_storage_refuses_is_no_damage_and_costs_one_bucket(table: wt.Table) -> None:
    path = file_of(table)
    storage = FaultyFileIO(LocalFileIO(fsync=False))
    storage.fail("open_input", Fault.BEFORE, path.name, times=99)
    with pytest.raises(wt.StorageError, match=path.name):
        wt.Table(table.path, storage).compact(full=True)
    assert waiting(table) == {1}


@pytest.mark.parametrize("is_missing", [False, True], ids=["damaged", "missing"])
def test_damage_of_a_schema_is_not_that_of_a_bucket(table: wt.Table, is_missing: bool) -> None:
    state, schema = table._state(table.schema), Path(table.path, "schema", "schema-0")
    catalog = wt.Catalog(str(Path(table.path).parent.parent))
    catalog.alter_table("d.t", add_columns=[pa.field("b", pa.int64())])
    whole = schema.read_bytes()
    schema.unlink() if is_missing else schema.write_bytes(b"{")
    with pytest.raises(wt.NotFoundError if is_missing else wt.DamagedError, match="schema-0"):
        wt.Table.open(table.path).compact(full=True)
    schema.write_bytes(whole)
    assert waiting(table) == {0, 1, 2}
    assert sick_buckets.QUARANTINED_BUCKETS.of(state) == []


class Big:
    """Something in a frame that an exception passed."""


def test_failed_rounds_leave_nothing_in_memory(table: wt.Table) -> None:
    held: list[weakref.ref[Big]] = []

    def compact(*_: object) -> wt.CommitResult:
        big = Big()
        held.append(weakref.ref(big))
        raise wt.StorageError("s", found="a full disk", expected="room", action="Make room.")

    failing: Callable[..., object] = compact
    logging.disable()  # what collects records in tests keeps their exceptions
    try:
        with table.maintainer(Upkeep(expire=False), failing) as maintainer:  # type: ignore[arg-type]
            for _ in range(3):
                assert maintainer.round().failures == 1
            gc.collect()
            assert [ref() for ref in held] == [None] * 3
    finally:
        logging.disable(logging.NOTSET)


def test_what_is_remembered_of_a_bucket_holds_no_frames(table: wt.Table) -> None:
    file_of(table).unlink()
    for _ in range(2):
        with pytest.raises(wt.DamagedError):
            table.compact(full=True)
    (sick,) = sick_buckets.QUARANTINED_BUCKETS.of(table._state(table.schema))
    assert sick.error.__traceback__ is None
