"""Explains the values of a key: its records in all data files of a bucket, merged one after the other.

In: one key; a snapshot by id, tag or time. Out: an Explanation. It costs a lookup of the key, and reading the manifests
of all kept snapshots, which say which commit wrote which file.

    stored      the key's rows in all runs, oldest run first        row number = its place here
    steps       in merge order                                      number = place, from 1
    columns     of each step, what changed                          by `merge_reasons`

The window gets lanes of zeros: it has the rows of one key, so there is nothing to compare. The file
of a record tells which commits wrote it (`file_origins`).

Raises what lookups raise; InvalidError for anything but one whole key.
"""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from widetable.acceptance.acceptance import Use, accept
from widetable.commit.snapshots.committed import EXPIRED_ROWS
from widetable.errors import DamagedError, InvalidError, NotFoundError
from widetable.format.data_file_meta import DataFileMeta
from widetable.format.manifest_entry import DELETE
from widetable.format.printed_value import printed_rows
from widetable.format.snapshot import COMMIT_KIND_OVERWRITE
from widetable.merge.merge_reasons import (
    LEAVES,
    FilledColumn,
    MergedColumn,
    function_of,
    group_of,
    is_source,
)
from widetable.merge.merge_steps import MergeStep, merge_steps
from widetable.merge.window import window_of_runs
from widetable.messages.counted import counted
from widetable.operations.handle.chosen_state import ChosenState, chosen_state
from widetable.operations.handle.file_origins import Origin, WritingCommit, origins
from widetable.operations.handle.open_table import OpenTable
from widetable.operations.queries.bucket_rows import BucketRows
from widetable.operations.queries.explanation import (
    ColumnEvent,
    ExplainedColumn,
    Explanation,
    KeyRecord,
)
from widetable.operations.queries.lookup_keys import key_rows
from widetable.operations.queries.missing_dimension import why_null
from widetable.operations.queries.requested_keys import request_keys
from widetable.read.expired import checked_identity, files_of
from widetable.schema.derived_options import widen_options
from widetable.schema.row_kind import TEXTS
from widetable.schema.table_schema import SEQUENCE_NUMBER, VALUE_KIND, TableSchema
from widetable.write.partition_rows import partition_of

_SYSTEM = frozenset({SEQUENCE_NUMBER, VALUE_KIND})


class _Stored(NamedTuple):
    """A stored row of the key: its file and its values."""

    file: DataFileMeta
    values: Mapping[str, Any]


def explain(
    table: OpenTable,
    key: Any,
    as_of: int | str | datetime | None = None,
    columns: Sequence[str] | None = None,
) -> Explanation:
    """Explain why a key has the values that it has.

    The answer has the stored records of the key, the record that each column comes from, and what each record did to
    the column and why. A compaction leaves one record of a key; ask for a snapshot before it to see the others. For a
    widened column that is null the answer says what the dimension has; for a key without records, which commit removed
    them, as far as snapshots are kept.

    Parameters
    ----------
    key : value, dict, tuple or Arrow table
        The value of a key of one column; else a dict, a tuple in the order of the primary key, or an Arrow
        table of one row.
    as_of : int, str or datetime, default None
        The id of a snapshot, a tag, or a time. None: the newest snapshot.
    columns : list of str, default None
        The columns to explain. None: all but the key.

    Returns
    -------
    Explanation
        The records of the key, in merge order, and the columns, in the order of the table.

    Raises
    ------
    InvalidError
        The key is not one whole key.
    NotFoundError
        There is no such snapshot, tag or column.
    UnsupportedError
        The table has no primary key, or none that says the partition, or has an option that changes its
        rows and that this version does not honour.
    """
    chosen = chosen_state(table, **_choice(as_of))
    schema, snapshot = chosen.state.schema, chosen.snapshot
    accept(schema, Use.READ)
    key_row = _one_key(key, schema)
    stored, steps = _merged(table, chosen, key_row)
    numbers = {step.row: number for number, step in enumerate(steps, 1)}
    names = [name for name in schema.chosen(columns) if name not in schema.primary_keys]
    is_there = bool(steps) and steps[-1].is_there
    explained = tuple(map(_Merged(schema, stored, steps, numbers).column, names))
    if is_there:
        explained = tuple(_with_notes(table, chosen, key_row, explained, is_newest=as_of is None))
    return Explanation(
        table.path,
        next(printed_rows(key_row)),
        None if snapshot is None else snapshot.id,
        None if snapshot is None else snapshot.time_millis,
        is_there,
        _records(table, stored, steps),
        explained,
        None if steps else _removed_by(table, chosen, key_row),
        _unmerged(steps),
    )


