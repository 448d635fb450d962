"""Tables: writing, exactly once, compaction, snapshots, tags, travelling to other processes."""

from __future__ import annotations

import datetime as dt
import logging
import pickle
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import widetable as wt
from tests.support.faults.faults import Fault, FaultyFileIO
from tests.support.models.plain_rows import row_texts
from widetable.commit.notes.lease import try_lease
from widetable.storage.local import LocalFileIO
from widetable.storage.paths import TablePaths

KEY = pa.field("k", pa.int64(), nullable=False)
COLUMNS = [KEY, pa.field("a", pa.int64()), pa.field("b", pa.string())]


def create(folder: Path, options: Mapping[str, str] | None = None, **how: Any) -> wt.Table:
    return wt.Catalog(str(folder)).create_table(
        "db.t",
        pa.schema(how.pop("columns", COLUMNS)),
        primary_key=how.pop("key", ["k"]),
        options={"widetable.fsync": "false", **(options or {})},
        **how,
    )


def keyed(keys: Sequence[int] | range, **columns: Any) -> pa.Table:
    return pa.table({"k": pa.array(list(keys), pa.int64()), **columns})


def rows(table: wt.Table, **how: Any) -> list[Any]:
    return table.scan(**how).to_arrow().to_pylist()  # type: ignore[no-any-return]


def data_files(table: wt.Table) -> set[str]:
    return {path.name for path in Path(table.path).rglob("data-*.parquet")}


# Writing


def test_columns_of_the_data_are_what_it_updates(tmp_path: Path) -> None:
    table = create(tmp_path, {"merge-engine": "partial-update"})
    table.write(keyed([1, 2], a=[1, 2]))
    table.write(keyed([2, 3], b=["x", "y"]))
    assert rows(table) == [
        {"k": 1, "a": 1, "b": None},
        {"k": 2, "a": 2, "b": "x"},
        {"k": 3, "a": None, "b": "y"},
    ]


def test_the_result_says_what_was_committed(tmp_path: Path) -> None:
    table = create(tmp_path, {"bucket": "2"})
    result = table.write(keyed(range(100)))
    assert (result.committed, result.snapshot_id, result.kind) == (True, 1, "APPEND")
    assert (result.rows, result.files, result.retries) == (100, 2, 0)
    (snapshot,) = table.snapshots()
    assert snapshot.id == 1
    assert snapshot.total_record_count == 100


def batches() -> Iterator[pa.RecordBatch]:
    for keys in ([1, 2], [3]):
        yield from keyed(keys).to_batches()


class Stream:
    """Something of another library that speaks Arrow's C stream."""

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return keyed([1, 2, 3]).to_reader().__arrow_c_stream__(requested_schema)


@pytest.mark.parametrize(
    "data",
    [
        keyed([1, 2, 3]),
        keyed([1, 2, 3]).to_batches()[0],
        keyed([1, 2, 3]).to_reader(),
        list(batches()),
        batches(),
        Stream(),
    ],
    ids=["table", "batch", "reader", "list", "generator", "stream"],
)
def test_data_in_every_form(tmp_path: Path, data: Any) -> None:
    table = create(tmp_path)
    assert table.write(data).rows == 3
    assert [row["k"] for row in rows(table)] == [1, 2, 3]
    assert len(table.snapshots()) == 1


@pytest.mark.parametrize("data", [keyed([]), [], iter(())], ids=["table", "list", "iterator"])
def test_no_rows_commit_nothing(tmp_path: Path, data: Any) -> None:
    table = create(tmp_path)
    result = table.write(data)
    assert (result.committed, result.snapshot_id) == (False, None)
    assert table.snapshots() == []
    assert data_files(table) == set()


def test_columns_are_checked_before_any_row(tmp_path: Path) -> None:
    table = create(tmp_path)

    data = keyed([1], nope=[1])
    asked = []

    def noting() -> Iterator[pa.RecordBatch]:
        for batch in data.to_batches():
            asked.append(batch)
            yield batch

    with pytest.raises(wt.InvalidError, match="nope"):
        table.write(pa.RecordBatchReader.from_batches(data.schema, noting()))
    assert asked == []


def test_row_kinds_in_a_column_of_any_name(tmp_path: Path) -> None:
    table = create(tmp_path)
    table.write(keyed([1, 2, 3]))
    table.write(keyed([1], _row_kind=["-D"]))
    table.write(keyed([2], op=["-d"]), row_kind="op")
    assert [row["k"] for row in rows(table)] == [3]


