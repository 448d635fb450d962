"""A point-in-time read that is planned in one process and done in others: `PlannedPast`, which travels pickled.

    planner    planned_past ─► what is kept of the table, and until when    a lease on each table, for an hour
    task       answered(rows), with the snapshots of the planner: later commits change nothing

Rows are divided among tasks by the bucket of their key, so that each bucket is read by one task. Where the bucket of a
key does not follow from the key alone, the partition and the hash of the key take its place:

    buckets fixed, no partitions     as many tasks as buckets; a row goes to the task of its bucket
    buckets fixed, partitions        hash of the partition + bucket, modulo the number of tasks
    buckets dynamic                  hash of the partition + hash of the key, modulo the number of tasks

A key with a null goes to task 0. The number depends on the row alone, so a repeated task gives the same numbers.

In: a table and the arguments of `point_in_time`. Out: as said. Raises InvalidError for a table that was made again,
NotFoundError for snapshots that have expired or that a rollback has removed, and what `point_in_time` raises; a number
of a row in such an error counts within the rows that were given at once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from widetable.commit.holds.lookup_pin import hold_for_job
from widetable.commit.holds.read_lease import ReadLease
from widetable.commit.snapshots.table_identity import check_identity
from widetable.derive.versions.age_rule import AgeRule
from widetable.derive.versions.entity_rows import entity_rows
from widetable.derive.versions.event_groups import event_groups
from widetable.derive.versions.held_past import HeldPast, held_past
from widetable.derive.versions.point_in_time import answered, metadata_of
from widetable.derive.versions.wanted_features import WantedFeatures, wanted_features
from widetable.errors import NotFoundError
from widetable.format.binary_row import encode_rows
from widetable.format.bucket_hash import bucket_ids, key_hashes
from widetable.kernels.array_types import Positions
from widetable.kernels.bucket_hash import bucket_of, murmur_hash
from widetable.messages.error_code import ErrorCode
from widetable.operations.handle.open_table import OpenTable
from widetable.schema.table_schema import TableSchema


@dataclass(frozen=True)
class PastArguments:
    """Unchecked arguments of a point-in-time read, as `Table.point_in_time` describes them.

    Attributes
    ----------
    at : str
        The column of times.
    columns : list of str or None
        The features.
    on : list of str, dict of str to str, or None
        The columns that hold the key.
    basis : str
        "known" or "event".
    ttl : timedelta, str, int or None
        The highest age.
    event_times : list of str, dict of str to str, or None
        The columns of times of features.
    prefix : str
        The prefix of the added columns.
    as_known : bool
        Whether only what had been committed counts.
    """

    at: Any
    columns: Any = None
    on: Any = None
    basis: Any = "known"
    ttl: Any = None
    event_times: Any = None
    prefix: Any = ""
    as_known: Any = False


@dataclass(frozen=True)
class PlannedPast:
    """A planned read. Picklable. identities: of the table and of its history at planning. metadata: of the result."""

    past: HeldPast
    identities: tuple[str, ...]
    arguments: PastArguments
    rule: AgeRule
    added: tuple[pa.Field, ...]
    tasks: int
    metadata: dict[str, str]

    def wanted(self, rows: pa.Table, same_name: Callable[[str], str] = str) -> WantedFeatures:
        """Check the rows of a task."""
        return _wanted(self.past.table, rows, self.arguments, same_name)

    def task_numbers(self, rows: pa.Table, schema: TableSchema) -> npt.NDArray[np.int32]:
        """Return int32[n]: the task of each row. schema: the table's."""
        given = entity_rows(rows, self.arguments.at, self.arguments.on, schema)
        valid = np.ones(rows.num_rows, np.bool_)
        for column in given.keys.columns:
            valid &= column.is_valid().to_numpy(zero_copy_only=False)
        numbers = np.zeros(rows.num_rows, np.int32)
        places = np.flatnonzero(valid)
        numbers[places] = _numbers(given.keys.take(pa.array(places)), schema, self.tasks)
        return numbers

    def answered(self, rows: pa.Table) -> pa.Table:
        """Return the rows with their features, in their order."""
        self._check_same()
        result = answered(self.past, self.wanted(rows), self.rule)
        self._check_same()
        return result

    def _check_same(self) -> None:
        """Raise InvalidError for tables that were made again, NotFoundError for snapshots that a rollback removed."""
        tables = _tables(self.past)
        for table, identity in zip(tables, self.identities, strict=True):
            check_identity(table._file_io, table._paths, identity)
        moments, table = self.past.moments, self.past.table
        if not len(moments.ids):
            return
        id, millis = int(moments.ids[-1]), int(moments.millis[-1])
        if table._committer.snapshots.load(id).time_millis != millis:
            raise NotFoundError(
                f"snapshot {id} of {table.path}",
                found="another snapshot with its id, which a rollback has given free",
                expected="the snapshot that was the newest when the read was planned",
                action="Call point_in_time again.",
                code=ErrorCode.SNAPSHOT_NOT_FOUND,
            )


