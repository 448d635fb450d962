"""The small files of a table that cannot be read: hints, consumers, tags, leases, pins, registrations. Other calls
ignore such a file unless they name it, so the doctor has to report it.

Raises StorageError.
"""

from __future__ import annotations

from widetable.commit.barriers.writer_registration import damaged_registrations
from widetable.commit.holds.pin_file import damaged_pins
from widetable.commit.holds.read_lease import damaged_read_leases
from widetable.commit.holds.tag_store import TagStore
from widetable.commit.notes.consumer_store import ConsumerStore
from widetable.commit.notes.lease import damaged_leases
from widetable.commit.snapshots.snapshot_store import SnapshotStore
from widetable.errors import DamagedError
from widetable.storage.file_io import FileIO
from widetable.storage.paths import TablePaths


def damaged_notes(file_io: FileIO, paths: TablePaths) -> list[DamagedError]:
    """Return an error for each damaged file, which names the file and what to do about it."""
    return [
        *SnapshotStore(file_io, paths).damaged_hints(),
        *ConsumerStore(file_io, paths).damaged(),
        *TagStore(file_io, paths).damaged(),
        *damaged_leases(file_io, paths),
        *damaged_read_leases(file_io, paths),
        *damaged_pins(file_io, paths),
        *damaged_registrations(file_io, paths),
    ]
