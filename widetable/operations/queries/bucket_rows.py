"""Finds rows of one bucket by key in all of its sorted runs, level-0 files included. Files stay open between calls.

In: the live files of the bucket in one snapshot, later those in another; key batches. Out: the rows that each run has
of the keys, not merged. It is not thread-safe. Raises what reading data files raises, and DamagedError for a level
whose files overlap.

    with BucketRows b:  b.move(live)                   the files of a snapshot
                        b.runs: find(keys) ..          of one call, batch by batch, keys ascending
                        b.end_call()
                        b.move(newer)                  of the next snapshot: what stayed is still open
                        b.close()

Open files are identified by their names, so a file that a compaction only moved to another level
stays open; a file whose deletion vector changed is opened again (`open_files`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from widetable.format.bucket_id import BucketId
from widetable.format.data_file_meta import DataFileMeta
from widetable.lsm.file_rows import Caches
from widetable.lsm.levels import levels_of
from widetable.lsm.open_files import OpenFiles
from widetable.lsm.rows_opener import RowsOpener
from widetable.lsm.run_rows import RunRows
from widetable.read.split import needs_merge
from widetable.write.table_state import TableState


class BucketRows:
    """The open sorted runs of one bucket. There are none until `move` gives its files.

    columns: the wanted ones; those that decide a merge are added. caches: those of this host; None reads data files
    only. runs: oldest first; levels: the number of them at level >= 1. row_bytes: the size of a row, compressed, in
    the widest file, for callers that choose a batch size.
    """

    def __init__(
        self, table: TableState, bucket: BucketId, columns: Sequence[str], caches: Caches | None
    ) -> None:
        self.bucket: Final = bucket
        self._table = table
        self._wanted = tuple(columns)
        self._caches = caches
        self._live: frozenset[DataFileMeta] = frozenset()
        self._loaded: tuple[str, ...] | None = None
        self._files: OpenFiles | None = None
        self.runs: list[RunRows] = []
        self.levels = 0
        self.row_bytes = 0.0

    @property
    def open_files(self) -> int:
        return 0 if self._files is None else len(self._files)

    def move(self, live: Sequence[DataFileMeta]) -> None:
        """Take these files from now on. Open files that are among them stay open.

        It opens no file: `find` does so when it needs one. The same files as before cost nothing.
        """
        if self._live == frozenset(live):
            return
        table, schema = self._table, self._table.schema
        # Only the wanted columns are read of files that need no merge. When that changes, the columns
        # that are read change too, and all files are opened again.
        merges = needs_merge(live)
        loaded = table.engine.needed_columns(schema, self._wanted) if merges else self._wanted
        if self._files is None or loaded != self._loaded:
            self.close()
            use_threads = schema.num_buckets == 1
            opener = RowsOpener(table, self.bucket, loaded, self._caches, use_threads=use_threads)
            self._files, self._loaded = OpenFiles(opener, keeps=True), loaded
        self._files.keep_only({file.file_name for file in live})
        newest_first = levels_of(live, table.options).sorted_runs()
        self.runs = [RunRows(self._files, run, schema) for run in reversed(newest_first)]
        self.levels = sum(run.level > 0 for run in newest_first)
        self.row_bytes = max((f.file_size / max(f.row_count, 1) for f in live), default=0.0)
        self._live = frozenset(live)

    def end_call(self) -> None:
        """End a call: the keys of the next call start again from the lowest."""
        for run in self.runs:
            run.close()
        if self._files is not None:
            self._files.end_call()

    def close(self) -> None:
        """Close all files; they are opened again when keys need them."""
        if self._files is not None:
            self._files.close()
