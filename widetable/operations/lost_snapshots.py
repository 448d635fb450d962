"""Going on after the newest snapshots of a table were lost, accepted by whoever knows that nobody can bring them back
(docs/decisions/0016).

Until then neither reading nor writing goes by what is left. Raises InvalidError while a tag keeps one of the lost
snapshots, DamagedError when no snapshot is there to go on from, StorageError.
"""

from __future__ import annotations

import logging

from widetable.commit.lost_snapshots import no_snapshot
from widetable.commit.snapshot_store import SnapshotStore
from widetable.errors import InvalidError
from widetable.operations.tags import TagStore
from widetable.paths import TablePaths
from widetable.storage.file_io import FileIO

_log = logging.getLogger("widetable")


def accept_lost_snapshots(file_io: FileIO, paths: TablePaths) -> int:
    """Make the newest snapshot that is there the table's newest one; its id. Nothing when none is lost."""
    store = SnapshotStore(file_io, paths)
    ids, hint = store.ids(), store.hinted_latest_id()
    if not ids:
        raise no_snapshot(paths, "no snapshot either to go on from")
    newest = ids[-1]
    if hint is None or hint <= newest:
        return newest
    tags = TagStore(file_io, paths)
    kept = [name for name in tags.names() if tags.load(name).id > newest]
    if kept:
        raise InvalidError(
            f"tags {', '.join(kept)} of {paths.root}",
            found=f"snapshots after {newest}, which would be lost",
            expected="no tag of a lost snapshot",
            action="A tag's file is its snapshot: copy the newest one to snapshot/snapshot-<id>, or delete the tags.",
        )
    file_io.replace(paths.latest_hint, str(newest).encode())
    file_io.sync(paths.latest_hint)
    _log.warning(
        "%s: snapshots %d to %d are lost; the table goes on from snapshot %d",
        paths.root,
        newest + 1,
        hint,
        newest,
    )
    return newest
