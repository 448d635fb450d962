"""A table's data files without snapshots: what writers and compactions leave, read back and checked.

Commits are done by taking the messages' files as they are, so a test may compact any pick at any time.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa

from tests.support.models.model import Record, Row, ordered
from tests.support.models.plain_rows import python_rows, python_values
from widetable.format.binary_row import encode_rows, with_arity
from widetable.format.bucket_id import BucketId
from widetable.format.data_file_meta import DataFileMeta
from widetable.format.data_file_reader import open_data_file
from widetable.format.projection import Projection
from widetable.format.row_batch import in_schema_order
from widetable.format.row_budget import BATCH_BYTES
from widetable.lsm.sorted_run import key_types, sections, sort_key
from widetable.merge.sorted_merge import merge_runs
from widetable.schema import options as opt
from widetable.schema.row_kind import is_retraction
from widetable.schema.table_schema import ROW_KIND_COLUMN, SEQUENCE_NUMBER, VALUE_KIND, TableSchema
from widetable.storage.file_io import FileIO
from widetable.storage.local import LocalFileIO
from widetable.storage.paths import TablePaths
from widetable.write.commit_message import CommitMessage
from widetable.write.owned_columns import owned_columns
from widetable.write.sequence import SequenceAllocator
from widetable.write.table_state import TableState
from widetable.write.table_writer import TableWriter


def with_more_options(schema: TableSchema, options: Mapping[str, str]) -> TableSchema:
    return replace(schema, options={**schema.options, **options})


def user_batch(
    schema: TableSchema, columns: Sequence[str], records: Sequence[Record]
) -> pa.RecordBatch:
    """Records as a user gives them: table columns and a column of row kinds."""
    arrow = schema.arrow_schema(columns)
    arrays = [pa.array([row.get(f.name) for _, row in records], f.type) for f in arrow]
    kinds = pa.array([kind for kind, _ in records], pa.string())
    return pa.RecordBatch.from_arrays([*arrays, kinds], [*columns, ROW_KIND_COLUMN])


@dataclass
class TableFiles:
    """buckets: the live files of each bucket. written: the columns that any writer had."""

    root: Path
    schema: TableSchema
    file_io: FileIO = field(default_factory=lambda: LocalFileIO(fsync=False))
    buckets: dict[BucketId, list[DataFileMeta]] = field(default_factory=dict)
    next_number: int = 1
    written: set[str] = field(default_factory=set)

    @property
    def state(self) -> TableState:
        return TableState(
            self.file_io, TablePaths(str(self.root)), self.schema, lambda _: self.schema
        )

    def writer(self, columns: Sequence[str]) -> TableWriter:
        """A writer whose numbers come after all that were given out."""
        allocator = SequenceAllocator(self.next_number)
        self.next_number += 1 << 20
        self.written.update(columns)
        return TableWriter(
            self.state, owned_columns(self.schema, [*columns, ROW_KIND_COLUMN]), allocator
        )

    def write(
        self, columns: Sequence[str], records: Sequence[Record], batch_rows: int = 1000
    ) -> list[CommitMessage]:
        """One commit."""
        writer = self.writer(columns)
        for start in range(0, len(records), batch_rows):
            writer.write(user_batch(self.schema, columns, records[start : start + batch_rows]))
        messages = writer.finish()
        self.apply(messages)
        return messages

    def apply(self, messages: Sequence[CommitMessage]) -> None:
        for message in messages:
            live = self.buckets.setdefault(message.bucket_id, [])
            for gone in (*message.deleted_files, *message.compact_before):
                live.remove(gone)
            live.extend([*message.new_files, *message.compact_after])

    def rows(self) -> list[Row]:
        """Visible rows of all buckets, by primary key: every file merged when read."""
        found = [row for key in self.buckets for row in self.bucket_rows(key)]
        return sorted(found, key=lambda row: [ordered(row[k]) for k in self.schema.primary_keys])

    def bucket_rows(self, key: BucketId) -> Iterator[Row]:
        for section in sections(self.buckets[key], self.schema):
            runs = [(b for f in run.files for b in self.batches(key, f)) for run in section.runs]
            for batch in merge_runs(
                runs,
                self.schema,
                self.state.engine,
                self.schema.names,
                keep_deletes=False,
                batch_bytes=BATCH_BYTES,
            ):
                yield from python_rows(Projection(self.schema.arrow_schema()).of(batch))

    def batches(self, key: BucketId, file: DataFileMeta) -> list[pa.RecordBatch]:
        path = self.state.data_file(key, file.file_name)
        with open_data_file(self.file_io, path, file, self.schema, self.schema) as data:
            return list(data.batches())

    def check(self) -> None:
        """What every reader relies on (format.md T1 to T4): metadata is exact, keys are unique, levels are disjoint."""
        for key, files in self.buckets.items():
            for file in files:
                self._check_file(key, file)
            for level in {file.level for file in files} - {0}:
                self._check_disjoint([file for file in files if file.level == level])

    def _check_file(self, key: BucketId, file: DataFileMeta) -> None:
        batches = self.batches(key, file)
        table = pa.Table.from_batches(batches)
        assert table.num_rows == file.row_count > 0
        numbers = table[SEQUENCE_NUMBER].to_pylist()
        assert (min(numbers), max(numbers)) == (file.min_sequence_number, file.max_sequence_number)
        kinds = table[VALUE_KIND].to_numpy().astype(np.int8)
        assert int(is_retraction(kinds).sum()) == file.delete_row_count
        names = self.schema.trimmed_primary_key
        keys = [
            tuple(ordered(v) for v in row)
            for row in zip(*(python_values(table[n]) for n in names), strict=True)
        ]
        assert all(a < b for a, b in pairwise(keys))
        assert file.min_key == self._key_bytes(table.slice(0, 1))
        assert file.max_key == self._key_bytes(table.slice(table.num_rows - 1))
        assert self.file_io.size(self.state.data_file(key, file.file_name)) == file.file_size
        columns = tuple(table.column_names[2:])
        if self.state.options.get(opt.LEVEL0_COLUMNS) == "all":
            assert columns == self.schema.names
        else:
            assert columns == in_schema_order(self.schema, columns)
            assert self.written.issuperset(columns)
            assert set(self.schema.required_names).issubset(columns)

    def _key_bytes(self, row: pa.Table) -> bytes:
        columns = [row[name].combine_chunks() for name in self.schema.trimmed_primary_key]
        return with_arity(encode_rows(columns, key_types(self.schema)).row(0), len(columns))

    def _check_disjoint(self, level: Sequence[DataFileMeta]) -> None:
        types = key_types(self.schema)
        ranges = sorted((sort_key(f.min_key, types), sort_key(f.max_key, types)) for f in level)
        assert all(a[1] < b[0] for a, b in pairwise(ranges))

    def names_on_disk(self) -> set[str]:
        return {path.name for path in self.root.rglob("*") if path.is_file()}

    def live_names(self) -> set[str]:
        return {file.file_name for files in self.buckets.values() for file in files}
