"""Answers calls together that have few keys and wait for the same view: a turn includes the waiting calls.

    thread A   k1   turn: k1 ────────┐
    thread B   k2   waits            └ turn: k2 k3 k4 ──┐
    thread C   k3   waits                               ├ has its rows, needs no turn
    thread D   k4   waits                               ┘

A lookup of four keys costs hardly more than one of a single key, and threads of one interpreter take turns anyhow. So
the more threads wait, the more calls are answered at once.

In: key rows (lookup_keys) of each call. Out: the rows of each. The call whose turn it is raises what its own keys
raise: where calls fail together, the others stay without rows and take turns of their own.
"""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Sequence
from typing import Final

import pyarrow as pa

from widetable.operations.queries.lookup_view import LookupView

# The most keys of all calls together. A call that has more by itself is answered alone.
MAX_KEYS: Final = 1024
# Up to this size, the result of a call shares the memory of the rows of all calls; else it is copied.
_MAX_SHARED_BYTES: Final = 1 << 20


class LookupCall:
    """The call of one thread. keys: key rows of the schema of `view`. rows: None until it is answered. answered_by: the
    view that they are from.

    The calling thread makes it. Once it waits, only the thread that has the turn writes to it.
    """

    def __init__(self, view: LookupView, keys: pa.RecordBatch) -> None:
        self.keys: Final = keys
        self.view: Final = view
        self.rows: pa.Table | None = None
        self.answered_by = view


def next_calls(call: LookupCall, waiting: deque[LookupCall]) -> list[LookupCall]:
    """Return the call and those waiting calls that are answered together with it, and remove them from the queue."""
    with contextlib.suppress(ValueError):
        waiting.remove(call)  # it is missing if a failed turn has removed it
    calls, keys = [call], call.keys.num_rows
    while waiting and keys + waiting[0].keys.num_rows <= MAX_KEYS:
        calls.append(waiting.popleft())
        keys += calls[-1].keys.num_rows
    return calls


def answer(calls: Sequence[LookupCall], view: LookupView) -> pa.Table:
    """Return the rows of the first call, and set the rows of the others unless they fail together.

    view: may have moved since the calls were made. If it moved to a snapshot of another schema, their keys were cast
    to the old one: then the first call's keys are cast again and looked up, and the others take turns of their own.
    """
    for call in calls:
        call.answered_by = view
    fits = all(call.view.schema is view.schema for call in calls)
    if fits and len(calls) > 1:
        with contextlib.suppress(Exception):  # an error of the first call is raised below
            rows = view.rows_of(pa.concat_batches([call.keys for call in calls]))
            are_small = rows.get_total_buffer_size() <= _MAX_SHARED_BYTES
            first = 0
            for call in calls:
                call.rows = _own(rows.slice(first, call.keys.num_rows), are_small)
                first += call.keys.num_rows
            return calls[0].rows
    keys = calls[0].keys
    return view.rows_of(keys) if fits else view.lookup(keys)


def _own(rows: pa.Table, are_small: bool) -> pa.Table:
    """Return rows that are a part of many: as they are if all are small, else copied."""
    return rows if are_small else rows.take(pa.array(range(rows.num_rows), pa.int64()))