# Exactly once


def test_an_identifier_is_committed_once(tmp_path: Path) -> None:
    table = create(tmp_path)
    assert table.write(keyed([1]), "stream", 0).committed
    assert table.write(keyed([2]), "stream", 1).committed
    files = data_files(table)
    again = table.write(keyed([3]), "stream", 1)
    assert (again.committed, again.snapshot_id) == (False, 2)
    older = table.write(keyed([3]), "stream", 0, replay=True)
    assert (older.committed, older.snapshot_id) == (False, 1)
    assert table.write(keyed([4]), "other", 0).committed
    assert [row["k"] for row in rows(table)] == [1, 2, 4]
    assert len(data_files(table)) == len(files) + 1  # nothing is left of the repeated ones


def test_a_commit_that_was_in_meanwhile_leaves_no_files(tmp_path: Path) -> None:
    table = create(tmp_path)

    def overtaken() -> Iterator[pa.RecordBatch]:
        yield from keyed([1]).to_batches()
        assert table.write(keyed([7]), "stream", 0).committed

    assert not table.write(overtaken(), "stream", 0).committed
    assert [row["k"] for row in rows(table)] == [7]
    assert len(data_files(table)) == 1


def test_a_commit_is_found_again(tmp_path: Path) -> None:
    table = create(tmp_path)
    for identifier in range(3):
        table.write(keyed([identifier]), "stream", identifier)
        table.write(keyed([9]), "other", identifier)
    found = [table.find_commit("stream", identifier) for identifier in range(4)]
    assert [None if each is None else each.id for each in found] == [1, 3, 5, None]
    assert found[0] is not None
    assert found[0].properties["widetable.rows"] == "1"
    assert table.find_commit("nobody", 0) is None


# Writing in several tasks


@pytest.mark.parametrize("tasks", [3, None])
def test_tasks_write_and_one_commits(tmp_path: Path, tasks: int | None) -> None:
    table = create(tmp_path, {"bucket": "3"})
    there = pickle.loads(pickle.dumps(table))
    base = table.sequence_base()
    messages = []
    for task in range(3):
        writer = there.new_writer(["k", "a"], task=task, tasks=tasks, sequence_base=base)
        for start in range(0, 30, 10):
            writer.write(keyed(range(start, start + 10), a=[task] * 10))
        messages += pickle.loads(pickle.dumps(writer.finish()))
    assert table.commit_append(messages, "stream", 0, properties={"note": "x"}).rows == 90
    assert row_texts(rows(table)) == row_texts({"k": k, "a": 2, "b": None} for k in range(30))
    assert table.snapshots()[0].properties["note"] == "x"
    assert not table.commit_append(messages, "stream", 0).committed


def test_discarded_messages_leave_no_files(tmp_path: Path) -> None:
    table = create(tmp_path)
    writer = table.new_writer(["k"])
    writer.write(keyed([1]))
    messages = writer.finish()
    assert len(data_files(table)) == 1
    table.discard(messages)
    assert data_files(table) == set()


def test_columns_of_a_task_are_checked_before_it_starts(tmp_path: Path) -> None:
    table = create(
        tmp_path,
        {"merge-engine": "partial-update", "fields.g.sequence-group": "a,b"},
        columns=[*COLUMNS, pa.field("g", pa.int64())],
    )
    fields = {"k": pa.int64(), "a": pa.int64(), "b": pa.string(), "g": pa.int64()}

    def check(**given: pa.DataType) -> None:
        table.check_write_columns(pa.schema(list(given.items())))

    check(**fields)
    check(k=pa.int32())
    check(**fields, _row_kind=pa.string())
    with pytest.raises(wt.InvalidError, match="b"):
        check(k=pa.int64(), g=pa.int64(), a=pa.int64())
    with pytest.raises(wt.InvalidError, match="g"):
        check(k=pa.int64(), a=pa.int64())
    with pytest.raises(wt.InvalidError, match="'k'"):
        check(k=pa.string())
    with pytest.raises(wt.InvalidError, match="'k'"):
        check(a=pa.int64())


# Overwrite


