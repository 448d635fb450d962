"""Reads the newest snapshot of a table while others commit and expiry removes snapshots that were the newest.

    newest_files    for one read: looked up again when the snapshot expired before its manifests were read
    held_newest     for longer: kept from expiry while a block runs, so that a file which is not found is missing
    held            the same for a snapshot that was chosen, and all later ones
    lease_on        the same until the caller releases the lease

A read may have to be repeated:

    reader     latest is 7 ─────────────────────────────► manifests of 7: gone     latest is 9: again, with 9
    others                  8, 9 are committed; 7 expires

While the newest snapshot is still the same, no one may remove its files, so a missing file is a fault of the table.
Where the storage takes no lease (it is read-only), the block runs without one. Raises what reading snapshots and
manifests raises; `held` and `lease_on` raise NotFoundError for a snapshot that has expired.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Final

from widetable.commit.holds.read_lease import LONGEST_MILLIS, ReadLease, hold_if_taken
from widetable.commit.snapshots.live_files import Buckets, Partitions
from widetable.commit.transaction.committer import Committer
from widetable.errors import NotFoundError
from widetable.format.manifest_entry import ManifestEntry
from widetable.format.snapshot import Snapshot
from widetable.write.table_state import TableState

# It is renewed. After a kill that no one can detect it holds for this long.
_LEASE_MILLIS: Final = 600_000


def newest_files(
    committer: Committer, partitions: Partitions | None = None, buckets: Buckets | None = None
) -> tuple[Snapshot | None, list[ManifestEntry]]:
    """Return the newest snapshot and its live files, of these partitions and buckets (None: all).

    There is no lease: the data files may be removed as soon as this returns.
    """
    while True:
        latest = committer.snapshots.latest()
        try:
            return latest, committer.live_files.live_entries(latest, partitions, buckets)
        except NotFoundError:
            if latest is None or committer.snapshots.latest_id() == latest.id:
                raise


@contextlib.contextmanager
def held_newest(table: TableState, committer: Committer) -> Iterator[Snapshot | None]:
    """Yield the newest snapshot, or None for a table without one, and keep it from expiry.

    All later snapshots are kept too, so the block may read those that are committed meanwhile.
    """
    with contextlib.ExitStack() as stack:
        while latest := committer.snapshots.latest():
            try:
                stack.enter_context(held(table, latest.id))
            except NotFoundError:
                # Refused although it is still the newest: it is read without a lease, and reading shows missing files.
                if committer.snapshots.latest_id() != latest.id:
                    continue
            break
        yield latest


@contextlib.contextmanager
def held(table: TableState, snapshot_id: int) -> Iterator[None]:
    """Keep the snapshot and all later ones from expiry while the block runs."""
    lease = lease_on(table, snapshot_id, _LEASE_MILLIS)
    try:
        yield
    finally:
        if lease is not None:
            lease.release()


def lease_on(
    table: TableState, snapshot_id: int, duration_millis: int = LONGEST_MILLIS
) -> ReadLease | None:
    """Return a lease on the snapshot, or None (logged) where the storage takes none.

    Raises NotFoundError as `held` does.
    """
    return hold_if_taken(table.file_io, table.paths, snapshot_id, duration_millis)
