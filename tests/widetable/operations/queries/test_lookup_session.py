"""Lookup sessions: the rows of a lookup at each snapshot that they move to, and nothing opened twice."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import widetable as wt
from tests.support.faults.counting_file_io import CountingFileIO
from tests.support.faults.faults import WRITES, Fault, FaultyFileIO
from tests.support.faults.forked import in_a_child
from tests.support.models.plain_rows import plain, python_rows
from tests.support.models.random_table import data_of, make, stamped_commits, table_specs
from widetable.commit.holds.read_lease import held_snapshots
from widetable.operations.queries import lookup_view
from widetable.operations.queries.lookup_call import LookupCall, answer
from widetable.operations.queries.lookup_keys import key_rows
from widetable.storage.local import LocalFileIO
from widetable.storage.paths import TablePaths

STRATEGY = "widetable.lookup-strategy"
SCHEMA = pa.schema([pa.field("k", pa.int64(), False), ("a", pa.int64()), ("b", pa.string())])


@pytest.fixture(scope="module", autouse=True)
def own_caches(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """The caches of all these tests lie in a folder of their own."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("WIDETABLE_CACHE_DIR", str(tmp_path_factory.mktemp("caches")))
        yield


def create(folder: Path, **options: str) -> wt.Table:
    given = {
        "merge-engine": "partial-update",
        "changelog-producer": "lookup",
        "bucket": "2",
        STRATEGY: "lookup",
    }
    return wt.Catalog(str(folder)).create_table(
        "db.t", SCHEMA, primary_key=["k"], options=given | options
    )


def rows(keys: range, shift: int = 0) -> pa.Table:
    numbers = [k + shift for k in keys]
    return pa.table([list(keys), numbers, [f"b{k}" for k in numbers]], schema=SCHEMA)


def values(found: pa.Table) -> list[list[object]]:
    """NaN equals itself."""
    return [[plain(value) for value in row.values()] for row in python_rows(found)]


def answered_together(session: wt.LookupSession, keys: pa.Table, cut: int) -> pa.Table:
    """The rows of two calls of one turn, the second with the keys from `cut` on, and of a third for no keys."""
    view = session._opened()
    parts = [keys.slice(0, cut), keys.slice(cut), keys.slice(0, 0)]
    calls = [LookupCall(view, key_rows(part, view.schema)) for part in parts]
    assert answer(calls, view) is calls[0].rows
    answers = [call.rows for call in calls if call.rows is not None]
    assert [found.num_rows for found in answers] == [part.num_rows for part in parts]
    return pa.concat_tables(answers)


@pytest.fixture
def filled(tmp_path: Path) -> wt.Table:
    """Keys 0 to 99 in the bottom level, 0 to 9 again above it."""
    table = create(tmp_path)
    table.write(rows(range(100)))
    table.compact(full=True)
    table.write(rows(range(10), 1000))
    return table


