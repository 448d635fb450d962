"""Joins rows of two tables, with the columns and types of the joined table. Pure.

In: rows of both sides as lookups return them. Out: joined rows, in the order of the left ones. Raises InvalidError for
a join key with more rows than a join may have.

    keys x y z        left x 1, x 2, z 3        right x 7, x 8, y 9
    all matches       x 1 7, x 1 8, x 2 7, x 2 8
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from widetable.derive.changes.equal_keys import Numbers, rows_at
from widetable.derive.joins.joined_plan import JoinedPlan
from widetable.errors import InvalidError
from widetable.messages.counted import counted
from widetable.schema import join_options


def one_match(plan: JoinedPlan, left: pa.Table, right: pa.Table) -> pa.Table:
    """Join each left row with one right row. right: for each left row the row of its join key, all null for none.

    Left rows x 1 and y 2, right rows 7 and null: joined x 7, and for a left join y null.
    """
    if not plan.is_left:
        has_match = right.column(plan.definition.right_on[0]).is_valid()
        left, right = left.filter(has_match), right.filter(has_match)
    return _together(plan, left, right)


def all_matches(
    plan: JoinedPlan,
    keys: pa.Table,
    left: tuple[Numbers, pa.Table],
    right: tuple[Numbers, pa.Table],
) -> pa.Table:
    """Join left and right rows of each key. keys: distinct join keys.

    left, right: ascending key numbers, and the rows that have these keys. Each left row is repeated for the right rows
    of its key, which are adjacent because the numbers ascend. The number of rows is checked before any is made.
    """
    firsts = np.searchsorted(right[0], np.arange(keys.num_rows + 1))
    counts = np.diff(firsts)
    repeats = counts[left[0]]
    _check_products(plan, keys, np.bincount(left[0], minlength=keys.num_rows) * counts)
    ends = np.cumsum(repeats)
    steps = np.arange(int(repeats.sum())) - np.repeat(ends - repeats, repeats)
    places = np.repeat(firsts[:-1][left[0]], repeats) + steps
    left_places = np.repeat(np.arange(len(repeats)), repeats)
    return _together(plan, rows_at(left[1], left_places), rows_at(right[1], places))


def too_many(plan: JoinedPlan, rows: str) -> InvalidError:
    """Return the error for a join key with too many rows. rows: their number and the key, in words."""
    return InvalidError(
        f"option {join_options.MAX_MATCHES.key!r}",
        found=f"{rows} in the join of {plan.definition.left} and {plan.definition.right}",
        expected=f"at most {plan.definition.max_matches}",
        action="Raise the option, or remove rows of the key from the tables.",
    )


def _check_products(plan: JoinedPlan, keys: pa.Table, products: Numbers) -> None:
    if len(products) and products.max() > plan.definition.max_matches:
        worst = int(products.argmax())
        key = keys.slice(worst, 1).to_pylist()[0]
        raise too_many(plan, f"{counted(products[worst], 'row')} of the key {key}")


def _together(plan: JoinedPlan, left: pa.Table, right: pa.Table) -> pa.Table:
    columns = [left.column(name) for name in plan.left_columns]
    columns += [right.column(name) for name in plan.right_columns]
    return pa.Table.from_arrays(columns, names=plan.columns.names)
