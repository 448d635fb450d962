"""Going on after the newest snapshots of a table were lost, accepted by whoever knows that nobody can bring them back
(docs/decisions/0016).

    snapshots 5, 6, 7 are there, LATEST says 9     ─►     LATEST says 7, and the next commit is 8

What is accepted is that 8 and 9 come again with other rows. So nobody may know the old ones: not
a tag, which names files of 9, and not a consumer, which would take the new 8 for read. Data files
of 8 and 9 are orphans from then on.

Until then neither reading nor writing goes by what is left. Raises InvalidError while a tag keeps one of the lost
snapshots or a consumer has read one, DamagedError when no snapshot is there to go on from, StorageError.
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
    """Go on from the newest snapshot that is there, in a table whose newest ones are lost.

    What they held is gone, as far as nobody wrote it again. Reading and writing such a table raise DamagedError
    until then. Where nothing is lost, nothing is done.

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
    # Durably, unlike the hint of a commit: this one is the decision itself. Killed before it, nothing has changed.
    file_io.replace(paths.latest_hint, str(newest).encode())
    warn(
        _log,
        WarningCode.SNAPSHOTS_LOST,
        "%s: snapshots %d to %d are lost; the table goes on from snapshot %d",
        paths.root,
        newest + 1,
        hint,
        newest,
    )
    return newest


def _check_nobody_has_them(file_io: FileIO, paths: TablePaths, newest: int) -> None:
    """A tag would keep files that nobody else knows; a consumer would pass over what comes under numbers that it has
    read.
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
            "Delete the consumers (Table.delete_consumer), and let what they feed start anew.",
        ),
    )
    for who, names, action in cases:
        if names:
            raise InvalidError(
                f"{who} of {paths.root}",
                found=f"snapshots after {newest}, which are lost",
                expected="nobody who has read or keeps a lost snapshot",
                action=action,
            )