@settings(max_examples=max(5, settings().max_examples // 2))
@given(st.data())
def test_a_session_gives_what_a_lookup_gives_wherever_it_moves(data: st.DataObject) -> None:
    spec = data.draw(table_specs(), "table")
    strategy = data.draw(st.sampled_from(["auto", "scan", "lookup"]), "strategy")
    spec = spec.with_options({STRATEGY: strategy})
    columns = data.draw(
        st.none() | st.lists(st.sampled_from(spec.columns.names), min_size=1, unique=True),
        "columns",
    )
    key_fields = [spec.schema.arrow_schema([name]).field(0) for name in spec.primary_key]
    asked = [pa.array([key[f.name] for key in spec.keys], f.type) for f in key_fields]
    keys = pa.table(asked, names=spec.primary_key)
    with TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr("widetable.format.data_file_writer.ROW_GROUP_ROWS", 2)
        patch.setattr(lookup_view, "_PIECE_BYTES", data.draw(st.sampled_from([1, 64 << 20])))
        patch.setattr(lookup_view, "_MAX_OPEN", data.draw(st.sampled_from([0, 1, 256])))
        patch.setattr(lookup_view, "_KEYS_FOR_THREADS", data.draw(st.sampled_from([0, 4096])))
        table = make(folder, spec)
        with table.lookup_session(columns) as session:
            for _ in range(data.draw(st.integers(0, 5), "commits")):
                commit = data.draw(stamped_commits(spec.schema, spec.keys))
                table.write(data_of(spec.schema, commit))
                if data.draw(st.integers(0, 2), "compact") == 0:
                    table.compact(full=data.draw(st.booleans()))
                session.move()
                together = answered_together(
                    session, keys, data.draw(st.integers(0, len(spec.keys)))
                )
                expected = table.lookup(keys, columns)
                assert values(session.lookup(keys)) == values(expected)
                assert together.schema == expected.schema
                assert values(together) == values(expected)
            for snapshot in data.draw(st.permutations(table.snapshots()), "moves"):
                session.move(snapshot.id)
                for _ in range(2):
                    expected = table.lookup(keys, columns, snapshot.id)
                    assert values(session.lookup(keys)) == values(expected)
                    assert session.arrow_schema == expected.schema


def test_a_session_keeps_its_snapshot_until_it_moves(filled: wt.Table) -> None:
    with filled.lookup_session(["a"]) as session:
        first = session.snapshot_id
        filled.write(rows(range(5), 5000))
        assert session.lookup([3, 50, 500])["a"].to_pylist() == [1003, 50, None]
        session.move()
        assert session.snapshot_id != first
        assert session.lookup([3, 50])["a"].to_pylist() == [5003, 50]
        session.move(first)
        assert session.lookup([3, 50])["a"].to_pylist() == [1003, 50]


def test_a_session_opens_a_file_once_and_after_a_move_only_what_is_new(filled: wt.Table) -> None:
    file_io = CountingFileIO()
    table = wt.Table.open(filled.path, file_io=file_io)
    table.lookup(list(range(100)))  # which builds the caches
    table.lookup(list(range(100)))

    def data_files() -> int:
        count = sum("/data-" in path for path in file_io.opened)
        file_io.opened.clear()
        return count

    data_files()
    with table.lookup_session() as session:
        for _ in range(3):
            session.lookup(list(range(100)))
        assert data_files() == 0
        filled.write(rows(range(1), 7000))
        session.move()
        assert session.lookup([0, 1, 99])["a"].to_pylist() == [7000, 1001, 99]
        assert data_files() == 0  # the commit left a cache of what it wrote


def test_caches_are_opened_once(filled: wt.Table, monkeypatch: pytest.MonkeyPatch) -> None:
    from widetable_lookup.host_caches import ProcessCaches

    filled.lookup(list(range(100)))
    opened: list[str] = []
    real = ProcessCaches.open

    def counted(self: ProcessCaches, table: object, path: str, *rest: object) -> object:
        opened.append(path)
        return real(self, table, path, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(ProcessCaches, "open", counted)
    with filled.lookup_session() as session:
        for _ in range(3):
            session.lookup(list(range(100)))
        assert len(opened) == len(set(opened)) == 4
        before = set(opened)
        filled.write(rows(range(100, 110)))  # the rest stays
        opened.clear()  # what the commit's compaction looked at
        session.move()
        session.lookup(list(range(100)))
        assert len(opened) == len(set(opened))
        assert before.isdisjoint(opened)


def test_what_a_session_reads_does_not_expire(filled: wt.Table) -> None:
    session = filled.lookup_session(["a"])
    for shift in range(3):
        filled.write(rows(range(100), shift))
        filled.compact(full=True)
    expire = partial(filled.expire_snapshots, num_retained_min=1, num_retained_max=1)
    expire()
    assert session.lookup([3])["a"].to_pylist() == [1003]
    first = session.snapshot_id
    assert first in [snapshot.id for snapshot in filled.snapshots()]
    session.move()
    expire()
    assert first not in [snapshot.id for snapshot in filled.snapshots()]
    with pytest.raises(wt.NotFoundError, match=f"snapshot {first}"):
        session.move(first)
    assert session.lookup([3])["a"].to_pylist() == [5]
    session.close()
    assert not list(Path(filled.path, "service").glob("*read-lease*"))


def test_a_move_that_fails_leaves_the_session_where_it_was(filled: wt.Table) -> None:
    with filled.lookup_session(["a"]) as session:
        with pytest.raises(wt.NotFoundError):
            session.move(99)
        with pytest.raises(wt.InvalidError):
            session.move("newest")  # type: ignore[arg-type]
        assert session.lookup([3])["a"].to_pylist() == [1003]
    assert not list(Path(filled.path, "service").glob("*read-lease*"))


def test_the_newest_is_chosen_anew_where_it_expired_before_it_was_held(filled: wt.Table) -> None:
    def overtake() -> None:
        filled.write(rows(range(10), 2000))
        filled.expire_snapshots(1, 1, 0)

    files = FaultyFileIO(LocalFileIO(fsync=False))
    files.run_before("replace", overtake, "read-lease")
    with wt.Table.open(filled.path, file_io=files).lookup_session(["a"]) as session:
        assert session.lookup([3])["a"].to_pylist() == [2003]
        assert held_snapshots(files, TablePaths(filled.path)) == [session.snapshot_id]
    files.run_before("replace", overtake, "read-lease")
    with pytest.raises(wt.NotFoundError, match="expired"):
        wt.Table.open(filled.path, file_io=files).lookup_session(
            snapshot_id=filled.snapshots()[-1].id
        )


def test_a_storage_that_is_read_only_is_read_without_a_lease(
    filled: wt.Table, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "widetable")
    files = FaultyFileIO(LocalFileIO(fsync=False))
    for operation in WRITES:
        files.fail(operation, Fault.BEFORE, times=-1)
    with wt.Table.open(filled.path, file_io=files).lookup_session(["a"]) as session:
        assert session.lookup([3])["a"].to_pylist() == [1003]
        filled.write(rows(range(10), 2000))
        session.move()
        assert session.lookup([3])["a"].to_pylist() == [2003]
    assert caplog.text.count("is read without a lease") == 2


def test_a_closed_session_says_so(filled: wt.Table) -> None:
    session = filled.lookup_session()
    for _ in range(2):
        session.close()
    for use in (
        lambda: session.lookup([1]),
        lambda: session.snapshot_id,
        lambda: session.arrow_schema,
        lambda: session.lookup_prefix([1]),
        session.move,
        lambda: session.move(1),
    ):
        with pytest.raises(wt.InvalidError, match="closed"):
            use()
    assert held_snapshots(LocalFileIO(), TablePaths(filled.path)) == []


def test_a_session_of_an_empty_table_waits_for_its_first_snapshot(tmp_path: Path) -> None:
    table = create(tmp_path)
    with table.lookup_session() as session:
        assert session.snapshot_id is None
        assert session.lookup([1])["k"].to_pylist() == [None]
        table.write(rows(range(3)))
        assert session.lookup([1])["k"].to_pylist() == [None]
        session.move()
        assert session.lookup([1])["k"].to_pylist() == [1]


def test_a_session_takes_new_columns_when_it_moves(filled: wt.Table) -> None:
    catalog = wt.Catalog(str(Path(filled.path).parent.parent))
    with filled.lookup_session() as session:
        first = session.snapshot_id
        catalog.alter_table("db.t", add_columns=[pa.field("c", pa.int64())])
        session.move()
        assert session.lookup([3]).to_pylist() == [{"k": 3, "a": 1003, "b": "b1003", "c": None}]
        filled.write(pa.table({"k": [3], "c": [9]}))
        session.move()
        assert session.lookup([3])["c"].to_pylist() == [9]
        session.move(first)
        assert session.lookup([3]).column_names == ["k", "a", "b"]


def test_threads_share_a_session(filled: wt.Table) -> None:
    wrong: list[object] = []
    with filled.lookup_session(["a"]) as session:

        def ask(key: int) -> None:
            for number in range(50):
                found = session.lookup([key, number + 10])["a"].to_pylist()
                if found != [1000 + key, number + 10]:
                    wrong.append(found)
                if number % 10 == key:
                    session.move()

        threads = [threading.Thread(target=ask, args=(key,)) for key in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert wrong == []


def test_a_forked_child_uses_the_session(filled: wt.Table) -> None:
    with filled.lookup_session(["a"]) as session:
        session.lookup([3])

        def in_child() -> None:
            assert session.lookup([3, 50])["a"].to_pylist() == [1003, 50]
            session.close()

        assert os.waitpid(in_a_child(in_child), 0)[1] == 0
        assert session.lookup([3, 50])["a"].to_pylist() == [1003, 50]


@pytest.mark.parametrize("columns", ["a", [1], ["a", "a"], 7])
def test_wrong_columns_are_refused_at_once(filled: wt.Table, columns: object) -> None:
    with pytest.raises(wt.InvalidError, match="column"):
        filled.lookup_session(columns)  # type: ignore[arg-type]
    with pytest.raises(wt.NotFoundError, match="nope"):
        filled.lookup_session(["nope"])
