"""All versions of some keys: those of the history, and of the snapshots that it does not have yet.

    history up to s 7     s 8: what it changed     s 9: what it changed        one list for each key, by snapshot
    without a history: the rows at the oldest snapshot, then what each later one changed

In: a held past, and keys. Out: `VersionRows`, one entry for each key as it was given. Memory: all versions of the keys.
The cost of snapshots that are not in the history is that of their commits. Raises what lookups and scans raise.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from widetable.derive.changes.equal_keys import distinct_rows, key_numbers, rows_at
from widetable.derive.versions.held_past import HeldPast
from widetable.derive.versions.history_table import history_schema
from widetable.derive.versions.snapshot_versions import (
    first_versions,
    record_versions,
    rows_as_versions,
    snapshot_versions,
)
from widetable.derive.versions.version_rows import VersionRows, version_rows
from widetable.format.snapshot import Snapshot
from widetable.operations.handle.open_table import OpenTable
from widetable.schema.history_columns import DELETED, FROM, HISTORY_COLUMNS, PLACE, SNAPSHOT


def past_versions(past: HeldPast, keys: pa.RecordBatch, columns: Sequence[str]) -> VersionRows:
    """Return the versions of the keys, in the order of snapshots and places. columns: of the base."""
    key = list(past.table.schema.primary_keys)
    names = [*key, *(name for name in columns if name not in key), *HISTORY_COLUMNS]
    wanted = distinct_rows(pa.Table.from_batches([keys]).drop_null())
    parts: list[pa.Table] = []
    history = past.history
    if history is not None:
        own = names[: -len(HISTORY_COLUMNS)]
        if int(past.moments.ids[-1]) <= history.until_id:
            return version_rows(history.table, history.snapshot_id, keys, own).by_snapshot()
        stored = version_rows(history.table, history.snapshot_id, _batch(wanted), own)
        parts.append(stored.rows.select(names))
    stored_rows = parts.copy()
    parts.extend(recent_versions(past, wanted, names, lambda time: _after(stored_rows, time)))
    return _by_key(keys, parts, key, names, past)


def _batch(rows: pa.Table) -> pa.RecordBatch:
    batches = rows.combine_chunks().to_batches()
    return batches[0] if batches else pa.RecordBatch.from_pylist([], rows.schema)


def recent_versions(
    past: HeldPast,
    keys: pa.Table,
    names: Sequence[str],
    stored_after: Callable[[pa.Scalar], Iterable[pa.Table]],
) -> Iterator[pa.Table]:
    """Yield the versions of these keys in snapshots that the history does not have.

    keys: distinct ones, of all columns of the primary key or of some. names: of the columns that are yielded.
    stored_after: rows of the history, those whose `_from` is after a time among them.
    """
    base, moments = past.table, past.moments
    done: list[pa.Table] = []
    last_millis: int | None = None
    for id, millis, changes in zip(*(each.tolist() for each in moments[:3]), strict=True):
        falls = last_millis is not None and millis < last_millis
        is_first = last_millis is None and past.history is None
        last_millis = millis
        if id <= past.until_id or not (changes or falls or is_first):
            continue
        snapshot = base._committer.snapshots.load(id)
        if is_first:
            new = list(_first(base, keys, snapshot))
        else:
            new = [_only(part, keys) for part in snapshot_versions(base, snapshot)]
        if falls:
            time = pa.scalar(millis, pa.int64()).cast(pa.timestamp("ms"))
            later = [*stored_after(time), *done]
            again = _keys_after(base, [_only(part, keys) for part in later], time)
            new.append(rows_as_versions(base, again, snapshot))
        new = [part.select(list(names)) for part in new]
        done += new
        yield from new


def _first(base: OpenTable, keys: pa.Table, snapshot: Snapshot) -> Iterator[pa.Table]:
    """Yield the versions with which a past begins that has no history."""
    if len(keys.column_names) < len(base.schema.primary_keys):
        yield from (_only(part, keys) for part in first_versions(base, snapshot))
        return
    yield from (_only(part, keys) for part in record_versions(base, snapshot))
    image = rows_as_versions(base, keys, snapshot)
    yield image.filter(pc.invert(image.column(DELETED)))


def _keys_after(base: OpenTable, parts: Sequence[pa.Table], time: pa.Scalar) -> pa.Table:
    """Return the keys of the versions after a time, each once."""
    names = list(base.schema.primary_keys)
    fields = [base.schema.arrow_field(name) for name in names]
    # Those of a lookup may have nulls, for keys that are not there; those of a commit have none.
    schema = pa.schema([field.remove_metadata().with_nullable(True) for field in fields])
    rows = [part.select(names).cast(schema) for part in _after(parts, time)]
    return distinct_rows(pa.concat_tables([schema.empty_table(), *rows]))


def _after(parts: Sequence[pa.Table], time: pa.Scalar) -> list[pa.Table]:
    return [part.filter(pc.greater(part.column(FROM), time)) for part in parts]


def _only(versions: pa.Table, keys: pa.Table) -> pa.Table:
    """Return the versions of these keys."""
    own, wanted = key_numbers([versions, keys], keys.column_names)
    return versions.filter(pa.array(np.isin(own, wanted)))


def _by_key(
    keys: pa.RecordBatch,
    parts: Sequence[pa.Table],
    key: Sequence[str],
    names: Sequence[str],
    past: HeldPast,
) -> VersionRows:
    """Return the versions sorted by key, snapshot and place; equal ones, of a snapshot that fell, once."""
    declared = history_schema(past.table.schema)
    schema = pa.schema([declared.field(name).with_nullable(True) for name in names])
    rows = pa.concat_tables([schema.empty_table(), *(part.cast(schema) for part in parts)])
    given = pa.Table.from_batches([keys])
    wanted, own = key_numbers([given, rows], key)
    unsorted = VersionRows(rows, wanted[:0], wanted[:0])
    order = np.lexsort((unsorted.numbers(PLACE), unsorted.numbers(SNAPSHOT), own))
    sorted_own = own[order]
    firsts = sorted_own.searchsorted(wanted, "left")
    counts = sorted_own.searchsorted(wanted, "right") - firsts
    valid = np.ones(len(wanted), np.bool_)
    for column in keys.columns:
        valid &= column.is_valid().to_numpy(zero_copy_only=False)
    return VersionRows(rows_at(rows, order), np.where(valid, firsts, 0), np.where(valid, counts, 0))
