"""Messages that put data files into a table as they are, at their levels, without the rows that were deleted of them;
or take them out.

In: entries of a snapshot, and the storage on which their deletion vectors lie. Files that come back get new names,
links to the same bytes where the storage has them: whoever expires the snapshots in between deletes by name:

    snapshot     7: f      8: f goes      9: f is back       expiry of 8 deletes f, and 9 has lost it
                 7: f      8: f goes      9: f' is back      expiry of 8 deletes f; f' has the bytes

Raises
UnsupportedError for files that are not plain, NotFoundError where they are gone, and what reading vectors raises.
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
from widetable.read.expired import files_of
from widetable.storage.file_io import FileIO
from widetable.storage.paths import new_file_name
from widetable.write.commit_message import CommitMessage
from widetable.write.discard import discard
from widetable.write.table_state import TableState

_log = logging.getLogger("widetable")


def restoring(file_io: FileIO, entries: Iterable[ManifestEntry]) -> list[CommitMessage]:
    """For `Committer.restore`, one of each bucket.
    file_io: where the vectors of deleted rows are read, each of them whole in memory; the files
    themselves are not touched.
    """
    found = []
    for bucket, members in by_bucket(entries).items():
        files = tuple(entry.file for entry in members)
        marked = tuple(file for file in files if file.deleted is not None)
        found.append(
            CommitMessage(
                *bucket,
                members[0].total_buckets,
                new_files=files,
                marked_files=marked,
                new_vectors=tuple(vector_of(file_io, file) for file in marked),
            )
        )
    return found


def removing(entries: Iterable[ManifestEntry]) -> list[CommitMessage]:
    """For `Committer.restore` or `rescale`, one of each bucket: these files go."""
    return [
        CommitMessage(
            *bucket,
            members[0].total_buckets,
            deleted_files=tuple(entry.file for entry in members),
        )
        for bucket, members in by_bucket(entries).items()
    ]


def vector_of(file_io: FileIO, file: DataFileMeta) -> bytes:
    """Of the rows of a file that count no more; empty without any."""
    return b"" if file.deleted is None else vector_bytes(file_io, file.deleted)


def has_other_rows(file_io: FileIO, then: DataFileMeta, now: DataFileMeta) -> bool:
    """Whether other rows of a file counted then. A vector of now that cannot be read is another one: going back to the
    one of then is the way out.
    """
    if then.deleted == now.deleted:
        return False
    before = vector_of(file_io, then)
    try:
        return before != vector_of(file_io, now)
    except (DamagedError, NotFoundError):
        return True


def check_restorable(table: TableState, entry: ManifestEntry, *, is_rescaled: bool) -> None:
    """Refuse files that cannot come back just so.
    Of another number of buckets than any that the table has had, or with parts that a link does not
    take along. is_rescaled: partitions may differ then, and a file says its own number.
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
    if file.extra_files or file.external_path is not None:
        raise UnsupportedError(
            f"data file {file.file_name!r} of {path}",
            found="a file with others beside it, or elsewhere",
            expected="plain files in the table's directory",
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
    """Refuse to bring back files of a snapshot, before anything is written. what: they are, for the message. Only
    listings are looked at; rows are not read. Raises UnsupportedError for files that cannot come back
    (`check_restorable`), DamagedError for files that are gone or of another size.
    """
    for entry in entries:
        check_restorable(table, entry, is_rescaled=is_rescaled)
    damage = [found.file for found in damaged_files(table, entries, snapshot_id)]
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
    """Link files of a snapshot, and commit them: the id of the commit, None when it lost. An error that leaves open
    whether it is in leaves the links.
    """
    with files_of(table, snapshot_id):
        messages = linked(table, restored)
    try:
        return commit(messages).snapshot_id
    except (ConflictError, InvalidError, UnsupportedError) as lost:
        discard(table, messages)
        if not isinstance(lost, ConflictError):
            raise
        _log.info("files of %s that come back are planned again: %s", table.paths.root, lost)
        return None


def linked(table: TableState, restored: Sequence[ManifestEntry]) -> list[CommitMessage]:
    """The files to come back under new names, by bucket. What was linked is removed when one fails.
    Until they are committed nobody names them: the caller discards the messages when the commit
    is certainly not in.
    """
    renamed = [(entry, entry._replace(file=_renamed(entry.file))) for entry in restored]
    messages = restoring(table.file_io, (entry for _, entry in renamed))
    try:
        for old, new in renamed:
            source = table.data_file(old.bucket_id, old.file.file_name)
            table.file_io.link(source, table.data_file(new.bucket_id, new.file.file_name))
    except BaseException:
        discard(table, messages)
        raise
    return messages


def _renamed(file: DataFileMeta) -> DataFileMeta:
    suffix = "." + file.file_name.rpartition(".")[2]
    return file._replace(file_name=new_file_name("data", suffix))
