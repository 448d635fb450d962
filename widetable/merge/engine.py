"""Merge engines: what rows of equal key become. The contract, and the table from option value to engine.

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

from collections.abc import Collection, Sequence
from typing import Final, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from widetable import options as opt
from widetable.derived_value import once_per_object
from widetable.errors import UnsupportedError
from widetable.merge.aggregation import Aggregation
from widetable.merge.deduplicate import Deduplicate
from widetable.merge.first_row import FirstRow
from widetable.merge.option_rules import check_rules
from widetable.merge.partial_merge import PartialMerge
from widetable.merge.partial_update import PartialUpdate
from widetable.merge.plan import MergePlan, unmerged
from widetable.merge.window import Window
from widetable.row_kind import is_retraction
from widetable.schema import TableSchema

__all__ = ["ENGINES", "MergeEngine", "PartialMerge", "engine_of"]


class MergeEngine(Protocol):
    """Pure functions of a schema and of rows; engines hold no state. They are called for keys with several rows only
    as far as the result goes: a key with one row passes through a merge unchanged.
    """

    name: str
    # Whether a key that has nothing but a retraction is there.
    merges_retractions: bool
    # Whether compaction always looks up what lies below, and leaves out keys that are there: a key is in one file only.
    looks_up: bool
    # Whether a merged row may hold values of several records, so that its one sequence number cannot stand for all
    # of them (docs/decisions/0007).
    mixes_records: bool

    def validate(self, schema: TableSchema) -> None:
        """Raises InvalidError for options that break a rule, UnsupportedError for what is not honoured."""

    def check_columns(self, schema: TableSchema, columns: Collection[str]) -> None:
        """Raises InvalidError when one writer may not write just these columns; it says what to add."""

    def needed_columns(self, schema: TableSchema, columns: Collection[str]) -> tuple[str, ...]:
        """What must be loaded so that these columns can be merged: they, the key, and what decides; in table order.

        A read of one column of a sequence group loads the group's sequence too, else late rows
        would win.
        """

    def normal_form(self, schema: TableSchema, row_batch: pa.RecordBatch) -> pa.RecordBatch:
        """The same records without values that have no meaning (docs/decisions/0001).

        Rows, their order, kinds and numbers stay. Raises InvalidError for a retraction that could
        never be merged: once it is stored the table cannot be read.
        """

    def barriers(self, window: Window) -> npt.NDArray[np.bool_] | None:
        """bool[m] by position in `window.order`: rows that must not be collapsed with the row before them
        (docs/decisions/0003); None when there is none.
        """

    def plan(self, window: Window, columns: Sequence[str]) -> MergePlan:
        """One row per key, for these columns, from all that there is of it. Raises InvalidError for a retraction that
        has no meaning.
        """

    def collapse_plan(self, window: Window, columns: Sequence[str]) -> MergePlan:
        """The same of a commit's rows, which will be merged with what is older (docs/decisions/0031)."""

    def partial_merge(self, schema: TableSchema, *, has_deletes: bool) -> PartialMerge:
        """Which runs compaction may merge (docs/decisions/0002). has_deletes: the files hold -U or -D."""

    def keeps_deletes(self, schema: TableSchema) -> bool:
        """Whether a delete still means something when nothing older is left (docs/decisions/0002).

        It does when a later commit may bring a record that sorts before it.
        """

    def counts_newest_full_row(self, schema: TableSchema) -> bool:
        """Whether rows at level >= 1 are whole rows, of which only the newest of a key may be merged: what is older is
        in it (docs/decisions/0031).
        """


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
        return unmerged(window, columns)
    return engine.plan(window, columns)


def collapse_plan_of(window: Window, engine: MergeEngine, columns: Sequence[str]) -> MergePlan:
    """The engine's plan of a commit's rows; a row that is alone stands as it is."""
    if window.has_single_rows_only:
        return unmerged(window, columns)
    return engine.collapse_plan(window, columns)


def _retracts(window: Window) -> bool:
    """Whether any row is -U or -D. Asked last: only `aggregation` pays for it."""
    return bool(is_retraction(window.kinds[window.order]).any())
