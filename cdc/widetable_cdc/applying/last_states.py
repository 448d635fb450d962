"""Reduces the events of a round to the last state of each key.

    ordinal   event                      big          state of the key at the end
    0         +I 1                       B            -
    1         +U 1                       unchanged    +I 1, big = B, of ordinal 0
    2         +U 2                       unchanged    -
    3         -D 2, +I 20 (moved)        unchanged    -D 2
    4         -D 20, +I 30 (moved)       unchanged    -D 20; +I 30, big = that of key 2 in the target

In: `RowEvents` of one table, in the order of the log, each in one form of the relation. Out: `LastStates`, which are
read in slices (`StateSlice`), so that the rows of a large transaction are not copied as a whole. Columns are matched by
their names in the target. A row whose form lacks a column has the value that rows got when the column was added.

A value that a change does not carry is taken from the event before it of its key (of its old key, if it was moved),
and from the one before that, as far as the round goes. Where the round does not know it, the target has it under
`origins`. Pointers are followed for all rows at once, by doubling: twenty steps for a chain of a million updates.

A truncate ends all states before it. Pure. Raises nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from widetable_cdc.applying.joined_events import JoinedEvents
from widetable_cdc.applying.row_events import Indices, Mask, RowEvent, RowEvents
from widetable_cdc.log.changes import Relation

# 64 K rows of 200 bytes are 13 MB.
SLICE_ROWS: Final = 65_536
_NONE_BEFORE: Final = -1
_DELETED_BEFORE: Final = -2

INSERTED: Final = "+I"
UPDATED: Final = "+U"
DELETED: Final = "-D"
_KINDS: Final = pa.array([INSERTED, UPDATED, DELETED])


@dataclass(frozen=True)
class StateSlice:
    """The last states of r keys, in the order of their last events; texts.

    relation: the form that the last events came in. kinds: `INSERTED`, `UPDATED` or `DELETED`, string[r]. keys, values:
    a large_string[r] for each column; values of deleted rows are null. unresolved: bool[r] for the columns of which the
    round does not know each value. origins: the key under which the target has these values, null where it has none.
    xids, end_lsns: of the last event's transaction. positions: that of the last event's change among those of its
    transaction to this table, from 0; they are the same in each replay.
    """

    relation: Relation
    kinds: pa.Array
    keys: Mapping[str, pa.Array]
    values: Mapping[str, pa.Array]
    unresolved: Mapping[str, Mask]
    origins: Mapping[str, pa.Array]
    positions: npt.NDArray[np.int64]
    xids: npt.NDArray[np.uint32]
    end_lsns: npt.NDArray[np.int64]

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(self.kinds)


@dataclass(frozen=True)
class LastStates:
    """The last states of a round.

    truncate_lsn: end of the last truncate's transaction, at which the target loses its rows; None without.
    last: int64, the last event of each state, ascending.
    is_new: whether the key has no row before the round, as far as the round knows. holders: for the columns with values
    that some change does not carry, the event that has the value of each event, or where it is not known.
    """

    truncate_lsn: int | None
    events: JoinedEvents
    last: Indices
    is_new: Mask
    holders: Mapping[str, Indices]
    is_lost: Mask

    def __len__(self) -> int:
        """Return the number of states."""
        return len(self.last)

    def slices(self, rows: int = SLICE_ROWS) -> Iterator[StateSlice]:
        """Yield the states, at most `rows` at once, each slice in one form of the relation."""
        bounds = np.searchsorted(self.last, self.events.starts).tolist()
        for number in range(len(self.events.parts)):
            low, high = bounds[number], bounds[number + 1]
            for at in range(low, high, rows):
                yield self._slice(number, slice(at, min(at + rows, high)))

    def _slice(self, number: int, chosen: slice) -> StateSlice:
        events, last = self.events, self.last[chosen]
        kinds = events.kinds()[last]
        is_delete = kinds == RowEvent.DELETE
        values: dict[str, pa.Array] = {}
        unresolved: dict[str, Mask] = {}
        root = last
        for name in events.names:
            holder, is_open = last, np.zeros(len(last), dtype=np.bool_)
            if name in self.holders:
                holder = self.holders[name][last]
                unchanged = events.unchanged(name)
                assert unchanged is not None, "a column with holders is unchanged somewhere"
                is_open = unchanged[holder] & ~is_delete
            if is_open.any():
                unresolved[name] = is_open
                root = np.where(is_open, holder, root)
            values[name] = events.values_at(name, holder, is_delete | is_open)
        part = events.parts[number]
        rows = part.rows[last - events.starts[number]]
        # The -D of a moved row has its old key.
        is_lost = self.is_lost[root]
        origin = np.where(is_lost, root, root - events.is_moved()[root])
        code = np.where(is_delete, 2, np.where(self.is_new[chosen], 0, 1))
        return StateSlice(
            relation=part.relation,
            kinds=_KINDS.take(pa.array(code)),
            keys=events.keys_at(last),
            values=values,
            unresolved=unresolved,
            origins=events.keys_at(origin, is_lost),
            positions=events.positions(number, rows),
            xids=part.xids[rows],
            end_lsns=part.end_lsns[rows],
        )


def last_states(
    parts: Sequence[RowEvents],
    fills: Mapping[str, str | None] = MappingProxyType({}),
    *,
    every_transaction: bool = False,
) -> LastStates:
    """Return the last states of the events of one table.

    fills: the values of columns that were added within the round, for the rows of forms before. every_transaction: keep
    the last state of a key in each transaction, not only in the round. A truncate ends what is before it nevertheless.
    """
    behind, truncate_lsn = _behind_truncate(parts)
    events = JoinedEvents.of(behind, fills, _begun(parts)[len(parts) - len(behind) :])
    nothing = np.zeros(0, dtype=np.int64)
    if not len(events):
        no = nothing.astype(np.bool_)
        return LastStates(truncate_lsn, events, nothing, no, {}, no)
    codes, kinds = events.key_codes(), events.kinds()
    order = np.argsort(codes, kind="stable")
    is_same_key = codes[order][1:] == codes[order][:-1]
    is_same = is_same_key
    if every_transaction:
        ends = events.end_lsns()[order]
        is_same = is_same_key & (ends[1:] == ends[:-1])
    firsts = order[np.concatenate(([True], ~is_same))]
    lasts = order[np.concatenate((~is_same, [True]))]
    by_time = np.argsort(lasts)
    before = _before(events, order, is_same_key)
    return LastStates(
        truncate_lsn,
        events,
        lasts[by_time],
        (kinds[firsts] == RowEvent.INSERT)[by_time],
        _holders(events, before),
        events.is_lost() | (before == _DELETED_BEFORE),
    )


def _behind_truncate(parts: Sequence[RowEvents]) -> tuple[Sequence[RowEvents], int | None]:
    """Return the events behind the last truncate, and the end LSN of that one's transaction."""
    for number in reversed(range(len(parts))):
        truncates = np.flatnonzero(parts[number].kinds == RowEvent.TRUNCATE)
        if len(truncates):
            last = truncates[-1]
            rest = parts[number].kept(np.arange(len(parts[number])) > last)
            return [rest, *parts[number + 1 :]], int(parts[number].event_end_lsns[last])
    return parts, None


