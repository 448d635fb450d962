"""The partition that gets other buckets just now: compactions leave it alone meanwhile, so that only rows are added.

On disk: a lease (`lease`) whose owner begins with the partition, `hex of its BinaryRow/`. It saves work that would
be lost; safety does not depend on it: a compaction that began before, or that does not look,
makes the commit of one of the two a conflict. One lease for the table, so one partition rests at
a time. Raises StorageError.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterable, Iterator
from typing import Final

from widetable.commit.notes.lease import holder
from widetable.format.manifest_entry import ManifestEntry
from widetable.operations.handle.held_lease import held_lease
from widetable.write.table_state import TableState

# For how long another rescaling of the table is waited for.
_PATIENCE_SECONDS: Final = 10.0
_LOOK_SECONDS: Final = 0.05


@contextlib.contextmanager
def resting(state: TableState, partition: bytes) -> Iterator[None]:
    """Nobody of ours begins to compact the partition while the block runs; with a second rescaling at once they may."""
    until = time.monotonic() + _PATIENCE_SECONDS
    owner, path = f"{partition.hex()}/", state.paths.rescale_lease
    while True:
        with held_lease(state, owner, path) as is_ours:
            if is_ours or time.monotonic() > until:
                yield
                return
        time.sleep(_LOOK_SECONDS)


def resting_partition(state: TableState) -> bytes | None:
    """None when there is none.
    Else its BinaryRow. None also where the lease is not in force, or its owner is no such text. One
    small read.
    """
    held = holder(state.file_io, state.paths, path=state.paths.rescale_lease)
    if held is None:
        return None
    with contextlib.suppress(ValueError):  # nobody's of ours
        return bytes.fromhex(held[0].partition("/")[0])
    return None


def without_resting(state: TableState, entries: Iterable[ManifestEntry]) -> list[ManifestEntry]:
    """What may be compacted now."""
    partition = resting_partition(state)
    return [entry for entry in entries if entry.partition != partition]
