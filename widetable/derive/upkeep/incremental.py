"""The changes between two states of a table, as `Table.changes` returns them: from snapshots, tags or times, in one of
Paimon's four modes (`incremental-between`, `incremental-between-scan-mode`).

    auto        the changelog of snapshots that have a producer, the appended records of others
    delta       the records of each append as they were written, whatever the changelog
    changelog   the changelog; refused where a snapshot has none
    diff        the rows in which the two states differ (snapshot_difference); it needs no snapshot in between

and one mode of tables under barriers:

    barrier     start and end are barriers; the changes of the records that belong to barriers after start, up to end

In: start exclusive, end inclusive. Raises InvalidError for a range that runs backwards (except diff), for a range that
contains a rollback (except diff and delta) when the iteration reaches it, and for an unknown mode; NotFoundError for
missing snapshots, tags and times.

    ends     an int is an id, 0 before the first; a text is a tag, even if it looks like an id; a datetime is the
             newest snapshot at that time, 0 if all are younger
    diff     holds both snapshots by leases during the read, unless a tag keeps them
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from datetime import datetime
from functools import partial
from typing import Any, Final, NamedTuple

import pyarrow as pa

from widetable.acceptance.acceptance import Use, accept
from widetable.arguments import one_of, refused, whole_number
from widetable.derive.changes.change_scan import ChangeReads, ChangeScan
from widetable.derive.joins.snapshot_difference import snapshot_difference
from widetable.errors import InvalidError, NotFoundError
from widetable.operations.handle.barrier_scan import barrier_change_ids
from widetable.operations.handle.chosen_state import ChosenState, chosen_state
from widetable.operations.handle.newest_snapshot import held
from widetable.operations.handle.open_table import OpenTable
from widetable.operations.queries.changes import change_batches as batches_of_snapshots
from widetable.operations.queries.changes import change_schema, change_splits, snapshot_range
from widetable.operations.queries.table_at import state_at

MODES: Final = ("auto", "delta", "changelog", "diff", "barrier")


class _End(NamedTuple):
    """One end of a range. id: a snapshot's id, 0 for the table before the first. tag: the tag that keeps it, if any."""

    id: int
    tag: str | None = None


def changes(
    table: OpenTable,
    start: int | str | datetime,
    end: int | str | datetime,
    columns: Sequence[str] | None = None,
    *,
    mode: str = "auto",
    commit_columns: bool = False,
) -> pa.Table:
    """Read the changes after one state of the table, up to another.

    - `auto`: the changelog of tables with a producer, else the records of each append as they were written.
    - `delta`: always the records as they were written.
    - `changelog`: always the changelog.
    - `diff`: the rows in which `start` and `end` differ. It needs no snapshot but these two.
    - `barrier`, for a table under barriers: the changes of records that belong to barriers after `start`, up to
      `end`. They do not depend on the order in which the records arrived.

    Parameters
    ----------
    start : int, str or datetime
        The id of a snapshot (0: before the first), a tag, or a time: the newest snapshot at that time. With the
        mode `barrier`, a barrier in epoch milliseconds (0: before the first). Its own changes are excluded.
    end : int, str or datetime
        The same forms as `start`; its own changes are the last.
    columns : list of str, default None
        The columns by their current names. None: all.
    mode : str, default "auto"
        `auto`, `delta`, `changelog`, `diff` or `barrier`.
    commit_columns : bool, default False
        Add `_snapshot_id` and `_commit_time` (UTC) of each change at the end; not with `diff`.

    Returns
    -------
    pyarrow.Table
        The columns, then `_row_kind` (+I, -U, +U, -D), then the commit columns; in the order of snapshot,
        partition values, bucket, key and event.

    Raises
    ------
    NotFoundError
        A column or tag does not exist, or snapshots of the range have expired or do not exist yet; the error
        lists what exists.
    InvalidError
        The range runs backwards, one of its snapshots has no changelog in the mode `changelog`, or it contains a
        rollback (except in `diff` and `delta`). Also for an unknown mode, for `commit_columns` with `diff`, and
        for `barrier` of a table that is not under barriers.
    UnsupportedError
        The table has an option that changes its rows and that this version does not honour; with `diff`,
        it has no primary key, or one without the partition columns.

    Examples
    --------
    >>> users.delete_keys([2]).snapshot_id
    2
    >>> users.changes(1, 2).to_pylist()
    [{'id': 2, 'city': 'Bergen', '_row_kind': '-D'}]
    """
    reads = _reads(table, start, end, columns, mode, commit_columns=commit_columns)
    return pa.Table.from_batches(reads.read(), reads.schema)


def change_batches(
    table: OpenTable,
    start: int | str | datetime,
    end: int | str | datetime,
    columns: Sequence[str] | None = None,
    *,
    mode: str = "auto",
    commit_columns: bool = False,
) -> Iterator[pa.RecordBatch]:
    """Read what `changes` reads, batch by batch, for ranges that do not fit in memory.

    Parameters
    ----------
    start, end, columns, mode, commit_columns
        As in `changes`.

    Returns
    -------
    iterator of pyarrow.RecordBatch
        The changes, with the columns and in the order of `changes`.

    Raises
    ------
    NotFoundError
        As in `changes`.
    InvalidError
        As in `changes`; for a rollback within the range, when the iteration reaches it.
    UnsupportedError
        As in `changes`.
    """
    return _reads(table, start, end, columns, mode, commit_columns=commit_columns).read()


