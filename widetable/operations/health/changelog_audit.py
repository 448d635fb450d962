"""Laws of the changelog of one bucket: the chain law, the fold law, and law 5: rows that moved up are whole.

In: the history of a bucket; out: findings. A span between two overwrites is checked in parts by a hash of the key, so
that a part with its changelog fits in `write-buffer-size`. Each part reads the span's files once, and the emitted files
again at every snapshot at which the whole bucket is folded. Rows have the table's newest columns.

    snapshots    2    4    6 (overwrite)    8    9
    spans        base of the start: 2 4     files after 6: 8 9

    fold law     base + changelogs of 2 and 4, as rows by key  =  the emitted rows after 4
    law 5        each row of a file that 4 moved up equals the row of its key in the changelog up to 4

Memory: the base, all changelogs and written files of the span and one fold, for one part of the
keys; parts = 1 + 5 * compressed bytes / `write-buffer-size`. Time: that many times the span's
bytes, so a large bucket with a long span and a small buffer is read many times.

Raises what reading data files raises, except for files that are damaged or missing: those are
findings of `file_audit`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from widetable.errors import DamagedError, NotFoundError
from widetable.format.binary_row import encode_rows
from widetable.format.bucket_id import BucketId
from widetable.format.data_file_meta import DataFileMeta
from widetable.format.printed_value import printed_rows
from widetable.format.row_batch import column_or_nulls
from widetable.kernels.arrow_buffers import fixed_values
from widetable.kernels.hashing.bucket_hash import murmur_hash
from widetable.lsm.sorted_run import key_types
from widetable.merge.engine import unchecked_engine
from widetable.merge.merge_engine import RowOrigin
from widetable.operations.health.audit_report import Finding, Findings
from widetable.operations.health.bucket_history import BucketHistory, HistoryStep
from widetable.operations.health.changelog_timeline import (
    Breaches,
    Timeline,
    TimelineSource,
    differing_keys,
    equal_rows,
)
from widetable.operations.health.snapshot_audit import partition_text
from widetable.read.merge_read import read_bucket
from widetable.read.split import needs_merge
from widetable.schema import options as opt
from widetable.schema.row_kind import INSERT, TEXTS
from widetable.schema.table_schema import VALUE_KIND
from widetable.write.table_state import TableState

# An estimate of the memory that decoded bytes take per compressed byte.
_DECODED_PER_FILE_BYTE: Final = 5
_ABSENT: Final = "no row"


@dataclass(frozen=True)
class _Span:
    """Holds what happened after one known state of a bucket. emitted: the steps with the files after each."""

    base: tuple[DataFileMeta, ...]
    emitted: tuple[HistoryStep, ...]

    def written(self, emitted: HistoryStep) -> list[DataFileMeta]:
        """Return the files that a step added to the emitted levels, newest first, without those that it only moved.

        The newer files that the step left alone are included: they have the whole rows if a compaction took only old
        levels.

            step 9 takes a (L9) and b (L8) to c (L9), leaves d (L6)    d, c
            the changelog has k = 3 from d; c has k = 2, an older row, which is right because d hides it
        """
        moved = {file.file_name for file in emitted.removed}
        fresh = {file for file in emitted.added if file.file_name not in moved}
        oldest_level = max((file.level for file in fresh), default=0)
        newer = {file for file in emitted.files if file.level < oldest_level}
        return sorted(fresh | newer, key=lambda file: (file.level, file.file_name))

    def files(self) -> dict[str, DataFileMeta]:
        """Return by name the files of all states and changelogs."""
        steps = [file for one in self.emitted for file in (*one.changelog, *one.files)]
        return {file.file_name: file for file in (*self.base, *steps)}

    def size_bytes(self) -> int:
        """Estimate the decoded size of all that is in memory at once: the base, changelogs and written rows of the
        whole span, and the largest fold.
        """
        files = [*self.base]
        for one in self.emitted:
            files += (*one.changelog, *self.written(one))
        largest = max((sum(f.file_size for f in one.files) for one in self.emitted), default=0)
        return _DECODED_PER_FILE_BYTE * (sum(file.file_size for file in files) + largest)


class ChangelogAudit:
    """Checks the changelog bucket by bucket.

    folded_rows: how many rows of emitted files may be read to fold whole buckets. If that is too few, a bucket is
    folded at some of its snapshots only, which include the last one.
    """

    def __init__(
        self, table: TableState, findings: Findings, start_id: int, folded_rows: int
    ) -> None:
        schema = table.schema
        options = schema.typed_options
        # A row in which only these columns differ emits no change.
        ignored = (
            options.get(opt.ROW_DEDUPLICATE_IGNORE_FIELDS)
            if options.get(opt.ROW_DEDUPLICATE)
            else ()
        )
        self._table = table
        self._findings = findings
        self._start_id = start_id
        self._folded_rows = folded_rows
        self._key = schema.trimmed_primary_key
        self._compared = tuple(name for name in schema.names if name not in ignored)
        self._budget_bytes = options.get(opt.WRITE_BUFFER_SIZE)

    def check(self, history: BucketHistory) -> None:
        """Check one bucket; the rest of a bucket is skipped after a file that cannot be read."""
        try:
            self._look_at(history)
        except (DamagedError, NotFoundError) as error:
            directory = self._table.bucket_dir(history.bucket)
            self._findings.skip(f"changelog laws of {directory}: {error}")

    def _look_at(self, history: BucketHistory) -> None:
        for start_id, span in self._spans(history):
            folded = self._chosen_folds(span)
            columns = self._columns_of_files(history.bucket, span)
            compared = tuple(filter(columns.__contains__, self._compared))
            # Each part is checked on its own, so its findings are reported and its memory is freed before the next.
            parts = 1 + span.size_bytes() // self._budget_bytes
            for part in range(parts):
                one = _AuditedPart(self._table, history.bucket, columns, compared, part, parts)
                timeline = one.timeline(start_id, span)
                self._findings.checked("chain", timeline.count(TimelineSource.CHANGE))
                self._findings.checked("merged-rows", timeline.count(TimelineSource.WRITTEN))
                for breaches in timeline.breaches():
                    self._report(history, timeline, breaches)
                for emitted in folded:
                    self._fold(history, one, timeline, emitted)
            self._findings.checked("fold", len(folded))

    def _columns_of_files(self, bucket: BucketId, span: _Span) -> tuple[str, ...]:
        """Return the columns that some file of a span has, in the table's order. The others are null in all rows: there
        may be thousands, and comparing two columns of nulls costs as much as comparing two others.
        """
        names = set(self._key)
        for file in span.files().values():
            with self._table.opened(bucket, file) as data:
                names.update(data.columns)
        return tuple(filter(names.__contains__, self._table.schema.names))

    def _spans(self, history: BucketHistory) -> Iterator[tuple[int, _Span]]:
        """Yield the spans, each with the id of the snapshot of its base. The last span may have no step."""
        start_id, base, emitted = self._start_id, history.base, []
        for after in history.steps:
            if not after.overwritten:
                emitted.append(after)
                continue
            yield start_id, _Span(base, tuple(emitted))
            start_id, base, emitted = after.snapshot_id, after.files, []
        yield start_id, _Span(base, tuple(emitted))

    def _chosen_folds(self, span: _Span) -> list[HistoryStep]:
        """Return all steps, or every n-th from the end if all would read too many rows.

            steps 2 4 6 8 9, twice as many rows as may be read    every 2nd from the end: 2 6 9

        The limit applies to each span of each bucket. The steps between two folds are still checked: the chain law
        compares each change with the one before it.
        """
        rows = sum(file.row_count for emitted in span.emitted for file in emitted.files)
        every = max(1, math.ceil(rows / max(self._folded_rows, 1)))
        if every > 1:
            self._findings.skip(
                f"fold law: of large buckets only one snapshot in {every} or so was folded whole"
            )
        return list(span.emitted[::-1][::every])[::-1]

    def _fold(
        self, history: BucketHistory, one: _AuditedPart, timeline: Timeline, at: HistoryStep
    ) -> None:
        """Compare the folded rows with the stored ones. Both are in key order and usually equal row by row, so keys are
        matched only if they differ.
        """
        live = timeline.live_rows(at.snapshot_id)
        stored = one.rows(at.files)
        if len(live) == stored.num_rows:
            here = np.arange(len(live), dtype=np.int64)
            if equal_rows(timeline.rows, live, stored, here, one.compared).all():
                return
        folded = timeline.rows.take(pa.array(live)).combine_chunks()
        left, right = differing_keys(folded, stored, self._key, one.compared)
        room = self._findings.wanted("fold")
        for row, other in zip(left[:room].tolist(), right[:room].tolist(), strict=True):
            expected = _row(folded, row)
            self._find("fold", history, at.snapshot_id, expected, _row(stored, other))
        self._findings.count("fold", max(len(left) - room, 0))

    def _report(self, history: BucketHistory, timeline: Timeline, breaches: Breaches) -> None:
        room = self._findings.wanted(breaches.law)
        pairs = zip(breaches.rows[:room].tolist(), breaches.others[:room].tolist(), strict=True)
        for row, other in pairs:
            actual, expected = _row(timeline.rows, row), _row(timeline.rows, other)
            assert actual is not None
            kind = TEXTS[timeline.kinds[row]]
            self._find(
                breaches.law,
                history,
                int(timeline.snapshots[row]),
                expected,
                actual,
                texts=(breaches.expected, breaches.actual),
                kind=f"{kind} " if timeline.sources[row] == TimelineSource.CHANGE else "",
            )
        self._findings.count(breaches.law, max(len(breaches.rows) - room, 0))

    def _find(
        self,
        law: str,
        history: BucketHistory,
        snapshot_id: int,
        expected: dict[str, Any] | None,
        actual: dict[str, Any] | None,
        *,
        texts: tuple[str | None, str | None] = (None, None),
        kind: str = "",
    ) -> None:
        """Add a finding about two rows, which shows only their differences, or `texts` if they are given."""
        row = actual or expected or {}
        shown = _differences(expected, actual, self._compared)
        if texts[0] is not None:
            shown = (texts[0], f"{texts[1]}; {kind}{ {n: row.get(n) for n in self._compared} }")
        elif kind:
            shown = (shown[0], f"{kind}{shown[1]}")
        self._findings.add(
            Finding(
                law,
                snapshot_id,
                *shown,
                partition_text(history.bucket.partition, self._table.schema),
                history.bucket.number,
                key={name: row[name] for name in self._key},
            )
        )


def _row(table: pa.Table, row: int) -> dict[str, Any] | None:
    return None if row < 0 else next(printed_rows(table.slice(row, 1)))


def _differences(
    expected: dict[str, Any] | None, actual: dict[str, Any] | None, compared: Sequence[str]
) -> tuple[str, str]:
    if expected is None or actual is None:
        texts = [_ABSENT if row is None else str(row) for row in (expected, actual)]
        return texts[0], texts[1]
    names = [n for n in compared if str(expected.get(n)) != str(actual.get(n))] or compared
    return str({name: expected.get(name) for name in names}), str(
        {name: actual.get(name) for name in names}
    )


@dataclass(frozen=True)
class _AuditedPart:
    """Reads the rows of a bucket whose keys fall into one of several parts. columns: those that its files have."""

    table: TableState
    bucket: BucketId
    columns: tuple[str, ...]
    compared: tuple[str, ...]
    part: int
    parts: int

    def rows(self, files: Sequence[DataFileMeta]) -> pa.Table:
        """Return the rows that readers of the table see in these files, in key order."""
        schema, merge = self.table.schema.arrow_schema(self.columns), needs_merge(files)
        read = read_bucket(self.table, self.bucket, files, self.columns, None, merge=merge)
        kept = [batch.filter(pa.array(self._is_here(batch))) for batch in read]
        return pa.Table.from_batches(kept, schema).combine_chunks()

    def timeline(self, start_id: int, span: _Span) -> Timeline:
        """Return all rows of a span.

        Facts are added in the order of their time: the base, then for each step its changelog, then the files that it
        wrote, whose rows that changelog has emitted. Positions stand for time, so the order of the calls matters.
        """
        facts = _Facts(self.table.schema.arrow_schema(self.columns))
        base = self.rows(span.base)
        facts.add(base, TimelineSource.BASE, start_id, np.full(base.num_rows, INSERT, np.int8))
        # A base of several levels has rows of several files for a key, and the newest must be the whole row. A base of
        # one level needs no such check.
        if len({file.level for file in span.base}) > 1:
            self._add_files(
                facts,
                TimelineSource.WRITTEN,
                start_id,
                sorted(span.base, key=lambda file: file.level),
            )
        for step in span.emitted:
            self._add_files(facts, TimelineSource.CHANGE, step.snapshot_id, step.changelog)
            self._add_files(facts, TimelineSource.WRITTEN, step.snapshot_id, span.written(step))
        origin = unchecked_engine(self.table.options).origin
        return replace(
            facts.timeline(self.table.schema.trimmed_primary_key, self.compared),
            keeps_kinds=origin is RowOrigin.FIRST,
        )

    def _add_files(
        self, facts: _Facts, source: TimelineSource, snapshot_id: int, files: Iterable[DataFileMeta]
    ) -> None:
        """Add the rows of some files. Places count the rows of all parts, so that only true neighbours, such as -U and
        its +U, have consecutive places.
        """
        place = 0
        for file in files:
            for batch in self._batches(file):
                here = self._is_here(batch)
                places = place + np.flatnonzero(here)
                place += batch.num_rows
                kept = batch.filter(pa.array(here))
                kinds = fixed_values(kept.column(VALUE_KIND), np.int8)
                facts.add(kept, source, snapshot_id, kinds, places)

    def _batches(self, file: DataFileMeta) -> Iterator[pa.RecordBatch]:
        with self.table.opened(self.bucket, file) as data:
            yield from data.batches()

    def _is_here(self, batch: pa.RecordBatch) -> npt.NDArray[np.bool_]:
        if self.parts == 1:
            return np.ones(batch.num_rows, np.bool_)
        keys = [batch.column(name) for name in self.table.schema.trimmed_primary_key]
        hashes = murmur_hash(encode_rows(keys, key_types(self.table.schema))).view(np.uint32)
        # The bucket comes from the same hash, so the hash is mixed; otherwise some parts would be empty.
        mixed = (hashes * np.uint32(2_654_435_769)) >> np.uint32(8)
        return np.asarray(mixed % np.uint32(self.parts) == self.part)


class _Facts:
    """Collects the rows of a timeline."""

    def __init__(self, schema: pa.Schema) -> None:
        self._schema = schema
        self._batches: list[pa.RecordBatch] = []
        self._sources: list[npt.NDArray[np.int8]] = []
        self._kinds: list[npt.NDArray[np.int8]] = []
        self._snapshots: list[npt.NDArray[np.int64]] = []
        self._places: list[npt.NDArray[np.int64]] = []

    def add(
        self,
        rows: pa.RecordBatch | pa.Table,
        source: TimelineSource,
        snapshot_id: int,
        kinds: npt.NDArray[np.int8],
        places: npt.NDArray[np.int64] | None = None,
    ) -> None:
        """Add rows; a column that they lack is null."""
        count = rows.num_rows
        columns = [column_or_nulls(rows, field) for field in self._schema]
        self._batches += pa.Table.from_arrays(columns, schema=self._schema).to_batches()
        self._sources.append(np.full(count, source, np.int8))
        self._kinds.append(kinds)
        self._snapshots.append(np.full(count, snapshot_id, np.int64))
        self._places.append(np.zeros(count, np.int64) if places is None else places)

    def timeline(self, key: tuple[str, ...], compared: tuple[str, ...]) -> Timeline:
        rows = pa.Table.from_batches(self._batches, self._schema).combine_chunks()
        self._batches.clear()
        return Timeline(
            rows,
            np.concatenate(self._sources),
            np.concatenate(self._kinds),
            np.concatenate(self._snapshots),
            np.concatenate(self._places),
            key,
            compared,
        )
