"""The index manifest of a commit: that of the snapshot before, or one with new hashes and deletion vectors.

In: the newest snapshot, the request, and the commit's delta. Out: the name of an index manifest, None if there is
nothing to index. A commit that restores the rows of another snapshot begins with the index of that snapshot and copies
all of its files, as the originals expire with their snapshot.

    the commit                               its index manifest
    only adds files                          that of the snapshot before: nothing is read
    replaces files without vectors           that of the snapshot before
    has new hashes                           their buckets' indexes rewritten, the others unchanged
    marks files, or deletes marked files     their buckets' vectors rewritten, the others unchanged
    restores rows                            the target's, copied, less vectors of files that do not stay

Raises ConflictError, UnsupportedError for indexes of an unknown kind, and the errors of reading and writing files.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from widetable.commit.snapshots import deletion_vectors
from widetable.commit.snapshots.hash_indexes import HashIndexes
from widetable.commit.snapshots.live_files import LiveFiles
from widetable.commit.snapshots.manifest_writer import ManifestWriter
from widetable.commit.transaction.commit_request import CommitRequest, FileChanges, Restore
from widetable.errors import NotFoundError, UnsupportedError
from widetable.format.index_manifest import DELETION_VECTORS, HASH, IndexEntry
from widetable.format.manifest_entry import ADD, DELETE, ManifestEntry
from widetable.format.snapshot import Snapshot

_KINDS: Final = (HASH, DELETION_VECTORS)


class IndexFiles:
    """Makes the index manifests of one table; threads may share it."""

    def __init__(self, live_files: LiveFiles) -> None:
        self._live_files = live_files
        self.hashes: Final = HashIndexes(live_files.file_io, live_files.paths)

    def next_manifest(
        self,
        latest: Snapshot | None,
        request: CommitRequest,
        changes: FileChanges,
        delta: Sequence[ManifestEntry],
        writer: ManifestWriter,
    ) -> str | None:
        """Return the name of the commit's index manifest; the writer lists its files. Files of the last attempt are
        deleted.

        Called again in each attempt: another commit may have changed the index. Kinds are checked only if an index
        manifest must be written, so other commits to a table with unknown kinds succeed.
        """
        writer.discard([name for name in writer.written if name.startswith("index-")])
        has_new = any(message.new_hashes for message in changes.messages)
        marked, deleted = deletion_vectors.marked(changes.messages), _gone(delta)
        source, staying = latest, None
        if isinstance(request, Restore) and isinstance(request.target, Snapshot):
            source, staying = request.target, {identity[3] for identity in request.keeps}
        if staying is None and not (has_new or marked or deleted):
            return None if latest is None else latest.index_manifest
        before = self._live_files.index(source)
        after = list(before)
        if has_new:
            after = self.hashes.next_entries(after, changes.messages, writer)
        vectors = {vector.data_file for entry in after for vector in entry.vectors}
        gone = vectors & deleted if staying is None else vectors - staying
        if marked or gone:
            after = deletion_vectors.next_entries(after, gone, marked, writer)
        if tuple(after) == before and source is latest:
            return None if latest is None else latest.index_manifest
        self._check_kinds(after)
        if staying is not None:
            copies = (self._copied(each, writer) if each in before else each for each in after)
            after = [each for each in copies if each is not None]
        return writer.index_manifest(after) if after else None

    def _copied(self, entry: IndexEntry, writer: ManifestWriter) -> IndexEntry | None:
        """Copy an index file; None for a missing one of hashes, which the next writer rebuilds (decision 0032)."""
        try:
            data = writer.file_io.read(writer.paths.index(entry.file_name))
        except NotFoundError:
            if entry.kind != HASH:
                raise
            return None
        name, _ = writer.index_file(data)
        return entry._replace(file_name=name)

    def _check_kinds(self, entries: Sequence[IndexEntry]) -> None:
        other = next((entry.kind for entry in entries if entry.kind not in _KINDS), None)
        if other is not None:
            raise UnsupportedError(
                self._live_files.paths.root,
                found=f"an index of the kind {other!r}",
                expected=f"indexes of the kinds {', '.join(_KINDS)}",
                action="Write the table with another client.",
            )


def _gone(delta: Sequence[ManifestEntry]) -> frozenset[str]:
    """Return the data files that the commit deletes; a file that changes its level stays."""
    added = {entry.file.file_name for entry in delta if entry.kind == ADD}
    return frozenset(
        entry.file.file_name
        for entry in delta
        if entry.kind == DELETE and entry.file.file_name not in added
    )
