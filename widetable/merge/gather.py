"""Carry out a merge plan: gather each column once from the rows that the plan names.

The positions of the rows are computed once per pick and set of pieces that hold a column, not once per column.
Consecutive rows of one piece are a slice without a copy.

    pieces           base: k a b      narrow: k a       so a and k are in both, b in the base alone: two choices
    Pick(k, a, b)    rows by number, of both pieces     b is null in rows of the narrow piece

Pure. May run in several threads on one window (`window.py`).
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from widetable.format.projection import projection_of
from widetable.kernels.patched_take import PatchChoice
from widetable.merge.plan import MergePlan, Pick
from widetable.merge.window import Window
from widetable.schema.table_schema import SEQUENCE_NUMBER, VALUE_KIND


def gather(window: Window, plan: MergePlan, columns: Sequence[str]) -> pa.RecordBatch:
    """Return the rows of a plan as one row batch with these columns in the table's order. A column that has no source,
    or that no piece of the window holds, is left out.

    columns: in any order. Types and nullability are those of the current schema. A slice shares
    the memory of its piece: as long as the batch lives, the piece does.
    """
    gathered = {
        SEQUENCE_NUMBER: pa.array(plan.sequence_numbers),
        VALUE_KIND: pa.array(plan.kinds),
    }
    for source in plan.sources:
        if isinstance(source, Pick):
            gathered.update(_gather_pick(window, source))
        else:
            gathered[source.column] = source.values
    rows = pa.RecordBatch.from_pydict(gathered)
    names = [name for name in columns if name in gathered]
    return projection_of(window.schema, names).of(rows)


def _gather_pick(window: Window, pick: Pick) -> dict[str, pa.Array]:
    """Return the pick's columns that some piece holds, by name. The window forgets each at once: joined
    copies of all columns of a wide table would be as large as the window itself.
    """
    choices: dict[tuple[int, ...], PatchChoice] = {}
    gathered = {}
    for name in pick.columns:
        holders = window.holders(name)
        if holders:
            if holders not in choices:
                choices[holders] = window.choice(holders, pick.indices)
            gathered[name] = window.gathered(name, choices[holders])
            window.forget(name)
    return gathered
