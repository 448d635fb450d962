"""Finds why a file or snapshot is missing: the table was dropped or replaced; the snapshot has expired; or the table is
damaged. They are checked in this order, because another table reuses the ids of snapshots.

    the table was dropped and created again since it was opened  InvalidError, or NotFoundError if it was only dropped
    a file is missing, but the snapshot that names it exists     DamagedError: no one removes files of a kept snapshot
    a file is missing, and the snapshot as well                  NotFoundError: both have expired

In: the errors of reading. It raises no other errors itself but StorageError, and DamagedError for metadata.

The checks run only if something is missing, so that other reads cost nothing more. Expiry removes
snapshot files before their data files (decision 0009), so if it removed a file, the snapshot, which
is looked up afterwards, is gone as well.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from widetable.commit.notes.skipped_files import or_none, readable
from widetable.commit.snapshots.live_files import LiveFiles
from widetable.commit.snapshots.snapshot_store import SnapshotStore
from widetable.commit.snapshots.table_identity import check_identity
from widetable.errors import InvalidError, NotFoundError
from widetable.format.damaged_file import missing_file
from widetable.format.snapshot import Snapshot
from widetable.messages.error_code import ErrorCode
from widetable.storage.file_io import FileIO
from widetable.storage.paths import TablePaths, tag_name
from widetable.write.table_state import TableState


@contextlib.contextmanager
def checked_identity(table: TableState) -> Iterator[None]:
    """Replace a NotFoundError of the block, which reads a table that was opened before, if the table was dropped or
    replaced meanwhile: the error then says so.
    """
    try:
        yield
    except NotFoundError:
        _check_identity(table)
        raise


def expired(table: TableState, snapshot_id: int) -> NotFoundError:
    """Create the error for a reader that has not yet read `snapshot_id`. Raises that of `checked_identity` first."""
    _check_identity(table)
    store = SnapshotStore(table.file_io, table.paths)
    first, last = store.earliest_id(), store.latest_id()
    return NotFoundError(
        f"snapshot {snapshot_id} of {table.paths.root}",
        found="an expired snapshot whose changes are not read yet",
        expected="none left" if first is None else f"a snapshot that is kept, {first} to {last}",
        action="Start again with scan mode latest-full, with a new consumer id or checkpoint if there was one; "
        "a consumer-id keeps the snapshots that its reader has not read from expiry.",
        code=ErrorCode.CHANGES_EXPIRED,
    )


@contextlib.contextmanager
def files_of(table: TableState, snapshot_id: int, *, is_followed: bool = False) -> Iterator[None]:
    """Explain the errors of the block, which reads files of a snapshot: live files, which a tag keeps as well.
    is_followed: files of a reader of changes, which no tag keeps.

    A NotFoundError is raised as it is if the snapshot is gone or does not name the file; a reader of changes gets the
    error that the snapshot has expired. Otherwise a DamagedError is raised. If the table was dropped or replaced, the
    error says so. The error for rows that cannot be merged gets the name of the table.
    """
    try:
        yield
    except InvalidError as error:
        raise table.named(error) from error
    except NotFoundError as cause:
        _check_identity(table)
        snapshot = _kept(table, snapshot_id)
        if snapshot is None and is_followed:
            raise expired(table, snapshot_id) from cause
        snapshot = snapshot or _tagged(table, snapshot_id)
        if snapshot is not None:
            _check_named(table, snapshot, cause)
        raise


def is_kept(file_io: FileIO, paths: TablePaths, snapshot_id: int) -> bool:
    """Return whether a snapshot exists, and so has not expired."""
    return file_io.exists(paths.snapshot(snapshot_id))


def is_named(table: TableState, snapshot_id: int, *, is_changelog: bool = False) -> bool:
    """Return whether a snapshot, or a tag of it, still names its files. A tag keeps data files, but no changelog."""
    if is_kept(table.file_io, table.paths, snapshot_id):
        return True
    return not is_changelog and _tagged(table, snapshot_id) is not None


def _check_identity(table: TableState) -> None:
    if table.identity is not None:
        check_identity(table.file_io, table.paths, table.identity)


def _kept(table: TableState, snapshot_id: int) -> Snapshot | None:
    return or_none(SnapshotStore(table.file_io, table.paths).load, snapshot_id)


def _tagged(table: TableState, snapshot_id: int) -> Snapshot | None:
    candidates = (tag_name(entry.name) for entry in table.file_io.list(table.paths.tag_dir))
    names = [name for name in candidates if name is not None]
    tags = readable(names, SnapshotStore(table.file_io, table.paths).by_tag)[0].values()
    return next((snapshot for snapshot in tags if snapshot.id == snapshot_id), None)


def _check_named(table: TableState, snapshot: Snapshot, cause: NotFoundError) -> None:
    """Raise DamagedError for a missing file that the snapshot names, but not for others, such as a schema."""
    live_files = LiveFiles(table.file_io, table.paths, (), counted=False)
    named = (*live_files.live_entries(snapshot), *live_files.changelog_entries(snapshot))
    name = cause.subject.rpartition("/")[2]
    vectors = (entry.file.deleted for entry in named)
    is_vector = any(each is not None and each.path == cause.subject for each in vectors)
    names = (file for entry in named for file in (entry.file.file_name, *entry.file.extra_files))
    if is_vector or name in names:
        raise missing_file(table.paths, cause.subject, f"snapshot {snapshot.id}") from cause
