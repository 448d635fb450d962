"""Changes that are read when they are asked for: what `Table.scan_changes` gives.

In: between which states, and how to read and to count (`incremental`). Raises what reading changes raises.
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
    """span: which changes, in words. read: all of them, batch by batch; read_narrow: as many rows, of any columns.
    look_up: the splits, None where it takes a read to know them.
    """

    span: str
    schema: pa.Schema
    read: Read
    read_narrow: Read
    look_up: Callable[[], Sequence[ChangeSplit] | None]


class ChangeScan(ArrowRows):
    """Made by `Table.scan_changes`; each call reads anew."""

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
        held = (
            f"at most {counted(rows, 'row', form=',')} in {counted(len(files), 'file', form=',')} of "
            f"{counted(buckets, 'bucket', form=',')}"
        )
        return f"ChangeScan({self._reads.span}, {columns}, {held})"

    @derived_value
    def _splits(self) -> Sequence[ChangeSplit] | None:
        return self._reads.look_up()

    @property
    def arrow_schema(self) -> pa.Schema:
        """Columns, types and nullability of the changes; `_row_kind` behind those of the table."""
        return self._reads.schema

    def limit(self, rows: int) -> ChangeScan:
        """The same changes up to so many rows."""
        rows = whole_number(rows, "rows", least=0)
        return ChangeScan(self._reads, rows if self._limit is None else min(rows, self._limit))

    def to_batches(self) -> Iterator[pa.RecordBatch]:
        """The changes batch by batch, in bounded memory. Each call reads anew."""
        return limited(self._reads.read(), self._limit)

    def count(self) -> int:
        """How many changes there are: each -U and +U is one."""
        return sum(batch.num_rows for batch in limited(self._reads.read_narrow(), self._limit))
