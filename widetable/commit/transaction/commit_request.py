"""The requests of commits: what a caller wants to be in the next snapshot. Pure.

In: the messages of writers or of a compaction. Out: one of five requests, which never changes. Its files are the same
in each attempt to commit it, except for those of a rewrite and of an append that was overtaken. Raises InvalidError for
messages that do not belong into a commit of that kind.

    request      kind         it deletes                                      it adds
    Append       APPEND       nothing                                         files of writers, at level 0
    Compact      COMPACT      the inputs of the compaction                    its outputs
    Overwrite    OVERWRITE    all live files of its scope, and named ones     files of writers, at level 0
    Restore      OVERWRITE    all live files but those that stay              files at any level
    Rewrite      OVERWRITE    named files                                     files at any level
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, TypeAlias

from widetable.arguments import SMALLEST, items, mapping, text, whole_number
from widetable.commit.barriers.barrier_step import BarrierStep
from widetable.commit.snapshots.committed import OWN_PROPERTIES
from widetable.commit.transaction.commit_identity import Identity
from widetable.commit.transaction.plan_base import PlanBase
from widetable.errors import InvalidError
from widetable.format.data_file_meta import DataFileMeta
from widetable.format.manifest_entry import ADD, DELETE, ManifestEntry
from widetable.format.manifest_entry import Identity as FileIdentity
from widetable.format.snapshot import (
    COMMIT_KIND_APPEND,
    COMMIT_KIND_COMPACT,
    COMMIT_KIND_OVERWRITE,
    Snapshot,
)
from widetable.runtime.derived_value import derived_value
from widetable.write.commit_message import CommitMessage

# The fields of a message that a commit of that kind may have; the others must be empty. Hashes and
# deletion vectors are not listed: they are allowed with any kind (`index_files`).
_ALLOWED_FIELDS = {
    COMMIT_KIND_APPEND: ("new_files", "changelog_files"),
    COMMIT_KIND_COMPACT: ("compact_before", "compact_after", "changelog_files"),
    COMMIT_KIND_OVERWRITE: ("new_files", "deleted_files"),
}
# Returns the messages of a commit after a snapshot, None for an empty table; called in each attempt.
Follow: TypeAlias = Callable[[Snapshot | None], Iterable[CommitMessage]]
_DELETING = ("deleted_files", "compact_before")
_ADDING = ("new_files", "compact_after")
_CHANGELOG = ("changelog_files",)


@dataclass(frozen=True)
class FileChanges:
    """The files that messages name, as entries of manifests. changelog: of changelog files, which never become live."""

    messages: tuple[CommitMessage, ...] = ()

    @staticmethod
    def of(kind: str, messages: Iterable[CommitMessage]) -> FileChanges:
        """Return the files of messages. kind: of the commit; it says which files a message may have."""
        checked = items(messages, CommitMessage, "messages")
        for message in checked:
            _check_fields(kind, message)
        return FileChanges(checked)

    @staticmethod
    def new(
        kind: str, messages: Iterable[CommitMessage], *, any_level: bool = False
    ) -> FileChanges:
        """Return the files of messages that add files: each once, so that its rows do not count twice. any_level: they
        need not be at level 0.
        """
        changes = FileChanges.of(kind, messages)
        counts = Counter(entry.file.file_name for entry in changes.adds)
        repeated = [name for name, count in counts.items() if count > 1]
        wrong = [e.file.file_name for e in changes.adds if e.file.level != 0 and not any_level]
        if repeated or wrong:
            raise InvalidError(
                f"data file {(repeated or wrong)[0]!r}",
                found="the file twice" if repeated else "a level above 0",
                expected="each written file once, at level 0",
                action="Commit the messages of each writer once, as it made them.",
            )
        return changes

    @staticmethod
    def overwriting(
        scope: frozenset[bytes] | None, messages: Iterable[CommitMessage]
    ) -> FileChanges:
        """Return the files of messages that overwrite these partitions (None: all), in which new files must lie."""
        changes = FileChanges.new(COMMIT_KIND_OVERWRITE, messages)
        for message in changes.messages:
            if scope is not None and message.new_files and message.partition not in scope:
                raise InvalidError(
                    f"commit message of bucket {message.bucket}",
                    found=f"files for the partition {message.partition.hex()} outside the overwritten ones",
                    expected="only partitions that are overwritten",
                    action="Add the partition to the scope, or append these files.",
                )
        return changes

    @derived_value
    def deletes(self) -> tuple[ManifestEntry, ...]:
        return self._entries(DELETE, _DELETING)

    @derived_value
    def adds(self) -> tuple[ManifestEntry, ...]:
        return self._entries(ADD, _ADDING)

    @derived_value
    def changelog(self) -> tuple[ManifestEntry, ...]:
        return self._entries(ADD, _CHANGELOG)

    @property
    def entries(self) -> tuple[ManifestEntry, ...]:
        return self.deletes + self.adds

    @property
    def partitions(self) -> frozenset[bytes]:
        return frozenset(entry.partition for entry in self.entries) | frozenset(
            message.partition for message in self.messages if message.marked_files
        )

    @property
    def buckets(self) -> frozenset[int]:
        return frozenset(entry.bucket for entry in self.entries) | frozenset(
            message.bucket for message in self.messages if message.marked_files
        )

    @property
    def marks_rows(self) -> bool:
        """Whether rows of files that stay are deleted."""
        return any(message.marked_files for message in self.messages)

    def _entries(self, kind: int, fields: Sequence[str]) -> tuple[ManifestEntry, ...]:
        return tuple(
            ManifestEntry(kind, message.partition, message.bucket, message.total_buckets, file)
            for message in self.messages
            for name in fields
            for file in _files(message, name)
        )


@dataclass(frozen=True)
class Header:
    """What each snapshot records of its request: who made it, and the watermark and properties that the caller gave."""

    by: Identity
    watermark: int | None = None
    properties: Mapping[str, str] = field(default_factory=dict)

    @property
    def says_something(self) -> bool:
        """Whether a snapshot is made for it even without files."""
        return bool(self.properties) or self.watermark is not None

    @staticmethod
    def of(
        by: Identity | None,
        watermark: int | None = None,
        properties: Mapping[str, str] | None = None,
    ) -> Header:
        """Check the values that a caller gave. by: None for a fresh user."""
        return Header(
            by or Identity.unnamed(),
            None if watermark is None else whole_number(watermark, "watermark", least=SMALLEST + 1),
            _own_properties(mapping(properties, "properties")),
        )


@dataclass(frozen=True)
class Append:
    """Adds files of writers. read_snapshot_id: the rows were computed from that snapshot, so no other commit after it
    may have written their keys. barrier: the effect on the barriers of the table.
    """

    kind: ClassVar[str] = COMMIT_KIND_APPEND
    header: Header
    changes: FileChanges
    read_snapshot_id: int | None = None
    barrier: BarrierStep | None = None


@dataclass(frozen=True)
class Compact:
    """Replaces the inputs of a compaction by its outputs. planned: the files that it saw; None: not known."""

    kind: ClassVar[str] = COMMIT_KIND_COMPACT
    header: Header
    changes: FileChanges
    planned: PlanBase | None = None


@dataclass(frozen=True)
class Overwrite:
    """Replaces all live files of its scope, which are those of these partitions, or of the table if it is None."""

    kind: ClassVar[str] = COMMIT_KIND_OVERWRITE
    header: Header
    changes: FileChanges
    scope: frozenset[bytes] | None


@dataclass(frozen=True)
class Restore:
    """Replaces all live files except those that stay. keeps: these; they must be live.

    target: the snapshot whose rows are restored, or the revision that takes the table back to a barrier. is_first: the
    table must have no snapshot yet.
    """

    kind: ClassVar[str] = COMMIT_KIND_OVERWRITE
    header: Header
    changes: FileChanges
    keeps: frozenset[FileIdentity]
    target: Snapshot | BarrierStep
    is_first: bool = False


@dataclass(frozen=True)
class Rewrite:
    """Replaces the files that its messages name. `follow` returns these for the newest snapshot, once per attempt.
    Files that it writes belong to the caller. rescaled: the new number of buckets of their partition; None: it stays.
    """

    kind: ClassVar[str] = COMMIT_KIND_OVERWRITE
    changes: ClassVar[FileChanges] = FileChanges()  # before the first attempt
    header: Header
    follow: Follow
    rescaled: int | None = None


CommitRequest: TypeAlias = Append | Compact | Overwrite | Restore | Rewrite


def has_effect(
    request: CommitRequest, changes: FileChanges, delta: Sequence[ManifestEntry]
) -> bool:
    """Return whether a snapshot is made of a request with this delta. A watermark says that its writer is there."""
    is_step = isinstance(request, Restore) or (isinstance(request, Append) and request.barrier)
    return bool(delta or changes.marks_rows or request.header.says_something or is_step)


def _files(message: CommitMessage, name: str) -> tuple[DataFileMeta, ...]:
    files: tuple[DataFileMeta, ...] = getattr(message, name)
    return files


def _check_fields(kind: str, message: CommitMessage) -> None:
    for name in (*_ADDING, *_DELETING, *_CHANGELOG):
        if name not in _ALLOWED_FIELDS[kind] and _files(message, name):
            raise InvalidError(
                f"commit message of bucket {message.bucket}",
                found=f"{name} in a commit of kind {kind}",
                expected=f"only {' and '.join(_ALLOWED_FIELDS[kind])}",
                action="Commit appends, compactions and overwrites by separate calls.",
            )


def _own_properties(properties: Mapping[str, Any]) -> dict[str, str]:
    """Return the caller's properties, which are stored in the snapshot of this commit only."""
    for key in properties:
        if key in OWN_PROPERTIES:
            raise InvalidError(
                f"snapshot property {key!r}",
                found="a name that is reserved for the commit itself",
                expected="another name",
                action="Use another name.",
            )
    return {key: text(value, f"snapshot property {key!a}") for key, value in properties.items()}
