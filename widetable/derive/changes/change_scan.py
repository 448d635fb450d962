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
    """The changes of a range of snapshots; `Table.scan_changes` makes it. Each call reads again."""

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
        """The columns of the changes with types and nullability: those of the table, then `_row_kind`."""
        return self._reads.schema

    def limit(self, rows: int) -> ChangeScan:
        """Return a scan of at most `rows` of these changes."""
        rows = whole_number(rows, "rows", least=0)
        return ChangeScan(self._reads, rows if self._limit is None else min(rows, self._limit))

    def to_batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the changes batch by batch, in bounded memory. Each call reads again."""
        return limited(self._reads.read(), self._limit)

    def count(self) -> int:
        """Return the number of changes; -U and +U count as one each."""
        return sum(batch.num_rows for batch in limited(self._reads.read_narrow(), self._limit))
