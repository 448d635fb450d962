"""A scan: one snapshot of a table, some columns, a filter. It is planned at the first read, and does not change
afterwards.

The schema is the table's newest for the newest snapshot, and the snapshot's own for a snapshot
chosen by id, time or tag. Rows come in the order of partition values, bucket and key. Raises
NotFoundError for a column that does not exist, and what `arrow_rows`, `scan_plan` and `merge_read` raise.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from copy import copy
from itertools import chain
from typing import Any, Final

import pyarrow as pa

from widetable.arguments import whole_number
from widetable.commit.snapshots.live_files import LiveFiles
from widetable.errors import WidetableError
from widetable.format.html_facts import html_facts, html_rows
from widetable.format.snapshot import Snapshot
from widetable.messages.counted import counted
from widetable.read.arrow_rows import ArrowRows, limited
from widetable.read.barrier_view import BarrierView
from widetable.read.expired import checked_identity
from widetable.read.indexed.indexed_splits import without_unindexed_files
from widetable.read.loosened import loosened
from widetable.read.predicate import Predicate
from widetable.read.scan_plan import plan
from widetable.read.split import Split, SplitRead
from widetable.runtime.derived_value import derived_value
from widetable.runtime.worker_thread import in_threads
from widetable.write.table_state import TableState

# The number of splits that are read at once, each with its own batches in memory.
_THREADS: Final = 2


class TableScan(ArrowRows):
    """The rows of one snapshot of a table, read on demand.

    `Table.scan` creates it. It may be read any number of times, each time from the files. The snapshot is chosen
    when the scan is created, and its files are planned once. It keeps nothing from expiry: a scan that
    is read long after its creation may raise NotFoundError.

    Examples
    --------
    >>> import widetable as wt
    >>> columns = {"id": "BIGINT", "city": "STRING"}
    >>> catalog = wt.Catalog("warehouse")
    >>> users = catalog.create_table("shop.users", columns, primary_key=["id"])
    >>> users.write([{"id": 1, "city": "Oslo"}, {"id": 2, "city": "Bergen"}]).snapshot_id
    1
    >>> scan = users.scan(["city"], "id > 1")
    >>> scan.to_arrow().to_pylist()
    [{'city': 'Bergen'}]
    """

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
        barrier: BarrierView | None = None,
    ) -> None:
        """Create a scan. barrier: the view of a barrier, whose base is the snapshot.

        snapshot: None for a table without snapshots. rescaled: whether partitions may have
        different numbers of buckets (`scan_plan.plan`).
        """
        schema = table.schema
        self._table = table
        self._live_files = live_files
        self._snapshot = snapshot
        self._columns = schema.chosen(columns)
        self._predicate = predicate
        self._rescaled = rescaled
        self._limit: int | None = None
        self._barrier = barrier

    def __repr__(self) -> str:
        snapshot = "no snapshot" if self._snapshot is None else f"snapshot {self._snapshot.id}"
        snapshot = snapshot if self._barrier is None else f"barrier {self._barrier.barrier}"
        try:
            splits = self._splits
        except WidetableError as cause:
            return f"TableScan({snapshot}, {cause})"
        files, rows = sum(len(s.files) for s in splits), sum(s.rows for s in splits)
        rows = rows if self._limit is None else min(rows, self._limit)
        size = (
            f"at most {counted(rows, 'row', form=',')} in {counted(files, 'file', form=',')} of "
            f"{counted(len(splits), 'bucket', form=',')}"
        )
        return f"TableScan({snapshot}, {counted(len(self._columns), 'column')}, {size})"

    def _repr_html_(self) -> str:
        """Return the HTML for notebooks: the size of the scan, and its columns. This plans the scan."""
        facts: dict[str, Any] = {
            "snapshot": "none" if self._snapshot is None else str(self._snapshot.id),
            "barrier": self.barrier,
            "filter": None if self._predicate is None else str(self._predicate),
            "limit": self._limit,
        }
        try:
            splits = self._splits
        except WidetableError as cause:
            return html_facts("TableScan", {**facts, "error": cause})
        facts |= {
            "buckets": len(splits),
            "of these merged": sum(split.needs_merge for split in splits),
            "files": sum(len(split.files) for split in splits),
            "rows at most": sum(split.rows for split in splits),
            "bytes": sum(file.file_size for split in splits for file in split.files),
        }
        columns = [(field.name, field.type) for field in self.arrow_schema]
        return html_facts("TableScan", facts, html_rows(("column", "type"), columns))

    @property
    def arrow_schema(self) -> pa.Schema:
        """Columns, types and nullability of the rows."""
        return self._table.schema.arrow_schema(self._columns)

    @property
    def column_ids(self) -> dict[str, int]:
        """Ids of the columns by name. A renamed column keeps its id; one that is dropped and added gets another."""
        ids = self._table.schema.column_ids
        return {name: ids[name] for name in self._columns}

    @property
    def snapshot_id(self) -> int | None:
        """The snapshot that is read; another client reads the same rows from it. None for a table without snapshots,
        and for a barrier whose rows are not those of one snapshot.
        """
        if self._barrier is not None:
            return self._barrier.snapshot_id
        return None if self._snapshot is None else self._snapshot.id

    @property
    def barrier(self) -> int | None:
        """The barrier as of which it reads, None for a scan of a snapshot."""
        return None if self._barrier is None else self._barrier.barrier

    def limit(self, rows: int) -> TableScan:
        """Limit the number of rows.

        The rows are the same each time: the first ones by partition, bucket and key. Of two limits
        the lower one applies. `splits` and `split_reads` ignore the limit.

        Parameters
        ----------
        rows : int
            The highest number of rows, 0 or more.

        Returns
        -------
        TableScan
            The new scan.

        Raises
        ------
        InvalidError
            `rows` is negative.

        Examples
        --------
        >>> users.scan().limit(1).to_arrow().num_rows
        1
        """
        rows = whole_number(rows, "rows", least=0)
        scan = copy(self)
        scan._limit = rows if self._limit is None else min(rows, self._limit)
        return scan

    def loosened(self) -> TableScan:
        """Widen the filter for an engine that applies the filter itself.

        The rows may include some that the filter does not keep, but all that it keeps in any time zone. The
        columns that the filter reads are added after the others.

        Returns
        -------
        TableScan
            The new scan; this one if it has no filter.
        """
        if self._predicate is None:
            return self
        scan = copy(self)
        scan._predicate = loosened(self._predicate)
        scan._columns = tuple(dict.fromkeys((*self._columns, *sorted(self._predicate.columns))))
        return scan

    def splits(self) -> list[Split]:
        """Get the buckets that have to be read, with their files.

        Returns
        -------
        list of Split
            A split for each bucket; empty if nothing has to be read.

        Raises
        ------
        NotFoundError
            The snapshot has expired, or the table was dropped.
        """
        return list(self._splits)

    @derived_value
    def _splits(self) -> list[Split]:
        with checked_identity(self._table):
            planned = plan(
                self._live_files,
                self._snapshot,
                self._table.schema,
                self._predicate,
                rescaled=self._rescaled,
                view=self._barrier,
                schema_of=self._table.schema_of,
            )
        return without_unindexed_files(self._table, planned, self._predicate)

    def split_reads(self) -> list[SplitRead]:
        """Get one reader for each split, which can be read anywhere.

        Together they return the rows of the scan. They can be pickled, and read in any order and more than once.
        No two of them return rows of the same key.

        Returns
        -------
        list of SplitRead
            The readers, in the order of `splits`.

        Raises
        ------
        NotFoundError
            The snapshot has expired, or the table was dropped.
        """
        return [
            SplitRead(self._table, split, self._columns, self._predicate) for split in self._splits
        ]

    def to_batches(self) -> Iterator[pa.RecordBatch]:
        """Read the rows batch by batch, in bounded memory.

        Yields
        ------
        pyarrow.RecordBatch
            Rows in the order of partition values, bucket and key. Each call reads them again.

        Raises
        ------
        NotFoundError
            The snapshot has expired, or the table was dropped.
        DamagedError
            A file is damaged.
        InvalidError
            Records of a key cannot be merged.
        """
        parts = (read.to_batches(use_threads=True) for read in self.split_reads())
        yield from limited(chain.from_iterable(parts), self._limit)

    def count(self) -> int:
        """Count the rows.

        Files that need no merge and no filter are not read. Of other files only the key and the columns of the
        filter are read. With a limit, counting stops at that number of rows.

        Returns
        -------
        int
            The number of rows, up to the limit.

        Raises
        ------
        NotFoundError
            The snapshot has expired, or the table was dropped.
        DamagedError
            A file is damaged.
        InvalidError
            Records of a key cannot be merged.

        Examples
        --------
        >>> scan.count()
        1
        """
        total = 0
        for split in self._splits:
            if self._limit is not None and total >= self._limit:
                break
            if split.has_exact_rows and self._predicate is None:
                total += split.rows
            else:
                read = SplitRead(self._table, split, (), self._predicate)
                total += sum(batch.num_rows for batch in read.to_batches(use_threads=True))
        return total if self._limit is None else min(total, self._limit)

    def to_arrow(self) -> pa.Table:
        """Read all rows into memory.

        Two threads read the splits. With a limit one thread reads, so that nothing beyond it is read.

        Returns
        -------
        pyarrow.Table
            The rows, in the same order as `to_batches`.

        Raises
        ------
        NotFoundError
            The snapshot has expired, or the table was dropped.
        DamagedError
            A file is damaged.
        InvalidError
            Records of a key cannot be merged.
        """
        reads = self.split_reads()
        if self._limit is not None or len(reads) < 2:
            return super().to_arrow()
        parts = in_threads(lambda read: list(read.to_batches()), reads, _THREADS, "scan")
        return pa.Table.from_batches(chain.from_iterable(parts), self.arrow_schema)