def partitioned(folder: Path, options: Mapping[str, str] | None = None) -> wt.Table:
    table = create(
        folder,
        options,
        columns=[pa.field("p", pa.int64(), False), *COLUMNS],
        key=["p", "k"],
        partition_by=["p"],
    )
    table.write(keyed([1, 2, 3], p=[1, 1, 2], a=[0, 0, 0]))
    return table


def test_overwrite_replaces_the_partitions_of_the_data(tmp_path: Path) -> None:
    table = partitioned(tmp_path)
    result = table.overwrite(keyed([9], p=[1]))
    assert result.kind == "OVERWRITE"
    assert [(row["p"], row["k"]) for row in rows(table)] == [(1, 9), (2, 3)]


def test_overwrite_of_the_whole_table(tmp_path: Path) -> None:
    table = partitioned(tmp_path)
    table.overwrite(keyed([9], p=[1]), whole_table=True)
    assert [(row["p"], row["k"]) for row in rows(table)] == [(1, 9)]


def test_overwrite_without_dynamic_partitions(tmp_path: Path) -> None:
    table = partitioned(tmp_path, {"dynamic-partition-overwrite": "false"})
    table.overwrite(keyed([9], p=[1]))
    assert [(row["p"], row["k"]) for row in rows(table)] == [(1, 9)]


def test_overwrite_of_a_table_without_partitions(tmp_path: Path) -> None:
    table = create(tmp_path)
    table.write(keyed([1, 2]))
    assert table.overwrite(keyed([7]), "stream", 0).committed
    assert not table.overwrite(keyed([8]), "stream", 0).committed
    assert [row["k"] for row in rows(table)] == [7]


# Compaction


def test_appends_compact_what_they_touched(tmp_path: Path) -> None:
    table = create(tmp_path, {"num-sorted-run.compaction-trigger": "3"})
    for commit in range(7):
        table.write(keyed([1, commit]))
    kinds = [snapshot.commit_kind for snapshot in table.snapshots()]
    assert "COMPACT" in kinds
    (split,) = table.scan().splits()
    assert len(split.files) < 4


def test_appends_leave_other_buckets_alone(tmp_path: Path) -> None:
    options = {"num-sorted-run.compaction-trigger": "3", "write-only": "true"}
    table = partitioned(tmp_path, options)
    for commit in range(4):
        table.write(keyed([1, 2, 3, commit], p=[1, 1, 2, 2]))
    wt.Catalog(str(tmp_path)).alter_table("db.t", remove_options=["write-only"])
    table.write(keyed([9], p=[1]))
    levels = [{file.level for file in split.files} for split in table.scan().splits()]
    assert [0 in each for each in levels] == [False, True]


def test_write_only_tables_are_compacted_on_request(tmp_path: Path) -> None:
    table = create(tmp_path, {"num-sorted-run.compaction-trigger": "3", "write-only": "true"})
    for commit in range(7):
        table.write(keyed([1, commit]))
    assert {s.commit_kind for s in table.snapshots()} == {"APPEND"}
    before = rows(table)
    result = table.compact()
    assert (result.committed, result.kind, result.snapshot_id) == (True, "COMPACT", 8)
    assert rows(table) == before
    table.compact(full=True)
    assert rows(table) == before
    assert not table.compact(full=True).committed


def test_another_compactors_lease_is_respected_by_appends_only(tmp_path: Path) -> None:
    table = create(tmp_path, {"num-sorted-run.compaction-trigger": "2"})
    lease = try_lease(LocalFileIO(fsync=False), TablePaths(table.path), "somebody", 60_000)
    assert lease is not None
    for commit in range(4):
        table.write(keyed([commit]))
    assert {s.commit_kind for s in table.snapshots()} == {"APPEND"}
    assert table.compact().committed
    lease.release()


