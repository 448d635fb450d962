"""Messages that add data files to a table unchanged, at their levels and with their deletion vectors, or that remove
them.

In: entries of a snapshot, and the storage of their deletion vectors. Restored files get new names, as links to the same
bytes if the storage has links, because an expiry of the snapshots in between deletes files by name:

    snapshot     7: f      8: f is deleted      9: f is back       expiry of 8 deletes f, and 9 has lost it
                 7: f      8: f is deleted      9: f' is back      expiry of 8 deletes f; f' has the bytes

Raises UnsupportedError for files that are not plain, NotFoundError if they are gone, and what reading vectors raises.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Sequence

from widetable.commit.transaction.commit_result import CommitResult
from widetable.errors import (
    ConflictError,
    DamagedError,
    InvalidError,
    NotFoundError,
    UnsupportedError,
)
from widetable.format.bucket_id import by_bucket
from widetable.format.data_file_meta import DataFileMeta
from widetable.format.deletion_vector import vector_bytes
from widetable.format.manifest_entry import ManifestEntry
from widetable.messages.counted import counted
from widetable.operations.health.file_damage import damaged_files
from widetable.operations.history.named_files import file_names
from widetable.read.expired import files_of
from widetable.storage.file_io import FileIO
from widetable.storage.paths import new_file_name, prefix_of
from widetable.write.commit_message import CommitMessage
from widetable.write.discard import discard
from widetable.write.table_state import TableState

_log = logging.getLogger("widetable")


def restoring(file_io: FileIO, entries: Iterable[ManifestEntry]) -> list[CommitMessage]:
    """Return messages for `Committer.restore`, one for each bucket.

    file_io: the storage of the deletion vectors, which are read into memory one by one; data files are not touched.
    """
    messages = []
    for bucket, members in by_bucket(entries).items():
        files = tuple(entry.file for entry in members)
        marked = tuple(file for file in files if file.deleted is not None)
        messages.append(
            CommitMessage(
                *bucket,
                members[0].total_buckets,
                new_files=files,
                marked_files=marked,
                new_vectors=tuple(vector_of(file_io, file) for file in marked),
            )
        )
    return messages


def removing(entries: Iterable[ManifestEntry]) -> list[CommitMessage]:
    """Return messages for `Committer.overwrite` or `rewrite` that delete these files, one for each bucket."""
    return [
        CommitMessage(
            *bucket,
            members[0].total_buckets,
            deleted_files=tuple(entry.file for entry in members),
        )
        for bucket, members in by_bucket(entries).items()
    ]


def vector_of(file_io: FileIO, file: DataFileMeta) -> bytes:
    """Return the bytes of a file's deletion vector; empty without one."""
    return b"" if file.deleted is None else vector_bytes(file_io, file.deleted)


def has_other_rows(file_io: FileIO, then: DataFileMeta, now: DataFileMeta) -> bool:
    """Whether other rows of a file were deleted then. A vector of now that cannot be read counts as different, because
    a rollback to the older one repairs the table.
    """
    if then.deleted == now.deleted:
        return False
    before = vector_of(file_io, then)
    try:
        return before != vector_of(file_io, now)
    except (DamagedError, NotFoundError):
        return True


def check_restorable(table: TableState, entry: ManifestEntry, *, is_rescaled: bool) -> None:
    """Raise UnsupportedError for a file that cannot be restored unchanged: it has a number of buckets that the table
    never had, or files of other names.

    is_rescaled: partitions may differ in their number of buckets, and each file states its own.
    """
    file, path = entry.file, table.paths.root
    buckets = table.schema.num_buckets
    if buckets > 0 and entry.total_buckets != buckets and not is_rescaled:
        raise UnsupportedError(
            f"data file {file.file_name!r} of {path}",
            found=f"one of {counted(entry.total_buckets, 'bucket')}",
            expected=f"files of {counted(buckets, 'bucket')}, as all schemas of the table say",
            action="Restore the table's schema files.",
        )
    foreign = [name for name in file.extra_files if not name.startswith(file.file_name)]
    if foreign or file.external_path is not None:
        raise UnsupportedError(
            f"data file {file.file_name!r} of {path}",
            found=f"a file with the extra file {foreign[0]!r}" if foreign else "an external path",
            expected="files in the table's directory, and extra files named after them",
            action="Go back to another snapshot, or use another client.",
        )


def check_whole(
    table: TableState,
    entries: Collection[ManifestEntry],
    snapshot_id: int,
    what: str,
    *,
    is_rescaled: bool,
) -> None:
    """Check that files of a snapshot can be restored, before anything is written. what: names them in the message.

    The check lists directories and reads no rows. Raises UnsupportedError for files that cannot be restored
    (`check_restorable`), DamagedError for files that are gone or of another size.
    """
    for entry in entries:
        check_restorable(table, entry, is_rescaled=is_rescaled)
    damage = [damaged.file for damaged in damaged_files(table, entries, snapshot_id)]
    if damage:
        raise DamagedError(
            damage[0].path,
            found=f"{damage[0].found}, and {len(damage) - 1} more files of snapshot {snapshot_id} damaged",
            expected=f"all files of {what}",
            action="Restore the files, or go back to another snapshot or tag.",
        )


def committed_links(
    table: TableState,
    restored: Sequence[ManifestEntry],
    snapshot_id: int,
    commit: Callable[[list[CommitMessage]], CommitResult],
) -> int | None:
    """Link files of a snapshot, commit them, and return the snapshot id, or None if another commit was faster. The
    links stay after an error that leaves open whether the commit happened.
    """
    with files_of(table, snapshot_id):
        messages = linked(table, restored)
    try:
        return commit(messages).snapshot_id
    except (ConflictError, InvalidError, UnsupportedError) as lost:
        discard(table, messages)
        if not isinstance(lost, ConflictError):
            raise
        _log.info("retrying to restore files of %s after a conflict: %s", table.paths.root, lost)
        return None


def linked(table: TableState, restored: Sequence[ManifestEntry]) -> list[CommitMessage]:
    """Link the files to new names, and return the messages by bucket. If one link fails, the others are removed.

    Nothing names the links until they are committed. The caller discards the messages if the commit certainly did not
    happen.
    """
    renamed = [(entry, entry._replace(file=_renamed(entry.file))) for entry in restored]
    messages = restoring(table.file_io, (entry for _, entry in renamed))
    try:
        for old, new in renamed:
            for name, link in zip(file_names(old), file_names(new), strict=True):
                source = table.data_file(old.bucket_id, name)
                table.file_io.link(source, table.data_file(new.bucket_id, link))
    except BaseException:
        discard(table, messages)
        raise
    return messages


def _renamed(file: DataFileMeta) -> DataFileMeta:
    """Return the file under a new name, with its extra files, which are named after it."""
    suffix = "." + file.file_name.rpartition(".")[2]
    name = new_file_name(prefix_of(file.file_name), suffix)
    extra = tuple(name + each[len(file.file_name) :] for each in file.extra_files)
    return file._replace(file_name=name, extra_files=extra)
