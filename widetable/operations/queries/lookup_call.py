"""Calls for few keys that wait for the same view, answered together: a turn takes along whoever waits.

    thread A   k1   turn: k1 ────────┐
    thread B   k2   waits            └ turn: k2 k3 k4 ──┐
    thread C   k3   waits                               ├ has its rows, needs no turn
    thread D   k4   waits                               ┘

A lookup of four keys costs hardly more than one of a single key, and threads of one interpreter take turns anyhow. So
the more threads wait, the more is answered at once.

In: key rows (lookup_keys) of each call. Out: the rows of each. Raises for the call whose turn it is what its own keys
raise: where calls fail together, those taken along stay without rows, and take turns of their own.
"""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Sequence
from typing import Final

import pyarrow as pa

from widetable.operations.queries.lookup_view import LookupView

# Of all calls together. A call that has more by itself is still answered, alone.
MOST_KEYS: Final = 1024
# What a call gives keeps the rows of all in memory, if they are no more than this; else it is copied.
_MOST_SHARED_BYTES: Final = 1 << 20


class LookupCall:
    """keys: key rows of the schema of `view`. rows: None until it is answered.
    Made by the thread that asks; once it waits, only whoever has the turn writes `rows`.
    """

    def __init__(self, view: LookupView, keys: pa.RecordBatch) -> None:
        self.keys: Final = keys
        self.view: Final = view
        self.rows: pa.Table | None = None


def taken_along(call: LookupCall, waiting: deque[LookupCall]) -> list[LookupCall]:
    """The call, and of those that wait as many as are answered together with it. They wait no more."""
    with contextlib.suppress(ValueError):
        waiting.remove(call)  # not there: a turn that failed has taken it along
    taken, keys = [call], call.keys.num_rows
    while waiting and keys + waiting[0].keys.num_rows <= MOST_KEYS:
        taken.append(waiting.popleft())
        keys += taken[-1].keys.num_rows
    return taken


def answer(calls: Sequence[LookupCall], view: LookupView) -> pa.Table:
    """The rows of the first call; the others have theirs, if nothing failed. view: may have moved since they came.

    A move to a snapshot of another schema leaves keys that were cast to the old one: then the
    first call's keys are looked up as a user's, cast anew, and the others take turns of their
    own.
    """
    fits = all(call.view.schema is view.schema for call in calls)
    if fits and len(calls) > 1:
        with contextlib.suppress(Exception):  # the first one's own failure shows below
            rows = view.rows_of(pa.concat_batches([call.keys for call in calls]))
            are_small = rows.get_total_buffer_size() <= _MOST_SHARED_BYTES
            first = 0
            for call in calls:
                call.rows = _own(rows.slice(first, call.keys.num_rows), are_small)
                first += call.keys.num_rows
            return calls[0].rows
    keys = calls[0].keys
    return view.rows_of(keys) if fits else view.lookup(keys)


def _own(rows: pa.Table, are_small: bool) -> pa.Table:
    """Rows that are a part of many, as they are, or in memory of their own."""
    return rows if are_small else rows.take(pa.array(range(rows.num_rows), pa.int64()))
