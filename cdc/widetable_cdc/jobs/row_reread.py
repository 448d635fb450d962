"""Reads single rows of a table again, in a snapshot that sees given transactions.

    key 8, in a chunk that is not read     moves to     key -100, in a chunk that is read
    the change does not carry the big value, and the target has no row of key 8 to take it from
    the row of key -100 is read from the source, by which it has the value, and perhaps later ones

Later changes of the row come once more from the log. They leave the row as the source has it. In: keys of the source,
while the table is copied. Out: rows with the columns of the source. Raises what reading the source raises, and
ConflictError if a transaction is not visible in time.
"""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from widetable import ConflictError
from widetable_cdc.copying.visibility import counts
from widetable_cdc.jobs.captured_table import CapturedTable
from widetable_cdc.source.chunk_range import LIMITS, ChunkRange, numbers_of
from widetable_cdc.source.chunk_rows import read_chunk

_WAIT_SECONDS: Final = 60.0
_PAUSE_SECONDS: Final = 0.05


@dataclass(frozen=True)
class RowReread:
    """Reads rows of one table. dsn, name: as in `open_session`."""

    table: CapturedTable
    dsn: str
    name: str

    def __call__(self, keys: pa.RecordBatch, xids: npt.NDArray[np.uint32]) -> pa.Table:
        """Return the rows of keys that the source has, of these and perhaps of others with the same first column."""
        batches: list[pa.RecordBatch] = []
        for key_range in self._ranges(keys):
            batches += self._rows(key_range, xids)
        if batches:
            return pa.Table.from_batches(batches)
        types = self.table.columns.types
        return pa.schema([(name, each.arrow) for name, each in types.items()]).empty_table()

    def _ranges(self, keys: pa.RecordBatch) -> list[ChunkRange]:
        plan = self.table.plan
        assert plan is not None, "a table that is copied has a plan"
        whole = plan.states[0].key_range
        if whole.kind is None:
            return [whole]
        numbers = numbers_of(keys.column(self.table.names[whole.column]), whole.kind)
        low, high = LIMITS[whole.kind]
        return [
            replace(
                whole,
                low=number if number >= low else None,
                high=number + 1 if number < high else None,
            )
            for number in np.unique(numbers).tolist()
        ]

    def _rows(self, key_range: ChunkRange, xids: npt.NDArray[np.uint32]) -> list[pa.RecordBatch]:
        """Read a range once its snapshot sees the transactions: one that waits for a standby is in the log before."""
        source, ends = self.table.source, time.monotonic() + _WAIT_SECONDS
        while True:
            with read_chunk(self.dsn, self.name, source, self.table.selected(), key_range) as read:
                if counts(read.snapshot, xids):
                    return list(self.table.read_rows(read))
            if time.monotonic() > ends:
                raise ConflictError(
                    f"table {source.schema}.{source.name}",
                    found="transactions in the log that are not visible yet",
                    expected="all of them to become visible, as they do when their standbys have answered",
                    action="Start the job again when they have.",
                )
            threading.Event().wait(_PAUSE_SECONDS)
