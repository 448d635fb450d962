"""Keeps the order of an append: what is committed later counts as later, whenever its writer began (law 9).

Asked in each attempt of a commit, behind the snapshot that it will follow, in the turn of this machine:

    highest number of the table below the commit's own     publish as it is; nothing is read
    the snapshots since then wrote other columns           publish as it is; no manifest is read
    some published file overtook a bucket                   copies of that bucket's files with numbers above all
                                                            published ones take the place of the given files
    no file did, or no row depends on the order             publish as it is

`commit_order` decides which buckets are overtaken; `write/renumbering` makes the copies, always of the given files. So
a commit that is overtaken again between two attempts throws its copies away and makes new ones.

What is on disk when the process dies:

    copies written, not published    orphans, as are the given files; the caller commits the given files again
    published, given files there     the given files are orphans
    both                             nobody reads a file that no snapshot names

Raises what reading manifests and what writing data files raises; the given files are unharmed then.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from widetable.commit.snapshots.published_files import PublishedFiles
from widetable.commit.transaction.commit_order import (
    first_number,
    may_be_overtaken,
    overtaken_buckets,
)
from widetable.commit.transaction.commit_request import CommitRequest, with_messages
from widetable.format.bucket_id import BucketId
from widetable.format.snapshot import COMMIT_KIND_APPEND, Snapshot
from widetable.lsm.sorted_run import key_types
from widetable.merge.order_dependence import ordered_ids
from widetable.write.commit_message import CommitMessage
from widetable.write.discard import discard_files
from widetable.write.renumbering import renumbered
from widetable.write.table_state import TableState


@dataclass
class OrderedAppend:
    """Of one commit, for one thread. given: the request with the files as their writers made them."""

    given: CommitRequest
    published: Callable[[int], PublishedFiles]
    _published: PublishedFiles | None = field(default=None, init=False)
    _current: tuple[CommitMessage, ...] = field(default=(), init=False)
    _moved: frozenset[BucketId] = field(default=frozenset(), init=False)

    def __post_init__(self) -> None:
        self._current = self.given.messages

    def behind(
        self,
        asked: CommitRequest,
        latest: Snapshot | None,
        state: TableState,
        highest: int,
        base: Callable[[], int],
    ) -> CommitRequest:
        """The request to publish behind `latest`.

        highest: the highest number of the table there. base: a number above all published ones.
        """
        lowest = first_number(self._current)
        if asked.kind != COMMIT_KIND_APPEND or latest is None or lowest is None or highest < lowest:
            return asked
        published, ordered = self._published_files(), ordered_ids(state.schema)
        if not may_be_overtaken(self._current, published.values(latest), ordered):
            return asked
        overtaken = overtaken_buckets(
            self._current, published.behind(latest), ordered, key_types(state.schema)
        )
        if not overtaken:
            return asked
        self.drop_copies(state)
        moved = self._moved | overtaken
        messages = [m for m in self.given.messages if m.bucket_id in moved]
        distance = base() - (first_number(messages) or 0)
        self._current = tuple(renumbered(state, self.given.messages, moved, distance))
        self._moved = moved
        return with_messages(asked, self._current)

    def drop_copies(self, state: TableState) -> None:
        """Delete the copies: the commit is certainly not in with them."""
        _delete(state, self._current, self.given.messages)
        self._current = self.given.messages

    def drop_given(self, state: TableState) -> None:
        """Delete the given files that copies stand for: the commit is in with the copies.

        Those of a staged commit stay for orphan cleaning: a reader may have begun with what the note names.
        """
        if self.given.barrier is None:
            _delete(state, self.given.messages, self._current)

    def _published_files(self) -> PublishedFiles:
        if self._published is None:
            self._published = self.published(first_number(self.given.messages) or 0)
        return self._published


def _delete(
    state: TableState, going: tuple[CommitMessage, ...], staying: tuple[CommitMessage, ...]
) -> None:
    """Delete the new files of messages that the others do not name."""
    kept = {file.file_name for message in staying for file in message.new_files}
    for message in going:
        files = [file for file in message.new_files if file.file_name not in kept]
        discard_files(state, message.bucket_id, files)
