"""The driver's side of a streaming read: how batches are cut, replayed, kept from expiry, and shared among tasks."""

from __future__ import annotations

import json
import pickle
import random
import shutil
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import widetable as wt
from widetable.connector import change_streams as module
from widetable.connector.change_streams import ChangeStream, change_stream
from widetable.read.stream_plan import DEFAULT, Limits, start_of

Offset = dict[str, Any]


def create(folder: Path, options: Mapping[str, str] | None = None) -> wt.Table:
    return wt.Catalog(str(folder)).create_table(
        "db.t",
        pa.schema([pa.field("k", pa.int64(), nullable=False), pa.field("a", pa.int64())]),
        primary_key=["k"],
        options={
            "widetable.fsync": "false",
            "write-only": "true",
            "bucket": "3",
            **(options or {}),
        },
    )


def put(table: wt.Table, keys: Sequence[int] | range, a: int) -> None:
    table.write(pa.table({"k": pa.array(list(keys), pa.int64()), "a": [a] * len(keys)}))


def position(table: wt.Table, consumer: str | None = None, **start: Any) -> ChangeStream:
    chosen = start_of(
        start.get("mode", DEFAULT), start.get("snapshot_id"), start.get("timestamp_millis")
    )
    opened = wt.Table.open(table.path)  # as a query does that starts
    return change_stream(opened, ["k", "a"], chosen, consumer)


def rows_of(stream: ChangeStream, start: Offset, end: Offset) -> list[list[tuple[int, int]]]:
    """(key, a) of each task of a batch."""
    tasks = pickle.loads(pickle.dumps(stream.tasks(start, end)))
    return [
        [
            pair
            for read in task
            for batch in read.to_batches()
            for pair in zip(batch["k"].to_pylist(), batch["a"].to_pylist(), strict=True)
        ]
        for task in tasks
    ]


def checkpointed(offset: Offset) -> Offset:
    """As Spark gives it back."""
    return json.loads(json.dumps(offset))  # type: ignore[no-any-return]


@pytest.fixture
def looking(monkeypatch: pytest.MonkeyPatch) -> None:
    """Look at the table on every call."""
    monkeypatch.setattr(module, "POLL_SECONDS", 0)


@pytest.mark.usefixtures("looking")
def test_batches_follow_one_another_under_any_limits(tmp_path: Path, rng: random.Random) -> None:
    table = create(tmp_path)
    for commit in range(6):
        put(table, rng.sample(range(40), rng.randint(1, 20)), a=commit)
    table.compact(full=True)
    for full in (True, False):
        start = {"mode": "from-snapshot-full"} if full else {"mode": "from-snapshot"}
        stream = position(table, snapshot_id=3, **start)
        offset = checkpointed(stream.initial())
        expected = rows_of(stream, offset, stream.next_end(offset, Limits()))
        found: list[tuple[int, int]] = []
        while True:
            limits = Limits(
                *(rng.choice([None, rng.randint(1, most)]) for most in (2, 20, 9999, 4))
            )
            end = checkpointed(stream.next_end(offset, limits))
            if end == offset:
                break
            batch = rows_of(stream, offset, end)
            # A new process that replays the batch from the checkpoint gives the same.
            assert rows_of(position(table), offset, end) == batch
            found += (pair for task in batch for pair in task)
            offset = end
        assert sorted(found) == sorted(pair for task in expected for pair in task)
        stream.close()


@pytest.mark.usefixtures("looking")
def test_changes_of_a_key_are_in_one_task_and_in_order(tmp_path: Path) -> None:
    table = create(tmp_path)
    for commit in range(5):
        put(table, range(100), a=commit)
    stream = position(table, mode="from-snapshot-full", snapshot_id=1)
    start = stream.initial()
    tasks = rows_of(stream, start, stream.next_end(start, Limits()))
    of_key: dict[int, list[int]] = {}
    for task in tasks:
        assert not of_key.keys() & {k for k, _ in task}
        for k, a in task:
            of_key.setdefault(k, []).append(a)
    assert of_key == {k: [0, 1, 2, 3, 4] for k in range(100)}


