"""Laws of the changelog of one bucket: chain law, fold law, and that rows that moved up are whole (law 5).

In: the history of a bucket; out: findings. A span between two overwrites is looked at in parts by a hash of the key, so
that a part with its changelog fits in `write-buffer-size`; each part reads the span's files once, and the emitted files
again at every snapshot at which the whole bucket is folded. Rows have the table's newest columns.

    snapshots    2    4    6 (overwrite)    8    9
    spans        base of the start: 2 4     files after 6: 8 9

    fold law     base + changelogs of 2 and 4, as rows by key  =  the emitted rows after 4
    law 5        of each file that 4 brought up, a row is what the changelog has of its key by 4

Memory: the base, all changelogs and written files of the span and one fold, of one part of the
keys; parts = 1 + 5 * compressed bytes / `write-buffer-size`. Time: that many times the span's
bytes, so a large bucket with a long span and a small buffer is read again and again.

Raises what reading data files raises, but for files that are damaged or missing: those are
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
from widetable.kernels.bucket_hash import murmur_hash
from widetable.lsm.sorted_run import key_types
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

# A guess for the memory of compressed bytes when they are decoded.
_DECODED_PER_FILE_BYTE: Final = 5
_ABSENT: Final = "no row"


@dataclass(frozen=True)
class _Span:
    """What happened from one known state of a bucket on. emitted: the steps with the files after each."""

    base: tuple[DataFileMeta, ...]
    emitted: tuple[HistoryStep, ...]

    def written(self, emitted: HistoryStep) -> list[DataFileMeta]:
        """Files that a step brought to where rows are emitted, newest first; not those that it moved on. With them the
        newer ones that it left alone: they have the whole rows where a compaction took old levels only.

            step 9 takes a (L9) and b (L8) to c (L9), leaves d (L6)    d, c
            the changelog has k = 3 as of d; c has k = 2, an older row, which is right: d hides it
        """
        moved = {file.file_name for file in emitted.removed}
        fresh = {file for file in emitted.added if file.file_name not in moved}
        oldest_level = max((file.level for file in fresh), default=0)
        newer = {file for file in emitted.files if file.level < oldest_level}
        return sorted(fresh | newer, key=lambda file: (file.level, file.file_name))

    def size_bytes(self) -> int:
        """Of all that is held at once, decoded; about.

        The base, changelogs and written rows of the whole span, and the largest of the folds.
        """
        files = [*self.base]
        for one in self.emitted:
            files += (*one.changelog, *self.written(one))
        largest = max((sum(f.file_size for f in one.files) for one in self.emitted), default=0)
        return _DECODED_PER_FILE_BYTE * (sum(file.file_size for file in files) + largest)


class ChangelogAudit:
    """folded_rows: how many rows of emitted files may be read to fold whole buckets. Where that is too few, a bucket is
    folded at some of its snapshots only, the last one among them.
    """

    def __init__(
        self, table: TableState, findings: Findings, start_id: int, folded_rows: int
    ) -> None:
        schema = table.schema
        options = schema.typed_options
        # No change is emitted when only these change.
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

    def look_at(self, history: BucketHistory) -> None:
        """Check one bucket; one with a file that cannot be read is skipped from there on."""
        try:
            self._look_at(history)
        except (DamagedError, NotFoundError) as error:
            directory = self._table.bucket_dir(history.bucket)
            self._findings.skip(f"changelog laws of {directory}: {error}")

    def _look_at(self, history: BucketHistory) -> None:
        for start_id, span in self._spans(history):
            folded = self._chosen_folds(span)
            # Each part is a run of its own, so what it found is reported and let go before the
            # next.
            parts = 1 + span.size_bytes() // self._budget_bytes
            for part in range(parts):
                one = _AuditedPart(self._table, history.bucket, self._compared, part, parts)
                timeline = one.timeline(start_id, span)
                self._findings.checked("chain", timeline.count(TimelineSource.CHANGE))
                self._findings.checked("merged-rows", timeline.count(TimelineSource.WRITTEN))
                for breaches in timeline.breaches():
                    self._report(history, timeline, breaches)
                for emitted in folded:
                    self._fold(history, one, timeline, emitted)
            self._findings.checked("fold", len(folded))

    def _spans(self, history: BucketHistory) -> Iterator[tuple[int, _Span]]:
        """Each with the id of the snapshot that its base is of. The last one may have no step."""
        start_id, base, emitted = self._start_id, history.base, []
        for after in history.steps:
            if not after.overwritten:
                emitted.append(after)
                continue
            yield start_id, _Span(base, tuple(emitted))
            start_id, base, emitted = after.snapshot_id, after.files, []
        yield start_id, _Span(base, tuple(emitted))

    def _chosen_folds(self, span: _Span) -> list[HistoryStep]:
        """All steps, or when that is too much every so many, the last one always.

            steps 2 4 6 8 9, twice as many rows as may be read    every 2nd from the end: 2 6 9

        The limit is for each span of each bucket. What lies between two folds is not unlooked at:
        the chain law holds each change against the one before it.
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
        """Hold the folded rows against those that are there; both are in key order, and equal as a rule, row by row.
        Only if they are not, keys are matched.
        """
        live = timeline.live_rows(at.snapshot_id)
        found = one.rows(at.files)
        if len(live) == found.num_rows:
            here = np.arange(len(live), dtype=np.int64)
            if equal_rows(timeline.rows, live, found, here, self._compared).all():
                return
        folded = timeline.rows.take(pa.array(live)).combine_chunks()
        left, right = differing_keys(folded, found, self._key, self._compared)
        kept = self._findings.wanted("fold")
        for row, other in zip(left[:kept].tolist(), right[:kept].tolist(), strict=True):
            expected = _row(folded, row)
            self._find("fold", history, at.snapshot_id, expected, _row(found, other))
        self._findings.count("fold", max(len(left) - kept, 0))

    def _report(self, history: BucketHistory, timeline: Timeline, breaches: Breaches) -> None:
        kept = self._findings.wanted(breaches.law)
        pairs = zip(breaches.rows[:kept].tolist(), breaches.others[:kept].tolist(), strict=True)
        for row, other in pairs:
            found, expected = _row(timeline.rows, row), _row(timeline.rows, other)
            assert found is not None
            kind = TEXTS[timeline.kinds[row]]
            self._find(
                breaches.law,
                history,
                int(timeline.snapshots[row]),
                expected,
                found,
                said=(breaches.expected, breaches.found),
                kind=f"{kind} " if timeline.sources[row] == TimelineSource.CHANGE else "",
            )
        self._findings.count(breaches.law, max(len(breaches.rows) - kept, 0))

    def _find(
        self,
        law: str,
        history: BucketHistory,
        snapshot_id: int,
        expected: dict[str, Any] | None,
        found: dict[str, Any] | None,
        *,
        said: tuple[str | None, str | None] = (None, None),
        kind: str = "",
    ) -> None:
        """Of two rows only what differs is shown."""
        row = found or expected or {}
        texts = _differences(expected, found, self._compared)
        if said[0] is not None:
            texts = (said[0], f"{said[1]}; {kind}{ {n: row[n] for n in self._compared} }")
        elif kind:
            texts = (texts[0], f"{kind}{texts[1]}")
        self._findings.add(
            Finding(
                law,
                snapshot_id,
                *texts,
                partition_text(history.bucket.partition, self._table.schema),
                history.bucket.number,
                key={name: row[name] for name in self._key},
            )
        )


