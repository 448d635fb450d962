"""Copies of level-0 files with later numbers: everything else stays as it is."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa
import pytest

import widetable as wt
from tests.support.faults.faults import Fault, FaultyFileIO
from widetable.errors import InvalidError, StorageError
from widetable.schema.table_schema import SEQUENCE_NUMBER
from widetable.storage.local import LocalFileIO
from widetable.write.commit_message import CommitMessage
from widetable.write.renumbering import renumbered

DISTANCE = 1_000_000
SCHEMA = pa.schema(
    [("k", pa.int64()), ("t", pa.string()), ("at", pa.timestamp("ns")), ("l", pa.list_(pa.int32()))]
)
ROWS = pa.table(
    {
        "k": list(range(50)),
        "t": [None if n % 3 == 0 else f"text {n}" for n in range(50)],
        "at": pa.array([n * 1_001 for n in range(50)], pa.timestamp("ns")),
        "l": [[n, None] if n % 2 else None for n in range(50)],
        "_row_kind": ["-D" if n % 7 == 0 else "+I" for n in range(50)],
    },
    SCHEMA.append(pa.field("_row_kind", pa.string())),
)


def made(tmp_path: Path, options: Mapping[str, str], file_io: FaultyFileIO) -> wt.Table:
    catalog = wt.Catalog(str(tmp_path), file_io=file_io)
    return catalog.create_table("db.t", SCHEMA, primary_key=["k"], options=options)


def stored(table: wt.Table, message: CommitMessage) -> list[pa.RecordBatch]:
    state = table._state()
    found: list[pa.RecordBatch] = []
    for file in message.new_files:
        with state.opened(message.bucket_id, file) as data:
            found += data.batches()
    return found


def data_files(table: wt.Table) -> set[str]:
    return {path.name for path in Path(table.path).glob("bucket-*/*")}


def number_of(rows: pa.RecordBatch) -> list[int]:
    numbers: list[int] = rows.column(SEQUENCE_NUMBER).to_pylist()
    return numbers


@pytest.mark.parametrize("options", [{}, {"widetable.level0-columns": "all"}])
def test_only_the_numbers_move(tmp_path: Path, options: dict[str, str]) -> None:
    table = made(tmp_path, options, FaultyFileIO(LocalFileIO(fsync=False)))
    with table.new_writer(ROWS.column_names) as writer:
        writer.write(ROWS)
        [message] = writer.finish()
    [copy] = renumbered(table._state(), [message], {message.bucket_id}, DISTANCE)
    [before], [after] = stored(table, message), stored(table, copy)
    assert number_of(after) == [number + DISTANCE for number in number_of(before)]
    assert after.drop_columns(SEQUENCE_NUMBER).equals(before.drop_columns(SEQUENCE_NUMBER))
    [old], [new] = message.new_files, copy.new_files
    assert new.file_name != old.file_name
    assert (
        new._replace(
            file_name=old.file_name,
            file_size=old.file_size,
            creation_time_millis=old.creation_time_millis,
            min_sequence_number=new.min_sequence_number - DISTANCE,
            max_sequence_number=new.max_sequence_number - DISTANCE,
        )
        == old
    )
    assert copy.columns == message.columns


def test_other_buckets_keep_their_files(tmp_path: Path) -> None:
    table = made(tmp_path, {"bucket": "2"}, FaultyFileIO(LocalFileIO(fsync=False)))
    with table.new_writer(ROWS.column_names) as writer:
        writer.write(ROWS)
        one, other = writer.finish()
    moved = renumbered(table._state(), [one, other], {other.bucket_id}, DISTANCE)
    assert moved[0] is one
    assert moved[1].new_files != other.new_files


def test_a_failure_leaves_the_given_files_alone(tmp_path: Path) -> None:
    file_io = FaultyFileIO(LocalFileIO(fsync=False))
    table = made(tmp_path, {"bucket": "2"}, file_io)
    with table.new_writer(ROWS.column_names) as writer:
        writer.write(ROWS)
        messages = writer.finish()
    before = data_files(table)
    file_io.fail("open_output", Fault.BEFORE, "/data-", skip=1)
    with pytest.raises(StorageError):
        renumbered(table._state(), messages, {m.bucket_id for m in messages}, DISTANCE)
    assert data_files(table) == before


def test_numbers_that_would_pass_the_largest_one_are_refused(tmp_path: Path) -> None:
    table = made(tmp_path, {}, FaultyFileIO(LocalFileIO(fsync=False)))
    with table.new_writer(ROWS.column_names) as writer:
        writer.write(ROWS)
        messages = writer.finish()
    with pytest.raises(InvalidError, match=r"numbers up to 2\^63 - 1"):
        renumbered(table._state(), messages, {m.bucket_id for m in messages}, 1 << 63)