@pytest.mark.usefixtures("looking")
def test_small_splits_share_a_task_and_large_ones_do_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = create(tmp_path)
    put(table, range(100), a=0)
    stream = position(table)
    start = stream.initial()
    end = stream.next_end(start, Limits())
    assert len(stream.tasks(start, end)) == 1
    monkeypatch.setattr(module, "_TASK_BYTES", 1)
    assert len(stream.tasks(start, end)) == 3
    assert stream.tasks(end, end) == []


@pytest.mark.usefixtures("looking")
def test_snapshots_without_rows_make_no_batch_until_there_are_many(tmp_path: Path) -> None:
    table = create(tmp_path)
    put(table, [1], a=1)
    stream = position(table, mode="latest")
    offset = stream.initial()
    for _ in range(31):
        table.overwrite(pa.table({"k": [1], "a": [1]}))
    assert stream.next_end(offset, Limits()) == offset
    table.overwrite(pa.table({"k": [1], "a": [1]}))
    assert stream.next_end(offset, Limits())["next_snapshot"] == 34
    put(table, [2], a=2)
    end = stream.next_end(offset, Limits())
    assert end["next_snapshot"] == 35
    assert rows_of(stream, offset, end) == [[(2, 2)]]


def test_the_table_is_not_looked_at_on_every_call(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "POLL_SECONDS", 3600)
    table = create(tmp_path)
    put(table, [1], a=1)
    stream = position(table, mode="latest")
    offset = stream.initial()
    assert stream.next_end(offset, Limits()) == offset
    newest = stream.newest()
    put(table, [2], a=2)
    assert stream.next_end(offset, Limits()) == offset
    assert stream.newest() == newest
    monkeypatch.setattr(module, "POLL_SECONDS", 0)
    assert stream.next_end(offset, Limits()) != offset


@pytest.mark.usefixtures("looking")
def test_available_now_ends_with_the_newest_snapshot_of_its_start(tmp_path: Path) -> None:
    table = create(tmp_path)
    put(table, [1], a=1)
    stream = position(table)
    stream.stop_at_newest()
    put(table, [2], a=2)
    offset = stream.initial()
    assert offset == stream.initial()
    end = stream.next_end(offset, Limits())
    assert rows_of(stream, offset, end) == [[(1, 1)]]
    assert stream.next_end(end, Limits()) == end
    assert stream.newest() == end


@pytest.mark.usefixtures("looking")
def test_available_now_of_an_empty_table_reads_nothing(tmp_path: Path) -> None:
    table = create(tmp_path)
    stream = position(table)
    stream.stop_at_newest()
    put(table, [1], a=1)
    offset = stream.initial()
    assert stream.next_end(offset, Limits()) == offset
    assert stream.newest() is None


@pytest.mark.usefixtures("looking")
def test_the_watermark_rides_in_the_offsets(tmp_path: Path) -> None:
    table = create(tmp_path)
    stream = position(table)
    offset = stream.initial()
    for number, watermark in enumerate([100, 50, None, 300]):
        with table.new_writer(["k", "a"]) as writer:
            writer.write(pa.table({"k": [number], "a": [1]}))
            table.commit_append(writer.finish(), watermark=watermark)
    found = []
    for _ in range(4):
        offset = stream.next_end(offset, Limits(snapshots=1))
        found.append(offset.get("watermark"))
    assert found == [100, 100, 100, 300]
    newest = stream.newest()
    assert newest is not None
    assert newest["watermark"] == 300


@pytest.mark.usefixtures("looking")
def test_a_consumer_takes_over_what_was_committed(tmp_path: Path) -> None:
    table = create(tmp_path)
    put(table, range(10), a=0)
    put(table, [0], a=1)
    stream = position(table, "c")
    offset = stream.initial()
    half = stream.next_end(offset, Limits(files=1))
    stream.record(half)
    assert table.consumers() == {}  # in the full phase: to be done again
    end = stream.next_end(half, Limits())
    stream.record(end)
    assert table.consumers() == {"c": 3}
    put(table, range(5), a=2)
    within = stream.next_end(end, Limits(files=1))
    assert within["position"] == 1
    stream.record(within)
    assert table.consumers() == {"c": 3}  # the rest of snapshot 3 is still to be read
    resumed = position(table, "c", mode="latest")
    assert resumed.initial()["next_snapshot"] == 3


