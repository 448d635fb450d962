"""Buckets that cannot be compacted because a file is damaged: what this process remembers of them.

    compaction met DamagedError ─► noted, with how the file lies on the storage ─► passed by, without reading
    ─► the file changes, or a while goes by, or a compaction does without the file ─► compacted anew

So one bucket's damage costs the others nothing, and a large sick bucket is not read in every round for nothing. Only
facts are kept, no exception with its frames. Raises StorageError.

A note costs one listing of the bucket's directory per round. It is about files by name: a plan
that does not read all of them is carried out, for then somebody has replaced what was damaged.
Bounded; the oldest notes go first.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from widetable.errors import DamagedError, NotFoundError
from widetable.format.bucket_id import BucketId
from widetable.lsm.bucket_plan import Plan, names_of
from widetable.storage.file_io import FileStatus
from widetable.write.table_state import TableState

# A damage that was not one (a storage that gave wrong bytes once) is over after so long.
LOOK_AGAIN_SECONDS: Final = 600.0
_MOST_BUCKETS: Final = 10_000
_log = logging.getLogger("widetable")

# Of each of some files of a bucket's directory: how it lies there, None when it does not.
_Lie = dict[str, FileStatus | None]


@dataclass(frozen=True)
class SickBucket:
    """The parts of the error of a bucket that was passed by."""

    subject: str
    found: str
    expected: str
    action: str

    @property
    def error(self) -> DamagedError:
        """A new one each time: who raises it gives it frames."""
        return DamagedError(
            self.subject, found=self.found, expected=self.expected, action=self.action
        )


@dataclass(frozen=True)
class _Noted:
    """files: those that the error is about, else all of the plan. until_seconds: of `time.monotonic`."""

    bucket: SickBucket
    files: _Lie
    until_seconds: float


class SickBuckets:
    """By table and directory of the bucket."""

    def __init__(self) -> None:
        self._noted: dict[tuple[str, str], _Noted] = {}

    def note(
        self, table: TableState, bucket: BucketId, plan: Plan, error: DamagedError
    ) -> SickBucket:
        """Remember, and say in the log, that carrying out the plan met the error."""
        taken = names_of(plan)
        names = [name for name in taken if name in error.subject] or taken
        sick = SickBucket(error.subject, error.found, error.expected, error.action)
        directory = table.bucket_dir(bucket)
        while len(self._noted) >= _MOST_BUCKETS:
            self._noted.pop(next(iter(self._noted)))
        self._noted[table.paths.root, directory] = _Noted(
            sick, _lie(table, directory, names), time.monotonic() + LOOK_AGAIN_SECONDS
        )
        _log.warning(
            "bucket %d of %s is not compacted, the others are: %s",
            bucket.number,
            table.paths.root,
            error,
        )
        return sick

    def known(self, table: TableState, bucket: BucketId, plan: Plan) -> SickBucket | None:
        """The bucket when carrying out the plan would meet an error that is noted; looks at the files it is about."""
        key = table.paths.root, table.bucket_dir(bucket)
        noted = self._noted.get(key)
        if noted is None or not noted.files.keys() <= set(names_of(plan)):
            return None
        is_new = time.monotonic() < noted.until_seconds
        if is_new and _lie(table, key[1], noted.files) == noted.files:
            return noted.bucket
        self._noted.pop(key, None)
        return None

    def of(self, root: str) -> list[SickBucket]:
        """All that are noted of a table."""
        return [
            noted.bucket for (of_root, _), noted in list(self._noted.items()) if of_root == root
        ]


SICK_BUCKETS: Final = SickBuckets()


def is_of_bucket(table: TableState, error: DamagedError | NotFoundError) -> bool:
    """Whether only the bucket that was compacted has to do with what is wrong or gone: a schema is of all."""
    return not error.subject.startswith(table.paths.schema_dir)


def _lie(table: TableState, directory: str, names: Iterable[str]) -> _Lie:
    """One listing. A restored file differs from the damaged one by its time, if not by its size."""
    there = {entry.name: entry for entry in table.file_io.list(directory)}
    return {name: there.get(name) for name in names}
