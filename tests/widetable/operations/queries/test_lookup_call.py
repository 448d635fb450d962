"""Calls of threads that share a lookup session: answered together, each with its own rows and its own failure."""

from __future__ import annotations

import shutil
import threading
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path

import pyarrow as pa
import pytest

import widetable as wt
from tests.support.faults.patience import PATIENCE_SECONDS, wait_for
from widetable.operations.queries.lookup_call import MAX_KEYS, LookupCall, next_calls
from widetable.operations.queries.lookup_view import LookupView

SCHEMA = pa.schema([pa.field("k", pa.int64(), False), ("a", pa.int64()), ("b", pa.string())])


@pytest.fixture
def table(tmp_path: Path) -> wt.Table:
    made = wt.Catalog(str(tmp_path)).create_table(
        "db.t", SCHEMA, primary_key=["k"], options={"bucket": "2"}
    )
    made.write(pa.table([range(100), range(100, 200), map(str, range(100))], schema=SCHEMA))
    return made


@pytest.fixture
def turns(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many keys each turn has asked for."""
    counts: list[int] = []
    rows_of = LookupView.rows_of

    def counted(view: LookupView, given: pa.RecordBatch) -> pa.Table:
        counts.append(given.num_rows)
        return rows_of(view, given)

    monkeypatch.setattr(LookupView, "rows_of", counted)
    return counts


class _Asking:
    """Threads that look up some keys each, all of which wait for their turn before the first one gets it."""

    def __init__(self, session: wt.LookupSession, keys: Sequence[list[int]]) -> None:
        self.found: list[pa.Table | None] = [None] * len(keys)
        self.errors: list[BaseException | None] = [None] * len(keys)
        self._session = session
        self._threads = [
            threading.Thread(target=self._ask, args=(number, asked), daemon=True)
            for number, asked in enumerate(keys)
        ]

    def run(self, before: Callable[[], object] = lambda: None) -> None:
        """before: done once all wait."""
        with self._session._lock:
            for thread in self._threads:
                thread.start()
            wait_for(lambda: len(self._session._waiting) == len(self._threads))
            before()
        for thread in self._threads:
            thread.join(PATIENCE_SECONDS)
            assert not thread.is_alive()

    def columns(self, name: str) -> list[list[object]]:
        return [[] if found is None else found[name].to_pylist() for found in self.found]

    def _ask(self, number: int, keys: list[int]) -> None:
        try:
            self.found[number] = self._session.lookup(keys)
        except (wt.WidetableError, KeyboardInterrupt) as error:
            self.errors[number] = error


def test_whoever_waits_is_answered_in_one_turn(table: wt.Table, turns: list[int]) -> None:
    with table.lookup_session() as session:
        asking = _Asking(session, [[3], [7, 3], [], [1000, 99, 3]])
        asking.run()
    assert turns == [6]
    assert asking.columns("k") == [[3], [7, 3], [], [None, 99, 3]]
    assert asking.columns("b") == [["3"], ["7", "3"], [], [None, "99", "3"]]
    assert asking.errors == [None] * 4


def test_large_rows_are_not_kept_by_who_asked_for_others(
    table: wt.Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("widetable.operations.queries.lookup_call._MAX_SHARED_BYTES", 0)
    with table.lookup_session() as session:
        asking = _Asking(session, [[key] for key in range(10)])
        asking.run()
    assert asking.columns("a") == [[key + 100] for key in range(10)]
    for found in asking.found:
        assert found is not None
        assert found.get_total_buffer_size() < 10 * found.nbytes


def test_calls_for_many_keys_are_answered_one_by_one(table: wt.Table, turns: list[int]) -> None:
    many = [number % 100 for number in range(MAX_KEYS)]
    with table.lookup_session(["a"]) as session:
        asking = _Asking(session, [many, many[1:]])
        asking.run()
    assert sorted(turns) == [MAX_KEYS - 1, MAX_KEYS]
    assert [len(column) for column in asking.columns("a")] == [MAX_KEYS, MAX_KEYS - 1]


def test_calls_that_wait_see_the_snapshot_and_columns_that_their_session_moved_to(
    table: wt.Table,
) -> None:
    catalog = wt.Catalog(str(Path(table.path).parent.parent))
    with table.lookup_session() as session:
        asking = _Asking(session, [[3], [4], [5]])

        def widened() -> None:
            catalog.alter_table("db.t", add_columns=[pa.field("c", pa.int64())])
            table.write(pa.table({"k": [4], "a": [0], "c": [9]}))
            session.move()

        asking.run(widened)
    assert asking.columns("a") == [[103], [0], [105]]
    assert asking.columns("c") == [[None], [9], [None]]


def test_calls_that_fail_fail_each_for_itself(table: wt.Table) -> None:
    """One of the two buckets is gone: keys of the other are found, whoever asks beside them."""
    keys = list(range(20))

    def outcome(key: int) -> str:
        with table.lookup_session(["a"]) as session:
            try:
                return str(session.lookup([key])["a"].to_pylist())
            except wt.WidetableError as error:
                return type(error).__name__

    with table.lookup_session(["a"]) as session:
        asking = _Asking(session, [[key] for key in keys])
        asking.run(lambda: shutil.rmtree(Path(table.path) / "bucket-0"))
    expected = [outcome(key) for key in keys]
    assert len({len(text) for text in expected}) > 1, expected
    assert [
        type(error).__name__ if error is not None else str(column)
        for error, column in zip(asking.errors, asking.columns("a"), strict=True)
    ] == expected


def test_one_whose_session_is_closed_meanwhile_is_told(table: wt.Table) -> None:
    session = table.lookup_session()
    asking = _Asking(session, [[3], [4]])
    asking.run(session.close)
    assert [type(error) for error in asking.errors] == [wt.InvalidError, wt.InvalidError]


def test_a_turn_that_is_broken_off_leaves_the_others_theirs(
    table: wt.Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows_of, breaks = LookupView.rows_of, [KeyboardInterrupt()]

    def broken_off(view: LookupView, given: pa.RecordBatch) -> pa.Table:
        if breaks:
            raise breaks.pop()
        return rows_of(view, given)

    monkeypatch.setattr(LookupView, "rows_of", broken_off)
    with table.lookup_session() as session:
        asking = _Asking(session, [[3], [4], [5]])
        asking.run()
    broken = [isinstance(error, KeyboardInterrupt) for error in asking.errors]
    assert broken.count(True) == 1
    assert [column for column in asking.columns("a") if column] == [
        [key + 100] for key, was_broken in zip([3, 4, 5], broken, strict=True) if not was_broken
    ]


@pytest.mark.parametrize(
    ("own", "waiting", "taken"),
    [
        (1, [], 1),
        (1, [1, 1], 3),
        (MAX_KEYS - 1, [1, 1], 2),
        (MAX_KEYS, [1], 1),
        (MAX_KEYS + 1, [1], 1),
        (1, [MAX_KEYS, 1], 1),
        (0, [MAX_KEYS, 0, 1], 3),
    ],
)
def test_a_turn_takes_along_what_stays_few(
    table: wt.Table, own: int, waiting: list[int], taken: int
) -> None:
    with table.lookup_session() as session:
        view = session._opened()

        def call(keys: int) -> LookupCall:
            return LookupCall(view, pa.record_batch({"k": pa.array(range(keys), pa.int64())}))

        calls = [call(own), *map(call, waiting)]
        left = deque(calls)
        assert next_calls(calls[0], left) == calls[:taken]
        assert list(left) == calls[taken:]
