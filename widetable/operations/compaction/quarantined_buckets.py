"""Buckets that cannot be compacted because a file is damaged, or because rows of a key make no row (a sum that
overflows): what this process remembers of them.

    compaction met the error ─► noted, with how the file lies on the storage ─► passed by, without reading
    ─► the file or the schema changes, or a while goes by, or a compaction does without the file ─► compacted anew

So one bucket's damage costs the others nothing, and a large sick bucket is not read in every round for nothing. Only
facts are kept, no exception with its frames. Raises StorageError.

A note costs one listing of the bucket's directory per round. It is about files by name: a plan
that does not read all of them is carried out, for then somebody has replaced what was damaged.
Bounded; the oldest notes go first. Thread-safe; a forked child begins without any.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, TypeAlias

from widetable.errors import DamagedError, InvalidError, NotFoundError
from widetable.format.bucket_id import BucketId
from widetable.lsm.bucket_plan import Plan, names_of
from widetable.messages.warning_code import WarningCode, warn
from widetable.runtime.forked_child import SharedByThreads
from widetable.storage.file_io import FileStatus
from widetable.write.table_state import TableState

# A damage that was not one (a storage that gave wrong bytes once) is over after so long.
LOOK_AGAIN_SECONDS: Final = 600.0
_MOST_BUCKETS: Final = 10_000
_log = logging.getLogger("widetable")

# Of each of some files of a bucket's directory: how it lies there, None when it does not.
_Lie = dict[str, FileStatus | None]
# Of a file; of rows that cannot be merged, which other buckets know nothing of.
BucketError: TypeAlias = DamagedError | InvalidError


@dataclass(frozen=True)
class SickBucket:
    """The parts of the error of a bucket that was passed by."""

    kind: type[BucketError]
    subject: str
    found: str
    expected: str
    action: str

    @property
    def error(self) -> BucketError:
        """A new one each time: who raises it gives it frames."""
        return self.kind(self.subject, found=self.found, expected=self.expected, action=self.action)


@dataclass(frozen=True)
class _Noted:
    """files: those that the error is about, else all of the plan. until_seconds: of `time.monotonic`."""

    bucket: SickBucket
    files: _Lie
    schema_id: int
    until_seconds: float


class SickBuckets(SharedByThreads):
    """By table and directory of the bucket."""

    def _start_anew(self) -> None:
        self._noted: dict[tuple[str, str], _Noted] = {}
        self._lock = threading.Lock()

    def note(
        self, table: TableState, bucket: BucketId, plan: Plan, error: BucketError
    ) -> SickBucket:
        """Remember, and say in the log, that carrying out the plan met the error."""
        taken = names_of(plan)
        names = [name for name in taken if name in error.subject] or taken
        subject = (table.named(error) if isinstance(error, InvalidError) else error).subject
        sick = SickBucket(type(error), subject, error.found, error.expected, error.action)
        directory = table.bucket_dir(bucket)
        lie, until_seconds = _lie(table, directory, names), time.monotonic() + LOOK_AGAIN_SECONDS
        with self._lock:
            self._noted[table.paths.root, directory] = _Noted(
                sick, lie, table.schema.id, until_seconds
            )
            while len(self._noted) > _MOST_BUCKETS:
                self._noted.pop(next(iter(self._noted)))
        warn(
            _log,
            WarningCode.BUCKET_PASSED_BY,
            "bucket %d of %s is not compacted, the others are: %s",
            bucket.number,
            table.paths.root,
            error,
        )
        return sick

    def known(self, table: TableState, bucket: BucketId, plan: Plan) -> SickBucket | None:
        """The bucket when carrying out the plan would meet an error that is noted; looks at the files it is about."""
        directory = table.bucket_dir(bucket)
        with self._lock:
            noted = self._noted.get((table.paths.root, directory))
        if noted is None or not noted.files.keys() <= set(names_of(plan)):
            return None
        return noted.bucket if self._holds(table, directory, noted) else None

    def of(self, table: TableState) -> list[SickBucket]:
        """All of a table; looks at the files they are about."""
        root = table.paths.root
        with self._lock:
            noted = [(each, of) for (at, each), of in self._noted.items() if at == root]
        return [of.bucket for directory, of in noted if self._holds(table, directory, of)]

    def _holds(self, table: TableState, directory: str, noted: _Noted) -> bool:
        """Whether the files lie as they did a short while ago; forgets it otherwise."""
        is_new = time.monotonic() < noted.until_seconds and noted.schema_id == table.schema.id
        if is_new and _lie(table, directory, noted.files) == noted.files:
            return True
        key = table.paths.root, directory
        with self._lock:
            if self._noted.get(key) is noted:
                del self._noted[key]
        return False


SICK_BUCKETS: Final = SickBuckets()


def is_of_bucket(table: TableState, error: BucketError | NotFoundError) -> bool:
    """Whether only the bucket that was compacted has to do with what is wrong or gone: a schema is of all."""
    return not error.subject.startswith(table.paths.schema_dir)


def _lie(table: TableState, directory: str, names: Iterable[str]) -> _Lie:
    """One listing. A restored file differs from the damaged one by its time, if not by its size."""
    there = {entry.name: entry for entry in table.file_io.list(directory)}
    return {name: there.get(name) for name in names}
