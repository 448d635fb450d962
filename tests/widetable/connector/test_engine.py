"""An engine of plain threads, written against the connector alone: what crosses to a task or back is pickled."""

from __future__ import annotations

import json
import pickle
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

import pyarrow as pa
import pytest

from tests.test_layers import private_faults
from widetable import Catalog, CommitMessage, CommitResult, InvalidError, Table
from widetable.connector import (
    CHANGE_FORMS,
    BatchCommits,
    ChangeStream,
    CompactionTask,
    JobBatch,
    JoinArguments,
    Limits,
    PinnedBatch,
    Upkeep,
    batch_commits,
    change_stream,
    compaction_by,
    plan_lookup_join,
    plan_write,
    root_commits,
    start_of,
)

ROWS = pa.schema([pa.field("k", pa.int64(), nullable=False), ("a", pa.int64())])
T = TypeVar("T")
R = TypeVar("R")


def crossed(value: T) -> T:
    """Return the value as another process gets it."""
    return pickle.loads(pickle.dumps(value))  # type: ignore[no-any-return]


def in_tasks(tasks: Iterable[T], work: Callable[[int, T], R]) -> list[R]:
    """Run a task for each value, and return their results in order."""
    with ThreadPoolExecutor(3) as threads:
        numbered = list(enumerate(tasks))
        return list(threads.map(lambda one: crossed(work(one[0], crossed(one[1]))), numbered))