@pytest.mark.usefixtures("looking")
def test_expiry_leaves_what_a_running_query_has_not_read(tmp_path: Path) -> None:
    options = {"snapshot.num-retained.min": "1", "snapshot.time-retained": "1 ms"}
    for consumer in (None, "c"):
        table = create(tmp_path / str(consumer), options)
        for commit in range(4):
            put(table, [1], a=commit)
        time.sleep(0.005)
        stream = position(table, consumer, snapshot_id=2)
        offset = stream.initial()
        table.expire_snapshots()
        assert table.snapshots()[0].id == 2
        offset = stream.next_end(offset, Limits(snapshots=1))
        stream.record(offset)
        stream.next_end(offset, Limits(snapshots=1))
        table.expire_snapshots()
        assert table.snapshots()[0].id == 3
        stream.close()
        table.expire_snapshots()
        assert table.snapshots()[0].id == (4 if consumer is None else 3)


@pytest.mark.usefixtures("looking")
def test_a_checkpoint_behind_its_consumer_is_kept_too(tmp_path: Path) -> None:
    table = create(tmp_path, {"snapshot.num-retained.min": "1", "snapshot.time-retained": "1 ms"})
    for commit in range(4):
        put(table, [1], a=commit)
    older = position(table, snapshot_id=2)
    offset = older.initial()
    older.close()
    stream = position(table, "c", snapshot_id=4)
    stream.initial()
    assert table.consumers() == {"c": 4}
    stream.next_end(offset, Limits())
    time.sleep(0.005)
    table.expire_snapshots()
    assert table.snapshots()[0].id == 2
    stream.record(offset)
    assert table.consumers() == {"c": 2}


@pytest.mark.usefixtures("looking")
def test_a_checkpoint_behind_what_is_kept_is_reported(tmp_path: Path) -> None:
    table = create(tmp_path, {"snapshot.num-retained.min": "1", "snapshot.time-retained": "1 ms"})
    for commit in range(4):
        put(table, [1], a=commit)
    stream = position(table, snapshot_id=1)
    offset = stream.initial()
    end = stream.next_end(offset, Limits(snapshots=2))
    stream.close()
    time.sleep(0.005)
    table.expire_snapshots()
    message = r"snapshot 1 of .*expired.*kept, 4 to 4.*latest-full.*consumer-id"
    with pytest.raises(wt.NotFoundError, match=message):
        position(table).next_end(offset, Limits())
    with pytest.raises(wt.NotFoundError, match=message):
        position(table).tasks(offset, end)


def again(table: wt.Table, commits: int) -> wt.Table:
    """The same table, dropped and made again, with so many commits of a = 100 and more."""
    folder = Path(table.path).parent.parent
    wt.Catalog(str(folder)).drop_table("db.t")
    new = create(folder)
    for commit in range(commits):
        put(new, [1], a=100 + commit)
    return new


@pytest.mark.usefixtures("looking")
@pytest.mark.parametrize("commits", [0, 1, 2, 3, 5])
def test_a_checkpoint_of_a_table_that_was_made_again_is_refused(
    tmp_path: Path, commits: int
) -> None:
    table = create(tmp_path)
    for commit in range(2):
        put(table, [1], a=commit)
    stream = position(table, "c", snapshot_id=1)
    start = checkpointed(stream.initial())
    end = checkpointed(stream.next_end(start, Limits()))
    again(table, commits)
    for each in (stream, position(table, "c"), position(table)):
        for offset in (start, end):
            with pytest.raises(wt.InvalidError, match="made again"):
                each.next_end(offset, Limits())
        with pytest.raises(wt.InvalidError, match="made again"):
            each.tasks(start, end)
    with pytest.raises(wt.InvalidError, match="made again"):
        stream.record(end)
    assert wt.Table.open(table.path).consumers() == {}


@pytest.mark.usefixtures("looking")
def test_a_running_query_does_not_go_on_in_another_table(tmp_path: Path) -> None:
    table = create(tmp_path)
    put(table, [1], a=1)
    stream = position(table, mode="latest")
    offset = stream.initial()
    assert stream.next_end(offset, Limits()) == offset
    again(table, 3)
    with pytest.raises(wt.InvalidError, match="made again"):
        stream.next_end(offset, Limits())
    again(table, 1)
    with pytest.raises(wt.InvalidError, match="made again"):
        stream.newest()


