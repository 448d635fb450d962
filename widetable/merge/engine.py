"""Merge engines by their option value; `merge_engine` has their contract.

An engine merges records of equal key at four places, and must produce the same table at all of them
(docs/decisions/0002, 0003, 0031):

    writer       normal_form per record, boundaries and collapse_plan per commit and bucket
    compaction   partial_merge and keeps_deletes of a pick, plan with or without older rows below
    reader       needed_columns of a projection, plan of all runs, then deletes left out
    changelog    plan of the rows before, and plan of all rows; what differs is emitted

Traits in which the engines differ:

                     mixes_records   merges_retractions   stores_keys_once   counts_newest_full_row
    deduplicate      no              no                   no                 no
    partial-update   yes             no                   no                 with `lookup`, if functions fill columns
    aggregation      yes             yes                  no                 with `lookup`
    first-row        no              no                   yes                no
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
    """Return the engine of a table. Raises InvalidError for wrong options first, then UnsupportedError for an engine or
    an aggregate function that this version does not support.
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
    """Return the engine's plan. Where each key has one row, rows stay as they are, unless the engine merges
    retractions.

    No column is read then. That is correct because stored records are in normal form, and Paimon
    does not change single records of other clients either.
    """
    if window.has_single_rows_only and not (engine.merges_retractions and _retracts(window)):
        return unmerged(window, columns, window.order)
    return engine.plan(window, columns)


def collapse_plan_of(window: Window, engine: MergeEngine, columns: Sequence[str]) -> MergePlan:
    """Return the engine's plan of a commit's rows; a single row of a key stays as it is."""
    if window.has_single_rows_only:
        return unmerged(window, columns, window.order)
    return engine.collapse_plan(window, columns)


def _retracts(window: Window) -> bool:
    """Whether any row is -U or -D. Evaluated last, so that only `aggregation` pays for it."""
    return bool(is_retraction(window.kinds[window.order]).any())
