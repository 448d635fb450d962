"""The changelog of producer `input`: every record of a commit, as it was written.

In: numbered records per bucket, in arrival order, filtered but neither merged nor in normal form; out: changelog files
at level 0, rows by key, `sequence.field`s and arrival. Source: semantics.md section 9 "input", Paimon
`MergeTreeWriter` with a raw consumer of its buffer. When the records in memory exceed the budget, those of the largest
bucket are written to files: files of one bucket are in arrival order. Raises what writing data files raises; after any
error `abort` removes every file.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import pyarrow as pa

from widetable.format.bucket_id import BucketId
from widetable.format.data_file_meta import FILE_SOURCE_APPEND, DataFileMeta
from widetable.merge.gather import gather
from widetable.merge.plan import unmerged
from widetable.merge.window import window_of_arrivals
from widetable.write.discard import discard_files
from widetable.write.rolling_writer import RollingWriter
from widetable.write.table_state import TableState


class InputChangelog:
    """The changelog of one writer. columns: those of the files. Not thread-safe.

    budget_bytes: the memory for records, before sorting makes a copy. Files that are written
    early belong to the same commit, and are listed here until `finish` returns them.
    """

    def __init__(self, state: TableState, columns: Sequence[str], budget_bytes: int) -> None:
        self._state = state
        self._columns = tuple(columns)
        self._budget_bytes = budget_bytes
        self._records: dict[BucketId, list[pa.RecordBatch]] = defaultdict(list)
        self._bytes: dict[BucketId, int] = defaultdict(int)
        self._all_bytes = 0
        self._files: dict[BucketId, tuple[DataFileMeta, ...]] = defaultdict(tuple)

    def add(self, bucket: BucketId, records: pa.RecordBatch) -> None:
        """Add records of one bucket, after all earlier ones."""
        self._records[bucket].append(records)
        size = int(records.nbytes)
        self._bytes[bucket] += size
        self._all_bytes += size
        while self._all_bytes > self._budget_bytes:
            self._write(max(self._bytes, key=lambda each: self._bytes[each]))

    def finish(self) -> dict[BucketId, tuple[DataFileMeta, ...]]:
        """Write the remaining records and return the files of each bucket."""
        for bucket in list(self._records):
            self._write(bucket)
        return dict(self._files)

    def abort(self) -> None:
        """Delete all files. Call it only if no commit of them was tried."""
        self._records.clear()
        self._bytes.clear()
        self._all_bytes = 0
        for bucket, files in self._files.items():
            discard_files(self._state, bucket, files)
        self._files.clear()

    def _write(self, bucket: BucketId) -> None:
        records = [batch for batch in self._records.pop(bucket) if batch.num_rows]
        self._all_bytes -= self._bytes.pop(bucket)
        if not records:
            return
        # Each record stays a row, in the window's order.
        window = window_of_arrivals(self._state.schema, records)
        plan = unmerged(window, window.names, window.order)
        writer = RollingWriter(
            self._state,
            bucket,
            self._columns,
            level=0,
            file_source=FILE_SOURCE_APPEND,
            is_changelog=True,
        )
        self._files[bucket] += writer.write_all([gather(window, plan, window.names)])
