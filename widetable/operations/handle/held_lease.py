"""The compaction lease while a block runs: taken if it is free, renewed meanwhile, given back at the end.

A process that is killed leaves a file that names it: where its end can be seen the lease is free
at once, else when its time is up. Renewed six times within that, so a pause of the process of
most of a minute costs nothing.

Raises StorageError when the storage refuses to give it. Losing it meanwhile is not shown: safety never depends on it.
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
    """Whether the lease is ours while the block runs. holder: shown to who asks who has it. path: of another lease than
    the one on compacting the table.

    The block runs either way: it asks what it was given. Nothing is waited for. Within the block,
    and within the same process, a second one of the same path gets False: each has an owner of
    its own.
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
