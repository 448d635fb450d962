"""A lazy scan of changes, as `Table.scan_changes` returns it.

In: the range of snapshots, and functions that read and count its changes (`incremental`). Raises what reading changes
raises.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa

from widetable.arguments import whole_number
from widetable.errors import WidetableError
from widetable.messages.counted import counted
from widetable.read.arrow_rows import ArrowRows, limited
from widetable.read.change_plan import ChangeSplit
from widetable.runtime.derived_value import derived_value

Read = Callable[[], Iterator[pa.RecordBatch]]


@dataclass(frozen=True, repr=False)
class ChangeReads:
    """The functions that read the changes of one range.

    span: the range, in words. read: yields all changes, batch by batch. read_narrow: yields as many rows, with any
    columns. look_up: returns the splits, or None where only a read can tell them.
    """

    span: str
    schema: pa.Schema
    read: Read
    read_narrow: Read
    look_up: Callable[[], Sequence[ChangeSplit] | None]


class ChangeScan(ArrowRows):
    """Changes that are read when you ask for them.

    `Table.scan_changes` makes it. Each call reads the storage again. Rows have the columns of the table, then
    `_row_kind`: `+I`, `-U`, `+U` or `-D`. `ArrowRows` has the methods that make frames.

    Examples
    --------
    The examples of the methods go on from here.

    >>> import widetable as wt
    >>> columns = {"id": "BIGINT", "city": "STRING"}
    >>> catalog = wt.Catalog("warehouse")
    >>> options = {"changelog-producer": "input"}
    >>> users = catalog.create_table("shop.users", columns, primary_key=["id"], options=options)
    >>> users.write([{"id": 1, "city": "Oslo"}, {"id": 2, "city": "Bergen"}]).snapshot_id
    1
    >>> scan = users.scan_changes(0, 1)
    """

    __module__ = "widetable"

    def __init__(self, reads: ChangeReads, limit: int | None = None) -> None:
        self._reads = reads
        self._limit = limit

    def __repr__(self) -> str:
        columns = counted(len(self._reads.schema), "column")
        try:
            splits = self._splits
        except WidetableError as cause:
            return f"ChangeScan({self._reads.span}, {cause})"
        if splits is None:
            return f"ChangeScan({self._reads.span}, {columns})"
        files = [file for split in splits for file in split.files]
        rows = sum(file.row_count for file in files)
        rows = rows if self._limit is None else min(rows, self._limit)
        buckets = len({split.bucket for split in splits})
        sizes = (
            f"at most {counted(rows, 'row', form=',')} in {counted(len(files), 'file', form=',')} of "
            f"{counted(buckets, 'bucket', form=',')}"
        )
        return f"ChangeScan({self._reads.span}, {columns}, {sizes})"

    @derived_value
    def _splits(self) -> Sequence[ChangeSplit] | None:
        return self._reads.look_up()

    @property
    def arrow_schema(self) -> pa.Schema:
        """Columns, types and nullability of the changes; `_row_kind` is the last column."""
        return self._reads.schema

    def limit(self, rows: int) -> ChangeScan:
        """Scan the first of these changes only.

        Parameters
        ----------
        rows : int
            The highest number of changes, 0 or more.

        Returns
        -------
        ChangeScan
            The new scan.

        Raises
        ------
        InvalidError
            `rows` is negative.

        Examples
        --------
        >>> scan.limit(1).to_arrow().to_pylist()
        [{'id': 1, 'city': 'Oslo', '_row_kind': '+I'}]
        """
        rows = whole_number(rows, "rows", least=0)
        return ChangeScan(self._reads, rows if self._limit is None else min(rows, self._limit))

    def to_batches(self) -> Iterator[pa.RecordBatch]:
        """Read the changes batch by batch, in bounded memory.

        Yields
        ------
        pyarrow.RecordBatch
            The changes, in the order of `Table.changes`. Each call reads the storage again.

        Raises
        ------
        NotFoundError
            A snapshot of the range has expired.
        """
        return limited(self._reads.read(), self._limit)

    def count(self) -> int:
        """Count the changes.

        Returns
        -------
        int
            The number of changes: `-U` and `+U` are one each.

        Raises
        ------
        NotFoundError
            A snapshot of the range has expired.

        Examples
        --------
        >>> scan.count()
        2
        """
        return sum(batch.num_rows for batch in limited(self._reads.read_narrow(), self._limit))
