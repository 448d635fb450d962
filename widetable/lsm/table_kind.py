"""The two kinds of tables, each with its planner and its worker of compactions. Dispatch is by this table only.

    kind       rows                                    plan                carried out by
    keyed      merged by key, levels                   `bucket_plan`       `compaction`
    append     each row that was written, one level    `append_plan`       `append_compaction`

Raises what these raise.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from widetable.format.bucket_id import BucketId
from widetable.format.data_file_meta import DataFileMeta
from widetable.lsm import append_plan
from widetable.lsm.append_compaction import compact_appended
from widetable.lsm.bucket_plan import Plan, Scope, plan_bucket
from widetable.lsm.compaction import RowsDone, compact_bucket
from widetable.lsm.fan_in import taken_at_once
from widetable.lsm.file_rows import Caches
from widetable.merge.engine import engine_of
from widetable.schema.table_schema import TableSchema
from widetable.write.commit_message import CommitMessage
from widetable.write.table_state import TableState


class TableKind(Protocol):
    """What a compaction needs to know of a table. The methods are pure, but for `carry_out`."""

    def plan(self, schema: TableSchema, files: Sequence[DataFileMeta], scope: Scope) -> Plan:
        """Return the plan of a bucket with these live files; empty if nothing is due."""

    def leaves_some(self, schema: TableSchema, files: Sequence[DataFileMeta], plan: Plan) -> bool:
        """Return whether a full compaction of the bucket goes on after this plan."""

    def carry_out(
        self,
        state: TableState,
        bucket: BucketId,
        total_buckets: int,
        plan: Plan,
        caches: Caches | None = None,
        rows_done: RowsDone | None = None,
    ) -> CommitMessage:
        """Carry out a plan as `compact_bucket` does."""


class _Keyed:
    def plan(self, schema: TableSchema, files: Sequence[DataFileMeta], scope: Scope) -> Plan:
        return plan_bucket(schema, engine_of(schema), files, scope)

    def leaves_some(self, schema: TableSchema, files: Sequence[DataFileMeta], plan: Plan) -> bool:
        return len(taken_at_once(files, schema.typed_options)) < len(files)

    def carry_out(
        self,
        state: TableState,
        bucket: BucketId,
        total_buckets: int,
        plan: Plan,
        caches: Caches | None = None,
        rows_done: RowsDone | None = None,
    ) -> CommitMessage:
        return compact_bucket(state, bucket, total_buckets, plan, caches, rows_done)


class _Append:
    def plan(self, schema: TableSchema, files: Sequence[DataFileMeta], scope: Scope) -> Plan:
        return append_plan.plan_appended(schema, files, scope)

    def leaves_some(self, schema: TableSchema, files: Sequence[DataFileMeta], plan: Plan) -> bool:
        return append_plan.leaves_some(schema, files, plan)

    def carry_out(
        self,
        state: TableState,
        bucket: BucketId,
        total_buckets: int,
        plan: Plan,
        caches: Caches | None = None,
        rows_done: RowsDone | None = None,
    ) -> CommitMessage:
        return compact_appended(state, bucket, total_buckets, plan)


_KEYED, _APPEND = _Keyed(), _Append()


def kind_of(schema: TableSchema) -> TableKind:
    """Return the kind of a table."""
    return _KEYED if schema.has_key else _APPEND
