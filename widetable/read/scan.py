"""A scan: one snapshot of a table, some columns, a filter. Planned when it is first read, and then
fixed.

The schema is the table's newest for the newest snapshot, and the snapshot's own for a snapshot
chosen by id, time or tag. Rows come in the order of partition values, bucket and key. Raises
NotFoundError for a column that is not there, what `scan_plan` and `merge_read` raise, and nothing
else.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import pyarrow as pa

from widetable.commit.live_files import LiveFiles
from widetable.derived_value import derived_value
from widetable.format.snapshot import Snapshot
from widetable.read.predicate import Predicate
from widetable.read.scan_plan import plan
from widetable.read.split import Split, SplitRead
from widetable.worker_thread import in_threads
from widetable.write.table_state import TableState

_THREADS: Final = 2


class TableScan:
    """Made by `Table.scan`."""

    __module__ = "widetable"

    def __init__(
        self,
        table: TableState,
        live_files: LiveFiles,
        snapshot: Snapshot | None,
        columns: Sequence[str] | None,
        predicate: Predicate | None,
        *,
        rescaled: bool,
    ) -> None:
        schema = table.schema
        self._table = table
        self._live_files = live_files
        self._snapshot = snapshot
        self._columns = schema.chosen(columns)
        self._predicate = predicate
        self._rescaled = rescaled

    @property
    def arrow_schema(self) -> pa.Schema:
        """Columns, types and nullability of the rows."""
        return self._table.schema.arrow_schema(self._columns)

    @property
    def snapshot_id(self) -> int | None:
        """The snapshot that is read, None for a table without one."""
        return None if self._snapshot is None else self._snapshot.id

    def splits(self) -> list[Split]:
        """The buckets that have to be read, with their files."""
        return list(self._splits)

    @derived_value
    def _splits(self) -> list[Split]:
        return plan(
            self._live_files,
            self._snapshot,
            self._table.schema,
            self._predicate,
            rescaled=self._rescaled,
        )

    def split_reads(self) -> list[SplitRead]:
        """One reader per split, to be read anywhere; together they give the rows of the scan."""
        return [
            SplitRead(self._table, split, self._columns, self._predicate) for split in self._splits
        ]

    def to_batches(self) -> Iterator[pa.RecordBatch]:
        """The rows batch by batch, in bounded memory."""
        for read in self.split_reads():
            yield from read.to_batches(use_threads=True)

    def to_arrow(self) -> pa.Table:
        """All rows. Splits are read by two threads."""
        reads = self.split_reads()
        if len(reads) < 2:
            batches = [batch for read in reads for batch in read.to_batches(use_threads=True)]
        else:
            found = in_threads(lambda read: list(read.to_batches()), reads, _THREADS, "scan")
            batches = [batch for part in found for batch in part]
        return pa.Table.from_batches(batches, self.arrow_schema)
