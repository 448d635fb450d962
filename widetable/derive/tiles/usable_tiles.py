"""Which tables of larger tiles serve a call, so that its result does not depend on them.

    hours   snapshot 9                                    days, from hours           a call reads
            8 was a write, 9 a compaction                 made of snapshot 8         hours and days
            9 was a write                                 made of snapshot 8         hours alone: days lack what 9 wrote

A table that the maintainer keeps (`tiles.from`) serves only if it has all that the smaller tiles have; else the call
is slower, and right. A table that somebody else fills is taken at the caller's word.

In: the smaller tiles as of a snapshot, and tables of larger ones as of earlier moments. Out: which of them serve.
Raises what reading snapshots raises.
"""

from __future__ import annotations

from typing import Final

from widetable.commit.transaction.touched_keys import touches_rows
from widetable.derive.tiles.tile_feed import made_until
from widetable.errors import InvalidError, NotFoundError
from widetable.operations.handle.chosen_state import ChosenState, chosen_state
from widetable.operations.handle.neighbour import neighbour
from widetable.operations.handle.open_table import OpenTable
from widetable.schema.join_options import TILES_FROM

# So many snapshots are looked at; a table that is further behind does not serve.
_MOST_SNAPSHOTS: Final = 64


def serves(coarse: OpenTable, state: ChosenState, fine: OpenTable, read: ChosenState) -> bool:
    """Return whether larger tiles have all that the smaller ones have. state: of the larger, read: of the smaller."""
    name = state.state.schema.typed_options.get(TILES_FROM)
    if name is None:
        return True
    source = neighbour(coarse, name, f"option {TILES_FROM.key!r}")
    if source.path == fine.path:
        return _has_all(coarse, state, fine, read)
    # Tiles of a size between: they must have all themselves.
    between = chosen_state(source)
    return _has_all(coarse, state, source, between) and serves(source, between, fine, read)


def _has_all(coarse: OpenTable, state: ChosenState, source: OpenTable, read: ChosenState) -> bool:
    try:
        made_id = made_until(source, coarse, state.snapshot)
        read_id = 0 if read.snapshot is None else read.snapshot.id
        if not made_id <= read_id <= made_id + _MOST_SNAPSHOTS:
            return False
        later = [source._committer.snapshots.load(id) for id in range(made_id + 1, read_id + 1)]
    except (InvalidError, NotFoundError):
        # Snapshots were taken back, or have expired: nobody knows what these tiles lack.
        return False
    return not any(touches_rows(each, source._state()) for each in later)