def _records(
    table: OpenTable, stored: Sequence[_Stored], steps: Sequence[MergeStep]
) -> tuple[KeyRecord, ...]:
    """Return the records in merge order, numbered from 1, with the commits that wrote them."""
    if not steps:
        return ()
    with table._same_table():
        written_by = origins(table._committer)
        kept_ids = frozenset(table._committer.snapshots.ids())
    return tuple(
        _record(number, stored[step.row], step.is_there, written_by, kept_ids)
        for number, step in enumerate(steps, 1)
    )


def _unmerged(steps: Sequence[MergeStep]) -> str | None:
    """Describe the first record that cannot be merged; None without one."""
    for number, step in enumerate(steps, 1):
        if step.error is not None:
            return f"cannot be merged from #{number} on: {step.error}"
    return None


def _with_notes(
    table: OpenTable,
    chosen: ChosenState,
    key_row: pa.RecordBatch,
    columns: Sequence[ExplainedColumn],
    *,
    is_newest: bool,
) -> Iterator[ExplainedColumn]:
    """Yield the columns; a widened column that is null gets a note of what its dimension has."""
    by_column = {
        name: widen
        for widen in widen_options(chosen.state.schema.options)
        for name in widen.columns
    }
    for column in columns:
        widen = by_column.get(column.name)
        if column.value is None and widen is not None:
            note = why_null(table, chosen, key_row, widen, column.name, is_newest=is_newest)
            column = replace(column, note=note)
        yield column


def _removed_by(
    table: OpenTable, chosen: ChosenState, key_row: pa.RecordBatch
) -> WritingCommit | None:
    """Return the newest commit, up to the snapshot, that removed all records of the key."""
    committer, schema = table._committer, chosen.state.schema
    last_id = 0 if chosen.snapshot is None else chosen.snapshot.id
    partition = partition_of(key_row, 0, schema)
    for id in sorted((id for id in committer.snapshots.ids() if id <= last_id), reverse=True):
        with contextlib.suppress(NotFoundError, DamagedError):
            snapshot = committer.snapshots.load(id)
            is_overwrite = snapshot.commit_kind == COMMIT_KIND_OVERWRITE
            if not (is_overwrite or EXPIRED_ROWS in snapshot.properties):
                continue
            delta = committer.live_files.delta_entries(snapshot)
            if any(entry.kind == DELETE and entry.partition == partition for entry in delta):
                before = chosen._replace(snapshot=committer.snapshots.load(id - 1))
                _, steps = _merged(table, before, key_row)
                if steps and steps[-1].is_there:
                    return WritingCommit.of(snapshot)
    return None


def _choice(as_of: int | str | datetime | None) -> dict[str, Any]:
    """Return the argument of `chosen_state` that selects this snapshot."""
    if as_of is None:
        return {}
    if isinstance(as_of, str):
        return {"tag": as_of}
    return {"timestamp" if isinstance(as_of, datetime) else "snapshot_id": as_of}


def _one_key(key: Any, schema: TableSchema) -> pa.RecordBatch:
    accept(schema, Use.LOOK_UP)
    names = schema.primary_keys
    columns: Any = key
    if isinstance(key, Mapping):
        columns = {name: [value] for name, value in key.items()}
    elif not isinstance(key, pa.Table | pa.RecordBatch):
        values = key if isinstance(key, tuple) else (key,)
        if len(values) != len(names):
            raise _wrong_key(counted(len(values), "value"), names)
        columns = {name: [value] for name, value in zip(names, values, strict=True)}
    key_row = key_rows(columns, schema)
    if key_row.num_rows != 1:
        raise _wrong_key(counted(key_row.num_rows, "row"), names)
    for name in names:
        if key_row.column(name).null_count:
            raise _wrong_key(f"null for {name!r}", names)
    return key_row


def _wrong_key(actual: str, names: Sequence[str]) -> InvalidError:
    return InvalidError(
        "key",
        found=actual,
        expected=f"a value for each of {', '.join(names)}",
        action="Give them as a dict, or as a tuple in this order.",
    )