def batch(pairs: Iterable[tuple[int, int]]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([{"k": k, "a": a} for k, a in pairs], ROWS)


class Query:
    """A streaming write: numbered batches, of which each is split among tasks. A new object is a restart."""

    def __init__(self, table: Table, commits: BatchCommits, *, named: bool = False) -> None:
        self.table, self.commits, self.named = table, commits, named

    def write(self, parts: Sequence[pa.RecordBatch]) -> list[CommitMessage]:
        plan = crossed(plan_write(self.table, ROWS, named=self.named))

        def work(number: int, rows: pa.RecordBatch) -> list[CommitMessage]:
            writer = plan.task(number)
            writer.write(rows)
            return writer.finish()

        return [message for each in in_tasks(parts, work) for message in each]

    def run(self, number: int, *parts: pa.RecordBatch, at_millis: int = 0) -> CommitResult:
        described = JobBatch(number, at_millis, digest=f"content of {number}")
        messages = self.write(parts)
        result = self.commits.commit(messages, described)
        if not result.committed:
            self.table.discard(messages)
        return result


def compacted_in_threads(table: Table) -> None:
    def run(tasks: Iterable[CompactionTask]) -> Iterator[tuple[CompactionTask, object]]:
        planned = list(tasks)
        assert all(task.place == crossed(task).place for task in planned)
        yield from zip(planned, in_tasks(planned, lambda _, task: task.run()), strict=True)

    with table.maintainer(Upkeep(), compaction_by(run)) as maintainer:
        assert maintainer.round().failures == 0


def changes_in_threads(
    stream: ChangeStream, start: dict[str, Any], end: dict[str, Any]
) -> list[dict[str, Any]]:
    def work(_: int, reads: Sequence[Any]) -> list[dict[str, Any]]:
        form = CHANGE_FORMS["kind"]
        return [row for read in reads for each in form.batches(read) for row in each.to_pylist()]

    return [row for task in in_tasks(stream.tasks(start, end), work) for row in task]


def folded(state: Counter[tuple[int, int]], changes: list[dict[str, Any]]) -> None:
    for change in changes:
        state[(change["k"], change["a"])] += 1 if change["_row_kind"][0] == "+" else -1


def rows_of(table: Table) -> list[tuple[int, int]]:
    rows = table.scan().to_arrow().to_pylist()
    return sorted((row["k"], row["a"]) for row in rows)


@pytest.fixture
def table(tmp_path: Path) -> Table:
    options = {"bucket": "3", "write-only": "true", "changelog-producer": "lookup"}
    return Catalog(tmp_path).create_table("db.t", ROWS, primary_key=["k"], options=options)


def test_a_batch_that_is_replayed_is_committed_once(table: Table) -> None:
    for number in range(3):
        parts = [batch([(k, number)]) for k in range(number, number + 4)]
        assert Query(table, batch_commits(table, "q", ["k", "a"])).run(number, *parts).committed
        again = Query(table, batch_commits(table, "q", ["k", "a"])).run(number, *parts)
        assert not again.committed
    assert rows_of(table) == [(0, 0), (1, 1), (2, 2), (3, 2), (4, 2), (5, 2)]
    assert [each.commit_identifier for each in table.snapshots()] == [0, 1, 2]
    assert table.remove_orphan_files(older_than_millis=0, dry_run=True).paths == ()


def test_another_batch_of_the_same_number_is_refused(table: Table) -> None:
    query = Query(table, batch_commits(table, "q", ["k", "a"]))
    query.run(0, batch([(1, 1)]))
    with pytest.raises(InvalidError):
        query.commits.commit(query.write([batch([(2, 2)])]), JobBatch(0, 0, digest="another"))
    assert rows_of(table) == [(1, 1)]


def test_batches_that_replace_the_table_come_once(table: Table) -> None:
    query = Query(table, batch_commits(table, "q", ["k", "a"], overwrite=True))
    for number in (0, 1, 1):
        query.run(number, batch([(number, 7)]))
    assert rows_of(table) == [(1, 7)]


def test_batches_of_a_root_belong_to_barriers_and_come_once(tmp_path: Path) -> None:
    options = {"bucket": "2", "write-only": "true", "widetable.barrier-interval": "1 s"}
    catalog = Catalog(tmp_path)
    table = catalog.create_table("db.t", ROWS, primary_key=["k"], options=options)
    for number, at_millis in ((0, 1_500), (0, 1_500), (1, 2_500)):
        commits = root_commits(table, "root", "q", ["a"])
        Query(table, commits, named=True).run(
            number, batch([(number, 1)]), batch([(number + 9, 1)]), at_millis=at_millis
        )
    assert rows_of(table) == [(0, 1), (1, 1), (9, 1), (10, 1)]
    (barriers,) = table.inspect.barriers().to_pylist()
    assert (barriers["writer"], barriers["table_barrier"]) == ("root", 2_000)


def test_changes_that_tasks_read_add_up_to_the_table(table: Table) -> None:
    """Its batches are limited, replayed, and go on from a checkpoint in JSON."""
    query = Query(table, batch_commits(table, "q", ["k", "a"]))
    start = start_of("default", None, None)
    offset, state = None, Counter[tuple[int, int]]()
    for number in range(4):
        query.run(number, *(batch([(k, number)]) for k in range(number, number + 5)))
        compacted_in_threads(table)
        stream = change_stream(table, ["k", "a"], start, "reader")
        offset = stream.initial() if offset is None else json.loads(json.dumps(offset))
        while (end := stream.next_end(offset, Limits(files=2))) != offset:
            changes = changes_in_threads(stream, offset, end)
            assert changes_in_threads(stream, offset, end) == changes
            folded(state, changes)
            stream.record(end)
            offset = end
        stream.close()
    assert sorted((+state).elements()) == rows_of(table)
    assert -state == Counter()
    assert len(table.consumers()) == 1


@pytest.mark.parametrize("retries", [0, 1])
def test_a_batch_that_is_replayed_joins_what_it_has_joined(
    table: Table, tmp_path: Path, retries: int
) -> None:
    table.write(batch([(1, 10), (2, 20)]))
    left = pa.schema([("id", pa.int64()), ("k", pa.int64())])
    waits = (retries, tmp_path / "late", "id") if retries else ()
    arguments = JoinArguments(["k"], ["a"], "left", "", None, "refuse", *waits)
    join = crossed(plan_lookup_join(left, table, arguments))
    assert (join.key_columns, join.added.names) == (["k"], ["a"])
    assert join.has_waiting_rows == bool(retries)

    def run(number: int) -> list[tuple[int, int | None]]:
        moment = PinnedBatch("q", "join", number)

        def work(task: int, k: int) -> list[tuple[int, int | None]]:
            rows = pa.RecordBatch.from_pylist([{"id": 10 * number + k, "k": k}], left)
            joined = join.joined([rows], join.pin(moment), moment, is_elected=task == 0)
            return [(row["k"], row["a"]) for each in joined for row in each.to_pylist()]

        return sorted(pair for task in in_tasks((1, 2, 3), work) for pair in task)

    first = run(0)
    assert first == [(1, 10), (2, 20)] + ([] if retries else [(3, None)])
    table.write(batch([(1, 11), (3, 30)]))
    assert run(0) == first
    assert run(1) == [(1, 11), (2, 20), (3, 30)] + ([(3, 30)] if retries else [])


def test_rows_of_no_batch_join_the_snapshot_of_the_driver(table: Table) -> None:
    table.write(batch([(1, 10)]))
    join = plan_lookup_join(pa.schema([("k", pa.int64())]), table, JoinArguments(["k"]))
    pin = crossed(join.newest_pin())
    table.write(batch([(1, 11)]))
    joined = join.joined([pa.record_batch({"k": [1]})], pin)
    assert [row for each in joined for row in each.to_pylist()] == [{"k": 1, "a": 10}]
    assert pin.snapshot_id not in table.expire_snapshots(1, 1, 0).ids


def test_a_task_that_fails_leaves_other_buckets_alone(table: Table) -> None:
    query = Query(table, batch_commits(table, "q", ["k", "a"]))
    query.run(0, batch([(k, 0) for k in range(30)]))
    failed: list[int] = []

    def run(tasks: Iterable[CompactionTask]) -> Iterator[tuple[CompactionTask, object]]:
        for task in tasks:
            is_first = not failed
            failed.append(task.place)
            yield task, RuntimeError("lost") if is_first else task.run()

    with table.maintainer(Upkeep(), compaction_by(run)) as maintainer:
        assert maintainer.round().failures == 1
    levels = table.inspect.files()["level"].to_pylist()
    assert Counter(level == 0 for level in levels) == {True: 1, False: 2}
    compacted_in_threads(table)
    assert 0 not in table.inspect.files()["level"].to_pylist()


def test_columns_are_checked_before_there_are_rows(table: Table) -> None:
    with pytest.raises(InvalidError, match="columns of the rows"):
        plan_write(table, ROWS, ["k", "b"])
    with pytest.raises(InvalidError, match="'b'"):
        plan_write(table, ROWS.append(pa.field("b", pa.int64())))
    plan = plan_write(table, ROWS.append(pa.field("b", pa.int64())), ["k", "a"])
    assert plan.columns == ("k", "a")


def test_this_engine_uses_public_names_and_the_connector_alone() -> None:
    assert private_faults(Path(__file__).read_text(encoding="utf-8"), "engine") == []
