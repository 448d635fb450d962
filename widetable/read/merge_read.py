"""Reads the rows of one bucket: directly where there is one run, merged where several runs overlap.

In: the files of a bucket (those that the filter leaves), the requested columns, the filter. Out:
record batches of those columns in key order. Row groups whose key range the filter rejects are
skipped; all other conditions are applied to rows, after the merge if there is one. Memory: a few
batches per overlapping run.

    section of the bucket                         how it is read
    the split needs no merge                      its files one after the other, kinds ignored
    one run by itself                             its files without the rows that retract
    one run, whose retractions may make rows      merged: `aggregation` has a key that only retracts
    several runs                                  merged, key range by key range

A condition on a value before the merge would restore old rows: with k = 1, v = 5 at level 5
and k = 1, v = 7 at level 0 the filter `v = 5` would drop the newer record, and return the older
one. A condition on the key drops all records of a key or none.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from widetable.format.bucket_id import BucketId
from widetable.format.data_file_meta import DataFileMeta
from widetable.format.data_file_reader import DataFile
from widetable.format.key_range import KeyRange
from widetable.format.projection import Projection, with_columns
from widetable.format.row_budget import BATCH_BYTES
from widetable.lsm.sorted_run import Section, SortedRun, read_shares, sections
from widetable.merge.sorted_merge import merge_runs
from widetable.read.indexed.indexed_files import groups_with, may_ask, rows_of_file
from widetable.read.literal import comparable_of
from widetable.read.predicate import Bound, Predicate
from widetable.schema.row_kind import is_retraction
from widetable.schema.table_schema import VALUE_KIND
from widetable.schema.types import DataField
from widetable.write.table_state import TableState


def read_bucket(
    table: TableState,
    bucket: BucketId,
    files: Sequence[DataFileMeta],
    columns: Sequence[str],
    predicate: Predicate | None,
    *,
    merge: bool,
    use_threads: bool = False,
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a bucket.

    merge: False if the rows are correct without a merge, kinds included (format.md T1, T2).
    use_threads: let Arrow decode the columns of a file on several cores.

    Batches have these columns in their order; none is empty. Files are opened when their
    section is reached, and closed when it is read, or the iterator is closed.
    """
    needed = tuple(dict.fromkeys([*columns, *(sorted(predicate.columns) if predicate else ())]))
    bucket_read = _BucketRead(table, bucket, needed, predicate, use_threads)
    filtered = table.schema.arrow_schema(sorted(predicate.columns)) if predicate else ()
    requested = Projection(table.schema.arrow_schema(columns))
    for section, merges in section_reads(table, files, merge=merge):
        if merges:
            batches = bucket_read.merged(section.runs)
        else:
            batches = bucket_read.raw(section.files, needed, BATCH_BYTES, merges=False)
            batches = _without_retractions(batches) if merge else batches
        for batch in batches:
            if predicate is not None:
                batch = predicate.rows_of(with_columns(batch, filtered))
            if batch.num_rows:
                yield requested.of(batch)


def section_reads(
    table: TableState, files: Sequence[DataFileMeta], *, merge: bool
) -> Iterator[tuple[Section, bool]]:
    """Yield the sections of a bucket, in key order, each with whether its records must be merged. merge: that of
    `read_bucket`. Each file of an append table is one section: its rows have no key.
    """
    if table.schema.primary_keys:
        for section in sections(files, table.schema):
            yield section, merge and (len(section.runs) > 1 or _merges_alone(table, section))
    else:
        for file in files:
            yield Section((SortedRun(file.level, (file,)),)), False


def _merges_alone(table: TableState, section: Section) -> bool:
    """Return whether a run by itself may have retractions from which the engine makes rows."""
    may_retract = any(file.delete_row_count != 0 for file in section.files)
    return table.engine.merges_retractions and may_retract


