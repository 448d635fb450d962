"""Delete rows of a table: by a condition, by their keys, or by whole partitions.

    delete, delete_keys                   a -D record for each row, in one append
    delete, delete_keys with rewrite      data files without the rows, in one overwrite (`row_removal`)
    delete in an append table             the same, or the rows are marked (`appended_change`)
    drop_partitions                       an overwrite without rows

A delete writes each row unchanged, as -D, in one append, so that compactions, changelogs and readers treat it as any
writer's deletes. It reads the newest snapshot, with the columns of today, and commits only if no one has written its
keys since; otherwise it retries. Readers of changes do not see overwrites.

    read snapshot 7 ─► write -D files ─► commit, after 9 by now   8, 9 have none of the keys: committed
                                                                  8 wrote one: refused; files are deleted,
                                                                  retry from 9, at most ten times

So a row that was changed meanwhile is deleted only if it still matches. The rows are read and written once; they are
streamed, not all in memory.

Source: Paimon `DeleteAction`, `PartitionExpire`; semantics.md section 10. Raises InvalidError for conditions, keys and
partitions that do not fit, and for rows that a -D would not remove; UnsupportedError for a table in which -D removes no
row, ConflictError.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from functools import partial
from typing import Any, Final, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from widetable.acceptance.acceptance import Use, accept
from widetable.arguments import flag
from widetable.commit.transaction.commit_identity import Identity
from widetable.commit.transaction.commit_result import CommitResult
from widetable.errors import ConflictError, InvalidError, NotFoundError, UnsupportedError
from widetable.format.row_batch import in_schema_order
from widetable.format.snapshot import COMMIT_KIND_APPEND, COMMIT_KIND_OVERWRITE
from widetable.merge.engine import unchecked_engine
from widetable.merge.normal_form import has_sequence
from widetable.merge.partial_update_plan import removing_groups
from widetable.merge.printed_key import printed_key_of
from widetable.operations.compaction.postponed_rows import placed_rows
from widetable.operations.handle.compaction_threads import wait_for_compactions
from widetable.operations.handle.held_lease import held_lease
from widetable.operations.handle.open_table import OpenTable
from widetable.operations.queries.lookup_keys import key_rows
from widetable.operations.queries.requested_partitions import request_partitions
from widetable.operations.queries.row_removal import remove_rows
from widetable.operations.queries.table_at import scan_at, view_at
from widetable.operations.writes.appended_change import change_appended
from widetable.operations.writes.retried_change import retried
from widetable.operations.writes.table_commit import append_messages, discard
from widetable.operations.writes.table_write import new_writer
from widetable.read.filters import parse
from widetable.schema import options as opt
from widetable.schema.row_kind import DELETE, TEXTS
from widetable.schema.table_schema import ROW_KIND_COLUMN, TableSchema
from widetable.write.owned_columns import callers_columns

# The number of keys of one lookup, whose rows are in memory at once.
_KEYS_AT_ONCE: Final = 65_536
_REWRITE: Final = "Call it with rewrite=True (widetable delete --rewrite), which takes rows out of the data files."

# Reads the rows to delete, from the table at a snapshot.
_RowsAt: TypeAlias = Callable[[OpenTable, int], Iterator[pa.RecordBatch]]


def delete(
    table: OpenTable,
    filter: str | pc.Expression,
    commit_user: str | None = None,
    commit_identifier: int | None = None,
    *,
    dry_run: bool = False,
    rewrite: bool = False,
) -> CommitResult:
    """Delete the rows that match a condition, in one commit.

    By default it writes a -D record for each row, and in an append table it rewrites their files or marks them there.
    With `rewrite` no file keeps the rows, which works with every merge engine. Readers of changes do not see that, and
    a late record may restore a row. If no row matches, nothing is committed.

    Where buckets are postponed, the rows that wait get their buckets first, so the condition sees all rows. A -D waits
    for the next compaction, as other records do. A dry run passes over rows that wait.

    Parameters
    ----------
    filter : str or pyarrow.compute.Expression
        The condition, as in `scan`; `true` matches all rows.
    commit_user, commit_identifier
        As in `write`.
    dry_run : bool, default False
        Only count the rows.
    rewrite : bool, default False
        Take the rows out of the data files.

    Returns
    -------
    CommitResult
        What was committed; `rows` says how many rows were deleted, or would be.

    Raises
    ------
    InvalidError
        The condition is not valid, a -D would not remove a row (no sequence), or the table is under barriers.
    UnsupportedError
        Without `rewrite`, a -D removes no row in this table; with it, the table is under barriers.
    ConflictError
        Other commits wrote the rows in each of several tries.

    Examples
    --------
    >>> users.delete("city = 'Bergen'").rows
    1
    """
    rewrite = flag(rewrite, "rewrite")
    if filter is None:
        raise _no_condition()
    by, dry_run = Identity.of(commit_user, commit_identifier), flag(dry_run, "dry_run")
    parse(filter, schema := table.schema)
    if not schema.has_key:
        return _delete_appended(table, schema, filter, by, dry_run=dry_run, rewrite=rewrite)
    rows_at = partial(_matching, filter, rewrite)
    return _deleted(table, rows_at, by, dry_run=dry_run, rewrite=rewrite)


def _matching(
    condition: str | pc.Expression, rewrite: bool, table: OpenTable, snapshot_id: int
) -> Iterator[pa.RecordBatch]:
    """Yield the rows at a snapshot that a condition deletes: their keys to rewrite files, else what a -D repeats."""
    schema = table.schema
    parsed = parse(condition, schema)
    names = schema.primary_keys if rewrite else in_schema_order(schema, callers_columns(schema))
    yield from scan_at(table, snapshot_id, names, parsed).to_batches()


def _delete_appended(
    table: OpenTable,
    schema: TableSchema,
    condition: str | pc.Expression,
    by: Identity,
    *,
    dry_run: bool,
    rewrite: bool,
) -> CommitResult:
    accept(schema, Use.TAKE_ROWS, Use.MAINTAIN, Use.REPLACE, path=table.path)
    if not dry_run:
        wait_for_compactions(table.path)

    def attempt(snapshot_id: int) -> CommitResult:
        return change_appended(table, condition, by, snapshot_id, dry_run=dry_run, rewrite=rewrite)

    return retried(table, attempt, by, COMMIT_KIND_OVERWRITE, dry_run=dry_run)


def _no_condition() -> InvalidError:
    return InvalidError(
        "filter",
        found="None",
        expected="a condition: nothing is deleted without one",
        action="Say which rows to delete; 'true' for all of them.",
    )


def delete_keys(
    table: OpenTable,
    keys: Any,
    commit_user: str | None = None,
    commit_identifier: int | None = None,
    *,
    dry_run: bool = False,
    rewrite: bool = False,
) -> CommitResult:
    """Delete the rows with these keys, in one commit, as `delete` does by a condition.

    Parameters
    ----------
    keys : Arrow data, frame, dict, list of dicts or list
        The keys, in any form that `lookup` takes. A key may occur twice; a key with a null, or without a
        row, deletes nothing.
    commit_user, commit_identifier
        As in `write`.
    dry_run, rewrite
        As in `delete`.

    Returns
    -------
    CommitResult
        What was committed; `rows` says how many rows were deleted, or would be.

    Raises
    ------
    InvalidError
        The keys do not fit the primary key, without `rewrite` a -D would not remove a row (of a sequence
        group without a sequence), or the table is under barriers, where only writers delete rows.
    UnsupportedError
        Without `rewrite`, a -D removes no row in this table; with it, the table is under barriers.
    ConflictError
        Other commits wrote the rows in each of several tries.

    Examples
    --------
    >>> users.delete_keys([2, 77]).rows
    1
    """
    rewrite = flag(rewrite, "rewrite")
    key_batch = key_rows(keys, table.schema)

    def rows_at(table: OpenTable, snapshot_id: int) -> Iterator[pa.RecordBatch]:
        schema = table.schema
        names = schema.primary_keys if rewrite else in_schema_order(schema, callers_columns(schema))
        first = schema.primary_keys[0]
        all_keys = pa.Table.from_batches([key_batch])
        unique = all_keys.group_by(key_batch.schema.names).aggregate([])
        with closing(view_at(table, snapshot_id, names)) as view:
            for at in range(0, unique.num_rows, _KEYS_AT_ONCE):
                rows = view.lookup(unique.slice(at, _KEYS_AT_ONCE))
                yield from rows.filter(pc.is_valid(rows[first])).to_batches()

    by = Identity.of(commit_user, commit_identifier)
    return _deleted(table, rows_at, by, dry_run=dry_run, rewrite=rewrite)


def drop_partitions(
    table: OpenTable,
    partitions: Any,
    commit_user: str | None = None,
    commit_identifier: int | None = None,
) -> CommitResult:
    """Delete all rows of some partitions in one commit, without reading them.

    Parameters
    ----------
    partitions : Arrow data, frame, dict, list of dicts or list
        Rows of the partition columns, in any form in which `lookup` takes keys. Without rows nothing is
        committed.
    commit_user : str, default None
        The name under which identifiers grow. None: a new one for this call.
    commit_identifier : int, default None
        The number of this commit, from 0 to 2^63 - 2. None: the commit is never a repeat.

    Returns
    -------
    CommitResult
        What was committed.

    Raises
    ------
    InvalidError
        The table has no partitions, or the rows do not fit its partition columns.
    UnsupportedError
        The table is under barriers, or has an option that this version does not honour.
    ConflictError
        Other commits were faster until `commit.timeout`, or more than `commit.max-retries` times.
    """
    schema = table.schema
    scope = request_partitions(table, partitions, "Use delete.")
    accept(schema, Use.TAKE_ROWS, Use.MAINTAIN)
    by = Identity.of(commit_user, commit_identifier)
    if not scope:
        return CommitResult(committed=False, snapshot_id=None, kind=COMMIT_KIND_OVERWRITE)
    return table._committer.overwrite(scope, [], by)


def _deleted(
    table: OpenTable, rows_at: _RowsAt, by: Identity, *, dry_run: bool, rewrite: bool
) -> CommitResult:
    schema = table.schema
    how = Use.REPLACE if rewrite else Use.TAKE_UNNAMED_ROWS
    accept(schema, Use.TAKE_ROWS, Use.MAINTAIN, how, path=table.path)
    if not rewrite:
        _check_removes(schema)
    kind = COMMIT_KIND_OVERWRITE if rewrite else COMMIT_KIND_APPEND
    dry_run = flag(dry_run, "dry_run")
    if rewrite and not dry_run:
        wait_for_compactions(table.path)

    def attempt(snapshot_id: int) -> CommitResult:
        if schema.postpones_buckets and not dry_run:
            snapshot_id = _with_all_rows_placed(table, snapshot_id)
        batches = rows_at(table, snapshot_id)
        if not rewrite:
            batches = _removable(schema, batches)
        if dry_run:
            return CommitResult(False, None, kind, sum(batch.num_rows for batch in batches))
        return (remove_rows if rewrite else _attempt)(table, batches, by, snapshot_id)

    return retried(table, attempt, by, kind, dry_run=dry_run)


def _with_all_rows_placed(table: OpenTable, snapshot_id: int) -> int:
    """Bring rows that wait for a bucket into buckets, so that the delete finds them. Return the snapshot to read.

    Raises DamagedError or InvalidError where rows of a partition cannot be placed.
    """
    state = table._state()
    with held_lease(state):
        placed = placed_rows(state, table._committer)
    if placed.damage:
        raise placed.damage[0]
    ids = [snapshot_id, *(commit.snapshot_id or 0 for commit in placed.commits)]
    return max(ids)


def _attempt(
    table: OpenTable, batches: Iterable[pa.RecordBatch], by: Identity, snapshot_id: int
) -> CommitResult:
    schema = table.schema
    names = in_schema_order(schema, callers_columns(schema))
    kind = schema.typed_options.get(opt.ROWKIND_FIELD)
    with new_writer(table, names if kind else [*names, ROW_KIND_COLUMN]) as writer:
        for batch in batches:
            writer.write(_as_deletes(batch, kind))
        messages = writer.finish()
    try:
        return append_messages(table, messages, by, read_snapshot_id=snapshot_id)
    except (ConflictError, InvalidError, NotFoundError):
        discard(table, messages)
        raise


def _as_deletes(batch: pa.RecordBatch, kind: str | None) -> pa.RecordBatch:
    """Mark all rows as -D. kind: the table's column of row kinds, or None."""
    kinds = pa.repeat(pa.scalar(TEXTS[DELETE]), batch.num_rows)
    if kind is None:
        return batch.append_column(ROW_KIND_COLUMN, kinds)
    return batch.set_column(batch.schema.get_field_index(kind), kind, kinds)


