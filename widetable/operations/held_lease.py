"""The compaction lease while a block runs: taken if it is free, renewed by a thread, given back at the end.

Raises StorageError when the storage refuses to give it. Losing it meanwhile is not told: safety never depends on it.
"""

from __future__ import annotations

import contextlib
import threading
import uuid
from collections.abc import Iterator
from typing import Final

from widetable.commit.lease import Lease, try_lease
from widetable.errors import WidetableError
from widetable.write.table_state import TableState

LEASE_MILLIS: Final = 60_000
_RENEWALS_PER_LEASE: Final = 3


@contextlib.contextmanager
def held_lease(state: TableState, holder: str = "", path: str | None = None) -> Iterator[bool]:
    """Whether the lease is ours while the block runs. holder: told to who asks who has it. path: of another lease than
    the one on compacting the table.
    """
    owner = f"{holder}{uuid.uuid4()}"
    lease = try_lease(state.file_io, state.paths, owner, LEASE_MILLIS, path=path)
    if lease is None:
        yield False
        return
    done = threading.Event()
    renewal = threading.Thread(
        target=_renew, args=(lease, done), name="widetable-lease", daemon=True
    )
    renewal.start()
    try:
        yield True
    finally:
        done.set()
        renewal.join()
        lease.release()


def _renew(lease: Lease, done: threading.Event) -> None:
    while not done.wait(LEASE_MILLIS / 1000 / _RENEWALS_PER_LEASE):
        with contextlib.suppress(WidetableError):
            if not lease.renew():
                return
