"""Lookups of one table again and again, in whatever snapshot: what is open stays open, as in a `LookupSession`.

A snapshot is known by its id and its time: other clients roll back by removing snapshots, whose ids come again. None
is kept from expiry: who asks holds it by a lease or a pin. Tasks of an engine keep this for as long as their process
lives, perhaps idle, and a lease would hold up expiry for them. In a forked child nothing is open. Raises what lookups
raise.
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
    """Which one it was when it was chosen.
    time_millis: of its commit, epoch; tells two snapshots of one id apart.
    """

    id: int
    time_millis: int


class KeptLookups(SharedByThreads):
    """Not for several threads at once.
    Nothing is opened before the first call; files stay open until `close`, from snapshot to
    snapshot as far as both have them.
    """

    def __init__(self, table: OpenTable) -> None:
        self._table = table
        self._view: LookupView | None = None
        self._asked: tuple[PinnedSnapshot, tuple[str, ...]] | None = None
        super().__init__()

    def _start_anew(self) -> None:
        self._view = self._asked = None

    def rows(self, keys: pa.Table, columns: Sequence[str], snapshot: PinnedSnapshot) -> pa.Table:
        """One row per key, as `Table.lookup` gives them."""
        return self._viewed(columns, snapshot).lookup(keys)

    def matches(self, keys: pa.Table, columns: Sequence[str], snapshot: PinnedSnapshot) -> Matches:
        """All rows whose keys begin with these."""
        return self._viewed(columns, snapshot).matches(keys)

    def _viewed(self, columns: Sequence[str], snapshot: PinnedSnapshot) -> LookupView:
        asked = snapshot, tuple(columns)
        if self._view is None or self._asked != asked:
            chosen = chosen_state(self._table, snapshot.id)
            view = LookupView(chosen, self._table._committer.live_files, columns)
            # In place before anything is taken over: a failure closes both, and the next call begins with a new view.
            old, self._view, self._asked = self._view, view, asked
            try:
                if old is not None:
                    view.take_over(old)
            except BaseException:
                self.close()
                raise
        return self._view

    def close(self) -> None:
        """Let go of all files. May be called more than once."""
        view, self._view = self._view, None
        if view is not None:
            view.close()
