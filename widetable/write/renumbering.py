"""Copies level-0 files with later sequence numbers, for a commit that was overtaken before it was published.

    before   base 100   rows 100, 103, 101        a published file of the bucket has 130
    after    base 200   rows 200, 203, 201        keys, values, kinds and order are unchanged

All numbers of a bucket grow by the same distance, so the rows of the commit keep their relative order. The copy
has the schema of its file, even if the table has a newer one. Files of append tables are not copied, as their numbers
are in manifests only. Memory: a batch of rows and the memory of the data file
writer. The original files are not changed: the caller may commit them again.

Raises InvalidError if the numbers would exceed 2^63 - 1, and what reading and writing data files raises; copies that
were begun are then removed.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc

from widetable.errors import InvalidError
from widetable.format.bucket_id import BucketId
from widetable.format.data_file_meta import FILE_SOURCE_APPEND, DataFileMeta
from widetable.format.data_file_writer import DataFileWriter
from widetable.schema import options as opt
from widetable.schema.table_schema import SEQUENCE_NUMBER
from widetable.storage.paths import new_file_name
from widetable.write.commit_message import CommitMessage
from widetable.write.discard import discard_files
from widetable.write.sequence import LARGEST
from widetable.write.table_state import TableState


def renumbered(
    state: TableState,
    messages: Sequence[CommitMessage],
    buckets: Collection[BucketId],
    distance: int,
) -> list[CommitMessage]:
    """Return the messages with copies of the new files of these buckets; other messages are returned as they are.

    distance: the number that is added to each sequence number.
    """
    written: list[tuple[BucketId, DataFileMeta]] = []
    moved: list[CommitMessage] = []
    try:
        for message in messages:
            if message.bucket_id not in buckets:
                moved.append(message)
                continue
            if not state.schema.has_key:
                later = tuple(_later(file, distance) for file in message.new_files)
                moved.append(replace(message, new_files=later))
                continue
            copies = []
            for file in message.new_files:
                copies.append(_copy(state, message.bucket_id, file, distance))
                written.append((message.bucket_id, copies[-1]))
            moved.append(replace(message, new_files=tuple(copies)))
    except BaseException:
        for bucket, file in written:
            discard_files(state, bucket, [file])
        raise
    return moved


def _later(file: DataFileMeta, distance: int) -> DataFileMeta:
    """Return the file of an append table with later numbers: only its meta has numbers."""
    _check_room(file, distance)
    return file._replace(
        min_sequence_number=file.min_sequence_number + distance,
        max_sequence_number=file.max_sequence_number + distance,
    )


def _copy(state: TableState, bucket: BucketId, file: DataFileMeta, distance: int) -> DataFileMeta:
    _check_room(file, distance)
    own = replace(state, schema=state.schema_of(file.schema_id))
    with own.opened(bucket, file) as data:
        writer = DataFileWriter(
            own.file_io,
            own.data_file(bucket, new_file_name("data", ".parquet")),
            own.schema,
            data.columns,
            own.options,
            key_columns=own.options.get(opt.LEVEL0_COLUMNS) == "all",
        )
        try:
            for rows in data.batches():
                writer.write(_moved(rows, distance))
            return writer.close(0, FILE_SOURCE_APPEND)
        except BaseException:
            writer.abort()
            raise


def _moved(rows: pa.RecordBatch, distance: int) -> pa.RecordBatch:
    place = rows.schema.get_field_index(SEQUENCE_NUMBER)
    numbers = pc.add_checked(rows.column(place), pa.scalar(distance, pa.int64()))
    return rows.set_column(place, rows.schema.field(place), numbers)


def _check_room(file: DataFileMeta, distance: int) -> None:
    if file.max_sequence_number + distance > LARGEST:
        raise InvalidError(
            "sequence numbers",
            found=f"rows that would be numbered {file.max_sequence_number + distance}",
            expected="numbers up to 2^63 - 1",
            action="Check the clock and the sequence numbers that other clients wrote to this table.",
        )
