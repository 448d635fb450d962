"""What a reader of changes is told when a snapshot that it needs has expired: which are kept, and how to go on.

Raises nothing by itself but StorageError.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from widetable.commit.snapshot_store import SnapshotStore
from widetable.errors import NotFoundError
from widetable.paths import TablePaths
from widetable.storage.file_io import FileIO
from widetable.write.table_state import TableState


def expired(file_io: FileIO, paths: TablePaths, snapshot_id: int) -> NotFoundError:
    """The error for a reader that has yet to read `snapshot_id`."""
    store = SnapshotStore(file_io, paths)
    first, last = store.earliest_id(), store.latest_id()
    return NotFoundError(
        f"snapshot {snapshot_id} of {paths.root}",
        found="an expired snapshot whose changes are not read yet",
        expected="none left" if first is None else f"a snapshot that is kept, {first} to {last}",
        action="Start again with scan mode latest-full, under a new consumer id or checkpoint if there was one; "
        "a reader with a consumer-id keeps from expiry what it has not read.",
    )


@contextlib.contextmanager
def not_expired(table: TableState, snapshot_id: int) -> Iterator[None]:
    """For the time in which files of a snapshot are read: a missing file of an expired one is told as such."""
    try:
        yield
    except NotFoundError as cause:
        if is_kept(table.file_io, table.paths, snapshot_id):
            raise
        raise expired(table.file_io, table.paths, snapshot_id) from cause


def is_kept(file_io: FileIO, paths: TablePaths, snapshot_id: int) -> bool:
    """Whether a snapshot can be read."""
    return file_io.exists(paths.snapshot(snapshot_id))
