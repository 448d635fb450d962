"""The live files whose rows may sort after those of a commit that is about to be published.

A commit takes its sequence numbers when it begins. Files that others publish after that moment may have larger ones.
They are found in the snapshots since then, so the cost depends on the commits meanwhile, not on the size of the table:

    snapshot                 3     4     5     6
    highest number so far    80    130   130   170     the commit's numbers begin at 100
                                   ▲ the search goes back to here: all numbers up to snapshot 3 are below 100

Most commits need none of these files: the snapshots record which columns were written since then (`values`).

A file's columns are those of the commit that added it. The rows of a compaction's output have the columns of its inputs
with such numbers: a merged row takes the number of its first record (decision 0007), so each record in a row with a
number above 100 comes from a file with such a number. The columns of other clients' files and of an overwrite are not
known.

In: snapshots, newest first. Out: `PublishedFile`s. Raises DamagedError and StorageError of reading manifests, and
NotFoundError if the newest snapshot has expired; if an older one has, all live files are checked.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import partial
from itertools import filterfalse
from typing import NamedTuple

from widetable.commit.snapshots.committed import highest_sequence_number, remembers
from widetable.commit.snapshots.committed_columns import columns_of, union
from widetable.commit.snapshots.live_files import LiveFiles
from widetable.commit.snapshots.snapshot_store import SnapshotStore
from widetable.errors import NotFoundError
from widetable.format.bucket_id import BucketId
from widetable.format.data_file_meta import DataFileMeta
from widetable.format.manifest_entry import ADD, DELETE, Identity, ManifestEntry
from widetable.format.snapshot import COMMIT_KIND_APPEND, COMMIT_KIND_COMPACT, Snapshot
from widetable.merge.order_dependence import UNKNOWN, Values


class PublishedFile(NamedTuple):
    """A live file, and the columns in which its rows with numbers above the commit's first one may have values."""

    bucket: BucketId
    file: DataFileMeta
    values: Values


@dataclass
class PublishedFiles:
    """The published files of one commit, cached from attempt to attempt. first_number: its lowest sequence number."""

    live_files: LiveFiles
    snapshots: SnapshotStore
    first_number: int
    # The snapshots that may have added such files, oldest first, and how many of them are applied to `_files`.
    _newer: list[Snapshot] = field(default_factory=list, init=False)
    _applied: int = field(default=0, init=False)
    # False if one of them has expired.
    _has_all: bool = field(default=True, init=False)
    _files: dict[Identity, PublishedFile] = field(default_factory=dict, init=False)

    def values(self, latest: Snapshot) -> Values:
        """Return the columns that the files of `behind` may have values in, from the snapshots: no manifest is read."""
        try:
            self._load_newer(latest)
        except NotFoundError:
            return UNKNOWN
        compacting = partial(_is_ours, kind=COMMIT_KIND_COMPACT)
        columns = union(columns_of(one) for one in filterfalse(compacting, self._newer))
        is_known = self._has_all and columns is not None
        return Values(columns, has_deletes=False) if is_known else UNKNOWN

    def behind(self, latest: Snapshot) -> Iterable[PublishedFile]:
        """Return the files that are live at `latest` and have a sequence number of at least `first_number`."""
        try:
            self._load_newer(latest)
            for snapshot in self._newer[self._applied :]:
                self._apply_delta(snapshot)
                self._applied += 1
        except NotFoundError:
            if not self.snapshots.has_successor(latest.id - 1):
                raise
            entries = self.live_files.live_entries(latest)
            self._files = {
                e.identity: _published(e, None) for e in entries if self._may_sort_later(e.file)
            }
            self._newer, self._applied, self._has_all = [latest], 1, False
        return self._files.values()

    def _load_newer(self, latest: Snapshot) -> None:
        """Load the snapshots that were published since the last call."""
        newer: list[Snapshot] = []
        one = latest
        while not self._newer or one != self._newer[-1]:
            highest = highest_sequence_number(one)
            is_below = highest is not None and highest < self.first_number
            if not is_below:
                newer.append(one)
            if is_below or one.id == 1:
                self._newer, self._applied, self._files, self._has_all = [], 0, {}, True
                break
            one = self.snapshots.load(one.id - 1)
        self._newer += reversed(newer)

    def _apply_delta(self, snapshot: Snapshot) -> None:
        entries = self.live_files.delta_entries(snapshot)
        deleted = [entry for entry in entries if entry.kind == DELETE]
        popped = [self._files.pop(entry.identity, None) for entry in deleted]
        inputs = [file for file in popped if file is not None and self._may_sort_later(file.file)]
        for entry in entries:
            if entry.kind == ADD and self._may_sort_later(entry.file):
                self._files[entry.identity] = _published(entry, _columns(snapshot, entry, inputs))

    def _may_sort_later(self, file: DataFileMeta) -> bool:
        return file.max_sequence_number >= self.first_number


def _is_ours(snapshot: Snapshot, kind: str) -> bool:
    return snapshot.commit_kind == kind and remembers(snapshot)


def _columns(
    snapshot: Snapshot, entry: ManifestEntry, inputs: Iterable[PublishedFile]
) -> frozenset[int] | None:
    """Return the columns of a file that a snapshot adds. inputs: the published files that the snapshot deletes."""
    if snapshot.commit_kind == COMMIT_KIND_APPEND:
        return columns_of(snapshot)
    if _is_ours(snapshot, COMMIT_KIND_COMPACT):
        return union(each.values.columns for each in inputs if each.bucket == entry.bucket_id)
    return None


def _published(entry: ManifestEntry, columns: frozenset[int] | None) -> PublishedFile:
    values = Values(columns, entry.file.delete_row_count != 0)
    return PublishedFile(entry.bucket_id, entry.file, values)
