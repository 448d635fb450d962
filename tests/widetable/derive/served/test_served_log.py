"""The log of what sessions gave: what it has, when it is written, and what happens where it cannot be written."""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

import widetable as wt
from tests.support.faults.faults import Fault, FaultyFileIO
from tests.support.faults.forked import in_a_child
from tests.support.faults.patience import wait_for
from tests.widetable.derive.served.served_tables import (
    HALF_PAST,
    KEY,
    LOG,
    WINDOWS,
    log_of,
    logged,
    own_log,
    put,
    put_tile,
    tiles,
    users,
)
from widetable.derive.served import served_log
from widetable.errors import InvalidError, StorageError
from widetable.storage.local import LocalFileIO

FOREVER = 10**9


def count(table: wt.Table) -> int:
    return log_of(table).scan().count()


def ask(session: wt.LookupSession, times: int) -> None:
    for _ in range(times):
        session.lookup([1])


def on_faulty(table: wt.Table) -> tuple[FaultyFileIO, wt.Table]:
    """The log of a table on a storage that fails at will."""
    with table.lookup_session(served_log=LOG):
        faulty = FaultyFileIO(LocalFileIO())
    return faulty, wt.Table(log_of(table).path, faulty)


def test_the_log_has_what_a_lookup_gave(tmp_path: Path) -> None:
    table = users(tmp_path)
    put(table, {1: 3, 2: None}, score=[float("inf"), -0.0])
    before = time.time_ns() // 1000
    with table.lookup_session(["clicks", "score"], served_log=LOG) as session:
        answer = session.lookup([2, 7, 1])
        put(table, {7: 9})
        session.move()
        later = session.lookup([7])
        session.lookup([])
    after = time.time_ns() // 1000
    own = logged(table, "_request", "_row", "_table", "_branch", "_snapshot", "_schema", "user")
    assert own == [
        (0, 0, "db.users", "main", 1, 0, 2),
        (0, 1, "db.users", "main", 1, 0, 7),
        (0, 2, "db.users", "main", 1, 0, 1),
        (1, 0, "db.users", "main", 2, 0, 7),
    ]
    given = [tuple(row.values()) for row in [*answer.to_pylist(), *later.to_pylist()]]
    assert (
        logged(table, "clicks", "score")
        == given
        == [(None, -0.0), (None, None), (3, float("inf")), (9, None)]
    )
    assert set(logged(table, "_asked")) == {('{"lookup": ["clicks", "score"]}',)}
    assert len(set(logged(table, "_session"))) == 1
    times = log_of(table).scan(["_at"]).to_arrow()["_at"].cast(pa.int64()).to_pylist()
    assert all(before <= each <= after for each in times)


def test_a_key_that_is_asked_is_not_the_key_that_is_given(tmp_path: Path) -> None:
    table = users(tmp_path)
    put(table, {1: 3})
    with table.lookup_session(served_log=LOG) as session:
        session.lookup([1, 2, None])
    assert logged(table, "user", "_served_user") == [(1, 1), (2, None), (None, None)]


def test_the_log_has_what_windows_gave(tmp_path: Path) -> None:
    table = tiles(tmp_path)
    put_tile(table, 1, 11, 3, 9.5)
    keys = {"id": pa.array([1, 2, None], pa.int64()), "note": ["a", "b", "c"]}
    with table.lookup_session(served_log=LOG) as session:
        answer = session.windows(keys, WINDOWS, at=HALF_PAST, on={"id": "user"}, prefix="f_")
        assert answer.column_names == ["id", "note", "f_clicks_1h", "f_clicks_3h", "f_top_2h"]
    assert logged(table, "user", "_at", "_snapshot") == [
        (1, HALF_PAST, 1),
        (2, HALF_PAST, 1),
        (None, HALF_PAST, 1),
    ]
    assert logged(table, *answer.column_names[2:]) == [
        (3, 3, 9.5),
        (0, None, None),
        (None, None, None),
    ]


