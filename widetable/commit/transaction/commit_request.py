"""The request of a commit: its kind, its identity, and the entries that it adds and deletes. Pure.

In: the messages of writers or of a compaction. Out: a CommitRequest that does not change between attempts. Raises
InvalidError for messages that do not belong into a commit of that kind, ConflictError for a first commit to a table
that has a snapshot.

    call                  kind         scope               keeps            deleted besides `deletes`
    append                APPEND       -                   -                nothing
    compact               COMPACT      -                   -                nothing
    overwrite             OVERWRITE    its partitions      -                all live files there
    overwrite of all      OVERWRITE    None                -                all live files
    restore, keeps given  OVERWRITE    None                files that stay  all live files but `keeps`
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
from widetable.commit.transaction.plan_base import PlanBase
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
class CommitRequest:
    """A requested commit.

    kind: the commit kind of the snapshot. deletes, adds: entries of the messages. changelog: entries of their changelog
    files, which never become live. messages: the source of the entries. scope: for an overwrite; all live files of
    these partitions (None: of the table) are deleted as well. keeps: for an overwrite that restores files, at any
    level; these files are live and stay, whatever the scope. read_snapshot_id: for an append whose rows were computed
    from that snapshot: no other commit after it may have written their keys. restores: the snapshot whose rows a
    rollback restores. planned: the files that a compaction saw. is_first: raise ConflictError if the table has a
    snapshot. rescaled: the new number of buckets of its partition. follow: returns new messages after each snapshot.
    barrier: the effect of an append on the barriers of the table.
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
    planned: PlanBase | None = None
    is_first: bool = False
    rescaled: int | None = None
    follow: Follow | None = None
    barrier: BarrierStep | None = None

    def behind(self, latest: Snapshot | None) -> CommitRequest:
        """Return the request as it applies after that snapshot.

        With `follow`, new messages replace the last ones; `follow` also cares for the files of both.
        """
        if self.is_first and latest is not None:
            raise ConflictError(
                "commit",
                found=f"snapshot {latest.id}, which another process has committed",
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
        """The partitions of the messages."""
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
    """Check the messages against the kind and make entries of them. by: None for a fresh user. keeps: if it is None,
    new files must be at level 0.
    """
    checked = items(messages, CommitMessage, "messages")
    for message in checked:
        _check_fields(kind, message)
        if scope is not None and keeps is None and kind == COMMIT_KIND_OVERWRITE:
            _check_scope(message, scope)
    adds = _entries(ADD, checked, _ADDING)
    if kind != COMMIT_KIND_COMPACT:
        _check_new(adds, any_level=keeps is not None)
    return CommitRequest(
        kind,
        by or Identity.unnamed(),
        _entries(DELETE, checked, _DELETING),
        adds,
        _entries(ADD, checked, _CHANGELOG),
        checked,
        scope,
        None if watermark is None else whole_number(watermark, "watermark"),
        _own_properties(mapping(properties, "properties")),
        keeps or frozenset(),
        None
        if read_snapshot_id is None
        else whole_number(read_snapshot_id, "read_snapshot_id", least=0),
    )


def with_messages(original: CommitRequest, messages: Sequence[CommitMessage]) -> CommitRequest:
    """Return the request with the new files of these messages in place of those of its own messages."""
    replacing = tuple(messages)
    return replace(original, messages=replacing, adds=_entries(ADD, replacing, _ADDING))


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
        if name not in _ALLOWED_FIELDS[kind] and _files(message, name):
            raise InvalidError(
                f"commit message of bucket {message.bucket}",
                found=f"{name} in a commit of kind {kind}",
                expected=f"only {' and '.join(_ALLOWED_FIELDS[kind])}",
                action="Commit appends, compactions and overwrites by separate calls.",
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
    """Check that no file is added twice, so that its rows do not count twice, and the levels of new files."""
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
