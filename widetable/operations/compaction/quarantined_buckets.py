"""Remembers the buckets that cannot be compacted because a file is damaged, or because records of a key cannot be
merged (a sum that overflows).

    compaction met the error ─► noted, with size and time of the file ─► skipped, without reading
    ─► the file or the schema changes, or some time passes, or a plan omits the file ─► compacted again

So one bucket's damage does not affect the others, and a large damaged bucket is not read in every round in vain. Only
facts are kept, no exception with its frames. Raises StorageError.

A note costs one listing of the bucket's directory per round. It names files: a plan that does not
read all of them is carried out, because then the damaged one was replaced. The number of notes is
bounded, and the oldest are dropped first. It is thread-safe; a forked child begins without notes.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from widetable.errors import DamagedError, InvalidError, NotFoundError
from widetable.format.bucket_id import BucketId
from widetable.messages.warning_code import WarningCode, warn
from widetable.runtime.forked_child import SharedByThreads
from widetable.storage.file_io import FileStatus
from widetable.write.table_state import TableState

# After this time a false alarm (a storage that returned wrong bytes once) is over.
RETRY_SECONDS: Final = 600.0
_MAX_BUCKETS: Final = 10_000
_log = logging.getLogger("widetable")

# The status of some files in a bucket's directory by name, None for a missing file.
_Statuses = dict[str, FileStatus | None]
# The error of a damaged file, or of rows that cannot be merged; neither affects other buckets.
BucketError: TypeAlias = DamagedError | InvalidError


@dataclass(frozen=True)
class QuarantinedBucket:
    """A skipped bucket: the parts of its error."""

    kind: type[BucketError]
    subject: str
    actual: str
    expected: str
    action: str

    @property
    def error(self) -> BucketError:
        """A new exception each time, because raising one adds frames to it."""
        return self.kind(
            self.subject, found=self.actual, expected=self.expected, action=self.action
        )


@dataclass(frozen=True)
class _Noted:
    """A note. files: those that the error is about, else all that were read. until_seconds: by `time.monotonic`."""

    bucket: QuarantinedBucket
    files: _Statuses
    schema_id: int
    until_seconds: float


class QuarantinedBuckets(SharedByThreads):
    """The notes by table and directory of the bucket."""

    def _reset(self) -> None:
        self._noted: dict[tuple[str, str], _Noted] = {}
        self._lock = threading.Lock()

    def note(
        self,
        table: TableState,
        bucket: BucketId,
        file_names: Sequence[str],
        error: BucketError,
    ) -> QuarantinedBucket:
        """Remember and log the error that work on these files met."""
        names = [name for name in file_names if name in error.subject] or list(file_names)
        subject = (table.named(error) if isinstance(error, InvalidError) else error).subject
        quarantined = QuarantinedBucket(
            type(error), subject, error.found, error.expected, error.action
        )
        directory = table.bucket_dir(bucket)
        statuses, until_seconds = (
            _statuses(table, directory, names),
            time.monotonic() + RETRY_SECONDS,
        )
        with self._lock:
            self._noted[table.paths.root, directory] = _Noted(
                quarantined, statuses, table.schema.id, until_seconds
            )
            while len(self._noted) > _MAX_BUCKETS:
                self._noted.pop(next(iter(self._noted)))
        warn(
            _log,
            WarningCode.BUCKET_SKIPPED,
            "bucket %d of %s is not compacted, the others are: %s",
            bucket.number,
            table.paths.root,
            error,
        )
        return quarantined

    def find(
        self, table: TableState, bucket: BucketId, file_names: Iterable[str]
    ) -> QuarantinedBucket | None:
        """Return the noted bucket if work on these files would meet its error again. It checks those of the note."""
        directory = table.bucket_dir(bucket)
        with self._lock:
            noted = self._noted.get((table.paths.root, directory))
        if noted is None or not noted.files.keys() <= set(file_names):
            return None
        return noted.bucket if self._is_current(table, directory, noted) else None

    def of(self, table: TableState) -> list[QuarantinedBucket]:
        """Return all noted buckets of a table. It checks the files of the notes."""
        root = table.paths.root
        with self._lock:
            noted = [(each, of) for (at, each), of in self._noted.items() if at == root]
        return [of.bucket for directory, of in noted if self._is_current(table, directory, of)]

    def _is_current(self, table: TableState, directory: str, noted: _Noted) -> bool:
        """Whether the files of a note are unchanged and it is recent; else drop it."""
        is_new = time.monotonic() < noted.until_seconds and noted.schema_id == table.schema.id
        if is_new and _statuses(table, directory, noted.files) == noted.files:
            return True
        key = table.paths.root, directory
        with self._lock:
            if self._noted.get(key) is noted:
                del self._noted[key]
        return False


QUARANTINED_BUCKETS: Final = QuarantinedBuckets()


def is_of_bucket(table: TableState, error: BucketError | NotFoundError) -> bool:
    """Whether an error concerns only the compacted bucket; the error of a schema concerns all."""
    return not error.subject.startswith(table.paths.schema_dir)


def _statuses(table: TableState, directory: str, names: Iterable[str]) -> _Statuses:
    """Return the status of the files, from one listing. A restored file has another time, if not another size."""
    statuses = {entry.name: entry for entry in table.file_io.list(directory)}
    return {name: statuses.get(name) for name in names}