def _row(table: pa.Table, row: int) -> dict[str, Any] | None:
    return None if row < 0 else next(printed_rows(table.slice(row, 1)))


def _differences(
    expected: dict[str, Any] | None, found: dict[str, Any] | None, compared: Sequence[str]
) -> tuple[str, str]:
    if expected is None or found is None:
        texts = [_ABSENT if row is None else str(row) for row in (expected, found)]
        return texts[0], texts[1]
    names = [name for name in compared if str(expected[name]) != str(found[name])] or compared
    return str({name: expected[name] for name in names}), str({name: found[name] for name in names})


@dataclass(frozen=True)
class _AuditedPart:
    """Reads the rows of a bucket whose key falls into one part of several."""

    table: TableState
    bucket: BucketId
    compared: tuple[str, ...]
    part: int
    parts: int

    def rows(self, files: Sequence[DataFileMeta]) -> pa.Table:
        """What readers of the table see of these files, in key order."""
        schema, merge = self.table.schema.arrow_schema(), needs_merge(files)
        read = read_bucket(self.table, self.bucket, files, schema.names, None, merge=merge)
        kept = [batch.filter(pa.array(self._is_here(batch))) for batch in read]
        return pa.Table.from_batches(kept, schema).combine_chunks()

    def timeline(self, start_id: int, span: _Span) -> Timeline:
        """All rows of a span.

        Facts are added in the order in which they came to be: the base, then of each step its
        changelog, then the files that it wrote, which that has emitted by then. Their positions
        are their time, so nothing may be added out of turn.
        """
        facts = _Facts(self.table.schema.arrow_schema())
        base = self.rows(span.base)
        facts.add(base, TimelineSource.BASE, start_id, np.full(base.num_rows, INSERT, np.int8))
        # A base of several levels has rows of several files for a key: the newest is to be the
        # whole row of it. Of one level the base itself says all.
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
        keeps_kinds = self.table.options.get(opt.MERGE_ENGINE) == "first-row"
        return replace(
            facts.timeline(self.table.schema.trimmed_primary_key, self.compared),
            keeps_kinds=keeps_kinds,
        )

    def _add_files(
        self, facts: _Facts, source: TimelineSource, snapshot_id: int, files: Iterable[DataFileMeta]
    ) -> None:
        """Places count rows over all files, those of other parts too: -U and +U stay neighbours, and only they do."""
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
        # Buckets are made of the same hash: mixed, or some parts would be empty.
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
        """A column that the rows lack is null."""
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
