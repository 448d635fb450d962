"""What a reader is told of a file or snapshot that is not there: it has expired, or the table is damaged.

    a file is missing, the snapshot that names it is there    DamagedError: nobody takes files of a kept snapshot
    a file is missing, and the snapshot as well               NotFoundError: both have expired

In: the errors of reading. Raises nothing else by itself but StorageError.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from widetable.commit.passed_over import readable
from widetable.commit.snapshot_store import SnapshotStore
from widetable.errors import NotFoundError, WidetableError
from widetable.format.damaged_file import missing_file
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
def files_of(table: TableState, snapshot_id: int) -> Iterator[None]:
    """For the time in which live files of a snapshot are read, which a tag keeps as well."""
    try:
        yield
    except NotFoundError as cause:
        file_io, paths = table.file_io, table.paths
        if is_kept(file_io, paths, snapshot_id) or _is_tagged(file_io, paths, snapshot_id):
            raise _damage(paths, snapshot_id, cause) from cause
        raise


@contextlib.contextmanager
def not_expired(table: TableState, snapshot_id: int) -> Iterator[None]:
    """For the time in which a reader of changes reads files of a snapshot, which no tag keeps."""
    try:
        yield
    except NotFoundError as cause:
        if is_kept(table.file_io, table.paths, snapshot_id):
            raise _damage(table.paths, snapshot_id, cause) from cause
        raise expired(table.file_io, table.paths, snapshot_id) from cause


def is_kept(file_io: FileIO, paths: TablePaths, snapshot_id: int) -> bool:
    """Whether a snapshot can be read."""
    return file_io.exists(paths.snapshot(snapshot_id))


def _is_tagged(file_io: FileIO, paths: TablePaths, snapshot_id: int) -> bool:
    names = [entry.name for entry in file_io.list(paths.tag_dir)]
    load = SnapshotStore(file_io, paths).by_tag
    tags = [name.removeprefix("tag-") for name in names if name.startswith("tag-")]
    return any(snapshot.id == snapshot_id for snapshot in readable(tags, load)[0].values())


def _damage(paths: TablePaths, snapshot_id: int, cause: NotFoundError) -> WidetableError:
    """The error for what a snapshot that is kept names; other files than data files tell of themselves."""
    if paths.place_of(cause.subject) is None:
        return cause
    return missing_file(paths, cause.subject, f"snapshot {snapshot_id}")
