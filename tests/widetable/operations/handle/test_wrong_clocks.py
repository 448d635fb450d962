"""A table that writers with wrong clocks share with others: times, expiry and sequence numbers stay usable."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

import pyarrow as pa
import pytest

import widetable as wt
from tests.support.faults.turned_clock import MINUTE_MILLIS, YEAR_MILLIS, TurnedClock
from widetable.commit.notes.clock import SystemClock
from widetable.commit.transaction.committer import Committer
from widetable.storage.local import LocalFileIO
from widetable.storage.paths import TablePaths

IO = LocalFileIO(fsync=False)


@pytest.fixture
def table(tmp_path: Path) -> wt.Table:
    return wt.Catalog(str(tmp_path)).create_table(
        "db.t",
        pa.schema([pa.field("k", pa.int64()), pa.field("v", pa.int64())]),
        primary_key=["k"],
        options={"widetable.fsync": "false", "write-only": "true", "bucket": "1"},
    )


def put(table: wt.Table, value: int, clock: TurnedClock | None = None) -> None:
    """Write the key 1 from a machine with that clock."""
    writing = wt.Table.open(table.path)
    writing.__dict__["_committer"] = Committer(IO, TablePaths(table.path), clock=clock)
    writing.write(pa.table({"k": [1], "v": [value]}))


def values(table: wt.Table, **how: int) -> list[int]:
    found: list[int] = table.scan(**how).to_arrow()["v"].to_pylist()  # type: ignore[arg-type]
    return found


def now_millis() -> int:
    return SystemClock().now_nanos() // 1_000_000


def test_one_writer_ahead_hides_nothing_from_a_reader_of_now(table: wt.Table) -> None:
    put(table, 1)
    put(table, 2, TurnedClock(YEAR_MILLIS))
    put(table, 3)
    put(table, 4)
    assert values(table, timestamp=now_millis()) == [4]
    times = [snapshot.time_millis for snapshot in table.snapshots()]
    assert times[0] <= times[2] <= times[3] <= now_millis() < times[1]


def test_one_writer_ahead_does_not_stop_expiry(table: wt.Table) -> None:
    put(table, 1)
    for value in range(2, 6):
        put(table, value, TurnedClock(YEAR_MILLIS) if value == 3 else None)
    gone = table.expire_snapshots(num_retained_min=1, time_retained_millis=0)
    assert gone.ids == (1, 2, 3, 4)
    assert values(table) == [5]


def test_one_writer_behind_expires_nothing_that_is_young(table: wt.Table) -> None:
    for value in range(1, 5):
        put(table, value, TurnedClock(-YEAR_MILLIS) if value == 3 else None)
    assert table.expire_snapshots(num_retained_min=1, time_retained_millis=3_600_000).ids == ()
    assert values(table) == [4]


def test_a_difference_of_a_minute_is_taken_over(table: wt.Table) -> None:
    put(table, 1, TurnedClock(MINUTE_MILLIS - 5000))
    put(table, 2)
    first, second = table.snapshots()
    assert first.time_millis == second.time_millis > now_millis()


def test_the_log_names_the_snapshot_that_is_ahead(
    table: wt.Table, caplog: pytest.LogCaptureFixture
) -> None:
    put(table, 1, TurnedClock(YEAR_MILLIS))
    with caplog.at_level(logging.WARNING, "widetable"):
        put(table, 2)
        put(table, 3, TurnedClock(YEAR_MILLIS))
        put(table, 4)
    (reported,) = caplog.records
    assert "snapshot 1" in reported.getMessage()
    assert "clock" in reported.getMessage()


@pytest.mark.parametrize("ahead_years", [100, 250, 10_000])
def test_a_clock_past_2116_takes_no_numbers(table: wt.Table, ahead_years: int) -> None:
    put(table, 1)
    before = sorted(Path(table.path).rglob("*"))
    with pytest.raises(wt.InvalidError, match="clock"):
        put(table, 2, TurnedClock(ahead_years * YEAR_MILLIS))
    assert sorted(Path(table.path).rglob("*")) == before
    put(table, 3)
    assert values(table) == [3]


def test_a_clock_in_the_past_goes_on_above_what_is_noted(table: wt.Table) -> None:
    put(table, 1)
    put(table, 2, TurnedClock(-50 * YEAR_MILLIS))
    assert values(table) == [2]


def past_2262(patch: pytest.MonkeyPatch) -> None:
    """The functions of `time` raise OverflowError then."""

    def too_large() -> NoReturn:
        raise OverflowError("timestamp too large to convert to C _PyTime_t")

    patch.setattr(time, "time_ns", too_large)
    patch.setattr(time, "time", too_large)


def test_a_clock_that_python_has_no_time_for_is_named(
    table: wt.Table, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(table, 1)
    past_2262(monkeypatch)
    catalog = wt.Catalog(str(tmp_path))
    attempts: list[Callable[[], object]] = [
        lambda: table.write({"k": [2], "v": [2]}),
        lambda: table.compact(full=True),
        table.expire_snapshots,
        table.remove_orphan_files,
        table.expire_partitions,
        table.inspect,
        lambda: table.create_tag("t"),
        lambda: table.lookup_session(),
        lambda: list(table.follow(timeout=0)),
        lambda: catalog.create_table("db.u", table.arrow_schema, primary_key=["k"]),
        lambda: catalog.alter_table("db.t", set_options={"snapshot.time-retained": "2 h"}),
    ]
    for attempt in attempts:
        with pytest.raises(wt.InvalidError, match="clock of this machine"):
            attempt()
    assert not table.doctor().ok


def test_rows_are_read_whatever_the_clock_says(
    table: wt.Table, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Also by key, with lookup caches, which go by the clock: the data files have the rows."""
    put(table, 1)
    with monkeypatch.context() as patch:
        past_2262(patch)
        assert values(table) == [1]
        assert table.lookup([1])["v"].to_pylist() == [1]
        assert table.changes(0, 1)["v"].to_pylist() == [1]
        assert table.explain(1).is_there
