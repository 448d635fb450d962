"""Locks the partition that is being rescaled: compactions skip it meanwhile, so that only appends change it.

On disk: a lease (`lease`) whose owner begins with the partition, `hex of its BinaryRow/`. It avoids work that would be
lost; safety does not depend on it: a compaction that began before, or that ignores the lease, makes one of the two
commits a conflict. There is one lease for the table, so one partition is locked at a time. Raises StorageError.
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

# How long to wait for another rescaling of the table.
_PATIENCE_SECONDS: Final = 10.0
_POLL_SECONDS: Final = 0.05


@contextlib.contextmanager
def partition_lock(state: TableState, partition: bytes) -> Iterator[None]:
    """Keep our compactions from starting in the partition while the block runs, unless two rescalings run at once."""
    until = time.monotonic() + _PATIENCE_SECONDS
    owner, path = f"{partition.hex()}/", state.paths.rescale_lease
    while True:
        with held_lease(state, owner, path) as is_ours:
            if is_ours or time.monotonic() > until:
                yield
                return
        time.sleep(_POLL_SECONDS)


def locked_partition(state: TableState) -> bytes | None:
    """Return the locked partition as BinaryRow, or None.

    It is None without a lease, with an expired lease, or where its owner is no such text. It costs one small read.
    """
    current = holder(state.file_io, state.paths, path=state.paths.rescale_lease)
    if current is None:
        return None
    with contextlib.suppress(ValueError):  # not a lease of ours
        return bytes.fromhex(current[0].partition("/")[0])
    return None


def without_locked(state: TableState, entries: Iterable[ManifestEntry]) -> list[ManifestEntry]:
    """Return the entries that may be compacted now."""
    partition = locked_partition(state)
    return [entry for entry in entries if entry.partition != partition]
