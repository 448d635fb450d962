"""One commit as it is asked for: its kind, who asks, and the entries that it adds and deletes. Pure.

In: the messages of writers or of a compaction. Out: a CommitRequest that stays the same over all attempts.
Raises InvalidError for messages that do not belong into a commit of that kind, ConflictError behind a snapshot that it
does not stand behind.

    asked by              kind         scope               keeps            what goes besides `deletes`
    append                APPEND       -                   -                nothing
    compact               COMPACT      -                   -                nothing
    overwrite             OVERWRITE    its partitions      -                all that is live there
    overwrite of all      OVERWRITE    None                -                all that is live
    restore, keeps given  OVERWRITE    None                what stays       all that is live but `keeps`
    restore, keeps None   OVERWRITE    empty               -                nothing
    rewrite               OVERWRITE    empty               -                nothing
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

from widetable.arguments import items, mapping, text, whole_number
from widetable.commit.barriers.barrier_step import BarrierStep
from widetable.commit.snapshots.committed import OWN_PROPERTIES
from widetable.commit.transaction.commit_identity import Identity
from widetable.commit.transaction.plan_base import PlannedFrom
from widetable.errors import ConflictError, InvalidError
from widetable.format.data_file_meta import DataFileMeta
from widetable.format.manifest_entry import ADD, DELETE, ManifestEntry
from widetable.format.manifest_entry import Identity as FileIdentity
from widetable.format.snapshot import (
    COMMIT_KIND_APPEND,
    COMMIT_KIND_COMPACT,
    COMMIT_KIND_OVERWRITE,
    Snapshot,
)
from widetable.write.commit_message import CommitMessage

# Which fields of a message a commit of that kind takes; the others must be empty. Not named here:
# hashes and deletion vectors, which go with any (`index_files`).
_TAKEN = {
    COMMIT_KIND_APPEND: ("new_files", "changelog_files"),
    COMMIT_KIND_COMPACT: ("compact_before", "compact_after", "changelog_files"),
    COMMIT_KIND_OVERWRITE: ("new_files", "deleted_files"),
}
# The messages of a commit behind a snapshot, None for an empty table; asked in each attempt.
Follow: TypeAlias = Callable[[Snapshot | None], Iterable[CommitMessage]]
_DELETING = ("deleted_files", "compact_before")
_ADDING = ("new_files", "compact_after")
_CHANGELOG = ("changelog_files",)


@dataclass(frozen=True)
class CommitRequest:
    """kind:

    a commit kind of the snapshot. deletes, adds: entries of the messages. changelog: entries of their changelog files,
    which never become live. scope: of an overwrite; all live files of these partitions (None: of the table) are
    deleted as well. messages: where the entries come from. keeps: of an overwrite that puts files back, at any level;
    these are live and stay, whatever the scope. read_snapshot_id: of an append whose rows were made from what stands
    there: no other commit after it may have written their keys. restores: the snapshot whose rows a rollback puts back.
    planned: what a compaction saw. is_first: ConflictError where the table has a snapshot. rescaled: how many buckets
    its partition has from now on. follow: gives the messages anew behind each snapshot. barrier: what an append to a
    table under barriers does to them.
    """

    kind: str
    by: Identity
    deletes: tuple[ManifestEntry, ...]
    adds: tuple[ManifestEntry, ...]
    changelog: tuple[ManifestEntry, ...]
    messages: tuple[CommitMessage, ...]
    scope: frozenset[bytes] | None = frozenset()
    watermark: int | None = None
    properties: Mapping[str, str] = field(default_factory=dict)
    keeps: frozenset[FileIdentity] = frozenset()
    read_snapshot_id: int | None = None
    restores: Snapshot | None = None
    planned: PlannedFrom | None = None
    is_first: bool = False
    rescaled: int | None = None
    follow: Follow | None = None
    barrier: BarrierStep | None = None

    def behind(self, latest: Snapshot | None) -> CommitRequest:
        """What is asked for behind that snapshot.

        The same, but where messages follow it: new ones take the place of those before, and the files of
        both are the business of whoever gives them.
        """
        if self.is_first and latest is not None:
            raise ConflictError(
                "commit",
                found=f"snapshot {latest.id}, which somebody else has committed",
                expected="a table without snapshots",
                action="Use another table, or drop this one first.",
            )
        if self.follow is None:
            return self
        made = request(self.kind, self.follow(latest), self.by, keeps=frozenset())
        return replace(made, rescaled=self.rescaled, follow=self.follow)

    @property
    def entries(self) -> tuple[ManifestEntry, ...]:
        return self.deletes + self.adds

    @property
    def partitions(self) -> frozenset[bytes]:
        """Partitions that the messages speak of."""
        return frozenset(entry.partition for entry in self.entries)

    @property
    def buckets(self) -> frozenset[int]:
        return frozenset(entry.bucket for entry in self.entries)


def request(
    kind: str,
    messages: Iterable[CommitMessage],
    by: Identity | None = None,
    *,
    scope: frozenset[bytes] | None = frozenset(),
    watermark: int | None = None,
    properties: Mapping[str, str] | None = None,
    keeps: frozenset[FileIdentity] | None = None,
    read_snapshot_id: int | None = None,
) -> CommitRequest:
    """Check the messages against the kind and turn them into entries. by: None: a fresh user. keeps: None: new files
    are of level 0.
    """
    kept = items(messages, CommitMessage, "messages")
    for message in kept:
        _check_fields(kind, message)
        if scope is not None and keeps is None and kind == COMMIT_KIND_OVERWRITE:
            _check_scope(message, scope)
    adds = _entries(ADD, kept, _ADDING)
    if kind != COMMIT_KIND_COMPACT:
        _check_new(adds, any_level=keeps is not None)
    return CommitRequest(
        kind,
        by or Identity.unnamed(),
        _entries(DELETE, kept, _DELETING),
        adds,
        _entries(ADD, kept, _CHANGELOG),
        kept,
        scope,
        None if watermark is None else whole_number(watermark, "watermark"),
        _own_properties(mapping(properties, "properties")),
        keeps or frozenset(),
        None
        if read_snapshot_id is None
        else whole_number(read_snapshot_id, "read_snapshot_id", least=0),
    )


def with_messages(asked: CommitRequest, messages: Sequence[CommitMessage]) -> CommitRequest:
    """The same request with other new files in place of those that its messages had."""
    kept = tuple(messages)
    return replace(asked, messages=kept, adds=_entries(ADD, kept, _ADDING))


def _entries(
    kind: int, messages: Sequence[CommitMessage], fields: Sequence[str]
) -> tuple[ManifestEntry, ...]:
    return tuple(
        ManifestEntry(kind, message.partition, message.bucket, message.total_buckets, file)
        for message in messages
        for name in fields
        for file in _files(message, name)
    )


def _files(message: CommitMessage, name: str) -> tuple[DataFileMeta, ...]:
    files: tuple[DataFileMeta, ...] = getattr(message, name)
    return files


def _check_fields(kind: str, message: CommitMessage) -> None:
    for name in (*_ADDING, *_DELETING, *_CHANGELOG):
        if name not in _TAKEN[kind] and _files(message, name):
            raise InvalidError(
                f"commit message of bucket {message.bucket}",
                found=f"{name} in a commit of kind {kind}",
                expected=f"only {' and '.join(_TAKEN[kind])}",
                action="Commit appends, compactions and overwrites each by their own call.",
            )


def _check_scope(message: CommitMessage, scope: frozenset[bytes]) -> None:
    if message.new_files and message.partition not in scope:
        raise InvalidError(
            f"commit message of bucket {message.bucket}",
            found=f"files for the partition {message.partition.hex()} outside the overwritten ones",
            expected="only partitions that are overwritten",
            action="Add the partition to the scope, or append these files.",
        )


def _check_new(adds: Sequence[ManifestEntry], *, any_level: bool) -> None:
    """A message that was given twice would make its rows count twice: files have names of their
    own.
    """
    repeated = [
        name for name, count in Counter(e.file.file_name for e in adds).items() if count > 1
    ]
    wrong = [e.file.file_name for e in adds if e.file.level != 0 and not any_level]
    if repeated or wrong:
        raise InvalidError(
            f"data file {(repeated or wrong)[0]!r}",
            found="the file twice" if repeated else "a level above 0",
            expected="each written file once, at level 0",
            action="Commit the messages of each writer once, as it made them.",
        )


def _own_properties(properties: Mapping[str, Any]) -> dict[str, str]:
    """Those of the caller, about its own commit: the next snapshot does not have them."""
    for key in properties:
        if key in OWN_PROPERTIES:
            raise InvalidError(
                f"snapshot property {key!r}",
                found="a name that the commit itself writes",
                expected="another name",
                action="Use another name.",
            )
    return {key: text(value, f"snapshot property {key!a}") for key, value in properties.items()}
