"""What a reader is shown of a file or snapshot that is not there: the table is another one by now, or is gone; it has
expired; or the table is damaged. In this order, as numbers of snapshots are given again in another table.

    the table was dropped and made again since it was opened  InvalidError, and NotFoundError where it was dropped
    a file is missing, the snapshot that names it is there    DamagedError: nobody takes files of a kept snapshot
    a file is missing, and the snapshot as well               NotFoundError: both have expired

In: the errors of reading. Raises nothing else by itself but StorageError, and DamagedError for metadata.

Only asked when something is missing, so that reads cost nothing more. Expiry takes snapshot
files first and then their data files (decision 0009), so where it took the file, the snapshot
that is looked for behind it is gone as well.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from widetable.commit.notes.skipped_files import if_there, readable
from widetable.commit.snapshots.live_files import LiveFiles
from widetable.commit.snapshots.snapshot_store import SnapshotStore
from widetable.commit.snapshots.table_identity import check_identity
from widetable.errors import InvalidError, NotFoundError
from widetable.format.damaged_file import missing_file
from widetable.format.snapshot import Snapshot
from widetable.storage.file_io import FileIO
from widetable.storage.paths import TablePaths, tag_name
from widetable.write.table_state import TableState


@contextlib.contextmanager
def of_one_life(table: TableState) -> Iterator[None]:
    """For the time in which a table is read that was opened before: what is not there is not there because another
    table is, or none, where that is so.
    """
    try:
        yield
    except NotFoundError:
        _check_life(table)
        raise


def expired(table: TableState, snapshot_id: int) -> NotFoundError:
    """The error for a reader that has yet to read `snapshot_id`. Raises that of `of_one_life` where it applies."""
    _check_life(table)
    store = SnapshotStore(table.file_io, table.paths)
    first, last = store.earliest_id(), store.latest_id()
    return NotFoundError(
        f"snapshot {snapshot_id} of {table.paths.root}",
        found="an expired snapshot whose changes are not read yet",
        expected="none left" if first is None else f"a snapshot that is kept, {first} to {last}",
        action="Start again with scan mode latest-full, under a new consumer id or checkpoint if there was one; "
        "a reader with a consumer-id keeps from expiry what it has not read.",
    )


@contextlib.contextmanager
def files_of(table: TableState, snapshot_id: int, *, is_followed: bool = False) -> Iterator[None]:
    """For the time in which files of a snapshot are read: live ones, which a tag keeps as well. is_followed: those of a
    reader of changes, which no tag keeps.

    A NotFoundError goes on as it is where the snapshot is gone, or does not name the file, or says to such a reader
    that the snapshot has expired; else it is a DamagedError. Of another table, or none, that is what is said. Rows that
    cannot be merged are those of the table, which the error names.
    """
    try:
        yield
    except InvalidError as error:
        raise table.named(error) from error
    except NotFoundError as cause:
        _check_life(table)
        kept = _kept(table, snapshot_id)
        if kept is None and is_followed:
            raise expired(table, snapshot_id) from cause
        kept = kept or _tagged(table, snapshot_id)
        if kept is not None:
            _check_named(table, kept, cause)
        raise


def is_kept(file_io: FileIO, paths: TablePaths, snapshot_id: int) -> bool:
    """Whether a snapshot has not expired."""
    return file_io.exists(paths.snapshot(snapshot_id))


def is_named(table: TableState, snapshot_id: int, *, is_changelog: bool = False) -> bool:
    """Whether a snapshot still names its files. A tag of it keeps data files, and no changelog."""
    if is_kept(table.file_io, table.paths, snapshot_id):
        return True
    return not is_changelog and _tagged(table, snapshot_id) is not None


def _check_life(table: TableState) -> None:
    if table.identity is not None:
        check_identity(table.file_io, table.paths, table.identity)


def _kept(table: TableState, snapshot_id: int) -> Snapshot | None:
    return if_there(SnapshotStore(table.file_io, table.paths).load, snapshot_id)


def _tagged(table: TableState, snapshot_id: int) -> Snapshot | None:
    found = (tag_name(entry.name) for entry in table.file_io.list(table.paths.tag_dir))
    names = [name for name in found if name is not None]
    tags = readable(names, SnapshotStore(table.file_io, table.paths).by_tag)[0].values()
    return next((snapshot for snapshot in tags if snapshot.id == snapshot_id), None)


def _check_named(table: TableState, kept: Snapshot, cause: NotFoundError) -> None:
    """Raises DamagedError for a file that the snapshot names; not for others: a schema is no data file."""
    live_files = LiveFiles(table.file_io, table.paths, (), counted=False)
    named = (*live_files.live_entries(kept), *live_files.changelog_entries(kept))
    name = cause.subject.rpartition("/")[2]
    vectors = (entry.file.deleted for entry in named)
    is_vector = any(each is not None and each.path == cause.subject for each in vectors)
    if is_vector or any(entry.file.file_name == name for entry in named):
        raise missing_file(table.paths, cause.subject, f"snapshot {kept.id}") from cause
