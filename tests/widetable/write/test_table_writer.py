"""The writer: rows arrive in the right buckets and files whatever the budget, and nothing is left after an error."""

from __future__ import annotations

import datetime
import gc
import pickle
import tempfile
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from tests.support.faults.faults import Fault, FaultyFileIO
from tests.support.models.model import Record
from tests.support.tables.table_files import TableFiles, user_batch
from widetable.errors import InvalidError, StorageError, UnsupportedError
from widetable.format.binary_row import EMPTY_ROW, decode_row
from widetable.format.bucket_hash import bucket_ids
from widetable.format.data_file_meta import FILE_SOURCE_APPEND
from widetable.schema.new_schema import new_schema
from widetable.schema.table_schema import SEQUENCE_NUMBER
from widetable.storage.local import LocalFileIO
from widetable.write import commit_message
from widetable.write.commit_message import CommitMessage

ARROW = pa.schema([("k", pa.int64()), ("a", pa.int64()), ("b", pa.string()), ("c", pa.float64())])


def make(root: Path, options: dict[str, str] | None = None) -> TableFiles:
    chosen = {"merge-engine": "partial-update", "widetable.fsync": "false", **(options or {})}
    return TableFiles(root, new_schema(ARROW, primary_key=["k"], options=chosen))


def adds(keys: range, shift: int = 0) -> list[Record]:
    return [("+I", {"k": k, "a": k + shift, "b": f"text {k}"}) for k in keys]