@pytest.mark.usefixtures("looking")
def test_a_checkpoint_of_the_version_before_goes_on(tmp_path: Path) -> None:
    """Offsets without the identity of their table; an idle query makes no batch of them."""
    table = create(tmp_path)
    for commit in range(2):
        put(table, [commit], a=commit)
    old = {"version": 1, "next_snapshot": 2, "is_full": False, "position": 0}
    stream = position(table)
    end = stream.next_end(old, Limits())
    assert rows_of(stream, old, end) == [[(1, 1)]]
    assert (end["version"], end["next_snapshot"]) == (3, 3)
    idle = {**old, "next_snapshot": 3}
    assert stream.next_end(idle, Limits()) == idle
    with pytest.raises(wt.InvalidError, match="past the newest snapshot, 2"):
        stream.next_end({**old, "next_snapshot": 4}, Limits())


@pytest.mark.usefixtures("looking")
def test_a_start_that_is_yet_to_come_may_be_in_a_checkpoint(tmp_path: Path) -> None:
    """Of a query that had batches of another source meanwhile."""
    table = create(tmp_path)
    put(table, [0], a=0)
    offset = checkpointed(position(table, "c", snapshot_id=4).initial())
    stream = position(table, "c", snapshot_id=4)
    assert stream.next_end(offset, Limits()) == offset
    stream.record(offset)
    assert table.consumers() == {}
    for commit in range(1, 5):
        put(table, [commit], a=commit)
    end = checkpointed(stream.next_end(offset, Limits()))
    assert rows_of(stream, offset, end) == [[(3, 3), (4, 4)]]
    stream.record(end)
    assert table.consumers() == {"c": 6}


@pytest.mark.usefixtures("looking")
@pytest.mark.parametrize("rows_before", [0, 3])
def test_without_word_of_the_start_each_row_comes_once(tmp_path: Path, rows_before: int) -> None:
    """As Spark before 4.2 asks: for an end first, then for the start; rows are committed in between. Its second query
    knows nothing of the first one but the checkpoint.
    """
    table = create(tmp_path)
    if rows_before:
        put(table, range(rows_before), 1)
    seen: list[tuple[int, int]] = []
    start: Offset | None = None
    for query in range(2):
        stream = position(table)
        for batch in range(3):
            end = checkpointed(stream.unguided_end())
            put(table, [100 + 10 * query + batch], 1)
            start = checkpointed(stream.initial()) if start is None else start
            if end != start:
                seen += [pair for task in rows_of(stream, start, end) for pair in task]
            start = end
        stream.close()
    last = position(table)
    assert start is not None
    seen += [pair for task in rows_of(last, start, last.unguided_end()) for pair in task]
    assert sorted(seen) == sorted(
        (row["k"], row["a"]) for row in table.scan().to_arrow().to_pylist()
    )


@pytest.mark.parametrize("consumer", [None, "c"])
def test_a_table_that_went_back_and_on_is_refused_to_a_checkpoint_and_a_consumer(
    tmp_path: Path, consumer: str | None
) -> None:
    table = create(tmp_path)
    put(table, [1], 1)
    shutil.copytree(table.path, tmp_path / "backup")
    for key in (2, 3):
        put(table, [key], 1)
    stream = position(table, consumer, snapshot_id=1)
    end = checkpointed(stream.next_end(stream.initial(), Limits()))
    assert sum(map(len, rows_of(stream, stream.initial(), end))) == 3
    stream.record(end)
    stream.close()
    notes = Path(table.path, "consumer")
    if notes.exists():
        shutil.copytree(notes, tmp_path / "backup/consumer")
    shutil.rmtree(table.path)
    shutil.copytree(tmp_path / "backup", table.path)
    for key in range(10, 18):
        put(wt.Table.open(table.path), [key], 1)
    again = position(table, consumer)
    with pytest.raises(wt.InvalidError, match="another snapshot 3 "):
        again.next_end(end, Limits()) if consumer is None else again.initial()
