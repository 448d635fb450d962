"""How the row of one key was made, record by record: the engine's own plan of the first record, the first two, and
so on, in merge order. So the explanation of a value agrees with the merge that made it.

    record      1      2      3            step 1   a from 1, b from 1
    a, b        5,x    7,·    ·,y          step 2   a from 2, b from 1
                                           step 3   a from 2, b from 3

In: a window of one key, with all of its columns. Out: steps. Pure. A record that cannot be merged with those before it,
such as one that makes a sum too large, changes nothing; its step and the later ones have the engine's error.

n records cost n merges of up to n records: use this to explain one key, not to read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from widetable.errors import InvalidError
from widetable.format.printed_value import printed_rows
from widetable.format.projection import projection_of
from widetable.merge.engine import MergeEngine, plan_of
from widetable.merge.gather import gather
from widetable.merge.plan import MergePlan, Pick
from widetable.merge.window import Window
from widetable.schema.row_kind import is_retraction


class MergeStep(NamedTuple):
    """The state after the window's row number `row`: whether the key has a row, and the row number that each column is
    from, -1 for null. values: of all columns, printed; values that functions compute are from no single row. error: of
    a record that cannot be merged; the other fields are those of the step before then.
    """

    row: int
    is_there: bool
    sources: Mapping[str, int]
    values: Mapping[str, Any]
    error: InvalidError | None = None


def merge_steps(window: Window, engine: MergeEngine, columns: Sequence[str]) -> list[MergeStep]:
    """Return a step for each row of the key, in merge order."""
    places = np.arange(len(window.order))
    steps: list[MergeStep] = []
    before = MergeStep(-1, False, {}, {})
    # `layer` keeps row numbers, so they mean the same in every step.
    for last in places.tolist():
        row = int(window.order[last])
        try:
            plan = plan_of(window.layer(places <= last), engine, columns)
            before = _step(window, row, plan, columns)
        except InvalidError as error:
            before = before._replace(row=row, error=error)
        steps.append(before)
    return steps


def _step(window: Window, row: int, plan: MergePlan, columns: Sequence[str]) -> MergeStep:
    sources: dict[str, int] = {}
    for source in plan.sources:
        if isinstance(source, Pick):
            sources.update(dict.fromkeys(source.columns, int(source.indices[0])))
    is_there = not bool(is_retraction(plan.kinds)[0])
    rows = projection_of(window.schema, columns).of(gather(window, plan, columns))
    return MergeStep(row, is_there, sources, next(printed_rows(rows)))
