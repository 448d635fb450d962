"""Keeps the order of an append: records that are committed later sort later, whenever their writer began (law 9).

Each attempt of a commit decides, under the commit lock of this machine, after the snapshot that it will follow:

    highest number of the table below the commit's own     publish unchanged; nothing is read
    the snapshots since then wrote other columns           publish unchanged; no manifest is read
    some published file overtook a bucket                   copies of that bucket's files with numbers above all
                                                            published ones replace the given files
    no file did, or no row depends on the order             publish unchanged

`commit_order` decides which buckets are overtaken; `write/renumbering` makes the copies, always of the given files. So
a commit that is overtaken again between two attempts deletes its copies and makes new ones.

Files on disk when the process dies:

    copies written, not published    orphans, as are the given files; the caller commits the given files again
    published, given files exist     the given files are orphans
    both                             no reader uses a file that no snapshot names

Raises the errors of reading manifests and of writing data files; the given files are intact then.
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
from widetable.commit.transaction.commit_request import Append, CommitRequest, FileChanges
from widetable.format.bucket_id import BucketId
from widetable.format.snapshot import Snapshot
from widetable.lsm.sorted_run import key_types
from widetable.merge.order_dependence import ordered_ids
from widetable.write.discard import discard_files
from widetable.write.renumbering import renumbered
from widetable.write.table_state import TableState


@dataclass
class OrderedAppend:
    """The order of one commit, for one thread. request: has the files as their writers made them.

    published: returns the published files with at least this sequence number.
    """

    request: CommitRequest
    published: Callable[[int], PublishedFiles]
    _published: PublishedFiles | None = field(default=None, init=False)
    _current: FileChanges = field(init=False)
    _moved: frozenset[BucketId] = field(default=frozenset(), init=False)

    def __post_init__(self) -> None:
        self._current = self.request.changes

    def behind(
        self, latest: Snapshot | None, state: TableState, highest: int, base: Callable[[], int]
    ) -> FileChanges:
        """Return the files to publish after `latest`.

        highest: the highest number of the table there. base: returns a number above all published ones.
        """
        messages, given = self._current.messages, self.request.changes.messages
        lowest = first_number(messages)
        if latest is None or lowest is None or highest < lowest:
            return self._current
        published, ordered = self._published_files(), ordered_ids(state.schema)
        if not may_be_overtaken(messages, published.values(latest), ordered):
            return self._current
        overtaken = overtaken_buckets(
            messages, published.behind(latest), ordered, key_types(state.schema)
        )
        if overtaken:
            self.drop_copies(state)
            moved = self._moved | overtaken
            lowest = first_number(m for m in given if m.bucket_id in moved)
            distance = base() - (lowest or 0)
            self._current = FileChanges(tuple(renumbered(state, given, moved, distance)))
            self._moved = moved
        return self._current

    def drop_copies(self, state: TableState) -> None:
        """Delete the copies: they are certainly not committed."""
        _delete(state, self._current, self.request.changes)
        self._current = self.request.changes

    def drop_given(self, state: TableState) -> None:
        """Delete the given files that copies replace: the copies are committed.

        The files of a staged commit are left to the removal of orphans: a reader may use them.
        """
        if isinstance(self.request, Append) and self.request.barrier is None:
            _delete(state, self.request.changes, self._current)

    def _published_files(self) -> PublishedFiles:
        if self._published is None:
            self._published = self.published(first_number(self.request.changes.messages) or 0)
        return self._published


def _delete(state: TableState, going: FileChanges, staying: FileChanges) -> None:
    """Delete the new files of messages (`going`) that the others (`staying`) do not name."""
    kept = {file.file_name for message in staying.messages for file in message.new_files}
    for message in going.messages:
        files = [file for file in message.new_files if file.file_name not in kept]
        discard_files(state, message.bucket_id, files)