def _merged(
    table: OpenTable, chosen: ChosenState, key_row: pa.RecordBatch
) -> tuple[list[_Stored], list[MergeStep]]:
    """Return the stored rows of a key, by their row numbers, and how they were merged."""
    schema, snapshot, state = chosen.state.schema, chosen.snapshot, chosen.state
    if snapshot is None:
        return [], []
    live_files = table._committer.live_files
    requested = request_keys(key_row, schema, chosen.places())
    if not requested.buckets:
        return [], []
    (bucket,) = requested.buckets
    with checked_identity(state):
        entries = live_files.live_entries(
            snapshot, frozenset([bucket.partition]), frozenset([bucket.number])
        )
    rows = BucketRows(state, bucket, schema.names, None)
    try:
        with files_of(state, snapshot.id):
            rows.move([entry.file for entry in entries])
            runs = [run.find_by_file(requested.keys) for run in rows.runs]
    finally:
        rows.close()
    pieces = [matches.rows for run in runs for _, matches in run]
    stored = [
        _Stored(file, values)
        for run in runs
        for file, matches in run
        for values in printed_rows(matches.rows)
    ]
    if not stored:
        return [], []
    sizes = [sum(matches.rows.num_rows for _, matches in run) for run in runs]
    run_offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    lanes = np.zeros((len(stored), 1), np.uint64)
    is_full = state.engine.counts_newest_full_row(schema)
    full_runs = rows.levels if is_full else 0
    window = window_of_runs(schema, pieces, run_offsets, lanes, full_runs)
    return stored, merge_steps(window, state.engine, schema.names)


def _record(
    number: int,
    stored: _Stored,
    is_there: bool,
    written_by: Mapping[str, Origin],
    kept_ids: Collection[int],
) -> KeyRecord:
    """Describe a stored record. kept_ids: the snapshots that can be read."""
    origin = written_by.get(stored.file.file_name, Origin())
    apart_in = None if origin.made_in is None else origin.made_in - 1
    return KeyRecord(
        number,
        TEXTS[stored.values[VALUE_KIND]],
        stored.file.file_name,
        stored.file.level,
        stored.values[SEQUENCE_NUMBER],
        origin.commits,
        origin.is_complete,
        {name: value for name, value in stored.values.items() if name not in _SYSTEM},
        is_there,
        apart_in if len(origin.commits) > 1 and apart_in in kept_ids else None,
    )


def _not_merged(number: int) -> ColumnEvent:
    return ColumnEvent(number, LEAVES, "it cannot be merged")


@dataclass(frozen=True)
class _Merged:
    """The merged records of a key. numbers: the number of a record by its row number."""

    schema: TableSchema
    stored: Sequence[_Stored]
    steps: Sequence[MergeStep]
    numbers: Mapping[int, int]

    def column(self, name: str) -> ExplainedColumn:
        """Explain a column: what each record did to it."""
        schema, stored, steps = self.schema, self.stored, self.steps
        function = function_of(schema, name)
        if function is not None:
            return self._filled_column(name, function)
        group = group_of(schema, name)
        before: int | None = None
        stored_sequence, sequence_after = None, None
        events = []
        for number, step in enumerate(steps, 1):
            if step.error is not None:
                events.append(_not_merged(number))
                continue
            after = self._source(name, step) if step.is_there else None
            if group is not None:
                sequence_after = self._source(group.sequence[0], step)
            merged = MergedColumn(
                schema,
                group,
                name,
                number,
                TEXTS[stored[step.row].values[VALUE_KIND]],
                stored[step.row].values,
                before,
                after,
                None if stored_sequence is None else (stored_sequence, self._of(stored_sequence)),
                sequence_after == number,
                step.is_there,
            )
            events.append(ColumnEvent(number, merged.effect, merged.reason))
            before, stored_sequence = after, sequence_after
        value = None if before is None else self._of(before).get(name)
        return ExplainedColumn(name, value, before, tuple(events))

    def _filled_column(self, name: str, function: str) -> ExplainedColumn:
        """Explain a column with a function; its record is the last one that changed the value."""
        before, record, events = None, None, []
        for number, step in enumerate(self.steps, 1):
            if step.error is not None:
                events.append(_not_merged(number))
                continue
            after = step.values.get(name) if step.is_there else None
            at = self.stored[step.row].values
            filled = FilledColumn(name, function, TEXTS[at[VALUE_KIND]], at, before, after)
            events.append(ColumnEvent(number, filled.effect, filled.reason))
            record = record if filled.effect == LEAVES else number
            before = after
        return ExplainedColumn(name, before, None if before is None else record, tuple(events))

    def _source(self, name: str, step: MergeStep) -> int | None:
        """Return the number of the record that a column's value is from."""
        row = step.sources.get(name, -1)
        is_from_it = row >= 0 and is_source(self.schema, name, self.stored[row].values)
        return self.numbers[row] if is_from_it else None

    def _of(self, number: int) -> Mapping[str, Any]:
        """Return the values of a record."""
        return self.stored[self.steps[number - 1].row].values