def test_windows_with_a_prefix_are_repeated(tmp_path: Path) -> None:
    table = tiles(tmp_path)
    put_tile(table, 1, 11, 3, 9.5)
    with table.lookup_session(served_log=LOG) as session:
        session.windows({"id": [1]}, WINDOWS, at=HALF_PAST, on={"id": "user"}, prefix="f_")
    report = table.audit_served(LOG)
    assert (report.cells, report.differing) == (3, 0)


def test_two_tables_share_a_log(tmp_path: Path) -> None:
    table, of_tiles = users(tmp_path), tiles(tmp_path)
    put(table, {1: 3})
    put_tile(of_tiles, 1, 11, 3, 9.5)
    with (
        table.lookup_session(["city"], served_log=LOG) as session,
        of_tiles.lookup_session(["user", "tile", "top"], served_log=LOG) as windows,
    ):
        session.lookup([1])
        windows.windows([1], {"top": wt.window("top", "max", "2 h")}, at=HALF_PAST)
    rows = log_of(table).scan(["_table", "user", "city", "top"]).to_arrow().to_pylist()
    values = {row["_table"]: (row["user"], row["city"], row["top"]) for row in rows}
    assert values == {"db.users": (1, None, None), "db.tiles": (1, None, 9.5)}


def test_a_table_without_snapshots(tmp_path: Path) -> None:
    table = users(tmp_path)
    with table.lookup_session(["clicks"], served_log=LOG) as session:
        session.lookup([1])
    assert logged(table, "_snapshot", "_snapshot_mark", "clicks") == [(None, None, None)]


# When it is written


@pytest.mark.parametrize(("name", "value"), [("BATCH_ROWS", 3), ("BATCH_SECONDS", 0.01)])
def test_a_batch_is_written_by_size_and_by_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, value: float
) -> None:
    monkeypatch.setattr(served_log, "BATCH_SECONDS", 1e6)
    monkeypatch.setattr(served_log, name, value)
    table = users(tmp_path)
    put(table, {1: 3})
    with table.lookup_session(served_log=LOG) as session:
        for _ in range(3):
            session.lookup([1])
        wait_for(lambda: count(table) == 3)
        session.lookup([1])
        session.flush_served_log()
        assert count(table) == 4
        session.flush_served_log()  # nothing is left
    assert log_of(table).snapshots()[-1].commit_kind in ("APPEND", "COMPACT")


