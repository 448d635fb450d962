"""Rows of a commit that engines keep apart from the row before them (docs/decisions/0003): what several engines ask.

    a barrier stands before a row:     +I  -D ║ +I  +I        mask   F  F  T  F
    what it makes, by `sorted_merge`:  layer 0   layer 1

A mask may mark too much, which costs small files; one that marks too little loses what a later
reader needs. Masks are bool[m] by position in `Window.order`. Those of several rules are joined
by `|`, then `kept` ends the work.
"""

from __future__ import annotations

import numpy as np

from widetable.kernels.partial_update import last_marked
from widetable.merge.fold import Mask
from widetable.merge.key_order import lanes_of_sequence
from widetable.merge.window import Window
from widetable.schema.row_kind import DELETE, is_retraction


def kept(window: Window, barriers: Mask) -> Mask | None:
    """The barriers, of which none stands before the first row of a key; None when there is none.

    Rules may look at the row before without asking whether it is of the same key: here that is
    put right. Writes into the mask.
    """
    barriers[window.starts[:-1]] = False
    return barriers if barriers.any() else None


def between_sequences(window: Window) -> Mask:
    """Rows whose `sequence.field` is not that of the row before: a later commit may put one between them."""
    barriers = np.zeros(len(window.order), np.bool_)
    lanes = lanes_of_sequence(window.schema, window.pieces)
    if lanes is not None:
        lanes = lanes[window.order]
        barriers[1:] = (lanes[1:] != lanes[:-1]).any(axis=1)
    return barriers


def behind_last_delete(window: Window) -> Mask:
    """The first add behind the last -D of each key: together they would be an add that forgets the removal.

        kinds      -D  +I  -D  +I  +I | +I
        barriers   F   F   F   T   F  | F

    One per key suffices: of what stands before it only the last -D counts.
    """
    kinds = window.kinds[window.order]
    return first_behind(window, ~is_retraction(kinds), kinds == DELETE)


def first_behind(window: Window, marked: Mask, last: Mask) -> Mask:
    """The first marked row of each key behind the last one of the others.

    last: where these are, bool[m]. A key without any gets no barrier.
    """
    keys = len(window.starts) - 1
    bound = window.by_row(last_marked(window.starts, np.full(keys, -1, np.int64), last))
    behind = marked & (bound >= 0) & (np.arange(len(marked)) > bound)
    positions = np.flatnonzero(behind)
    _, firsts = np.unique(window.by_row(np.arange(keys))[positions], return_index=True)
    barriers = np.zeros(len(marked), np.bool_)
    barriers[positions[firsts]] = True
    return barriers
