"""Lets a table continue after its newest snapshots were lost, when a user accepts that they cannot be restored
(docs/decisions/0016).

    snapshots 5, 6, 7 exist, LATEST says 9         ─►     LATEST says 7, and the next commit is 8

The user accepts that the ids 8 and 9 are used again with other rows. So nothing may refer to the old
ones: neither a tag, which names files of 9, nor a consumer, which would take the new 8 as read. Data
files of 8 and 9 are orphans from then on.

Until then the remaining snapshots are neither read nor written. Raises InvalidError while a tag keeps one of the lost
snapshots or a consumer has read one, DamagedError when there is no snapshot to continue from, StorageError.
"""

from __future__ import annotations

import logging

from widetable.commit.holds.tag_store import TagStore
from widetable.commit.notes.consumer_store import ConsumerStore
from widetable.commit.snapshots.lost_snapshots import no_snapshot
from widetable.commit.snapshots.snapshot_store import SnapshotStore
from widetable.errors import InvalidError
from widetable.messages.warning_code import WarningCode, warn
from widetable.operations.handle.open_table import OpenTable
from widetable.storage.file_io import FileIO
from widetable.storage.paths import TablePaths

_log = logging.getLogger("widetable")


def accept_lost_snapshots(table: OpenTable) -> int:
    """Continue from the newest existing snapshot, in a table whose newest ones are lost.

    Their rows are lost unless they are written again. Reading and writing such a table raise DamagedError
    until then. If nothing is lost, nothing is done.

    Returns
    -------
    int
        The id of the snapshot from which the table goes on.

    Raises
    ------
    InvalidError
        A tag keeps one of the lost snapshots (its file is the snapshot, and can be put back), or a consumer
        has read one.
    DamagedError
        No snapshot is left.
    """
    table._check_alive()
    file_io, paths = table._file_io, table._paths
    store = SnapshotStore(file_io, paths)
    ids, hint = store.ids(), store.hinted_latest_id()
    if not ids:
        raise no_snapshot(paths, "no snapshot either to go on from")
    newest = ids[-1]
    if hint is None or hint <= newest:
        return newest
    _check_nobody_has_them(file_io, paths, newest)
    # Durable, unlike the hint of a commit: this one is the decision itself. After a kill before it nothing has changed.
    file_io.replace(paths.latest_hint, str(newest).encode())
    warn(
        _log,
        WarningCode.SNAPSHOTS_LOST,
        "%s: snapshots %d to %d are lost; the table continues from snapshot %d",
        paths.root,
        newest + 1,
        hint,
        newest,
    )
    return newest


def _check_nobody_has_them(file_io: FileIO, paths: TablePaths, newest: int) -> None:
    """Refuse lost snapshots that a tag or consumer refers to.

    A tag would keep files that nothing else names; a consumer would skip new snapshots with ids that it has read.
    """
    tags = TagStore(file_io, paths)
    consumers = ConsumerStore(file_io, paths).all()
    tagged = [name for name in tags.names() if tags.load(name).id > newest]
    ahead = [name for name, next_snapshot in consumers.items() if next_snapshot > newest + 1]
    cases = (
        (
            f"tags {', '.join(tagged)}",
            tagged,
            "A tag's file is its snapshot: copy the newest one to snapshot/snapshot-<id>, or delete the tags.",
        ),
        (
            f"consumers {', '.join(ahead)}",
            ahead,
            "Delete the consumers (Table.delete_consumer), and restart what they feed from the beginning.",
        ),
    )
    for who, names, action in cases:
        if names:
            raise InvalidError(
                f"{who} of {paths.root}",
                found=f"snapshots after {newest}, which are lost",
                expected="no tag or consumer that refers to a lost snapshot",
                action=action,
            )
