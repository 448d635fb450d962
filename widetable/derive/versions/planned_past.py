"""A point-in-time read that is planned in one process and done in others: `PlannedPast`, which travels pickled.

    planner    planned_past ─► what is kept of the table, and until when    a lease on each table, for an hour
    task       answered(rows), with the snapshots of the planner: later commits change nothing

Rows are divided among tasks by the bucket of their key (`task_numbers`).

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

from widetable.commit.holds.read_lease import ReadLease
from widetable.derive.versions.age_rule import AgeRule
from widetable.derive.versions.entity_rows import entity_rows, key_columns
from widetable.derive.versions.event_groups import event_groups
from widetable.derive.versions.held_past import HeldPast, held_past
from widetable.derive.versions.pinned_snapshots import (
    leases_on,
    newest_of,
    same_tables,
    tables_of,
)
from widetable.derive.versions.point_in_time import answered, metadata_of
from widetable.derive.versions.task_numbers import task_count, task_numbers
from widetable.derive.versions.wanted_features import WantedFeatures, wanted_features
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

    @property
    def schema(self) -> TableSchema:
        """The columns of the table, by which rows are numbered."""
        return self.past.table.schema

    @property
    def key_columns(self) -> list[str]:
        """The columns of the rows that hold the key."""
        return list(key_columns(self.arguments.on, self.schema))

    def wanted(self, rows: pa.Table, same_name: Callable[[str], str] = str) -> WantedFeatures:
        """Check the rows of a task."""
        return _wanted(self.past.table, rows, self.arguments, same_name)

    def task_numbers(self, rows: pa.Table, schema: TableSchema) -> npt.NDArray[np.int32]:
        """Return int32[n]: the task of each row. schema: the table's."""
        given = entity_rows(rows, self.arguments.at, self.arguments.on, schema)
        return task_numbers(given.keys, schema, self.tasks)

    def answered(self, rows: pa.Table) -> pa.Table:
        """Return the rows with their features, in their order."""
        with same_tables(tables_of(self.past), self.identities, newest_of(self.past)):
            return answered(self.past, self.wanted(rows), self.rule)


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
        leases = leases_on(past)
        identities = tuple(each._committer.identity for each in tables_of(past))
    schema = table.schema
    count = task_count(schema, schema.primary_keys, tasks)
    metadata = metadata_of(past, rule)
    planned = PlannedPast(past, identities, arguments, rule, tuple(wanted.fields), count, metadata)
    return planned, leases


def _wanted(
    table: OpenTable, rows: pa.Table, given: PastArguments, same_name: Callable[[str], str]
) -> WantedFeatures:
    return wanted_features(
        table.schema, rows, given.at, given.columns, given.on, given.prefix, same_name
    )