def scan_changes(
    table: OpenTable,
    start: int | str | datetime,
    end: int | str | datetime,
    columns: Sequence[str] | None = None,
    *,
    mode: str = "auto",
    commit_columns: bool = False,
) -> ChangeScan:
    """Scan what `changes` reads, lazily.

    Like `scan`, it offers frames of pandas, polars and DuckDB, Arrow's C stream, `count`, `head`, `limit`, and
    batches by iteration. Errors of the range are raised at once.

    Parameters
    ----------
    start, end, columns, mode, commit_columns
        As in `changes`.

    Returns
    -------
    ChangeScan
        The scan of the changes, with the columns and in the order of `changes`.

    Raises
    ------
    NotFoundError
        As in `changes`.
    InvalidError
        As in `changes`; for a rollback within the range, when the read reaches it.
    UnsupportedError
        As in `changes`.
    """
    reads = _reads(table, start, end, columns, mode, commit_columns=commit_columns)
    reads.read()
    return ChangeScan(reads)


def changed_ids(table: OpenTable, start: int | str | datetime, end: int | str | datetime) -> range:
    """Return the snapshots after one state of the table up to another, each as `changes` takes it."""
    first, last = _end(table, start, "start"), _end(table, end, "end")
    return snapshot_range(table, first.id, last.id)


def _reads(
    table: OpenTable,
    start: int | str | datetime,
    end: int | str | datetime,
    columns: Sequence[str] | None,
    mode: str,
    *,
    commit_columns: bool,
) -> ChangeReads:
    mode = one_of(mode, MODES, "mode")
    if mode == "barrier":
        ids, span = _barrier_range(table, start, end)
        mode, schema = "auto", change_schema(table, columns, commit_columns=commit_columns)
    else:
        first, last = _end(table, start, "start"), _end(table, end, "end")
        schema = change_schema(table, columns, commit_columns=commit_columns)
        if mode == "diff":
            return _difference_reads(table, first, last, schema, commit_columns=commit_columns)
        span = f"after snapshot {first.id} up to {last.id}"
        ids = snapshot_range(table, first.id, last.id)
    # Without columns, batches have only the row kinds, and the same number of rows.
    read = partial(batches_of_snapshots, table, ids, mode=mode)
    return ChangeReads(
        span,
        schema,
        partial(read, columns, commit_columns=commit_columns),
        partial(read, ()),
        partial(change_splits, table, ids, mode),
    )


def _difference_reads(
    table: OpenTable, first: _End, last: _End, schema: pa.Schema, *, commit_columns: bool
) -> ChangeReads:
    if commit_columns:
        raise InvalidError(
            "commit_columns",
            found="True with the mode 'diff'",
            expected="a mode in which each change belongs to one commit",
            action="Omit commit_columns, or choose another mode.",
        )
    accept(table.schema, Use.LOOK_UP)
    old, new = (state_at(table, end.id, end.tag) for end in (first, last))
    untagged = [end.id for end in (first, last) if end.id and end.tag is None]
    span = f"difference of snapshots {first.id} and {last.id}"
    read = partial(_difference, table, old, new, untagged, schema)
    return ChangeReads(span, schema, read, read, _no_splits)


def _no_splits() -> None:
    """Return None: only a read can tell the splits of a difference."""


def _barrier_range(table: OpenTable, start: Any, end: Any) -> tuple[Sequence[int], str]:
    first, last = whole_number(start, "start", least=0), whole_number(end, "end", least=0)
    if last < first:
        raise refused(last, "end", f"{first}, the start, or more")
    return barrier_change_ids(table, first, last), f"after barrier {first} up to {last}"


def _end(table: OpenTable, value: int | str | datetime, name: str) -> _End:
    if isinstance(value, str):
        return _End(_tagged_id(table, value, name), value)
    if isinstance(value, datetime):
        at = chosen_state(table, timestamp=value).snapshot
        return _End(0 if at is None else at.id)
    return _End(whole_number(value, name, least=0))


def _tagged_id(table: OpenTable, tag: str, name: str) -> int:
    """Return the snapshot id of a tag; automatic tags may look like ids."""
    try:
        with table._same_table():
            return table._tags.load(tag).id
    except NotFoundError as cause:
        if not tag.isdigit():
            raise
        raise InvalidError(
            name,
            found=f"the text {tag!r}, and no tag has this name",
            expected="a tag, or a snapshot's id as an int",
            action="Give the id as an int, or correct the tag's name.",
        ) from cause


def _difference(
    table: OpenTable,
    old: ChosenState,
    new: ChosenState,
    held_ids: Sequence[int],
    schema: pa.Schema,
) -> Iterator[pa.RecordBatch]:
    names = [*table.schema.primary_keys, *schema.names[:-1]]
    columns = tuple(name for name in table.schema.names if name in names)
    with ExitStack() as stack:
        for id in held_ids:
            stack.enter_context(held(table._state(), id))
        for rows in snapshot_difference(old, new, columns):
            yield from rows.select(schema.names).cast(schema).to_batches()
