"""The events of a round in one numbering, over the forms that the relation has in it.

    parts      form 1: events 0, 1, 2        form 2: events 3, 4
    columns    id, name                      id, name, extra
    extra      "7" (a fill), "7", "7"        what the changes say

A fill is the value that rows of older forms got when the column was added; null without. Pure. Raises nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from widetable_cdc.applying.row_events import Indices, Mask, RowEvents


@dataclass(frozen=True)
class JoinedEvents:
    """The events of all parts, m of them. starts: the number of the first event of each part, and m.

    begun: how many changes the first transaction of each part has in earlier parts.
    """

    parts: tuple[RowEvents, ...]
    fills: Mapping[str, str | None]
    starts: Indices
    begun: tuple[int, ...]

    @staticmethod
    def of(
        parts: Sequence[RowEvents], fills: Mapping[str, str | None], begun: Sequence[int]
    ) -> JoinedEvents:
        """Return the events of these parts, which are in the order of the log and have the same key columns."""
        lengths = [len(part) for part in parts]
        starts = np.concatenate(([0], np.cumsum(lengths))).astype(np.int64)
        return JoinedEvents(tuple(parts), fills, starts, tuple(begun))

    def __len__(self) -> int:
        """Return the number of events."""
        return int(self.starts[-1])

    @property
    def names(self) -> tuple[str, ...]:
        """The columns that are not in the key: those of the newest form, then those that only older forms have."""
        return tuple(dict.fromkeys(name for part in reversed(self.parts) for name in part.values))

    def kinds(self) -> npt.NDArray[np.uint8]:
        """Return the kind of each event, of `RowEvent`."""
        return np.concatenate([part.kinds for part in self.parts])

    def is_moved(self) -> Mask:
        """Return which events have their row from another key."""
        return np.concatenate([part.is_moved for part in self.parts])

    def is_lost(self) -> Mask:
        """Return which moved rows have lost their -D."""
        return np.concatenate([part.is_lost for part in self.parts])

    def end_lsns(self) -> npt.NDArray[np.int64]:
        """Return the end LSN of each event's transaction."""
        return np.concatenate([part.event_end_lsns for part in self.parts])

    def positions(self, part: int, rows: Indices) -> Indices:
        """Return the position of changes of a part among those of their transaction, from 0."""
        ends = self.parts[part].end_lsns
        starts = np.searchsorted(ends, ends[rows])
        before: Indices = rows - starts
        return np.where(starts == 0, before + self.begun[part], before)

    def unchanged(self, name: str) -> Mask | None:
        """Return which events do not carry the value of a column; None if each one does."""
        masks = [part.unchanged.get(name) for part in self.parts]
        if all(mask is None for mask in masks):
            return None
        pairs = zip(self.parts, masks, strict=True)
        return np.concatenate(
            [
                np.zeros(len(p), dtype=np.bool_) if mask is None else mask[p.rows]
                for p, mask in pairs
            ]
        )

    def key_codes(self) -> Indices:
        """Return a number for each event, equal where the keys are equal; any number for a truncate."""
        codes: Indices | None = None
        for name in self.parts[0].keys:
            chunks = pa.chunked_array([part.keys[name] for part in self.parts], pa.large_string())
            encoded = chunks.dictionary_encode().unify_dictionaries()
            parts = [np.asarray(each.indices.fill_null(0)) for each in encoded.chunks]
            column = np.concatenate(parts).astype(np.int64)
            if codes is None:
                codes = column
                continue
            distinct = int(column.max(initial=0)) + 1
            # Two numbers below 2^31 make one below 2^62.
            codes = np.unique(codes * distinct + column, return_inverse=True)[1].astype(np.int64)
        return np.zeros(len(self), dtype=np.int64) if codes is None else codes

    def keys_at(self, events: Indices, is_null: Mask | None = None) -> dict[str, pa.Array]:
        """Return the keys of events, null where `is_null`."""
        names = self.parts[0].keys
        return {
            name: self._gathered([part.keys[name] for part in self.parts], events, is_null)
            for name in names
        }

    def values_at(self, name: str, events: Indices, is_null: Mask) -> pa.Array:
        """Return the values of a column in the changes of these events, null where `is_null`."""
        arrays = [part.values.get(name) for part in self.parts]
        return self._gathered(arrays, events, is_null, self.fills.get(name), by_change=True)

    def _gathered(
        self,
        arrays: Sequence[pa.Array | None],
        events: Indices,
        is_null: Mask | None,
        fill: str | None = None,
        *,
        by_change: bool = False,
    ) -> pa.Array:
        """Take values of events from the array of each one's part. by_change: the arrays have a value per change."""
        part_of = np.searchsorted(self.starts, events, side="right") - 1
        pieces, places = [], []
        for number in np.unique(part_of):
            place = np.flatnonzero(part_of == number)
            array, part = arrays[number], self.parts[number]
            at = events[place] - self.starts[number]
            if array is None:
                pieces.append(_repeated(fill, None if is_null is None else is_null[place], len(at)))
            else:
                rows = part.rows[at] if by_change else at
                mask = None if is_null is None else is_null[place]
                pieces.append(array.take(pa.array(rows, pa.int64(), mask=mask)))
            places.append(place)
        if len(pieces) == 1:
            return pieces[0]
        if not pieces:
            return pa.array([], pa.large_string())
        back = np.empty(len(events), dtype=np.int64)
        back[np.concatenate(places)] = np.arange(len(events))
        return pa.concat_arrays(pieces).take(pa.array(back))


def _repeated(fill: str | None, is_null: Mask | None, count: int) -> pa.Array:
    one = pa.array([fill], pa.large_string())
    return one.take(pa.array(np.zeros(count, dtype=np.int64), mask=is_null))