PROGRAM = """
import os, signal, sys
import widetable as wt
table = wt.Table.open(sys.argv[1])
session = table.lookup_session(served_log="db.served")
session.lookup([1])
session.flush_served_log()
session.lookup([1, 2])
if sys.argv[2] == "killed":
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.parametrize(("way", "rows"), [("ended", 3), ("killed", 1)])
def test_a_process_that_ends_writes_all_and_a_killed_one_what_was_flushed(
    tmp_path: Path, way: str, rows: int
) -> None:
    table = users(tmp_path)
    put(table, {1: 3})
    ended = subprocess.run([sys.executable, "-c", PROGRAM, table.path, way], check=False)
    assert ended.returncode == (-signal.SIGKILL if way == "killed" else 0)
    assert count(table) == rows
    assert table.audit_served(LOG).rows == rows


def test_a_forked_child_is_a_session_of_its_own(tmp_path: Path) -> None:
    table = users(tmp_path)
    put(table, {1: 3})

    def serve() -> None:
        session.lookup([1])
        session.flush_served_log()

    with table.lookup_session(served_log=LOG) as session:
        session.lookup([1])
        _, status = os.waitpid(in_a_child(serve), 0)
        assert status == 0
        assert count(table) == 1
    assert len(set(logged(table, "_session"))) == 2
    assert table.audit_served(LOG).ok


def test_sessions_add_columns_to_one_log_at_once(tmp_path: Path) -> None:
    table = tiles(tmp_path)
    put_tile(table, 1, 11, 3, 9.5)
    together = threading.Barrier(4)

    def serve(number: int) -> None:
        together.wait()
        with table.lookup_session(served_log=LOG) as session:
            for hours in range(1, 6):
                one = {f"f_{number}_{hours}": wt.window("clicks", "sum", f"{hours} h")}
                session.windows([1], one, at=HALF_PAST)

    threads = [threading.Thread(target=serve, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    report = table.audit_served(LOG)
    assert (report.requests, report.differing) == (20, 0)
    assert {f"f_{n}_{h}" for n in range(4) for h in range(1, 6)} <= set(log_of(table).schema.names)


def test_another_session_adds_the_columns_first(tmp_path: Path) -> None:
    table = users(tmp_path)
    put(table, {1: 3})
    own_log(tmp_path, {}, KEY)
    faulty = FaultyFileIO(LocalFileIO())
    faulty.run_before("publish", lambda: table.lookup_session(served_log=LOG).close(), "schema-")
    with table.lookup_session(served_log=wt.Table(log_of(table).path, faulty)) as session:
        session.lookup([1])
    assert logged(table, "user", "clicks") == [(1, 3)]


def test_calls_of_threads_that_are_answered_together_are_logged_each(tmp_path: Path) -> None:
    table = users(tmp_path)
    put(table, {key: key for key in range(100)})
    with table.lookup_session(["clicks"], served_log=LOG) as session:

        def serve(first: int) -> None:
            for key in range(first, first + 25):
                session.lookup([key])

        threads = [threading.Thread(target=serve, args=(first,)) for first in (0, 25, 50, 75)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert sorted(logged(table, "user", "clicks")) == [(key, key) for key in range(100)]
    assert sorted(logged(table, "_request")) == [(number,) for number in range(100)]


def test_a_lookup_that_waits_is_logged_with_the_snapshot_that_answers(tmp_path: Path) -> None:
    table = users(tmp_path)
    put(table, {1: 3})
    with table.lookup_session(["clicks"], served_log=LOG) as session:
        put(table, {1: 4})
        with session._lock:
            waiting = [threading.Thread(target=session.lookup, args=([1],)) for _ in range(2)]
            for thread in waiting:
                thread.start()
            wait_for(lambda: len(session._waiting) == 2)
            session.move()
        for thread in waiting:
            thread.join()
    assert logged(table, "_snapshot", "clicks") == [(2, 4)] * 2


@pytest.mark.parametrize(
    ("renamed", "answer"), [({}, (2, 7)), ({"clicks": "hits"}, (1, 3))], ids=["rows", "columns"]
)
def test_windows_during_which_the_session_moves(
    tmp_path: Path, renamed: dict[str, str], answer: tuple[int, int]
) -> None:
    """The keys are read when the windows are planned, and before the tiles are."""
    table = tiles(tmp_path)
    put_tile(table, 1, 11, 3, 9.5)

    def keys() -> Iterator[pa.Table]:
        session.move()
        yield pa.table({"user": [1]})

    with table.lookup_session(served_log=LOG) as session:
        if renamed:
            wt.Catalog(str(tmp_path)).alter_table("db.tiles", rename_columns=renamed)
        row = {"user": 1, "tile": HALF_PAST.replace(hour=11, minute=0), "clicks": 4, "top": 0.0}
        table.write([{renamed.get(name, name): value for name, value in row.items()}])
        session.windows(keys(), {"f": wt.window("clicks", "sum", "3 h")}, at=HALF_PAST)
        assert session.snapshot_id == 2
    assert logged(table, "_snapshot", "f") == [answer]
    assert table.audit_served(LOG).ok


# A log that cannot be written


def test_answers_go_on_until_memory_is_full(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(served_log, "MOST_ROWS", 5)
    monkeypatch.setattr(served_log, "BATCH_SECONDS", 0.01)
    table = users(tmp_path)
    put(table, {1: 3})
    faulty, log = on_faulty(table)
    with table.lookup_session(served_log=log) as session:
        faulty.fail("publish", Fault.FULL, "snapshot-", times=FOREVER)
        with caplog.at_level(logging.ERROR):
            for _ in range(5):
                assert session.lookup([1])["clicks"].to_pylist() == [3]
            wait_for(lambda: "WT-W111" in caplog.text)
        assert "wait in memory" in caplog.text
        with pytest.raises(StorageError, match=r"served_log .*5 rows that cannot be written"):
            session.lookup([1])
        assert count(table) == 0
        faulty.heal()
        session.lookup([1])
    assert logged(table, "_request") == [(number,) for number in range(6)]
    assert table.audit_served(LOG).requests == 6


def test_memory_is_bounded_in_bytes_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(served_log, "MOST_BYTES", 100_000)
    table = users(tmp_path)
    table.write([{"user": 1, "city": "x" * 40_000}])
    faulty, log = on_faulty(table)
    with table.lookup_session(served_log=log) as session:
        faulty.fail("publish", Fault.FULL, "snapshot-", times=FOREVER)
        session.lookup([1])
        with pytest.raises(StorageError, match=r"[12] rows? that cannot be written"):
            ask(session, 2)
        faulty.heal()


def test_a_session_whose_rest_cannot_be_written_says_so_when_it_is_closed(tmp_path: Path) -> None:
    table = users(tmp_path)
    put(table, {1: 3})
    faulty, log = on_faulty(table)
    session = table.lookup_session(served_log=log)
    session.lookup([1])
    faulty.fail("open_output", Fault.FULL, times=FOREVER)
    with pytest.raises(StorageError, match="1 row that cannot be written"):
        session.flush_served_log()
    with pytest.raises(StorageError, match="1 row that cannot be written"):
        session.close()
    with pytest.raises(InvalidError, match="closed session"):
        session.lookup([1])
    faulty.heal()
    session.close()
    assert logged(table, "user", "clicks") == [(1, 3)]


@pytest.mark.parametrize("fault", [Fault.BEFORE, Fault.AFTER, Fault.TORN])
@pytest.mark.parametrize("operation", ["publish", "open_output", "write_new"])
def test_each_row_is_there_once_after_a_fault(tmp_path: Path, operation: str, fault: Fault) -> None:
    table = users(tmp_path)
    put(table, {1: 3})
    faulty, log = on_faulty(table)
    with table.lookup_session(served_log=log) as session:
        for skip in range(3):
            session.lookup([1])
            faulty.fail(operation, fault, skip=skip)
            try:
                session.flush_served_log()
            except StorageError:
                faulty.heal()
                session.flush_served_log()
            faulty.heal()
    assert logged(table, "_request") == [(0,), (1,), (2,)]


def test_what_is_served_while_a_batch_is_written_is_kept(tmp_path: Path) -> None:
    table = users(tmp_path)
    put(table, {1: 3, 2: 4})
    faulty, log = on_faulty(table)
    with table.lookup_session(served_log=log) as session:
        session.lookup([1])
        faulty.run_before("publish", lambda: session.lookup([2]), "snapshot-")
        session.flush_served_log()
        assert count(table) == 1
    assert logged(table, "user", "clicks") == [(1, 3), (2, 4)]


def test_a_log_that_is_dropped_is_heard_of(tmp_path: Path) -> None:
    table = users(tmp_path)
    put(table, {1: 3})
    session = table.lookup_session(served_log=LOG)
    session.lookup([1])
    wt.Catalog(str(tmp_path)).drop_table(LOG)
    with pytest.raises(StorageError, match="1 row that cannot be written"):
        session.close()
    assert isinstance(session._log, served_log.ServedLog)
    session._log._waiting.clear()  # else it is tried until this process ends
