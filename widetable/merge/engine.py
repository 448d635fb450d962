"""Merge engines: what rows of equal key become. The table from option value to engine; the contract is `merge_engine`.

An engine is asked at four places, and must give the same table at all of them
(docs/decisions/0002, 0003, 0031):

    writer       normal_form per record, barriers and collapse_plan per commit and bucket
    compaction   partial_merge and keeps_deletes of a pick, plan with nothing older left or not
    reader       needed_columns of a projection, plan of all runs, then deletes left out
    changelog    plan of the rows before, and plan of all rows; what differs is emitted

How the engines differ in what the code around them asks:

                     mixes_records   merges_retractions   looks_up   counts_newest_full_row
    deduplicate      no              no                   no         no
    partial-update   yes             no                   no         with `lookup`, if functions fill columns
    aggregation      yes             yes                  no         with `lookup`
    first-row        no              no                   yes        no
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from widetable.errors import UnsupportedError
from widetable.merge.aggregation import Aggregation
from widetable.merge.deduplicate import Deduplicate
from widetable.merge.first_row import FirstRow
from widetable.merge.merge_engine import MergeEngine
from widetable.merge.option_rules import check_rules
from widetable.merge.partial_merge import PartialMerge
from widetable.merge.partial_update import PartialUpdate
from widetable.merge.plan import MergePlan, unmerged
from widetable.merge.window import Window
from widetable.runtime.derived_value import once_per_object
from widetable.schema import options as opt
from widetable.schema.row_kind import is_retraction
from widetable.schema.table_schema import TableSchema

__all__ = ["ENGINES", "MergeEngine", "PartialMerge", "engine_of"]


ENGINES: Final[dict[str, MergeEngine]] = {
    engine.name: engine for engine in (Deduplicate(), PartialUpdate(), Aggregation(), FirstRow())
}


@once_per_object
def engine_of(schema: TableSchema) -> MergeEngine:
    """The engine of a table. Raises InvalidError for wrong options first, then UnsupportedError for an engine or an
    aggregate function that this version does not have.
    """
    name = schema.typed_options.get(opt.MERGE_ENGINE)
    engine = ENGINES.get(name)
    if engine is None:
        check_rules(schema)
        raise UnsupportedError(
            f"option {opt.MERGE_ENGINE.key!r}",
            found=repr(name),
            expected=f"one of {', '.join(ENGINES)}",
            action="Use another merge engine, or another client.",
        )
    engine.validate(schema)
    return engine


def plan_of(window: Window, engine: MergeEngine, columns: Sequence[str]) -> MergePlan:
    """The engine's plan; a row that is alone stands as it is, but for a retraction that an engine makes a row of.

    No column is looked at then. It is right because stored records are in normal form, and those
    of other clients pass unchanged in Paimon too.
    """
    if window.has_single_rows_only and not (engine.merges_retractions and _retracts(window)):
        return unmerged(window, columns, window.order)
    return engine.plan(window, columns)


def collapse_plan_of(window: Window, engine: MergeEngine, columns: Sequence[str]) -> MergePlan:
    """The engine's plan of a commit's rows; a row that is alone stands as it is."""
    if window.has_single_rows_only:
        return unmerged(window, columns, window.order)
    return engine.collapse_plan(window, columns)


def _retracts(window: Window) -> bool:
    """Whether any row is -U or -D. Asked last: only `aggregation` pays for it."""
    return bool(is_retraction(window.kinds[window.order]).any())