def _begun(parts: Sequence[RowEvents]) -> list[int]:
    """Return how many changes the first transaction of each part has in the parts before."""
    counts = []
    for number, part in enumerate(parts):
        first = part.end_lsns[:1]
        counts.append(sum(int(np.sum(each.end_lsns == first)) for each in parts[:number]))
    return counts


def _before(events: JoinedEvents, order: Indices, is_same_key: Mask) -> Indices:
    """Return for each event the one that left the row which it changes: that of its key, or of its old key.

    `_NONE_BEFORE`: the round has none. `_DELETED_BEFORE`: the row was deleted there.
    """
    previous = np.full(len(events), _NONE_BEFORE, dtype=np.int64)
    previous[order[1:]] = np.where(is_same_key, order[:-1], _NONE_BEFORE)
    # The -D of a moved row is the event before it, and what is before that has the key's last row.
    before = np.where(events.is_moved(), previous[np.arange(len(events)) - 1], previous)
    is_deleted = (before >= 0) & (events.kinds()[before] == RowEvent.DELETE)
    before[is_deleted] = _DELETED_BEFORE
    return before


def _holders(events: JoinedEvents, before: Indices) -> dict[str, Indices]:
    """Return for each column with unchanged values the event that holds the value of each event.

    before      -1, 0, 1, 2        event 0 is an insert, three updates do not carry the value
    step 1      0, 0, 1, 2         each points to the event before, unless it carries the value
    step 2      0, 0, 0, 1         each takes the pointer of the one it points to
    step 3      0, 0, 0, 0
    """
    holders: dict[str, Indices] = {}
    here = np.arange(len(events), dtype=np.int64)
    for name in events.names:
        unchanged = events.unchanged(name)
        if unchanged is None:
            continue
        # A lost row has no event before: its -D was left out, and so were the events of its old key.
        pointer = np.where(unchanged & (before >= 0) & ~events.is_lost(), before, here)
        while True:
            further = pointer[pointer]
            if np.array_equal(further, pointer):
                break
            pointer = further
        holders[name] = pointer
    return holders
