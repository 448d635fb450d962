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
    """Join left rows with the rows of `dim` that have their keys; the order of the left rows stays.

    batches: a RecordBatchReader, Table, RecordBatch, or an iterable of RecordBatches of one schema. dim: a table, or
    its path. on: the left columns that hold dim's primary key: a list if the names are the same, else a dict of left
    to dim columns. Leading columns of the key, with its bucket key, or the columns of an index (option
    `index.<columns>`) are allowed, too: then a left row occurs once for each match, in key order. Types are cast as in
    writes; a key with a null has no match. columns: the columns of dim to add. By default these are all but its
    primary key, or, if a row may have several matches, all but those in `on`; name dim's primary key to distinguish
    the matches. They follow the left columns, each named prefix + name, and may be null. how: "left" gives nulls to
    rows without a match; "inner" omits them.

    partitions: "max_pt()" reads only the newest partition of dim, "max_two_pt()" the two newest, "dt=1;dt=2" these.
    Then `on` is the primary key without the partition columns, and a key in several has the row of the newest one.
    snapshot_id: by default the newest, or with an index the newest that the index fits. This call checks the arguments
    and chooses the snapshot, which is kept from expiry until the iterator ends. Raises InvalidError, NotFoundError, and
    what lookups raise.
    """
    table = opened(dim)
    given = JoinArguments(on, columns, how, prefix, partitions)
    left, rows = _left(batches)
    join, moment = _moment(table, snapshot_id, left, given)
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
    with table._of_one_life():
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
