"""What was served is what the table gives offline: beside writers, after changes, and where a cell is wrong."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable
from datetime import datetime, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import widetable as wt
from tests.support.faults.faults import FaultyFileIO
from tests.widetable.derive.served.served_tables import (
    HALF_PAST,
    LOG,
    WINDOWS,
    forget,
    log_of,
    logged,
    put,
    put_tile,
    tiles,
    users,
)
from tests.widetable.operations.windows.tile_tables import NOON
from widetable.commit.snapshots.snapshot_mark import mark_of
from widetable.errors import DamagedError, InvalidError, NotFoundError
from widetable.storage.local import LocalFileIO

REQUESTS = 1000
ROUNDS = 10


def plant(log: wt.Table, request: int, column: str, value: Any, table: str = "db.users") -> None:
    """Overwrite a cell of the log, of the first session that has it."""
    request_of = f"_request = {request} and _row = 0 and _table = '{table}'"
    rows = log.scan(filter=request_of).to_arrow().slice(0, 1)
    kind = rows.schema.field(column).type
    place = rows.column_names.index(column)
    log.write(rows.set_column(place, column, pa.array([value], kind)))


def serve(table: wt.Table, times: int = 1, columns: list[str] | None = None) -> None:
    with table.lookup_session(columns, served_log=LOG) as session:
        for _ in range(times):
            session.lookup([1, 2, 3])


def test_case_18_a_thousand_requests_beside_writers_differ_in_no_cell(tmp_path: Path) -> None:
    """Two writers, and two threads that serve users and their windows and move to what was written, round by round."""
    table, of_tiles = users(tmp_path), tiles(tmp_path)
    put(table, {1: 0})
    put_tile(of_tiles, 1, 1, 1, 0.0)
    rounds = threading.Barrier(4)

    def write(first: int) -> None:
        for number in range(first, ROUNDS * 2, 2):
            rounds.wait()
            keys = range(number % 5, 12)
            put(table, {key: number for key in keys}, score=[number / 7] * len(keys))
            put_tile(of_tiles, number % 12, number % 24, number, number / 7)

    def answer(first: int) -> None:
        with (
            table.lookup_session(served_log=LOG) as lookups,
            of_tiles.lookup_session(served_log=LOG) as windows,
        ):
            for number in range(REQUESTS // 4):
                if number % (REQUESTS // 4 // ROUNDS) == 0:
                    rounds.wait()
                    lookups.move()
                    windows.move()
                lookups.lookup([number % 12, first])
                at = NOON.replace(hour=number % 24, minute=number % 60)
                windows.windows([number % 12, first], WINDOWS, at=at)

    writers = [threading.Thread(target=write, args=(first,)) for first in (0, 1)]
    servers = [threading.Thread(target=answer, args=(first,)) for first in (3, 4)]
    for thread in (*writers, *servers):
        thread.start()
    for thread in (*writers, *servers):
        thread.join()
    assert len(set(logged(table, "_table", "_snapshot"))) > ROUNDS
    reports = [each.audit_served(LOG) for each in (table, of_tiles)]
    assert [report.requests for report in reports] == [REQUESTS // 2, REQUESTS // 2]
    assert [report.cells for report in reports] == [REQUESTS * 4, REQUESTS * 3]
    assert [(report.differing, report.gone, report.ok) for report in reports] == [(0, (), True)] * 2

    plant(log_of(table), 77, "clicks_3h", -1, "db.tiles")
    report = of_tiles.audit_served(log_of(table))
    assert report.differing == len(report.cells_listed) == 1
    (cell,) = report.cells_listed
    assert (cell.column, cell.request, cell.served) == ("clicks_3h", 77, -1)


PLANTS: dict[str, tuple[int, str, Any]] = {
    "another number": (0, "clicks", 4),
    "a number for null": (1, "clicks", 0),
    "null for a number": (0, "score", None),
    "the other zero": (1, "score", 0.0),
    "a number for NaN": (2, "score", 1.0),
    "another text": (0, "city", "Oslo "),
    "an empty text for null": (1, "city", ""),
    "a row for none": (3, "_served_user", 9),
}


@pytest.mark.parametrize("name", PLANTS)
def test_one_planted_wrong_cell_is_found(tmp_path: Path, name: str) -> None:
    table = users(tmp_path)
    scores = [0.5, -0.0, float("nan")]
    put(table, {1: 3, 2: None, 3: 5}, score=scores, city=["Oslo", None, "Rome"])
    with table.lookup_session(served_log=LOG) as session:
        for user in (1, 2, 3, 9):
            session.lookup([user])
    assert table.audit_served(LOG).ok
    request, column, value = PLANTS[name]
    right = table.lookup([(1, 2, 3, 9)[request]])[column.removeprefix("_served_")].to_pylist()[0]
    plant(log_of(table), request, column, value)
    report = table.audit_served(LOG)
    assert (report.requests, report.cells, report.differing, report.ok) == (4, 16, 1, False)
    (cell,) = report.cells_listed
    assert (cell.key, cell.snapshot_id, cell.request, cell.row) == (
        {"user": (1, 2, 3, 9)[request]},
        1,
        request,
        0,
    )
    assert cell.column == column.removeprefix("_served_")
    assert cell.served == value
    assert cell.offline == ("NaN" if column == "score" and request == 2 else right)
    unnamed = table.audit_served(LOG, findings=0)
    assert (unnamed.differing, unnamed.cells_listed) == (1, ())


def test_a_wrong_snapshot_in_the_log_is_found(tmp_path: Path) -> None:
    table = users(tmp_path)
    put(table, {1: 3})
    put(table, {1: 4})
    serve(table, 2)
    (mark,) = logged(table, "_snapshot_mark")[0]
    assert mark
    first = next(each for each in table.snapshots() if each.id == 1)
    plant(log_of(table), 1, "_snapshot_mark", mark_of(first))
    report = table.audit_served(LOG)
    assert [(gone.snapshot_id, gone.reason) for gone in report.gone] == [
        (2, "another snapshot has this id now")
    ]


def test_lookups_and_windows_of_one_table(tmp_path: Path) -> None:
    table = tiles(tmp_path)
    put_tile(table, 1, 11, 3, 9.5)
    with table.lookup_session(served_log=LOG) as session:
        session.windows([1, 2], WINDOWS, at=HALF_PAST, empty_zero=True)
        session.lookup({"user": [1], "tile": [NOON.replace(hour=11)]})
        put_tile(table, 1, 10, 4, 1.0)
        session.windows([1], WINDOWS, at=HALF_PAST)
        session.move()
        session.windows([1], WINDOWS, at=HALF_PAST)
        session.windows([1], WINDOWS)
    sums = [row for row in logged(table, "_request", "user", "clicks_3h") if row[0] != 1]
    assert sums == [(0, 1, 3), (0, 2, 0), (2, 1, 3), (3, 1, 7), (4, 1, None)]
    report = table.audit_served(LOG)
    assert (report.requests, report.rows, report.cells, report.differing) == (5, 6, 5 * 3 + 4, 0)


def test_windows_over_tiles_of_two_sizes(tmp_path: Path) -> None:
    table, days = tiles(tmp_path), tiles(tmp_path, "db.days", "1 d")
    day = datetime(2026, 1, 1)
    for each in range(24):
        table.write([{"user": 1, "tile": day.replace(hour=each), "clicks": each, "top": 0.0}])
    days.write([{"user": 1, "tile": day, "clicks": sum(range(24)), "top": 0.0}])
    features = {"clicks_36h": wt.window("clicks", "sum", "36 h")}
    with table.lookup_session(served_log=LOG) as session, days.lookup_session() as coarse:
        for _ in range(2):
            found = session.windows([1], features, at=HALF_PAST, coarse=[coarse])
            days.write([{"user": 1, "tile": day, "clicks": 1, "top": 0.0}])
            coarse.move()
            assert found["clicks_36h"].to_pylist()[0] >= sum(range(24))
    assert logged(table, "clicks_36h") == [(276,), (277,)]
    assert table.audit_served(LOG).ok
    days.create_tag("kept", 2)
    forget(days)
    report = table.audit_served(LOG)
    assert (report.requests, report.gone_requests) == (1, 1)
    assert [gone.snapshot_id for gone in report.gone] == [1]


# Changes of the table between the request and the audit

Change = Callable[[wt.Table], object]


def alter(table: wt.Table, **change: Any) -> None:
    wt.Catalog(str(Path(table.path).parent.parent)).alter_table("db.users", **change)


CHANGES: dict[str, Change] = {
    "rows": lambda table: put(table, {1: 100, 2: 200}),
    "deleted rows": lambda table: table.delete("user = 1"),
    "a full compaction": lambda table: table.compact(full=True),
    "more buckets": lambda table: table.rescale(4),
    "a rollback": lambda table: table.rollback(1),
    "an overwrite": lambda table: table.overwrite([{"user": 1, "clicks": 1}], whole_table=True),
    "a column that was added": lambda table: alter(table, add_columns=[pa.field("n", pa.int64())]),
    "a column that was renamed": lambda table: alter(table, rename_columns={"clicks": "hits"}),
    "a column that was dropped": lambda table: alter(table, drop_columns=["clicks"]),
    "columns that changed names": lambda table: alter(
        table, drop_columns=["score"], rename_columns={"clicks": "score"}
    ),
}


@pytest.mark.parametrize("name", CHANGES)
@pytest.mark.parametrize("vectors", ["false", "true"])
def test_nothing_differs_after(tmp_path: Path, name: str, vectors: str) -> None:
    options = {"deletion-vectors.enabled": "true", "changelog-producer": "lookup"}
    table = users(tmp_path, **(options if vectors == "true" else {}))
    put(table, {1: 3, 2: 4})
    put(table, {2: 5, 3: 6})
    given = table.lookup([1, 2, 3])["clicks"].to_pylist()
    serve(table, columns=["clicks", "city"])
    CHANGES[name](table)
    put_more = {"user": [1], "city": ["Kyiv"]}
    table.write(put_more)
    report = table.audit_served(LOG)
    assert (report.requests, report.cells, report.differing, report.gone) == (1, 6, 0, ())
    assert [row[0] for row in logged(table, "clicks")] == given == [3, 5, 6]


def test_a_session_goes_along_with_the_columns(tmp_path: Path) -> None:
    table = users(tmp_path)
    put(table, {1: 3})
    with table.lookup_session(served_log=LOG) as session:
        session.lookup([1])
        alter(table, rename_columns={"clicks": "hits"}, add_columns=[pa.field("n", pa.int64())])
        table.write([{"user": 1, "hits": 9, "n": 2}])
        session.lookup([1])
        session.move()
        session.lookup([1])
    assert logged(table, "clicks", "hits", "n") == [(3, None, None), (3, None, None), (None, 9, 2)]
    report = table.audit_served(LOG)
    assert (report.requests, report.cells, report.differing) == (3, 4 + 4 + 5, 0)


def test_a_column_that_was_made_wider(tmp_path: Path) -> None:
    catalog = wt.Catalog(str(tmp_path))
    table = catalog.create_table("db.users", {"user": "BIGINT", "n": "INT"}, primary_key=["user"])
    table.write([{"user": 1, "n": 3}])
    serve(table)
    catalog.alter_table("db.users", change_types={"n": "BIGINT"})
    with pytest.raises(InvalidError, match="column 'n' of served_log"):
        table.lookup_session(served_log=LOG)
    catalog.alter_table(LOG, change_types={"n": "BIGINT"})
    serve(table)
    report = table.audit_served(LOG)
    assert (report.requests, report.differing, report.ok) == (2, 0, True)


def test_columns_of_all_kinds(tmp_path: Path) -> None:
    catalog = wt.Catalog(str(tmp_path))
    columns = {
        "day": "DATE",
        "user": "STRING",
        "paid": "DECIMAL(20, 3)",
        "seen": "TIMESTAMP_LTZ(3)",
        "raw": "BYTES",
        "tags": "ARRAY<STRING>",
        "per": "MAP<STRING, DOUBLE>",
        "place": "ROW<x FLOAT, y FLOAT>",
    }
    table = catalog.create_table(
        "db.users", columns, primary_key=["day", "user"], partition_by=["day"]
    )
    day, seen = datetime(2026, 1, 2).date(), datetime(2026, 1, 2, tzinfo=timezone.utc)
    row = {"day": day, "user": "a", "paid": Decimal("1.250"), "seen": seen, "raw": b"\0"}
    more = {"tags": ["x", None], "per": [("k", float("nan"))], "place": {"x": -0.0, "y": None}}
    table.write([row | more])
    with table.lookup_session(served_log=LOG) as session:
        session.lookup({"day": [day, day], "user": ["a", "b"]})
    report = table.audit_served(LOG)
    assert (report.cells, report.differing) == (16, 0)
    plant(log_of(table), 0, "place", {"x": 0.0, "y": None})
    assert [cell.column for cell in table.audit_served(LOG).cells_listed] == ["place"]


# Snapshots that are gone


def test_requests_of_expired_snapshots_are_counted_and_named(tmp_path: Path) -> None:
    table = users(tmp_path)
    for number in range(4):
        put(table, {1: number})
        serve(table, number + 1)
    table.create_tag("kept", 2)
    forget(table)
    report = table.audit_served(LOG)
    assert [(gone.snapshot_id, gone.requests) for gone in report.gone] == [(1, 1), (3, 3)]
    assert {gone.reason for gone in report.gone} == {"it has expired, and no tag keeps it"}
    assert (report.requests, report.gone_requests, report.differing) == (2 + 4, 4, 0)
    assert not report.ok
    log_of(table).delete("_snapshot <> 2")
    plant(log_of(table), 1, "clicks", 77)
    (cell,) = table.audit_served(LOG).cells_listed
    assert (cell.snapshot_id, cell.served, cell.offline) == (2, 77, 1)


def test_snapshots_do_not_expire_while_they_are_audited(tmp_path: Path) -> None:
    table = users(tmp_path)
    for number in range(3):
        put(table, {1: number})
        serve(table)
    faulty = FaultyFileIO(LocalFileIO())
    faulty.run_before("open_input", lambda: forget(table), "/bucket-")
    report = wt.Table(table.path, faulty).audit_served(log_of(table))
    assert faulty.count("open_input", "/bucket-") > 0
    assert (report.requests, report.gone_requests, report.differing) == (3, 0, 0)
    forget(table)
    assert table.audit_served(LOG).gone_requests == 2


def test_a_snapshot_whose_id_went_to_another_one(tmp_path: Path) -> None:
    """As when another client rolls back by removing snapshots."""
    table = users(tmp_path)
    put(table, {1: 3})
    before = shutil.copytree(tmp_path, tmp_path.parent / f"{tmp_path.name}-before")
    put(table, {1: 4})
    serve(table)
    shutil.copytree(before / "db.db" / "users", table.path, dirs_exist_ok=True)
    (Path(table.path) / "snapshot" / "snapshot-2").unlink()
    again = wt.Table.open(table.path)
    put(again, {1: 5})
    report = again.audit_served(LOG)
    assert [(gone.snapshot_id, gone.reason) for gone in report.gone] == [
        (2, "another snapshot has this id now")
    ]
    assert (report.cells, report.gone_requests, report.ok) == (0, 1, False)


def test_a_table_that_was_made_again(tmp_path: Path) -> None:
    table = users(tmp_path)
    put(table, {1: 3})
    serve(table)
    wt.Catalog(str(tmp_path)).drop_table("db.users")
    again = users(tmp_path)
    put(again, {1: 3})
    assert again.audit_served(LOG).gone_requests == 1


def test_a_log_keeps_no_snapshot(tmp_path: Path) -> None:
    table = users(tmp_path)
    put(table, {1: 3})
    serve(table)
    put(table, {1: 4})
    forget(table)
    assert [each.id for each in table.snapshots()] == [table.snapshots()[-1].id]
    assert list(table.consumers()) == []


# Branches, and logs of others


def test_requests_of_branches_are_audited_in_their_branch(tmp_path: Path) -> None:
    table = users(tmp_path)
    put(table, {1: 3})
    table.create_branch("side")
    side = wt.Table.open(table.path, branch="side")
    put(side, {1: 30})
    put(table, {1: 4})
    serve(table, 2)
    serve(side, 3)
    assert {row for row in logged(table, "_branch", "_snapshot", "clicks") if row[2]} == {
        ("main", 2, 4),
        ("side", 1, 30),
    }
    for each, requests, others in ((table, 2, 9), (side, 3, 6)):
        report = each.audit_served(LOG)
        assert (report.requests, report.differing, report.other_rows) == (requests, 0, others)


def test_a_log_of_other_tables_is_refused(tmp_path: Path) -> None:
    table, of_tiles = users(tmp_path), tiles(tmp_path)
    serve(table)
    with pytest.raises(NotFoundError, match=r"db\.users \(main\) only"):
        of_tiles.audit_served(LOG)
    with pytest.raises(NotFoundError, match=r"db\.none"):
        table.audit_served("db.none")


def test_a_log_without_requests(tmp_path: Path) -> None:
    table = users(tmp_path)
    table.lookup_session(served_log=LOG).close()
    report = table.audit_served(LOG)
    assert (report.requests, report.cells, report.ok) == (0, 0, True)


def test_a_table_outside_of_a_warehouse(tmp_path: Path) -> None:
    table = users(tmp_path / "there")
    put(table, {1: 3})
    serve(table)
    moved = shutil.move(table.path, tmp_path / "alone")
    alone, log = wt.Table.open(moved), log_of(table)
    with pytest.raises(InvalidError, match="outside of a warehouse"):
        alone.lookup_session(served_log=LOG)
    with alone.lookup_session(served_log=log) as session:
        session.lookup([1])
    report = alone.audit_served(log)
    assert (report.requests, report.other_rows, report.ok) == (1, 3, True)


# Rows that no session wrote


@pytest.mark.parametrize(
    "text",
    [None, "", "[]", "{}", '{"lookup": [1]}', '{"windows": {}}', '{"lookup": [], "windows": 1}'],
)
def test_a_text_that_no_session_wrote(tmp_path: Path, text: str | None) -> None:
    table = users(tmp_path)
    put(table, {1: 3})
    serve(table)
    plant(log_of(table), 0, "_asked", text)
    with pytest.raises(DamagedError, match="_asked"):
        table.audit_served(LOG)


@pytest.mark.parametrize("column", ["clicks", "user"])
def test_a_log_that_lost_a_column(tmp_path: Path, column: str) -> None:
    table = users(tmp_path)
    put(table, {1: 3})
    serve(table)
    wt.Catalog(str(tmp_path)).alter_table(LOG, rename_columns={column: "x"})
    with pytest.raises(InvalidError, match=f"no column '{column}'"):
        table.audit_served(LOG)