def _removable(schema: TableSchema, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the batches unchanged. Raises InvalidError for a row without a sequence in the groups in which a -D removes
    it, because these would not accept the -D.
    """
    removing = removing_groups(schema)
    names = [name for group in removing for name in group.sequence]
    for batch in batches:
        if names and batch.num_rows:
            accepted = has_sequence([batch.column(name) for name in names], batch.num_rows)
            if not accepted.all():
                raise InvalidError(
                    f"row {printed_key_of(schema, batch, int(accepted.argmin()))}",
                    found=f"null in {', '.join(map(repr, names))}, by which a -D removes a row",
                    expected="a sequence, which the -D record repeats",
                    action=_REWRITE,
                )
        yield batch


def _check_removes(schema: TableSchema) -> None:
    options = schema.typed_options
    engine = unchecked_engine(options)
    if options.get(opt.IGNORE_DELETE):
        actual, expected = f"{opt.IGNORE_DELETE.key!r} is set", "a table that takes deletes"
    elif engine.deletes_remove(schema):
        return
    else:
        actual = f"merge engine {engine.name!r}" + (
            " with sequence groups" if schema.sequence_groups else ""
        )
        expected = "an engine in which a -D removes the row"
        option = engine.removing_option(schema)
        if option is not None:
            expected = f"a table that was made with {option}"
    raise UnsupportedError("deletes", found=actual, expected=expected, action=_REWRITE)
