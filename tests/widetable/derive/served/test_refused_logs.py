"""What is refused as a log, and calls that no log takes; times at the ends of the calendar; tables of other kinds."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import widetable as wt
from tests.widetable.derive.served.served_tables import (
    HALF_PAST,
    KEY,
    LOG,
    WINDOWS,
    own_log,
    put,
    put_tile,
    tiles,
    users,
)
from widetable.errors import InvalidError, UnsupportedError


def test_a_log_that_was_made_by_hand_is_taken(tmp_path: Path) -> None:
    table = users(tmp_path)
    put(table, {1: 3})
    own_log(tmp_path, {"city": "STRING"}, KEY, bucket="3")
    with table.lookup_session(served_log=LOG) as session:
        session.lookup([1])
    assert table.audit_served(LOG).cells == 4


@pytest.mark.parametrize(
    ("change", "key", "options", "problem"),
    [
        ({}, ["_session", "_request"], {}, r"primary key \(_session, _request\)"),
        ({"_asked": None}, KEY, {}, "no column '_asked'"),
        ({"_at": "TIMESTAMP(3)"}, KEY, {}, "column '_at' of the type"),
        ({}, KEY, {"merge-engine": "partial-update"}, "merge-engine = partial-update"),
    ],
)
def test_a_table_that_is_no_log_is_refused(
    tmp_path: Path, change: dict[str, Any], key: list[str], options: dict[str, str], problem: str
) -> None:
    table = users(tmp_path)
    own_log(tmp_path, change, key, **options)
    with pytest.raises(InvalidError, match=problem) as caught:
        table.lookup_session(served_log=LOG)
    assert caught.value.subject == "served_log"
    with pytest.raises(InvalidError, match=problem) as caught:
        table.audit_served(LOG)
    assert caught.value.subject == "log"


def test_a_column_of_another_type_is_refused_by_name(tmp_path: Path) -> None:
    table, of_tiles = users(tmp_path), tiles(tmp_path)
    put(table, {1: 3})
    put_tile(of_tiles, 1, 11, 3, 9.5)
    own_log(tmp_path, {"city": "BIGINT"}, KEY)
    with pytest.raises(InvalidError, match=r"column 'city' of served_log .*int64"):
        table.lookup_session(served_log=LOG)
    with of_tiles.lookup_session(served_log=LOG) as session:
        for name in ("city", "_asked"):
            with pytest.raises(InvalidError, match=f"column '{name}' of served_log"):
                session.windows([1], {name: wt.window("top", "max", "2 h")}, at=HALF_PAST)
        session.windows([1], WINDOWS, at=HALF_PAST)
    assert of_tiles.audit_served(LOG).requests == 1


def test_a_move_to_columns_that_the_log_refuses_leaves_the_session_as_it_was(
    tmp_path: Path,
) -> None:
    table = users(tmp_path)
    put(table, {1: 3})
    own_log(tmp_path, {"extra": "STRING"}, KEY)
    with table.lookup_session(served_log=LOG) as session:
        wt.Catalog(str(tmp_path)).alter_table(
            "db.users", add_columns=[pa.field("extra", pa.int64())]
        )
        put(table, {1: 4})
        with pytest.raises(InvalidError, match="column 'extra' of served_log"):
            session.move()
        assert session.lookup([1])["clicks"].to_pylist() == [3]
    assert table.audit_served(LOG).ok


CALLS: dict[str, Callable[[wt.Table], object]] = {
    "served_log": lambda table: table.lookup_session(served_log=7),  # type: ignore[arg-type]
    "log": lambda table: table.audit_served(7),  # type: ignore[arg-type]
}


@pytest.mark.parametrize("name", CALLS)
def test_what_is_no_table_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(InvalidError) as caught:
        CALLS[name](users(tmp_path))
    assert caught.value.subject == name


def test_calls_that_no_log_takes(tmp_path: Path) -> None:
    table = tiles(tmp_path)
    put_tile(table, 1, 11, 3, 9.5)
    with table.lookup_session() as session, pytest.raises(InvalidError, match="served_log"):
        session.flush_served_log()
    with (
        table.lookup_session(served_log=LOG) as session,
        pytest.raises(UnsupportedError, match="lookup_prefix"),
    ):
        session.lookup_prefix({"user": [1]})


@pytest.mark.parametrize("at", [-(10**15), datetime(1, 1, 1), datetime(9999, 12, 31), 10**15])
def test_windows_at_the_ends_of_time(tmp_path: Path, at: datetime | int) -> None:
    table = tiles(tmp_path)
    put_tile(table, 1, 11, 3, 9.5)
    with table.lookup_session(served_log=LOG) as session:
        session.windows([1], WINDOWS, at=at)
    report = table.audit_served(LOG)
    assert (report.requests, report.differing) == (1, 0)


@pytest.mark.parametrize(
    "options",
    [
        {"bucket": "-1"},
        {"merge-engine": "partial-update"},
        {"merge-engine": "first-row"},
        {"merge-engine": "aggregation", "fields.clicks.aggregate-function": "sum"},
        {"widetable.lookup-strategy": "lookup"},
    ],
    ids=lambda options: "-".join(options.values()),
)
def test_tables_of_other_kinds_are_audited(tmp_path: Path, options: dict[str, str]) -> None:
    table = users(tmp_path, **options)
    put(table, {1: 3, 2: 4})
    with table.lookup_session(served_log=LOG) as session:
        session.lookup([1, 7])
        put(table, {1: 5, 7: 6})
        session.lookup([1, 7])
        session.move()
        session.lookup([1, 7])
    table.compact(full=True)
    report = table.audit_served(LOG)
    assert (report.requests, report.cells, report.differing, report.ok) == (3, 24, 0, True)
