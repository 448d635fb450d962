"""The two kinds of tables, each with its planner and its worker of compactions. Dispatch is by this table only.

    kind       rows                                    plan                carried out by
    keyed      merged by key, levels                   `bucket_plan`       `compaction`
    append     each row that was written, one level    `append_plan`       `append_compaction`

Raises what these raise.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

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


class TableKind(NamedTuple):
    """What a compaction needs to know of a table. All but `carry_out` are pure.

    plan: returns the plan of a bucket with these live files; empty if nothing is due. leaves_some: whether a full
    compaction of the bucket goes on after this plan. carry_out: carries a plan out as `compact_bucket` does, with its
    arguments in their order.
    """

    plan: Callable[[TableSchema, Sequence[DataFileMeta], Scope], Plan]
    leaves_some: Callable[[TableSchema, Sequence[DataFileMeta], Plan], bool]
    carry_out: Callable[
        [TableState, BucketId, int, Plan, Caches | None, RowsDone | None], CommitMessage
    ]


_KEYED: Final = TableKind(
    plan=lambda schema, files, scope: plan_bucket(schema, engine_of(schema), files, scope),
    leaves_some=lambda schema, files, _: (
        len(taken_at_once(files, schema.typed_options)) < len(files)
    ),
    carry_out=compact_bucket,
)
_APPEND: Final = TableKind(
    plan=append_plan.plan_appended,
    leaves_some=append_plan.leaves_some,
    carry_out=lambda state, bucket, total_buckets, plan, *_: compact_appended(
        state, bucket, total_buckets, plan
    ),
)


def kind_of(schema: TableSchema) -> TableKind:
    """Return the kind of a table."""
    return _KEYED if schema.has_key else _APPEND