def _without_retractions(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Remove retractions, which merges a run by itself: a key with one record passes through unchanged."""
    for batch in batches:
        retracts = is_retraction(np.asarray(batch.column(VALUE_KIND)))
        yield batch.filter(pa.array(~retracts)) if retracts.any() else batch


@dataclass(frozen=True)
class _BucketRead:
    """Opens the files of one bucket and yields their row batches."""

    table: TableState
    bucket: BucketId
    needed: Sequence[str]
    predicate: Predicate | None
    use_threads: bool

    def raw(
        self,
        files: Sequence[DataFileMeta],
        columns: Sequence[str],
        batch_bytes: int,
        *,
        merges: bool,
    ) -> Iterator[pa.RecordBatch]:
        """Yield the rows of the files, one file after the other. merges: the caller merges them with other rows."""
        for file in files:
            with self.table.opened(self.bucket, file, columns) as opened:
                groups = self._matching_groups(opened)
                groups = self._indexed_groups(file, opened, groups, merges=merges)
                yield from opened.batches(batch_bytes, groups, use_threads=self.use_threads)

    def merged(self, runs: Sequence[SortedRun]) -> Iterator[pa.RecordBatch]:
        """Yield the merged rows of overlapping runs, without retracted keys.

        An engine may need more columns than are requested, such as those that order a sequence
        group. The runs share one memory budget.
        """
        schema, engine = self.table.schema, self.table.engine
        loaded = engine.needed_columns(schema, self.needed)
        shares = zip(runs, read_shares(runs, BATCH_BYTES), strict=True)
        inputs = [self.raw(run.files, loaded, share, merges=True) for run, share in shares]
        return merge_runs(
            inputs,
            schema,
            engine,
            self.needed,
            keep_deletes=False,
            batch_bytes=BATCH_BYTES,
            full_runs=sum(run.level > 0 for run in runs),
        )

    def _matching_groups(self, opened: DataFile) -> list[int] | None:
        """Return the row groups whose key range the filter may keep; None for all. In an append table any column is
        like a key.

        This is correct for a merge too: all records of a skipped key are skipped, in every run.
        """
        schema, predicate = self.table.schema, self.predicate
        bounded = schema.trimmed_primary_key if schema.has_key else schema.names
        if predicate is None or predicate.columns.isdisjoint(bounded):
            return None
        if not schema.has_key and len(opened.row_group_rows) == 1:
            return None  # the plan has compared the values of the whole file
        names = bounded if schema.has_key else sorted(predicate.columns)
        columns = [schema.field(name) for name in names]
        return [
            index
            for index, key_range in enumerate(opened.row_group_ranges(columns))
            if predicate.may_match(_group_bounds(columns, key_range, nulls=not schema.has_key))
        ]

    def _indexed_groups(
        self, file: DataFileMeta, opened: DataFile, groups: list[int] | None, *, merges: bool
    ) -> list[int] | None:
        """Return those of the row groups that may have rows of the filter by the indexes of the file; None for all."""
        predicate = self.predicate
        sizes = opened.row_group_rows
        is_answered = len(sizes) == 1 or groups == []  # the plan has asked for the whole file
        if is_answered or not may_ask(self.table, file, predicate, merges=merges):
            return groups
        assert predicate is not None
        rows = rows_of_file(self.table, self.bucket, file, predicate, merges=merges)
        if rows is None:
            return groups
        return [group for group in groups_with(rows, sizes) if groups is None or group in groups]


def _group_bounds(
    columns: Sequence[DataField], key_range: KeyRange, *, nulls: bool
) -> dict[str, Bound]:
    """Return the bounds of each column: the statistics bound every column. nulls: whether there may be nulls."""
    bounds = {}
    for column, low, high in zip(columns, key_range.minima, key_range.maxima, strict=True):
        if low is not None and high is not None:
            bounds[column.name] = Bound(
                comparable_of(column.type, low), comparable_of(column.type, high), nulls=nulls
            )
    return bounds