def planned_past(
    left: pa.Schema,
    table: OpenTable,
    arguments: PastArguments,
    same_name: Callable[[str], str],
    tasks: int,
) -> tuple[PlannedPast, Sequence[ReadLease]]:
    """Plan a read of rows with these columns, and take leases. tasks: how many, where buckets do not say."""
    given = arguments
    rule = AgeRule(given.basis, given.ttl, given.event_times, given.as_known)
    wanted = _wanted(table, left.empty_table(), arguments, same_name)
    if rule.basis == "event":
        event_groups(table.schema, given.event_times, wanted.features)
    with ExitStack() as stack:
        past = held_past(table, stack)
        leases = _leases(past)
        identities = tuple(each._committer.identity for each in _tables(past))
    schema = table.schema
    count = schema.num_buckets if schema.num_buckets > 0 and not schema.partition_keys else tasks
    metadata = metadata_of(past, rule)
    planned = PlannedPast(
        past, identities, arguments, rule, tuple(wanted.fields), max(count, 1), metadata
    )
    return planned, leases


def _wanted(
    table: OpenTable, rows: pa.Table, given: PastArguments, same_name: Callable[[str], str]
) -> WantedFeatures:
    return wanted_features(
        table.schema, rows, given.at, given.columns, given.on, given.prefix, same_name
    )


def _tables(past: HeldPast) -> list[OpenTable]:
    return [past.table] if past.history is None else [past.table, past.history.table]


def _leases(past: HeldPast) -> list[ReadLease]:
    """Keep for an hour what the read needs: all snapshots, or those that the history does not have, and the history."""
    moments, history = past.moments, past.history
    needed: list[tuple[OpenTable, int]] = []
    if len(moments.ids):
        place = 0
        if history is not None:
            last = int(moments.ids.searchsorted(history.until_id))
            place = int(moments.read_at(np.array([min(last, len(moments.ids) - 1)]))[0])
            needed.append((history.table, history.snapshot_id))
        needed.append((past.table, int(moments.ids[place])))
    taken = [hold_for_job(table._file_io, table._paths, id) for table, id in needed]
    return [lease for lease in taken if lease is not None]


def _numbers(keys: pa.RecordBatch, schema: TableSchema, tasks: int) -> Positions:
    """Return the task of each key; no key has a null."""
    if schema.num_buckets > 0:
        numbers = bucket_ids(keys, schema).astype(np.int64)
    else:
        numbers = bucket_of(key_hashes(keys, schema), tasks).astype(np.int64)
    if schema.partition_keys:
        names = schema.partition_keys
        columns = [keys.column(name) for name in names]
        rows = encode_rows(columns, [schema.field(name).type for name in names])
        numbers += bucket_of(murmur_hash(rows), tasks)
    return numbers % tasks
