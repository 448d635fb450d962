"""Laws of one data or changelog file: its rows are as its meta says.

In: manifest entries; out: findings. Each file is read once, batch by batch: only the key and the system columns, unless
all columns are requested. For a data file of bucket 1 of 4 the checks are:

    file         it decodes, and has the size and rows of its meta     the reader raises DamagedError
    file-meta    deletes, sequence numbers, first and last key         the meta is compared with the rows
    file-order   each key after the one before, across batches         not for changelogs
    row-bucket   each row's bucket key hashes to bucket 1 of 4         by the number of buckets in its entry
    file-index   no row is hidden from a filter by a file index        where the file has one

A file of an append table has no key and no order; `appended_file` has its laws.

Source: format.md sections 4, 7 and 10 (traps T1, T2). Raises StorageError when the storage refuses.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from widetable.errors import DamagedError, InvalidError, NotFoundError, UnsupportedError
from widetable.format.binary_row import encode_rows, with_arity
from widetable.format.bucket_hash import bucket_ids
from widetable.format.bucket_id import BucketId
from widetable.format.data_file_meta import DataFileMeta
from widetable.format.file_index.column_indexes import column_indexes, has_index
from widetable.format.file_index.indexed_values import indexed_values
from widetable.format.manifest_entry import ManifestEntry
from widetable.format.printed_value import printed_rows
from widetable.format.row_batch import column_or_nulls
from widetable.kernels.arrow_buffers import fixed_values
from widetable.kernels.key_lanes import key_lanes
from widetable.lsm.sorted_run import key_types
from widetable.messages.counted import counted
from widetable.operations.health.appended_file import AppendedRows
from widetable.operations.health.audit_report import Finding, Findings
from widetable.operations.health.snapshot_audit import partition_text
from widetable.read.expired import files_of
from widetable.schema.row_kind import is_retraction
from widetable.schema.table_schema import SEQUENCE_NUMBER, VALUE_KIND, TableSchema
from widetable.storage.paths import POSTPONED
from widetable.write.table_state import TableState

# The beginning of a finding that only says that a file's deletes are counted wrong, as pypaimon counts them.
DELETES: Final = "deletes"


class FileAudit:
    """Checks the files of entries, each file once. all_columns: decode all columns, not only those of the key."""

    def __init__(self, table: TableState, findings: Findings, *, all_columns: bool = False) -> None:
        self._table = table
        self._findings = findings
        self._all_columns = all_columns
        self._seen: set[tuple[BucketId, str]] = set()

    def check(self, entry: ManifestEntry, snapshot_id: int, *, is_changelog: bool) -> None:
        """Check one file. snapshot_id: a snapshot that names it."""
        identity = (entry.bucket_id, entry.file.file_name)
        if identity in self._seen:
            return
        self._seen.add(identity)
        if entry.file.external_path is not None:
            self._findings.skip("files outside of the table are not read")
            return
        self._findings.checked("file")
        one = _kind_of(self._table, entry)(
            self._table,
            self._findings,
            entry,
            snapshot_id,
            None if self._all_columns else self._table.schema.trimmed_primary_key,
            is_changelog,
        )
        try:
            with files_of(self._table, snapshot_id):
                one.run()
                one.check_index()
        except (UnsupportedError, InvalidError, NotFoundError) as error:
            self._findings.skip(f"some files are not read: {error.subject} is {error.found}")
        except DamagedError as error:
            one.find("file", error.expected, error.found)


@dataclass(frozen=True)
class _OneFile:
    table: TableState
    findings: Findings
    entry: ManifestEntry
    snapshot_id: int
    columns: Sequence[str] | None
    is_changelog: bool

    def run(self) -> None:
        meta = self.entry.file
        rows = deletes = 0
        numbers: list[int] = []
        first: pa.RecordBatch | None = None
        last: pa.RecordBatch | None = None
        for batch in self._batches(self.columns):
            if not batch.num_rows:
                continue
            rows += batch.num_rows
            deletes += int(is_retraction(_fixed(batch, VALUE_KIND, np.int8)).sum())
            of_batch = _fixed(batch, SEQUENCE_NUMBER, np.int64)
            numbers += [int(of_batch.min()), int(of_batch.max())]
            self._check_order(last, batch)
            self._check_bucket(batch)
            first, last = first or batch.slice(0, 1), batch.slice(batch.num_rows - 1)
        if first is None or last is None:
            self.find("file-meta", "at least one row", "no row")
            return
        facts = {
            DELETES: (meta.delete_row_count, deletes),
            "smallest sequence number": (meta.min_sequence_number, min(numbers)),
            "largest sequence number": (meta.max_sequence_number, max(numbers)),
            "first key": (meta.min_key, key_row(first, self.table.schema)),
            "last key": (meta.max_key, key_row(last, self.table.schema)),
        }
        for name, (recorded, actual) in facts.items():
            if recorded is None:  # a count that the writer did not give
                continue
            self.findings.checked("file-meta")
            if recorded != actual:
                texts = [v.hex() if isinstance(v, bytes) else str(v) for v in (recorded, actual)]
                self.find("file-meta", f"{name}: {texts[0]}, as its meta says", texts[1])

    def check_index(self) -> None:
        """Compare the file indexes, if there are any, with the rows."""
        table, entry, schema = self.table, self.entry, self.table.schema
        if not has_index(entry.file):
            return
        path = table.data_file(entry.bucket_id, entry.file.file_name)
        file_schema = table.schema_of(entry.file.schema_id)
        with column_indexes(table.file_io, path, entry.file, file_schema, schema.fields) as indexes:
            hidden, at = dict.fromkeys(indexes, 0), 0
            for batch in self._batches(list(indexes)) if indexes else ():
                for name, of_column in indexes.items():
                    column = column_or_nulls(batch, schema.arrow_field(name))
                    values = indexed_values(column, schema.field(name).type)
                    hidden[name] += sum(each.hidden_rows(values, at) for each in of_column)
                at += batch.num_rows
            self.findings.checked("file-index", at)
        for name, count in hidden.items():
            if count:
                finding = f"an index of {name!r} that hides {counted(count, 'value')}"
                self.find("file-index", "an index of the rows of its file", finding)

    def find(
        self, law: str, expected: str, actual: str, key: dict[str, object] | None = None
    ) -> None:
        entry = self.entry
        self.findings.add(
            Finding(
                law,
                self.snapshot_id,
                expected,
                actual,
                partition_text(entry.partition, self.table.schema),
                entry.bucket,
                entry.file.file_name,
                key,
            )
        )

    def _batches(self, columns: Sequence[str] | None) -> Iterator[pa.RecordBatch]:
        file: DataFileMeta = self.entry.file._replace(
            deleted=None
        )  # the meta counts deleted rows, too
        with self.table.opened(self.entry.bucket_id, file, columns) as data:
            yield from data.batches()

    def _check_order(self, last: pa.RecordBatch | None, batch: pa.RecordBatch) -> None:
        """Check that keys ascend. Changelogs are exempt, because they may emit a key more than once."""
        if self.is_changelog:
            return
        pieces = [batch] if last is None else [last, batch]
        columns = [
            pa.chunked_array([piece.column(name) for piece in pieces])
            for name in self.table.schema.trimmed_primary_key
        ]
        lanes = key_lanes(columns)
        self.findings.checked("file-order", batch.num_rows)
        wrong = np.flatnonzero(~ascends(lanes))
        if len(wrong):
            row = int(wrong[0]) + 1 - (last is not None)
            self.find(
                "file-order",
                "a larger key than that of the row before",
                f"a key that is not, and {len(wrong) - 1} more in {counted(batch.num_rows, 'row')}",
                self._key_of(batch, row),
            )

    def _check_bucket(self, batch: pa.RecordBatch) -> None:
        entry = self.entry
        if entry.total_buckets < 1:
            return
        buckets = bucket_ids(batch, self.table.schema, entry.total_buckets)
        self.findings.checked("row-bucket", batch.num_rows)
        wrong = np.flatnonzero(buckets != entry.bucket)
        if len(wrong):
            row = int(wrong[0])
            self.find(
                "row-bucket",
                f"rows of bucket {entry.bucket} of {entry.total_buckets}",
                f"{len(wrong)} others, the first of bucket {buckets[row]}",
                self._key_of(batch, row),
            )

    def _key_of(self, batch: pa.RecordBatch, row: int) -> dict[str, object]:
        return next(printed_rows(batch.select(self.table.schema.trimmed_primary_key).slice(row, 1)))


class _OneWaitingFile(_OneFile):
    """Checks a file of rows that wait for a bucket. Clients write them in any order, and without numbers."""

    def run(self) -> None:
        rows = sum(batch.num_rows for batch in self._batches(self.columns))
        self.findings.checked("file-meta")
        if rows != self.entry.file.row_count:
            recorded = f"{counted(self.entry.file.row_count, 'row')}, as its meta says"
            self.find("file-meta", recorded, counted(rows, "row"))


class _OneAppendedFile(_OneFile):
    """Checks a file of an append table, by the laws of `appended_file`."""

    def run(self) -> None:
        check = AppendedRows(self.table, self.entry)
        is_all = self.columns is None
        columns = None if is_all else check.columns or self.table.schema.names[:1]
        rows = 0
        for batch in self._batches(columns):
            check.add(batch)
            rows += batch.num_rows
        self.findings.checked("file-bounds", rows)
        if self.entry.total_buckets > 0:
            self.findings.checked("row-bucket", rows)
        for breach in check.breaches():
            self.find(*breach)


def _kind_of(table: TableState, entry: ManifestEntry) -> type[_OneFile]:
    if not table.schema.has_key:
        return _OneAppendedFile
    return _OneWaitingFile if entry.bucket == POSTPONED else _OneFile


def _fixed(batch: pa.RecordBatch, name: str, kind: type[np.generic]) -> npt.NDArray[Any]:
    return fixed_values(batch.column(name), np.dtype(kind))


def key_row(row: pa.RecordBatch, schema: TableSchema) -> bytes:
    """Return the key of a batch of one row in the form of a file's meta: a BinaryRow with its arity in front."""
    columns = [row.column(name) for name in schema.trimmed_primary_key]
    return with_arity(encode_rows(columns, key_types(schema)).row(0), len(columns))


def ascends(lanes: npt.NDArray[np.uint64]) -> npt.NDArray[np.bool_]:
    """Return bool[n - 1]: whether each row is greater than the one before it."""
    before, after = lanes[:-1], lanes[1:]
    is_greater = np.zeros(len(before), np.bool_)
    is_tied = np.ones(len(before), np.bool_)
    for lane in range(lanes.shape[1]):
        is_greater |= is_tied & (before[:, lane] < after[:, lane])
        is_tied &= before[:, lane] == after[:, lane]
    return is_greater
