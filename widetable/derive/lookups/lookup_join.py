"""Lookup joins of Arrow batches: each left row is joined with the rows of a table (the dim) that have its key.

`joined_tables` chooses the tables and their moment, `join_plan` checks `on` and the other arguments, `pinned_join`
looks up rows and joins them. Engines that run tasks elsewhere build on these three. Raises what they raise.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing
from itertools import chain
from typing import Any

import pyarrow as pa

from widetable.arguments import refused
from widetable.commit.holds.lookup_pin import Moment, held_moment
from widetable.commit.holds.read_lease import hold_if_taken
from widetable.derive.lookups.join_plan import JoinArguments, plan_join
from widetable.derive.lookups.joined_tables import LookupJoin, join_by, new_lookup_join, opened
from widetable.derive.lookups.pinned_join import PinnedJoin, keep_join
from widetable.errors import InvalidError
from widetable.operations.handle.open_table import OpenTable
from widetable.operations.handle.snapshot_choice import load_snapshot


def lookup_join(
    batches: Any,
    dim: Any,
    on: Any,
    columns: Sequence[str] | None = None,
    *,
    how: str = "left",
    prefix: str = "",
    partitions: str | None = None,
    snapshot_id: int | None = None,
) -> Iterator[pa.RecordBatch]:
    """Join rows with the rows of a table that have their keys, in the order of the left rows.

    Arguments are checked, and the snapshot is chosen, when you call it; the snapshot is kept until the iterator ends.

    Parameters
    ----------
    batches : Arrow data
        Left rows: a RecordBatchReader, Table, RecordBatch, or an iterable of RecordBatches of one schema.
    dim : Table, str or os.PathLike
        The table to head up, or its path.
    on : list of str or dict of str to str
        The left columns that hold the primary key of `dim`, or a dict of left to dim columns. Leading key columns do if
        they contain the bucket key, and columns of an index (option `index.<columns>`). A left row then comes once for
        each match, in key order. Types are cast as in writes; a key with a null has no match.
    columns : list of str, default None
        Columns of `dim` to add after the left ones; nullable. None: all but the primary key, or with several matches
        all but those in `on`. To tell several matches apart, name the primary key too.
    how : str, default "left"
        `left`: left rows without a match get nulls. `inner`: they are left out.
    prefix : str, default ""
        A text before the name of each added column.
    partitions : str, default None
        `max_pt()` and `max_two_pt()` read the one or two newest partitions of `dim`, `dt=1;dt=2` those; `on` is then
        the key without partition columns, and of a key in two partitions the newer row counts. None: all.
    snapshot_id : int, default None
        The snapshot of `dim`. None: the newest one; for an index, the one that the index has seen last.

    Yields
    ------
    pyarrow.RecordBatch
        The joined rows.

    Raises
    ------
    InvalidError
        An argument does not fit the rows or the table.
    NotFoundError
        The table, a column, a partition or the snapshot does not exist.

    Examples
    --------
    >>> left = pa.table({"user": [2, 3]})
    >>> [batch.to_pylist() for batch in wt.lookup_join(left, users, {"user": "id"})]
    [[{'user': 2, 'city': 'Bergen'}, {'user': 3, 'city': None}]]
    """
    table = opened(dim)
    given = JoinArguments(on, columns, how, prefix, partitions)
    left, rows = _left(batches)
    return _joined(rows, *_moment(table, snapshot_id, left, given))


def _joined(
    rows: Iterator[pa.RecordBatch], join: LookupJoin, moment: Moment
) -> Iterator[pa.RecordBatch]:
    """Join the rows at the moment, which is released when the iterator ends."""
    with ExitStack() as stack:
        stack.callback(moment.release)
        kept = stack.enter_context(closing(keep_join(join)))
        joined = PinnedJoin(join, moment.pin, kept).joined(rows)
        return _held(joined, stack.pop_all())


lookup_join.__module__ = "widetable"


def _left(batches: Any) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
    if isinstance(batches, pa.RecordBatch):
        batches = [batches]
    if isinstance(batches, pa.Table):
        batches = batches.to_reader()
    if isinstance(batches, pa.RecordBatchReader):
        return batches.schema, batches
    try:
        rows = iter(batches)
    except TypeError:
        raise refused(batches, "batches", "a RecordBatchReader, Table, or RecordBatches") from None
    first = next(rows, None)
    if first is None:
        raise InvalidError(
            "batches",
            found="no batch, so the columns are unknown",
            expected="one batch or more (it may be empty), a reader, or a table",
            action="Pass a RecordBatchReader, which has a schema even without batches.",
        )
    schema = _batch(first, None).schema
    return schema, (_batch(each, schema) for each in chain([first], rows))


def _batch(value: Any, schema: pa.Schema | None) -> pa.RecordBatch:
    if not isinstance(value, pa.RecordBatch):
        raise refused(value, "batches", "RecordBatches")
    if schema is not None and value.schema != schema:
        raise InvalidError(
            "batches",
            found=f"a batch with the columns {value.schema.names} after one with {schema.names}, or other types",
            expected="batches of one schema",
            action="Cast them to one schema.",
        )
    return value


def _moment(
    table: OpenTable, snapshot_id: Any, left: pa.Schema, given: JoinArguments
) -> tuple[LookupJoin, Moment]:
    if snapshot_id is None:
        join = new_lookup_join(left, table, given)
        return join, join.newest(take=hold_if_taken)
    with table._same_table():
        snapshot = load_snapshot(table._committer.snapshots, snapshot_id)
    schema = table._committer.schemas.load(snapshot.schema_id)
    join = join_by(table, plan_join(left, schema, given))
    if join.index is not None:
        raise InvalidError(
            "snapshot_id",
            found=f"{snapshot.id}, for a join by an index",
            expected="None: the newest snapshot of the index determines the snapshot of the table",
            action="Omit snapshot_id, or join by the key.",
        )
    lease = hold_if_taken(table._file_io, table._paths, snapshot.id)
    return join, held_moment(snapshot, join.partitions_of, [lease])


def _held(joined: Iterator[pa.RecordBatch], resources: ExitStack) -> Iterator[pa.RecordBatch]:
    """Yield the rows, then close the resources; an iterator that is never started closes them when it is collected."""
    with resources:
        yield from joined
