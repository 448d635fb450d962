"""The newest snapshot of a table that goes on meanwhile: others commit, and expiry takes what was the newest.

    newest_files    for one look: looked up again when the snapshot expired before its manifests were read
    held_newest     for longer: kept from expiry while a block runs, so that a file which is not there then is missing
    held            the same for a snapshot that was chosen, and all later ones
    lease_on        the same until the caller lets go

Why a look may have to be made again:

    reader     latest is 7 ─────────────────────────────► manifests of 7: gone     latest is 9: again, with 9
    others                  8, 9 are committed; 7 expires

While the newest one is still the same, nobody may have taken its files: then the error is the table's.

Where the storage takes no lease (it is read-only) the block runs without. Raises what reading snapshots and manifests
raises; `held` and `lease_on` NotFoundError for a snapshot that has expired.
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

# It is renewed; where nobody sees that its process was killed it holds for so long.
_LEASE_MILLIS: Final = 600_000


def newest_files(
    committer: Committer, partitions: Partitions | None = None, buckets: Buckets | None = None
) -> tuple[Snapshot | None, list[ManifestEntry]]:
    """The newest snapshot and its live files, of these partitions and buckets.
    None: of all. No lease: the data files may go as soon as this returns.
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
    """The newest snapshot, None for a table without one.
    Held with all later ones, so within the block others that come may be read as well.
    """
    with contextlib.ExitStack() as stack:
        while latest := committer.snapshots.latest():
            try:
                stack.enter_context(held(table, latest.id))
            except NotFoundError:
                # Refused though it is the newest still: it is read without a lease, and what is missing shows then.
                if committer.snapshots.latest_id() != latest.id:
                    continue
            break
        yield latest


@contextlib.contextmanager
def held(table: TableState, snapshot_id: int) -> Iterator[None]:
    """While the block runs."""
    lease = lease_on(table, snapshot_id, _LEASE_MILLIS)
    try:
        yield
    finally:
        if lease is not None:
            lease.release()


def lease_on(
    table: TableState, snapshot_id: int, duration_millis: int = LONGEST_MILLIS
) -> ReadLease | None:
    """None where the storage takes none, which is logged. Raises NotFoundError as `held`."""
    return hold_if_taken(table.file_io, table.paths, snapshot_id, duration_millis)