def test_a_failing_compaction_does_not_fail_the_append(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = create(tmp_path, {"num-sorted-run.compaction-trigger": "2"}).path
    file_io = FaultyFileIO(LocalFileIO(fsync=False))
    table = wt.Table.open(path, file_io=file_io)
    table.write(keyed([1]))
    file_io.fail("publish", Fault.BEFORE, "compaction-lease")
    with caplog.at_level(logging.WARNING, logger="widetable"):
        assert table.write(keyed([2])).committed
    assert "compaction" in caplog.text
    assert [row["k"] for row in rows(table)] == [1, 2]


# Snapshots, times and tags


def test_every_snapshot_can_be_read(tmp_path: Path) -> None:
    table = create(tmp_path)
    times = []
    for commit in range(3):
        table.write(keyed([commit]))
        times.append(table.snapshots()[-1].time_millis)
        time.sleep(0.002)
    assert [snapshot.id for snapshot in table.snapshots()] == [1, 2, 3]
    for index in range(3):
        assert len(rows(table, snapshot_id=index + 1)) == index + 1
        assert len(rows(table, timestamp=times[index])) == index + 1
        moment = dt.datetime.fromtimestamp(times[index] / 1000, dt.timezone.utc)
        assert len(rows(table, timestamp=moment)) == index + 1
    assert len(rows(table, timestamp=times[-1] + 10**9)) == 3


@pytest.mark.parametrize(
    ("choice", "says"),
    [
        ({"snapshot_id": 3}, "from 1 to 2"),
        ({"snapshot_id": 0}, "from 1 to 2"),
        ({"tag": "nope"}, "v1"),
        ({"timestamp": 5}, "snapshot 1"),
    ],
)
def test_what_is_not_there_says_what_is(tmp_path: Path, choice: dict[str, Any], says: str) -> None:
    table = create(tmp_path)
    table.write(keyed([1]))
    table.write(keyed([2]))
    table.create_tag("v1", 1)
    with pytest.raises(wt.NotFoundError, match=says):
        table.scan(**choice)


@pytest.mark.parametrize(
    "choice",
    [
        {"snapshot_id": 1, "tag": "v1"},
        {"snapshot_id": "1"},
        {"snapshot_id": True},
        {"timestamp": "yesterday"},
    ],
)
def test_a_choice_that_is_none_is_refused(tmp_path: Path, choice: dict[str, Any]) -> None:
    table = create(tmp_path)
    with pytest.raises(wt.InvalidError):
        table.scan(**choice)


def test_tags_keep_snapshots_by_name(tmp_path: Path) -> None:
    table = create(tmp_path)
    table.write(keyed([1]))
    table.create_tag("first")
    table.create_tag("first", 1)
    table.write(keyed([2]))
    table.create_tag("second")
    assert {name: snapshot.id for name, snapshot in table.tags().items()} == {
        "first": 1,
        "second": 2,
    }
    assert [row["k"] for row in rows(table, tag="first")] == [1]
    # A tag is read without its snapshot's own file.
    Path(table.path, "snapshot/snapshot-1").unlink()
    assert [row["k"] for row in rows(table, tag="first")] == [1]
    with pytest.raises(wt.InvalidError, match="first"):
        table.create_tag("first", 2)
    table.delete_tag("first")
    assert list(table.tags()) == ["second"]
    with pytest.raises(wt.NotFoundError, match="second"):
        table.delete_tag("first")


@pytest.mark.parametrize("name", ["", " ", "7", "a/b", "../x"])
def test_names_that_no_tag_may_have(tmp_path: Path, name: str) -> None:
    table = create(tmp_path)
    table.write(keyed([1]))
    with pytest.raises(wt.InvalidError, match="tag"):
        table.create_tag(name)


def test_a_table_without_snapshots_has_nothing_to_tag(tmp_path: Path) -> None:
    with pytest.raises(wt.NotFoundError, match="none yet"):
        create(tmp_path).create_tag("first")


# Opening and travelling


def test_a_table_opens_by_path_and_url(tmp_path: Path) -> None:
    table = create(tmp_path)
    table.write(keyed([1]))
    for where in (table.path, f"file://{table.path}", table.path + "/"):
        assert wt.Table.open(where).path == table.path
        assert rows(wt.Table.open(where)) == rows(table)


def test_a_table_travels_to_other_processes(tmp_path: Path) -> None:
    table = create(tmp_path)
    table.write(keyed([1]))
    there = pickle.loads(pickle.dumps(table))
    there.write(keyed([2]))
    assert rows(table) == rows(there)
    assert len(rows(table)) == 2


def test_a_change_of_schema_is_seen_by_open_tables(tmp_path: Path) -> None:
    table = create(tmp_path)
    wt.Catalog(str(tmp_path)).alter_table("db.t", add_columns=[pa.field("c", pa.int32())])
    assert table.arrow_schema.names == ["k", "a", "b", "c"]
    table.write(keyed([1], c=pa.array([7], pa.int32())))
    assert rows(table)[0]["c"] == 7
