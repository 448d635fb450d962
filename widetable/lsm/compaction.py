"""Carries out a compaction of one bucket: moves files that can stay unchanged, merges the others. Never commits.

In: the steps of `bucket_plan`; out: a CommitMessage with the files before and after.
Source: Paimon `MergeTreeCompactTask`; format.md section 9, with docs/decisions/0002 for deletes and partial merges.

    section of several runs            merged
    section of one run, per file       moved if it has reached the target size and may be moved (`_may_move`),
                                       else rewritten together with its neighbours
    a single file by itself            moved if it may be moved

If a step emits changes, files at levels < its `known_level` are always merged, with the rows of their keys that readers
have seen: those of the step, and older ones, which `key_lookup` finds by key. `merge.changelog` makes the changes from
both, which are written to changelog files of the same message.

A moved file changes only its level. Files whose deletes must be dropped and files that do not record their number of
deletes are always rewritten: above level 0 the count is exact (traps T1, T2). A new file has the columns of all files
whose rows it may contain, and no others (0059): a column that was never written is in no array and in no file. With
`widetable.level0-columns=all` files have all columns at all levels, and narrow ones are rewritten.

Merging streams: the row batches of all runs together stay within `write-buffer-size`, so a bucket may be larger than
memory. Raises the errors of reading and writing data files; new files are removed then.

No live file is changed or deleted here. A process that dies leaves unreferenced files (orphans). The commit of the
message publishes all at once: deleted files, new files, changelog. Three threads share a merge:

    this one   reads, orders and plans a key range and its changelog rows   ─►  the next range
    data       gathers the range before, encodes it, uploads
    changelog  does the same with the changelog rows
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Final, TypeAlias

import numpy as np
import pyarrow as pa

from widetable.format.bucket_id import BucketId
from widetable.format.data_file_meta import (
    FILE_SOURCE_APPEND,
    FILE_SOURCE_COMPACT,
    DataFileMeta,
    upgrade,
)
from widetable.format.row_batch import in_schema_order
from widetable.format.row_budget import MIN_BYTES
from widetable.lsm.background_writer import BackgroundWriter
from widetable.lsm.bucket_plan import Expiry, Merge, MergeWithChangelog, Move, Plan
from widetable.lsm.file_rows import Caches
from widetable.lsm.key_lookup import find_rows
from widetable.lsm.marked_rows import marked_files
from widetable.lsm.rows_opener import RowsOpener
from widetable.lsm.sorted_run import Section, SortedRun, read_shares, row_width, sections
from widetable.merge.deduplicate import Deduplicate
from widetable.merge.record_expiry import record_expiry
from widetable.merge.sorted_merge import Merged, merge_runs, merge_with_changes
from widetable.runtime.machine_clock import now_millis
from widetable.schema import options as opt
from widetable.schema.options import TableOptions
from widetable.schema.table_schema import SEQUENCE_NUMBER, file_column
from widetable.storage.memory_pool import prefer_system_pool
from widetable.write.commit_message import CommitMessage
from widetable.write.discard import discard_files
from widetable.write.rolling_writer import RollingWriter
from widetable.write.table_state import TableState

_log = logging.getLogger("widetable")

# The merge holds several batches of each run, and the writer a row group.
_BATCHES_PER_BUDGET: Final = 6
# The changelog has a changed row as it was before and as it is after.
_ROWS_OF_CHANGES: Final = 2
# The size of a batch of keys to look up: ordering them takes several times as much.
_KEY_BYTES: Final = 2 << 20


# Called with a number of rows of level 0, in proportion to the work that was done since the last call.
RowsDone: TypeAlias = Callable[[float], None]


def compact_bucket(
    state: TableState,
    bucket: BucketId,
    total_buckets: int,
    plan: Plan,
    caches: Caches | None = None,
    rows_done: RowsDone | None = None,
) -> CommitMessage:
    """Carry out the plan; return the message for the commit, empty if nothing had to be done.

    total_buckets: of the partition, for the message. plan: for files that were live a moment ago; the commit checks
    that they still are. caches: for row lookups; caches of new files are added. rows_done: reports progress in the rows
    of `bucket_plan.new_rows`. Rows expire by this machine's clock.
    """
    prefer_system_pool()
    task = _Task(state, bucket, caches, rows_done)
    try:
        for step in plan:
            task.run(step)
    except BaseException:
        task.abort()
        raise
    return CommitMessage(
        *bucket,
        total_buckets,
        compact_before=tuple(task.before),
        compact_after=tuple(task.after),
        changelog_files=tuple(task.changelog),
        marked_files=tuple(file for file, _ in task.marked),
        new_vectors=tuple(vector for _, vector in task.marked),
        expired_rows=task.expired_rows,
    )


class _Task:
    """One running compaction. before, after, changelog: files of the message. written: the new ones. marked: files that
    stay, with their new deletion vectors. A file that only moves is in before and after under one name.
    """

    def __init__(
        self,
        state: TableState,
        bucket: BucketId,
        caches: Caches | None,
        rows_done: RowsDone | None,
    ) -> None:
        self.before: list[DataFileMeta] = []
        self.after: list[DataFileMeta] = []
        self.changelog: list[DataFileMeta] = []
        self.marked: list[tuple[DataFileMeta, bytes]] = []
        self.expired_rows = 0
        self._written: list[DataFileMeta] = []
        self._state = state
        self._bucket = bucket
        self._caches = caches
        self._rows_done = rows_done
        self._weight = 0.0
        self._expiry = record_expiry(state.schema, now_millis() // 1000)

    def run(self, step: Move) -> None:
        """Carry out a step, group by group in key order. A plain Move leaves files that may not be moved."""
        if isinstance(step, Merge) and step.expiry is Expiry.ONLY and not self._has_old(step.files):
            return
        if isinstance(step, MergeWithChangelog) and step.repairs:
            _log.info(
                "bucket %d of %s: files above level 0 were compacted without a lookup changelog; all its rows are "
                "merged once before the changelog continues",
                self._bucket.number,
                self._state.paths.root,
            )
        for group, is_moved in self._groups(step):
            if is_moved:
                self._move(group[0].files[0], step.level)
            elif group and isinstance(step, Merge):
                self._merge(step, group)
        if isinstance(step, MergeWithChangelog) and step.marks:
            self._mark(step)

    def _groups(self, step: Move) -> Iterator[tuple[Sequence[Section], bool]]:
        """Yield groups of neighbours to rewrite together, so that small files become one; True: a file that moves.

        An unchanged file ends a group, as the key range of a new file must not span it.
        """
        target_file_size_bytes = self._state.options.get(opt.TARGET_FILE_SIZE)
        pending: list[Section] = []
        for section in sections(step.files, self._state.schema):
            if len(section.runs) > 1:
                pending.append(section)
                continue
            for file in section.files:
                is_small = isinstance(step, Merge) and file.file_size < target_file_size_bytes
                alone = Section((SortedRun(file.level, (file,)),))
                if not is_small and self._may_move(step, file):
                    yield pending, self._is_movable(step, pending)
                    yield [alone], True
                    pending = []
                else:
                    pending.append(alone)
        yield pending, self._is_movable(step, pending)

    def _mark(self, step: MergeWithChangelog) -> None:
        """Mark the older rows of all keys from level 0 as deleted, whatever the merge made of these keys."""
        new = [SortedRun(0, (file,)) for file in step.files if file.level < step.known_level]
        below = [run for runs in step.before for run in runs]
        keys = partial(self._keys, new, merge_bytes(self._state.options))
        self.marked += marked_files(self._state, self._bucket, below, keys)

    def abort(self) -> None:
        discard_files(self._state, self._bucket, self._written)

    def _is_movable(self, step: Move, group: Sequence[Section]) -> bool:
        """Return whether the group is one file that may move to the step's level unchanged."""
        files = [file for section in group for file in section.files]
        return isinstance(step, Merge) and len(files) == 1 and self._may_move(step, files[0])

    def _may_move(self, step: Move, file: DataFileMeta) -> bool:
        """Return whether the file may move to the step's level unchanged."""
        if file not in step.movable or (
            self._state.has_wide_files and not self._is_full_width(file)
        ):
            return False
        is_kept = not isinstance(step, Merge) or step.expiry is Expiry.NONE
        return is_kept or not self._has_old((file,))

    def _has_old(self, files: Sequence[DataFileMeta]) -> bool:
        """Return whether any merged row of these files has expired; reads the column that decides it."""
        if self._expiry is None:
            return False
        schema, engine = self._state.schema, self._state.engine
        names = engine.needed_columns(schema, [self._expiry.column])
        batch_bytes = merge_bytes(self._state.options)
        for section in sections(files, schema):
            merged = merge_runs(
                [
                    self._rows(run, share, names)
                    for run, share in zip(
                        section.runs, read_shares(section.runs, batch_bytes), strict=True
                    )
                ],
                schema,
                engine,
                [self._expiry.column],
                keep_deletes=False,
                batch_bytes=batch_bytes,
                full_runs=sum(run.level > 0 for run in section.runs),
            )
            for rows in merged:
                at = rows.schema.get_field_index(self._expiry.column)
                if at >= 0 and self._expiry.is_old(rows.column(at)).any():
                    return True
        return False

    def _move(self, file: DataFileMeta, level: int) -> None:
        if file.level != level:
            self.before.append(file)
            self.after.append(upgrade(file, level))

    def _is_full_width(self, file: DataFileMeta) -> bool:
        """Return whether the file has all columns of its own schema that the table still has; reads its footer."""
        file_schema = self._state.schema_of(file.schema_id)
        with self._state.opened(self._bucket, file) as data:
            present = set(data.columns)
        fields = self._state.schema.fields
        required = (f.name for f in fields if file_column(f, file_schema) is not None)
        return present.issuperset(required)

    def _merge(self, step: Merge, merged: Sequence[Section]) -> None:
        """Merge the sections; the data and changelog writers both finish, or both delete their files."""
        self._weight = _weight(merged)
        columns = self._columns(step, merged)
        data = BackgroundWriter(self._writer(step.level, columns, FILE_SOURCE_COMPACT), "data")
        changelog = BackgroundWriter(
            self._writer(step.level, columns, FILE_SOURCE_APPEND, is_changelog=True), "changelog"
        )
        emits = isinstance(step, MergeWithChangelog) and step.emits
        # With `input` writers emit their own records; only a compaction can emit that a row expired.
        producer = self._state.options.get(opt.CHANGELOG_PRODUCER)
        emits_expired = producer == "input" and step.expiry is not Expiry.NONE
        with_number = partial(_with_number, step.sequence_number)
        try:
            for section in merged:
                for merged_range in self._merged(step, section):
                    data.write(map(with_number, merged_range.rows()))
                    self.expired_rows += merged_range.expired_rows
                    if emits:
                        changelog.write(merged_range.changes())
                    elif emits_expired and merged_range.expired_rows:
                        changelog.write(merged_range.expired())
                    # Runs whose rows were only looked up come first.
                    self._count(int(merged_range.run_rows[-len(section.runs) :].sum()))
            new_files, new_changelog = data.finish(), changelog.finish()
        except BaseException:
            data.abort()
            changelog.abort()
            raise
        self._written += (*new_files, *new_changelog)
        self.before += [file for section in merged for file in section.files]
        self.after += new_files
        self.changelog += new_changelog

    def _count(self, rows: int) -> None:
        if self._rows_done is not None:
            self._rows_done(rows * self._weight)

    def _columns(self, step: Merge, merged: Sequence[Section]) -> Sequence[str]:
        """Return the columns of the new files. Only the last file may have a column, so all are read before any row."""
        if self._state.has_wide_files:
            return self._state.schema.names
        before = step.before if isinstance(step, MergeWithChangelog) else ()
        files = [file for section in merged for file in section.files]
        files += [file for runs in before for run in runs for file in run.files]
        opener = RowsOpener(self._state, self._bucket, self._state.schema.names, self._caches)
        present: set[str] = set()
        for file in files:
            present.update(opener.columns_of(file))
        return in_schema_order(self._state.schema, present)

    def _writer(
        self,
        level: int,
        columns: Sequence[str],
        file_source: int,
        *,
        is_changelog: bool = False,
    ) -> RollingWriter:
        return RollingWriter(
            self._state,
            self._bucket,
            columns,
            level=level,
            file_source=file_source,
            is_changelog=is_changelog,
            caches=None if is_changelog else self._caches,
        )

    def _merged(self, step: Merge, section: Section) -> Iterator[Merged]:
        """Yield the merged rows of a section, and their changes for readers. No run is new if no changes are emitted.

        The runs are in the order of `merge_with_changes`: looked-up ones (the oldest, not in the pick), known ones of
        the section, new ones. With known_level 1 only level 0 is new; with that of the base, all newer levels are.
        """
        batch_bytes = merge_bytes(self._state.options)
        if isinstance(step, MergeWithChangelog) and step.emits:
            batch_bytes //= _ROWS_OF_CHANGES  # changes are held beside the rows themselves
        known_level = step.known_level if isinstance(step, MergeWithChangelog) else 0
        new = [run for run in section.runs if run.level < known_level]
        before = step.before if isinstance(step, MergeWithChangelog) and new else ()
        staying_runs = len(before)
        # Looked-up rows count as wide as those of the widest run that may have them.
        widest = [max(runs, key=row_width) for runs in before]
        shares = read_shares([*widest, *section.runs], batch_bytes)
        looked_up = zip(before, shares[:staying_runs], strict=True)
        seen = [self._older_rows(runs, new, share) for runs, share in looked_up]
        of_section = list(zip(section.runs, shares[staying_runs:], strict=True))
        seen += [self._input(run, share) for run, share in of_section if run.level >= known_level]
        return merge_with_changes(
            seen,
            [self._input(run, share) for run, share in of_section if run.level < known_level],
            self._state.schema,
            self._state.engine,
            keep_deletes=step.keep_deletes,
            batch_bytes=batch_bytes,
            full_runs=staying_runs + sum(run.level > 0 for run in section.runs),
            staying_runs=staying_runs,
            expiry=None if step.expiry is Expiry.NONE else self._expiry,
            budget_bytes=self._state.options.get(opt.WRITE_BUFFER_SIZE),
        )

    def _older_rows(
        self, runs: Sequence[SortedRun], new: Sequence[SortedRun], batch_bytes: int
    ) -> Iterator[pa.RecordBatch]:
        """Yield the rows in these runs, newest first, of the keys in the new runs; they form a sorted run."""
        return find_rows(
            self._state,
            self._bucket,
            runs,
            self._keys(new, min(batch_bytes, _KEY_BYTES)),
            self._state.schema.names,
            self._caches,
            expected_keys=sum(run.rows for run in new),
            piece_bytes=batch_bytes,
        )

    def _keys(self, runs: Sequence[SortedRun], batch_bytes: int) -> Iterator[pa.RecordBatch]:
        """Yield the distinct keys of these runs in order. Any engine that keeps deletes gives them."""
        key = self._state.schema.trimmed_primary_key
        merged = merge_runs(
            [self._rows(run, batch_bytes // len(runs), key) for run in runs],
            self._state.schema,
            Deduplicate(),
            key,
            keep_deletes=True,
            batch_bytes=batch_bytes,
        )
        return (rows.select(list(key)) for rows in merged)

    def _input(self, run: SortedRun, batch_bytes: int) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a run that is merged, and count them."""
        for rows in self._rows(run, batch_bytes):
            self._count(rows.num_rows)
            yield rows

    def _rows(
        self, run: SortedRun, batch_bytes: int, columns: Sequence[str] | None = None
    ) -> Iterator[pa.RecordBatch]:
        """Yield a sorted run's row batches; each file is open only while it is read."""
        names = self._state.schema.names if columns is None else columns
        opener = RowsOpener(self._state, self._bucket, names, self._caches)
        for file in run.files:
            yield from opener.batches(file, batch_bytes)


def _weight(merged: Sequence[Section]) -> float:
    """Return the weight of a row in progress reports, in rows of level 0.

    A row counts when it is read and again when it is merged, as the first rows of all files are read before any is
    merged. Rows of older levels count, too.
    """
    runs = [run for section in merged for run in section.runs]
    new_rows = sum(run.rows for run in runs if run.level == 0)
    return new_rows / max(1, 2 * sum(run.rows for run in runs))


def _with_number(number: int | None, rows: pa.RecordBatch) -> pa.RecordBatch:
    """Return the rows with this sequence number; None: with their own."""
    if number is None:
        return rows
    at = rows.schema.get_field_index(SEQUENCE_NUMBER)
    numbers = pa.array(np.full(rows.num_rows, number, np.int64))
    return rows.set_column(at, rows.schema.field(at), numbers)


def merge_bytes(options: TableOptions) -> int:
    """Return the bytes of batches that all runs may hold, so that merging stays within `write-buffer-size`."""
    return max(MIN_BYTES, options.get(opt.WRITE_BUFFER_SIZE) // _BATCHES_PER_BUDGET)
