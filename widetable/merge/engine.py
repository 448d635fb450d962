"""Merge engines by their option value; `merge_engine` has their contract.

An engine merges records of equal key at four places, and must produce the same table at all of them
(docs/decisions/0002, 0003, 0031):

    writer       normal_form per record, boundaries and collapse_plan per commit and bucket
    compaction   partial_merge and keeps_deletes of a pick, plan with or without older rows below
    reader       needed_columns of a projection, plan of all runs, then deletes left out
    changelog    plan of the rows before, and plan of all rows; what differs is emitted

The traits of each engine are in its own module. `counts_newest_full_row` depends on the table: it holds with `lookup`
in `aggregation`, and in `partial-update` if functions fill columns.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from widetable.errors import InvalidError
from widetable.merge.aggregation import Aggregation
from widetable.merge.deduplicate import Deduplicate
from widetable.merge.first_row import FirstRow
from widetable.merge.merge_engine import MergeEngine
from widetable.merge.partial_merge import PartialMerge
from widetable.merge.partial_update import PartialUpdate
from widetable.merge.plan import MergePlan, unmerged
from widetable.merge.window import Window
from widetable.runtime.derived_value import once_per_object
from widetable.schema import options as opt
from widetable.schema.field_options import DEFAULT_FUNCTION_KEY, FIELD_OPTION
from widetable.schema.options import TableOptions
from widetable.schema.row_kind import is_retraction
from widetable.schema.table_schema import TableSchema

__all__ = ["ENGINES", "MergeEngine", "PartialMerge", "engine_of"]


ENGINES: Final[dict[str, MergeEngine]] = {
    engine.name: engine for engine in (Deduplicate(), PartialUpdate(), Aggregation(), FirstRow())
}


@once_per_object
def engine_of(schema: TableSchema) -> MergeEngine:
    """Return the engine of a table.

    Parameters
    ----------
    schema : TableSchema
        The table's schema.

    Returns
    -------
    MergeEngine
        The engine. It is checked once for each schema that the table obeys its rules.

    Raises
    ------
    InvalidError
        Options are wrong. This is raised before the other.
    UnsupportedError
        Options, or an aggregate function, are not supported by this version.
    """
    engine = unchecked_engine(schema.typed_options)
    engine.validate(schema)
    return engine


def unchecked_engine(options: TableOptions) -> MergeEngine:
    """Return the engine of a table with these options, whether or not the table obeys the engine's rules."""
    return ENGINES[options.get(opt.MERGE_ENGINE)]


def check_used(keys: Iterable[str], options: Mapping[str, str]) -> None:
    """Raise InvalidError for an option of columns if the table's engine takes records as a whole: the user probably
    forgot the merge engine. options: those of the table.
    """
    engine = unchecked_engine(TableOptions(options))
    unused = (key for key in keys if FIELD_OPTION.match(key) or key == DEFAULT_FUNCTION_KEY)
    key = next(unused, None)
    if key is not None and not engine.mixes_records:
        by_column = " or ".join(n for n, each in ENGINES.items() if each.mixes_records)
        raise InvalidError(
            f"option {key!r}",
            found=f"the merge engine {engine.name!r}, which takes records as a whole",
            expected=f"{opt.MERGE_ENGINE.key} = {by_column}, which have options of columns",
            action="Remove the option, or create the table with such an engine.",
        )


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
