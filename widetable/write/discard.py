"""Deletes data files of failed writes and refused commits, which no snapshot names now or later.

Files that cannot be deleted are logged (`storage.leftover`). Raises no error of this package.
"""

from __future__ import annotations

from collections.abc import Iterable

from widetable.format.bucket_id import BucketId
from widetable.format.data_file_meta import DataFileMeta
from widetable.storage.leftover import delete_leftover
from widetable.write.commit_message import CommitMessage
from widetable.write.table_state import TableState


def discard(state: TableState, messages: Iterable[CommitMessage]) -> None:
    """Delete the files that were written for these messages; moved files stay."""
    for message in messages:
        discard_files(state, message.bucket_id, message.written_files())


def discard_files(state: TableState, bucket: BucketId, files: Iterable[DataFileMeta]) -> None:
    """Delete files of one bucket, with their file indexes."""
    for file in files:
        for name in (file.file_name, *file.extra_files):
            delete_leftover(state.file_io, state.data_file(bucket, name))
