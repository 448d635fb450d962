"""The versions that a history has of given keys, key by key, in the order in which snapshots made them.

    keys 7 3      rows  3@s1 3@s4 | 7@s2       firsts 2 0, counts 1 2

Files of a history are sorted by key, then by time. Times may fall where a clock was wrong, so versions of a key whose
snapshots do not ascend are sorted again. In: a snapshot of the history, and keys of the base. Out: rows, and where
those of each key are. Memory: all versions of the keys. Raises what lookups raise.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa

from widetable.derive.changes.equal_keys import rows_at
from widetable.derive.versions.as_of import last_until, settled
from widetable.kernels.array_types import Mask, Positions
from widetable.kernels.arrow_buffers import bool_values, fixed_values, one_array
from widetable.operations.handle.open_table import OpenTable
from widetable.operations.queries.table_at import view_at
from widetable.schema.history_columns import DELETED, FROM, PLACE, SNAPSHOT

_OWN: Final = (FROM, SNAPSHOT, PLACE, DELETED)
_MILLI: Final = 1000


class VersionRows(NamedTuple):
    """The versions of some keys. firsts, counts: int64[k], one for each key as it was given."""

    rows: pa.Table
    firsts: Positions
    counts: Positions

    def numbers(self, name: str) -> Positions:
        """Return a column of 64-bit numbers, times included."""
        return fixed_values(one_array(self.rows.column(name)), np.int64)

    @property
    def is_deleted(self) -> Mask:
        """Whether the row is not there, for each version."""
        return bool_values(one_array(self.rows.column(DELETED)))

    def where(self, chosen: Mask) -> VersionRows:
        """Return the chosen versions."""
        before = np.append(0, np.cumsum(chosen))
        counts = before[self.firsts + self.counts] - before[self.firsts]
        return VersionRows(self.rows.filter(pa.array(chosen)), before[self.firsts], counts)

    def by_snapshot(self) -> VersionRows:
        """Return them with the versions of each key in the order of snapshots and places."""
        ids = self.numbers(SNAPSHOT)
        if bool((np.diff(ids) >= 0)[self._inner()].all()):
            return self
        return self.sorted_by(ids, self.numbers(PLACE))[0]

    def sorted_by(self, *values: Positions) -> tuple[VersionRows, Positions]:
        """Return them with the versions of each key in the order of these values, the first ones first; and int64[n]:
        the place that each had before.
        """
        order = np.lexsort((*reversed(values), self._key_of_row()))
        return self._replace(rows=rows_at(self.rows, order)), order

    def _key_of_row(self) -> Positions:
        """Return int64[n]: a number for the key of each row, ascending."""
        starts = np.zeros(self.rows.num_rows + 1, np.int64)
        starts[self.firsts[self.counts > 0]] = 1
        return np.cumsum(starts)[:-1]

    def _inner(self) -> Mask:
        """Return bool[n - 1]: whether a row has the key of the one before it."""
        keys = self._key_of_row()
        return np.equal(keys[1:], keys[:-1])


def version_rows(
    history: OpenTable, snapshot_id: int, keys: pa.RecordBatch, columns: Sequence[str]
) -> VersionRows:
    """Read the versions of keys. columns: of the base, to which those of a history are added."""
    own = [name for name in columns if name not in _OWN]
    with closing(view_at(history, snapshot_id, [*own, *_OWN])) as view:
        matches = view.matches(keys)
    return VersionRows(matches.rows, np.where(matches.counts, matches.firsts, 0), matches.counts)


def known_versions(versions: VersionRows, at_micros: Positions) -> tuple[VersionRows, Positions]:
    """Return the rows as snapshots showed them, and which of them was known at the time of each key; -1 for none."""
    places = versions.numbers(PLACE)
    rows = versions if not places.any() else versions.where(places == 0)
    rows = rows.by_snapshot()
    times = settled(rows.numbers(FROM) * _MILLI, rows.firsts, rows.counts)
    return rows, last_until(times, rows.firsts, rows.counts, at_micros)