@pytest.fixture
def spills(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The directory in which writers make their spill spaces."""
    path = tmp_path / "spills"
    path.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(path))
    return path


def test_every_row_is_in_the_file_of_its_bucket(tmp_path: Path) -> None:
    table = make(tmp_path, {"bucket": "4"})
    messages = table.write(["k", "a"], adds(range(1000)))
    assert [m.bucket for m in messages] == [0, 1, 2, 3]
    for message in messages:
        assert (message.partition, message.total_buckets) == (EMPTY_ROW, 4)
        (file,) = message.new_files
        assert (file.level, file.file_source) == (0, FILE_SOURCE_APPEND)
        for batch in table.batches(message.bucket_id, file):
            assert set(bucket_ids(batch, table.schema).tolist()) == {message.bucket}
    table.check()
    assert [row["k"] for row in table.rows()] == list(range(1000))


def test_files_are_narrow_or_hold_all_columns(tmp_path: Path) -> None:
    for option, columns in (("written", ["k", "a"]), ("all", ["k", "a", "b", "c"])):
        table = make(tmp_path / option, {"widetable.level0-columns": option})
        table.write(["k", "a"], [("+I", {"k": 1, "a": 1})])
        ((key, (file,)),) = table.buckets.items()
        assert table.batches(key, file)[0].schema.names[2:] == columns
        table.check()


def test_partitions_are_directories(tmp_path: Path) -> None:
    arrow = pa.schema(
        [("dt", pa.date32()), ("r", pa.string()), ("k", pa.int64()), ("a", pa.int64())]
    )
    schema = new_schema(
        arrow, primary_key=["k", "r", "dt"], partition_by=["dt", "r"], options={"bucket": "2"}
    )
    table = TableFiles(tmp_path, schema)
    days = [datetime.date(2024, 2, 29), datetime.date(1969, 12, 31)]
    rows: list[Record] = [
        ("+I", {"dt": days[k % 2], "r": "a/b" if k % 3 else " ", "k": k, "a": k})
        for k in range(100)
    ]
    table.write(["dt", "r", "k", "a"], rows)
    directories = {str(p.parent.parent.relative_to(tmp_path)) for p in tmp_path.rglob("*.parquet")}
    texts = ("a%2Fb", "__DEFAULT_PARTITION__")
    assert directories == {f"dt={day}/r={text}" for day in (19782, -1) for text in texts}
    types = [schema.field(name).type for name in ("dt", "r")]
    found = {decode_row(partition, types) for partition, _ in table.buckets}
    assert found == {(day, text) for day in (19782, -1) for text in (b"a/b", b" ")}
    table.check()
    assert sorted(row["k"] for row in table.rows()) == list(range(100))


def test_rows_of_a_commit_are_collapsed_and_numbers_show_the_first(tmp_path: Path) -> None:
    table = make(tmp_path)
    table.write(["k", "a", "b"], [*adds(range(10)), ("+I", {"k": 3, "a": None, "b": "new"})])
    ((key, (file,)),) = table.buckets.items()
    assert file.row_count == 10
    (batch,) = table.batches(key, file)
    row = batch.slice(3, 1).to_pylist()[0]
    assert (row["a"], row["b"], row[SEQUENCE_NUMBER]) == (3, "new", 4)


@pytest.mark.parametrize(("budget", "rows"), [("1kb", 50), ("64kb", 3000), ("1mb", 20_000)])
@pytest.mark.parametrize("buckets", ["1", "5"])
def test_rows_do_not_depend_on_the_budget(
    tmp_path: Path, spills: Path, budget: str, rows: int, buckets: str
) -> None:
    table = make(tmp_path / "t", {"write-buffer-size": budget, "bucket": buckets})
    writer = table.writer(["k", "a", "b"])
    writer.write(user_batch(table.schema, ["k", "a", "b"], adds(range(rows))))
    again = adds(range(0, rows, 2), shift=7)
    writer.write(user_batch(table.schema, ["k", "a", "b"], again))
    assert list(spills.iterdir()) != []
    table.apply(writer.finish())
    assert list(spills.iterdir()) == []
    table.check()
    found = table.rows()
    assert len(found) == rows
    assert all(row["a"] == row["k"] + (7 if row["k"] % 2 == 0 else 0) for row in found)


def test_spilled_rows_of_one_bucket_are_merged_into_one_run(tmp_path: Path, spills: Path) -> None:
    table = make(tmp_path / "t", {"write-buffer-size": "1mb"})
    for_keys = [adds(range(5000), shift) for shift in range(5)]
    table.write(["k", "a", "b"], [record for part in for_keys for record in part], batch_rows=1000)
    ((_, files),) = table.buckets.items()
    assert [file.row_count for file in files] == [5000]


def test_a_removal_in_another_spill_is_not_forgotten(tmp_path: Path, spills: Path) -> None:
    """A -D and the +I after it stay apart, also when each was spilled by itself (decision 0003)."""
    options = {"partial-update.remove-record-on-delete": "true", "write-buffer-size": "1kb"}
    table = make(tmp_path / "t", options)
    table.write(["k", "a", "b"], [("+I", {"k": 1, "a": 1, "b": "old"})])
    table.write(["k", "a", "b"], [("-D", {"k": 1}), ("+I", {"k": 1, "a": 2})], batch_rows=1)
    assert [(row["a"], row["b"]) for row in table.rows()] == [(2, None)]


def test_layers_of_one_batch_are_files_of_their_own(tmp_path: Path) -> None:
    table = make(tmp_path, {"partial-update.remove-record-on-delete": "true"})
    (message,) = table.write(["k", "a", "b"], [("-D", {"k": 1}), ("+I", {"k": 1, "a": 2})])
    assert [(f.row_count, f.delete_row_count) for f in message.new_files] == [(1, 1), (1, 0)]


def test_a_file_is_closed_at_the_target_size(tmp_path: Path) -> None:
    table = make(tmp_path, {"target-file-size": "100kb"})
    (message,) = table.write(["k", "a", "b"], adds(range(60_000)), batch_rows=60_000)
    assert len(message.new_files) > 2
    table.check()
    assert len(table.rows()) == 60_000


def test_small_batches_are_joined(tmp_path: Path) -> None:
    table = make(tmp_path)
    table.write(["k", "a", "b"], adds(range(500)), batch_rows=1)
    assert [row["k"] for row in table.rows()] == list(range(500))


def test_no_rows_give_no_message_and_no_file(tmp_path: Path) -> None:
    table = make(tmp_path, {"ignore-delete": "true"})
    assert table.write(["k", "a"], [("-D", {"k": 1, "a": 1})]) == []
    assert table.write(["k", "a"], []) == []
    assert table.names_on_disk() == set()


@pytest.mark.parametrize("operation", ["open_output", "sync"])
@pytest.mark.parametrize("skip", [0, 1, 2])
def test_a_full_disk_leaves_nothing_behind(
    tmp_path: Path, spills: Path, operation: str, skip: int
) -> None:
    file_io = FaultyFileIO(LocalFileIO(fsync=False))
    table = make(tmp_path / "t", {"bucket": "4", "write-buffer-size": "64kb"})
    table.file_io = file_io
    writer = table.writer(["k", "a", "b"])
    writer.write(user_batch(table.schema, ["k", "a", "b"], adds(range(1000))))
    file_io.fail(operation, Fault.FULL, skip=skip)
    with pytest.raises(StorageError):
        writer.finish()
    assert table.names_on_disk() == set()
    assert list(spills.iterdir()) == []


def test_a_spill_that_cannot_be_written_is_a_storage_error(tmp_path: Path, spills: Path) -> None:
    table = make(tmp_path / "t", {"write-buffer-size": "1kb"})
    writer = table.writer(["k", "a", "b"])
    spills.rmdir()
    with pytest.raises(StorageError, match="TMPDIR"):
        writer.write(user_batch(table.schema, ["k", "a", "b"], adds(range(10))))
    assert table.names_on_disk() == set()


def test_a_refused_batch_aborts_the_writer(tmp_path: Path, spills: Path) -> None:
    table = make(tmp_path / "t", {"write-buffer-size": "1kb"})
    writer = table.writer(["k", "a", "b"])
    right = user_batch(table.schema, ["k", "a", "b"], adds(range(10)))
    writer.write(right)
    with pytest.raises(InvalidError):
        writer.write(right.drop_columns(["a"]))
    assert list(spills.iterdir()) == []
    for use in (lambda: writer.write(right), writer.finish):
        with pytest.raises(InvalidError, match="finished or aborted"):
            use()


def test_abort_after_finish_deletes_the_files(tmp_path: Path) -> None:
    table = make(tmp_path, {"bucket": "3"})
    writer = table.writer(["k", "a", "b"])
    writer.write(user_batch(table.schema, ["k", "a", "b"], adds(range(100))))
    assert len(writer.finish()) == len(table.names_on_disk()) == 3
    writer.abort()
    writer.abort()
    assert table.names_on_disk() == set()


def test_a_writer_that_is_left_aborts(tmp_path: Path, spills: Path) -> None:
    table = make(tmp_path / "t", {"write-buffer-size": "1kb"})
    right = user_batch(table.schema, ["k", "a", "b"], adds(range(10)))
    with table.writer(["k", "a", "b"]) as writer:
        writer.write(right)
        assert list(spills.iterdir()) != []
    assert list(spills.iterdir()) == []
    forgotten = table.writer(["k", "a", "b"])
    forgotten.write(right)
    del writer, forgotten
    gc.collect()
    assert list(spills.iterdir()) == []


def test_a_context_that_finished_keeps_its_files(tmp_path: Path) -> None:
    table = make(tmp_path)
    with table.writer(["k", "a", "b"]) as writer:
        writer.write(user_batch(table.schema, ["k", "a", "b"], adds(range(10))))
        table.apply(writer.finish())
    assert len(table.rows()) == 10


def test_memory_is_given_back_when_the_largest_bucket_is_spilled(
    tmp_path: Path, spills: Path
) -> None:
    """The rows of a bucket do not pin those of its neighbours."""
    table = make(tmp_path / "t", {"write-buffer-size": "3mb", "bucket": "50"})
    writer = table.writer(["k", "a", "b"])
    before, highest = pa.total_allocated_bytes(), 0
    for start in range(0, 60_000, 5000):
        rows = user_batch(table.schema, ["k", "a", "b"], adds(range(start, start + 5000)))
        writer.write(rows)
        highest = max(highest, pa.total_allocated_bytes() - before)
    writer.abort()
    assert highest < 3 << 20


def test_messages_are_pickled_with_their_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = make(tmp_path)
    (message,) = table.write(["k", "a"], adds(range(3)))
    assert pickle.loads(pickle.dumps(message)) == message
    whole = replace(message, changelog_files=message.new_files)
    assert pickle.loads(pickle.dumps(whole)) == whole
    data = pickle.dumps(message)
    monkeypatch.setattr(commit_message, "MESSAGE_VERSION", commit_message.MESSAGE_VERSION + 1)
    with pytest.raises(UnsupportedError):
        pickle.loads(data)


def test_written_files_are_not_those_that_were_moved(tmp_path: Path) -> None:
    table = make(tmp_path)
    (one,) = table.write(["k", "a"], adds(range(3)))[0].new_files
    (two,) = table.write(["k", "a"], adds(range(3)))[0].new_files
    message = CommitMessage(EMPTY_ROW, 0, 1, compact_before=(one,), compact_after=(one, two))
    assert message.written_files() == (two,)
    assert not message.is_empty
    assert CommitMessage(EMPTY_ROW, 0, 1).is_empty
