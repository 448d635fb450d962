"""Holds the compaction lease while a block runs: takes it if it is free, renews it, and releases it at the end.

A killed process leaves a file that names it: where the end of that process can be detected, the lease is free
at once, else when it expires. It is renewed six times within its term, so a process may pause for
most of a minute without losing it.

Raises StorageError when the storage refuses the lease. Its loss is not reported: safety never depends on it.
"""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Iterator
from typing import Final

from widetable.commit.notes.lease import LONGEST_MILLIS, try_lease
from widetable.commit.notes.lease_renewal import LEASE_RENEWAL
from widetable.write.table_state import TableState

LEASE_MILLIS: Final = LONGEST_MILLIS


@contextlib.contextmanager
def held_lease(state: TableState, holder: str = "", path: str | None = None) -> Iterator[bool]:
    """Yield whether the lease is ours while the block runs.

    holder: is shown to whoever asks for the owner. path: another lease than that on compacting the table.

    The block runs in both cases and checks the value. Nothing is waited for. Within the block, a second lease on the
    same path yields False even in the same process, because each has its own owner.
    """
    owner = f"{holder}{uuid.uuid4()}"
    lease = try_lease(state.file_io, state.paths, owner, LEASE_MILLIS, path=path)
    if lease is None:
        yield False
        return
    LEASE_RENEWAL.start(lease)
    try:
        yield True
    finally:
        LEASE_RENEWAL.stop(lease)
        lease.release()
