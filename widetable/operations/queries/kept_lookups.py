"""Looks up rows of one table again and again, in any snapshot: files stay open, as in a `LookupSession`.

A snapshot is identified by its id and its time: other clients roll back by removing snapshots, whose ids are used
again. None is kept from expiry: the caller holds it by a lease or a pin. Tasks of an engine keep this object for as
long as their process lives, perhaps idle, and a lease would delay expiry all that time. In a forked child nothing is
open. Raises what lookups raise.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import pyarrow as pa

from widetable.operations.handle.chosen_state import chosen_state
from widetable.operations.handle.open_table import OpenTable
from widetable.operations.queries.lookup_view import LookupView, Matches
from widetable.runtime.forked_child import SharedByThreads


class PinnedSnapshot(NamedTuple):
    """The identity of a chosen snapshot.

    time_millis: the time of its commit, since the epoch; it tells two snapshots with the same id apart.
    """

    id: int
    time_millis: int


class KeptLookups(SharedByThreads):
    """Lookups of one table whose files stay open until `close`, as far as consecutive snapshots share them.

    Nothing is opened before the first call. It is not thread-safe.
    """

    def __init__(self, table: OpenTable) -> None:
        self._table = table
        self._view: LookupView | None = None
        self._request: tuple[PinnedSnapshot, tuple[str, ...]] | None = None
        super().__init__()

    def _reset(self) -> None:
        self._view = self._request = None

    def rows(self, keys: pa.Table, columns: Sequence[str], snapshot: PinnedSnapshot) -> pa.Table:
        """Return one row per key, as `Table.lookup` does."""
        return self._viewed(columns, snapshot).lookup(keys)

    def matches(self, keys: pa.Table, columns: Sequence[str], snapshot: PinnedSnapshot) -> Matches:
        """Return all rows whose keys begin with these keys."""
        return self._viewed(columns, snapshot).matches(keys)

    def _viewed(self, columns: Sequence[str], snapshot: PinnedSnapshot) -> LookupView:
        request = snapshot, tuple(columns)
        if self._view is None or self._request != request:
            chosen = chosen_state(self._table, snapshot.id)
            view = LookupView(chosen, columns)
            # The new view is set before it takes over files: a failure closes both, and the next call makes a new view.
            old, self._view, self._request = self._view, view, request
            try:
                if old is not None:
                    view.take_over(old)
            except BaseException:
                self.close()
                raise
        return self._view

    def close(self) -> None:
        """Close all files. It may be called more than once."""
        view, self._view = self._view, None
        if view is not None:
            view.close()
