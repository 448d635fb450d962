"""The versions that one snapshot of a table adds to its history.

    snapshot                                    versions of place 0
    the first of a history                      all rows
    APPEND, OVERWRITE                           the keys that it touched, with their row as a scan of it shows it, if
                                                that differs from the row of the snapshot before
    a compaction                                none
    one whose time is before that of its        besides these, the keys with a version of a later time, with their row:
    predecessor: a clock was wrong              for it is from this time on that a reader of that time sees it

So a version does not depend on a changelog, on compactions or on merge engines. With the changelog producer `input` the
records of the changelog are versions too, of the places -n to -1 in the order of the changelog: they have what was late
or overtaken, which no row shows. A row that was before an update (-U) is none.

In: a table whose snapshot and the one before it are kept. Out: tables with the columns of `history_schema`. Raises what
lookups, scans and changes raise.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from widetable.derive.changes.row_changes import changed_rows
from widetable.derive.changes.row_difference import equal_rows
from widetable.derive.versions.history_table import history_schema
from widetable.format.snapshot import COMMIT_KIND_APPEND, Snapshot
from widetable.operations.handle.open_table import OpenTable
from widetable.operations.queries.changes import change_batches
from widetable.operations.queries.table_at import view_at
from widetable.schema import options as opt
from widetable.schema.history_columns import DELETED, FROM, PLACE, SNAPSHOT, kept_columns
from widetable.schema.table_schema import ROW_KIND_COLUMN


def first_versions(base: OpenTable, snapshot: Snapshot) -> Iterator[pa.Table]:
    """Yield all rows of the snapshot with which a history begins, and its records."""
    yield from record_versions(base, snapshot)
    yield from _changed(base, None, snapshot)


def snapshot_versions(base: OpenTable, snapshot: Snapshot) -> Iterator[pa.Table]:
    """Yield the versions of a later snapshot, but for those of a wrong clock."""
    yield from record_versions(base, snapshot)
    yield from _changed(base, snapshot.id - 1, snapshot)


def rows_as_versions(base: OpenTable, keys: pa.Table, snapshot: Snapshot) -> pa.Table:
    """Return the rows of these keys at a snapshot, as versions of it, changed or not."""
    names = kept_columns(base.schema)
    with closing(view_at(base, snapshot.id, names)) as view:
        after = view.lookup(keys)
    return _versions(base, keys, after, snapshot)


def _changed(base: OpenTable, after_id: int | None, snapshot: Snapshot) -> Iterator[pa.Table]:
    key, names = list(base.schema.primary_keys), kept_columns(base.schema)
    for before, after in changed_rows(base, after_id, snapshot.id, names):
        is_changed = pa.array(~equal_rows(before, after))
        before, after = before.filter(is_changed), after.filter(is_changed)
        columns = [
            pc.coalesce(new, old)
            for new, old in zip(after.select(key).columns, before.select(key).columns, strict=True)
        ]
        yield _versions(base, pa.Table.from_arrays(columns, key), after, snapshot)


def record_versions(base: OpenTable, snapshot: Snapshot) -> Iterator[pa.Table]:
    """Yield the records of the changelog of a snapshot, with the producer `input`."""
    producer = base.schema.typed_options.get(opt.CHANGELOG_PRODUCER)
    if producer != "input" or snapshot.commit_kind != COMMIT_KIND_APPEND:
        return
    batches = [
        batch.filter(pc.not_equal(batch.column(ROW_KIND_COLUMN), "-U"))
        for batch in change_batches(base, [snapshot.id])
    ]
    total, done = sum(batch.num_rows for batch in batches), 0
    for batch in batches:
        rows = pa.Table.from_batches([batch])
        places = pa.array(np.arange(done, done + rows.num_rows) - total)
        done += rows.num_rows
        is_gone = pc.equal(rows.column(ROW_KIND_COLUMN), "-D")
        yield _with_version(base, rows, rows, places, is_gone, snapshot)


def _versions(base: OpenTable, keys: pa.Table, after: pa.Table, snapshot: Snapshot) -> pa.Table:
    """Return versions of place 0. after: the row of each key, all null where it is not there."""
    is_gone = pc.is_null(after.column(base.schema.primary_keys[0]))
    places = pa.array(np.zeros(keys.num_rows, np.int64))
    return _with_version(base, keys, after, places, is_gone, snapshot)


def _with_version(
    base: OpenTable,
    keys: pa.Table,
    rows: pa.Table,
    places: pa.Array,
    is_gone: pa.ChunkedArray,
    snapshot: Snapshot,
) -> pa.Table:
    count = keys.num_rows
    own = {
        FROM: pa.repeat(pa.scalar(snapshot.time_millis, pa.int64()), count).cast(
            pa.timestamp("ms")
        ),
        SNAPSHOT: pa.repeat(pa.scalar(snapshot.id, pa.int64()), count),
        PLACE: places,
        DELETED: is_gone,
    }
    schema, key = history_schema(base.schema), set(base.schema.primary_keys)
    columns = [
        own[name] if name in own else (keys if name in key else rows).column(name)
        for name in schema.names
    ]
    return pa.Table.from_arrays(columns, schema=schema)
