"""The compaction lease while a block runs: taken if it is free, renewed meanwhile, given back at the end.

Raises StorageError when the storage refuses to give it. Losing it meanwhile is not shown: safety never depends on it.
"""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Iterator
from typing import Final

from widetable.commit.lease import LONGEST_MILLIS, try_lease
from widetable.commit.lease_renewal import LEASE_RENEWAL
from widetable.write.table_state import TableState

LEASE_MILLIS: Final = LONGEST_MILLIS


@contextlib.contextmanager
def held_lease(state: TableState, holder: str = "", path: str | None = None) -> Iterator[bool]:
    """Whether the lease is ours while the block runs. holder: shown to who asks who has it. path: of another lease than
    the one on compacting the table.
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
