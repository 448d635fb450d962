"""Moments that callers give: one rule for Python and the command line."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

import widetable as wt
from tests.support.programs.command_line import run
from tests.support.tables.dated_snapshots import DatedTable, dated_table
from widetable.format.human_units import time_text
from widetable.runtime.moment import epoch_millis

TEN = datetime(2026, 11, 27, 10, tzinfo=timezone.utc)
MILLIS = int(TEN.timestamp() * 1000)


@pytest.fixture(autouse=True)
def in_tokyo(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (MILLIS, MILLIS),
        (str(MILLIS), MILLIS),
        ("-1", -1),
        ("2026-11-27T19:00", MILLIS),
        ("2026-11-27 19:00:00", MILLIS),
        ("2026-11-27T10:00Z", MILLIS),
        ("2026-11-27 10:00:00 UTC", MILLIS),
        ("2026-11-27T11:00+01:00", MILLIS),
        ("2026-11-27T05:30:00-0430", MILLIS),
        ("2026-11-27T10:00:00.123456789Z", MILLIS + 123),
        (" 2026-11-27T10:00:00.5Z ", MILLIS + 500),
        ("1969-12-31T23:59:59.9999Z", -1),
        ("2026-11-28", MILLIS + 5 * 3_600_000),
        ("2026-11-27T9:5 UTC", MILLIS - 55 * 60_000),
        (TEN, MILLIS),
        (datetime(2026, 11, 27, 19), MILLIS),
    ],
    ids=lambda value: f"{type(value).__name__} {value}",
)
def test_forms_of_a_moment(given: Any, expected: int) -> None:
    assert epoch_millis(given, "timestamp") == expected


def test_what_is_shown_can_be_given() -> None:
    assert epoch_millis(time_text(MILLIS), "timestamp") == MILLIS


@pytest.mark.parametrize(
    "given",
    [
        *("", "yesterday", "2026-11", "2026-13-01", "2026-11-27T25:00", "2026-11-27T10"),
        *("0000-01-01", "20261127T100000", "2026-11-27T10:00+25:00", "+12026-01-01", "٢٠٢٦-11-27"),
        *(1.5, True, b"2026-11-27"),
    ],
    ids=lambda value: f"{value!a}",
)
def test_what_is_no_moment(given: Any) -> None:
    with pytest.raises(wt.InvalidError, match="timestamp"):
        epoch_millis(given, "timestamp")


@pytest.fixture
def dated(tmp_path: Path) -> DatedTable:
    """A snapshot each day at ten; the second one has the watermark of that time."""
    table = dated_table(tmp_path, {})
    for day in range(3):
        moment = TEN + timedelta(days=day)
        table.add(moment, int(moment.timestamp() * 1000) if day == 1 else None)
    return table


def test_wherever_python_takes_a_time(dated: DatedTable, tmp_path: Path) -> None:
    table = dated.table
    assert table.scan(timestamp="2026-11-28T10:00Z").count() == 2
    assert table.scan(timestamp="2026-11-28T18:59").count() == 1
    assert table.scan(watermark="2026-11-28T10:00Z").count() == 2
    assert table.rollback(timestamp="2026-11-28", dry_run=True).target_id == 1
    copied = wt.Catalog(str(tmp_path)).copy_table("db.t", "db.c", timestamp="2026-11-29")
    assert copied.scan().count() == 2


def test_wherever_the_command_line_takes_a_time(dated: DatedTable, tmp_path: Path) -> None:
    path = dated.table.path
    for given in ("2026-11-28T10:00Z", "2026-11-28 19:00", str(MILLIS + 86_400_000)):
        assert len(run("read", path, "--timestamp", given).stdout.splitlines()) == 2
        assert (
            run("copy", path, f"{tmp_path}/db.db/c{len(given)}", "--timestamp", given).exit_code
            == 0
        )
    assert "to the rows of 2" in run("rollback", path, "--timestamp", "2026-11-28T10:00Z").stdout
    refused = run("read", path, "--timestamp", "last week")
    assert refused.exit_code == 2
    assert "2026-11-27T10:00" in refused.stderr
