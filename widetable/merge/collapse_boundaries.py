"""Rows of a commit that must not collapse with the row before them (docs/decisions/0003): rules of several engines.

    a boundary lies before a row:      +I  -D ║ +I  +I        mask   F  F  T  F
    `sorted_merge` makes of it:        layer 0   layer 1

A mask may mark too many rows, which costs small files; one that marks too few loses what a later
reader needs. Masks are bool[m] by position in `Window.order`. Masks of several rules are joined
by `|`; `within_keys` is applied last.
"""

from __future__ import annotations

import numpy as np

from widetable.kernels.array_types import Mask
from widetable.kernels.partial_update import last_marked
from widetable.merge.key_order import lanes_of_sequence
from widetable.merge.window import Window
from widetable.schema.row_kind import DELETE, is_retraction


def within_keys(window: Window, boundaries: Mask) -> Mask | None:
    """Remove boundaries before the first row of a key, in place; return None when no boundary is left.

    Rules may look at the row before without checking whether it has the same key.
    """
    boundaries[window.starts[:-1]] = False
    return boundaries if boundaries.any() else None


def between_sequences(window: Window) -> Mask:
    """Mark rows whose `sequence.field` differs from the row before: a later commit may put a record between them."""
    boundaries = np.zeros(len(window.order), np.bool_)
    lanes = lanes_of_sequence(window.schema, window.pieces)
    if lanes is not None:
        lanes = lanes[window.order]
        boundaries[1:] = (lanes[1:] != lanes[:-1]).any(axis=1)
    return boundaries


def behind_last_delete(window: Window) -> Mask:
    """Mark the first add behind the last -D of each key: collapsed, they would be an add that loses the removal.

        kinds      -D  +I  -D  +I  +I | +I
        boundary   F   F   F   T   F  | F

    One per key suffices: of the records before it only the last -D counts.
    """
    kinds = window.kinds[window.order]
    return first_behind(window, ~is_retraction(kinds), kinds == DELETE)


def first_behind(window: Window, marked: Mask, last: Mask) -> Mask:
    """Mark the first row of each key that is in `marked` and behind the key's last row in `last`.

    Both are bool[m]. A key without a row in `last` gets no boundary.
    """
    keys = len(window.starts) - 1
    bound = window.by_row(last_marked(window.starts, np.full(keys, -1, np.int64), last))
    behind = marked & (bound >= 0) & (np.arange(len(marked)) > bound)
    positions = np.flatnonzero(behind)
    _, firsts = np.unique(window.by_row(np.arange(keys))[positions], return_index=True)
    boundaries = np.zeros(len(marked), np.bool_)
    boundaries[positions[firsts]] = True
    return boundaries
