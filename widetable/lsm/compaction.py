"""Carries out a compaction of one bucket: moves files that may stay as they are, merges the others. Never commits.

In: the bucket's live files and a Choice (universal_compaction); out: a CommitMessage with the files before and after.
Source: Paimon `MergeTreeCompactTask`; format.md section 9, with docs/decisions/0002 for deletes and partial merges.

    section of several runs            merged
    section of one run, per file       moved when it has reached the target size and may stay (`_may_move`),
                                       else rewritten together with its neighbours
    a single file by itself            moved when it may stay

Where the choice tells of changes (`Choice.known_level`), files below that level are always merged, with the rows that
readers have seen of their keys: those of the pick, and those further below, which `key_lookup` finds by key. What
`merge.changelog` makes of both goes into changelog files of the same message.

A moved file changes its level only. Narrow files, files whose deletes must go and files that do not say how many
deletes they have are always rewritten: above level 0 files are full width and their count of deletes is exact (traps
T1, T2). Merging streams, with row batches of all runs together within `write-buffer-size`, so a bucket may be larger
than memory. Raises what reading and writing data files raises; new files are removed then.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final

import numpy as np
import pyarrow as pa

from widetable import options as opt
from widetable.format.bucket_id import BucketId
from widetable.format.data_file_meta import (
    FILE_SOURCE_APPEND,
    FILE_SOURCE_COMPACT,
    DataFileMeta,
    upgrade,
)
from widetable.format.data_file_reader import open_data_file
from widetable.format.row_budget import LEAST_BYTES
from widetable.lsm import changelog_compaction
from widetable.lsm.background_writer import BackgroundWriter
from widetable.lsm.changelog_compaction import Share
from widetable.lsm.file_rows import Caches
from widetable.lsm.key_lookup import find_rows
from widetable.lsm.rows_opener import RowsOpener
from widetable.lsm.sorted_run import Section, SortedRun, sections
from widetable.lsm.universal_compaction import Choice
from widetable.merge.engine import ENGINES, MergeEngine, PartialMerge
from widetable.merge.sorted_merge import Merged, merge_runs, merge_with_changes
from widetable.options import TableOptions
from widetable.schema import SEQUENCE_NUMBER, file_column
from widetable.storage.memory_pool import prefer_system_pool
from widetable.write.commit_message import CommitMessage
from widetable.write.discard import discard_files
from widetable.write.rolling_writer import RollingWriter
from widetable.write.table_state import TableState

# The merge holds several batches of each run, and the writer a row group.
_BATCHES_PER_BUDGET: Final = 6


def plan_bucket(
    state: TableState, files: Iterable[DataFileMeta], *, full: bool, share: Share = Share.ALL
) -> Choice | None:
    """What to compact in a bucket with these live files, or None (changelog_compaction)."""
    return changelog_compaction.plan_bucket(
        state.schema, state.engine, files, full=full, share=share
    )


def compact_bucket(
    state: TableState,
    bucket: BucketId,
    total_buckets: int,
    choice: Choice,
    caches: Caches | None = None,
) -> CommitMessage:
    """Perform the choice. The message is empty when nothing had to be done.

    caches: where rows are looked up, and caches of new files are built.
    """
    prefer_system_pool()
    task = _Task(state, bucket, choice, caches)
    try:
        task.run()
    except BaseException:
        task.abort()
        raise
    return CommitMessage(
        *bucket,
        total_buckets,
        compact_before=tuple(task.before),
        compact_after=tuple(task.after),
        changelog_files=tuple(task.changelog),
    )


class _Task:
    """One compaction while it runs. before, after, changelog: files of the message; written: those that are new."""

    def __init__(
        self,
        state: TableState,
        bucket: BucketId,
        choice: Choice,
        caches: Caches | None,
    ) -> None:
        self.before: list[DataFileMeta] = []
        self.after: list[DataFileMeta] = []
        self.changelog: list[DataFileMeta] = []
        self._written: list[DataFileMeta] = []
        self._state = state
        self._bucket = bucket
        self._choice = choice
        self._caches = caches
        self._engine: MergeEngine = state.engine
        self._keep_deletes = not choice.drop_deletes or self._engine.keeps_deletes(state.schema)
        # Nothing older stays in the bucket: whatever is committed from now on sorts after it (docs/decisions/0007).
        becomes_base = choice.drop_deletes and self._engine.mixes_records
        self._number = 0 if becomes_base else choice.sequence_number

    def run(self) -> None:
        merges = self._merges()
        target_file_size_bytes = self._state.options.get(opt.TARGET_FILE_SIZE)
        pending: list[Section] = []
        for section in sections(self._choice.files, self._state.schema):
            if len(section.runs) > 1:
                pending.append(section)
                continue
            for file in section.files:
                if merges and (file.file_size < target_file_size_bytes or not self._may_move(file)):
                    pending.append(Section((SortedRun(file.level, (file,)),)))
                    continue
                self._merge_or_move(pending, merges=merges)
                pending = []
                if self._may_move(file):
                    self._move(file, self._choice.output_level)
        self._merge_or_move(pending, merges=merges)
        for file, level in self._choice.moves:
            self._move(file, level)

    def abort(self) -> None:
        discard_files(self._state, self._bucket, self._written)

    def _merges(self) -> bool:
        has_deletes = any(file.delete_row_count != 0 for file in self._choice.files)
        allowed = self._engine.partial_merge(self._state.schema, has_deletes=has_deletes)
        return allowed is not PartialMerge.NEVER

    def _merge_or_move(self, pending: Sequence[Section], *, merges: bool) -> None:
        files = [file for section in pending for file in section.files]
        if len(files) == 1 and self._may_move(files[0]):
            self._move(files[0], self._choice.output_level)
        elif files and merges:
            self._merge(pending)

    def _may_move(self, file: DataFileMeta) -> bool:
        """Whether the file may lie at the output level as it is."""
        if file.level == self._choice.output_level:
            return True
        if self._is_new(file) or not self._has_number(file):
            return False
        if file.delete_row_count is None or (file.delete_row_count and not self._keep_deletes):
            return False
        return file.level > 0 or self._is_full_width(file)

    def _is_new(self, file: DataFileMeta) -> bool:
        """Whether readers of changes have yet to be told of the file's rows."""
        return self._choice.known_level is not None and file.level < self._choice.known_level

    def _has_number(self, file: DataFileMeta) -> bool:
        """Whether the file's rows have the sequence number that the choice asks for."""
        wanted = self._choice.sequence_number
        return wanted is None or wanted == file.min_sequence_number == file.max_sequence_number

    def _move(self, file: DataFileMeta, level: int) -> None:
        if file.level != level:
            self.before.append(file)
            self.after.append(upgrade(file, level))

    def _is_full_width(self, file: DataFileMeta) -> bool:
        """Whether the file has all columns of its own schema that the table still has; reads its footer."""
        schema, file_schema = self._state.schema, self._state.schema_of(file.schema_id)
        with open_data_file(
            self._state.file_io, self._path(file), file, schema, file_schema
        ) as data:
            present = set(data.columns)
        held = (f.name for f in schema.fields if file_column(f, file_schema) is not None)
        return present.issuperset(held)

    def _merge(self, merged: Sequence[Section]) -> None:
        data = BackgroundWriter(self._writer(FILE_SOURCE_COMPACT), "data")
        changelog = BackgroundWriter(
            self._writer(FILE_SOURCE_APPEND, is_changelog=True), "changelog"
        )
        try:
            for section in merged:
                for merged_range in self._merged(section):
                    data.write(self._with_number(merged_range.rows))
                    if self._choice.known_level is not None:
                        # Gathered here: the writers' threads are what the commit waits for in the end.
                        changelog.write_rows(merged_range.changes())
            new_files, new_changelog = data.finish(), changelog.finish()
        except BaseException:
            data.abort()
            changelog.abort()
            raise
        self._written += (*new_files, *new_changelog)
        self.before += [file for section in merged for file in section.files]
        self.after += new_files
        self.changelog += new_changelog

    def _writer(self, file_source: int, *, is_changelog: bool = False) -> RollingWriter:
        return RollingWriter(
            self._state,
            self._bucket,
            self._state.schema.names,
            level=self._choice.output_level,
            file_source=file_source,
            is_changelog=is_changelog,
            caches=None if is_changelog else self._caches,
        )

    def _with_number(self, gather: Callable[[], pa.RecordBatch]) -> Callable[[], pa.RecordBatch]:
        number = self._number
        return gather if number is None else lambda: _numbered(gather(), number)

    def _merged(self, section: Section) -> Iterator[Merged]:
        """The merged rows of a section, and what they change for readers. With nothing to tell, no run is new."""
        schema, known_level = self._state.schema, self._choice.known_level or 0
        batch_bytes = merge_bytes(self._state.options)
        read_bytes = batch_bytes // len(section.runs)
        new = [run for run in section.runs if run.level < known_level]
        known = [self._rows(run, read_bytes) for run in section.runs if run.level >= known_level]
        if new:
            known[:0] = self._looked_up(new, batch_bytes)
        return merge_with_changes(
            known,
            [self._rows(run, read_bytes) for run in new],
            schema,
            self._engine,
            keep_deletes=self._keep_deletes,
            batch_bytes=batch_bytes,
        )

    def _looked_up(
        self, new: Sequence[SortedRun], batch_bytes: int
    ) -> list[Iterator[pa.RecordBatch]]:
        """What the runs below the pick have of the keys in these runs: sorted runs themselves, oldest first."""
        below = self._choice.below
        together = [below] if self._choice.newest_wins and below else [(run,) for run in below]
        return [
            find_rows(
                self._state,
                self._bucket,
                runs,
                self._keys(new, batch_bytes),
                self._state.schema.names,
                self._caches,
                expected_keys=sum(run.rows for run in new),
            )
            for runs in reversed(together)
        ]

    def _keys(self, runs: Sequence[SortedRun], batch_bytes: int) -> Iterator[pa.RecordBatch]:
        """The keys of these runs in order, each once. Any engine that keeps deletes gives them."""
        key = self._state.schema.trimmed_primary_key
        merged = merge_runs(
            [self._rows(run, batch_bytes // len(runs), key) for run in runs],
            self._state.schema,
            ENGINES["deduplicate"],
            key,
            keep_deletes=True,
            batch_bytes=batch_bytes,
        )
        return (rows.select(list(key)) for rows in merged)

    def _rows(
        self, run: SortedRun, batch_bytes: int, columns: Sequence[str] | None = None
    ) -> Iterator[pa.RecordBatch]:
        """A sorted run's row batches; each file is open only while it is read."""
        names = self._state.schema.names if columns is None else columns
        opener = RowsOpener(self._state, self._bucket, names, self._caches)
        for file in run.files:
            yield from opener.batches(file, batch_bytes)

    def _path(self, file: DataFileMeta) -> str:
        return self._state.data_file(self._bucket, file.file_name)


def _numbered(rows: pa.RecordBatch, number: int) -> pa.RecordBatch:
    """The rows with one sequence number."""
    at = rows.schema.get_field_index(SEQUENCE_NUMBER)
    numbers = pa.array(np.full(rows.num_rows, number, np.int64))
    return rows.set_column(at, rows.schema.field(at), numbers)


def merge_bytes(options: TableOptions) -> int:
    """What the heads of all runs may take so that merging stays within `write-buffer-size`."""
    return max(LEAST_BYTES, options.get(opt.WRITE_BUFFER_SIZE) // _BATCHES_PER_BUDGET)
