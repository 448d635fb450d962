"""A write-only table whose changelog nobody makes says so: in an inspection, and in the log."""

from __future__ import annotations

import logging
from pathlib import Path

import pyarrow as pa
import pytest

import widetable as wt
from widetable.operations.held_lease import held_lease
from widetable.operations.unattended import Waiting, unattended_warning
from widetable.options import TableOptions

SCHEMA = pa.schema([pa.field("k", pa.int64(), nullable=False), ("v", pa.string())])
LOOKUP = {"changelog-producer": "lookup", "write-only": "true"}


def rows(*keys: int) -> pa.Table:
    return pa.table({"k": keys, "v": [f"v{k}" for k in keys]}, SCHEMA)


def make(folder: Path, **options: str) -> wt.Table:
    return wt.Catalog(str(folder)).create_table(
        "db.t", SCHEMA, primary_key=["k"], options={"widetable.fsync": "false", **options}
    )


@pytest.mark.parametrize(
    ("waiting", "is_leased", "is_reported"),
    [
        (Waiting(0, 9, True), False, False),
        (Waiting(5, 0, False), False, True),
        (Waiting(5, 0, False), True, False),
        (Waiting(5, 2, True), False, False),
        (Waiting(5, 3, True), False, True),
        (Waiting(5, 1, True, oldest_age_millis=59_999), False, False),
        (Waiting(5, 1, True, oldest_age_millis=60_000), False, True),
    ],
)
def test_a_maintainer_gets_a_little_time(
    waiting: Waiting, is_leased: bool, is_reported: bool
) -> None:
    warning = unattended_warning("/t", TableOptions(LOOKUP), waiting, is_leased=is_leased)
    assert (warning is not None) is is_reported
    if warning is not None:
        assert "changelog-producer=lookup and 5 level-0 files" in warning
        assert "widetable maintain /t" in warning


@pytest.mark.parametrize(
    "options",
    [
        {"changelog-producer": "lookup"},
        {"write-only": "true"},
        {"write-only": "true", "changelog-producer": "input"},
    ],
)
def test_other_tables_need_nobody(options: dict[str, str]) -> None:
    waiting = Waiting(99, 99, False)
    assert unattended_warning("/t", TableOptions(options), waiting, is_leased=False) is None


def test_an_append_says_that_nobody_compacts(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    table = make(tmp_path, **LOOKUP)
    with caplog.at_level(logging.WARNING, "widetable"):
        table.write(rows(1))
        table.write(rows(2))
    (reported,) = caplog.records
    assert "widetable maintain" in reported.getMessage()
    (warning,) = table.inspect().warnings
    assert "2 level-0 files that nobody moves up: run widetable maintain" in warning


def test_an_append_says_nothing_while_somebody_compacts(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    table = make(tmp_path, **LOOKUP)
    with held_lease(table._state(table.schema)), caplog.at_level(logging.WARNING, "widetable"):
        table.write(rows(1))
        assert table.inspect().warnings == ()
    assert caplog.records == []


def test_barriers_without_rows_are_no_files_that_wait(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    table = make(tmp_path, **LOOKUP, **{"widetable.barrier-interval": "1 s"})
    writer = wt.Catalog(tmp_path).writer("db.t", "w")
    with caplog.at_level(logging.WARNING, "widetable"):
        for second in (1, 2, 3):
            writer.complete(1_000 * second)
        assert caplog.records == []
        writer.write(rows(1), barrier=4_000, complete=True)
    (reported,) = caplog.records
    assert " 1 level-0 files that nobody moves up" in reported.getMessage()
    assert " 1 level-0 files" in table.inspect().warnings[0]
