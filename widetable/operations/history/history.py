"""Lists and changes what a table keeps of its past: snapshots, tags, and the progress of consumers.

Raises InvalidError for names that break a rule or are taken and for a table that was dropped and created again,
NotFoundError for a missing snapshot, tag or table, StorageError.
"""

from __future__ import annotations

import contextlib

from widetable.arguments import flag, whole_number
from widetable.errors import NotFoundError
from widetable.format.snapshot import Snapshot, Tag
from widetable.operations.handle.open_table import OpenTable
from widetable.operations.handle.snapshot_choice import load_snapshot
from widetable.runtime.machine_clock import now_millis
from widetable.schema.tag_options import TAG_DEFAULT_TIME_RETAINED


def snapshots(table: OpenTable) -> list[Snapshot]:
    """List all snapshots that are kept.

    It reads the file of each: as many requests as there are snapshots.

    Returns
    -------
    list of Snapshot
        The snapshots, the newest last; empty for a table without snapshots.

    Raises
    ------
    NotFoundError
        The table was dropped.
    InvalidError
        The table was dropped and made again.
    """
    store = table._committer.snapshots
    listed = []
    with table._same_table():
        for id in store.ids():
            with contextlib.suppress(NotFoundError):  # expired since the directory was listed
                listed.append(store.load(id))
    return listed


def create_tag(
    table: OpenTable,
    name: str,
    snapshot_id: int | None = None,
    time_retained_millis: int | None = None,
) -> None:
    """Keep a snapshot under a name.

    It can be read for as long as the tag exists. Creating a tag again with the same snapshot and time
    changes nothing.

    Parameters
    ----------
    name : str
        The name of the tag; not digits alone, which would be the id of a snapshot.
    snapshot_id : int, default None
        The snapshot. None: the newest.
    time_retained_millis : int, default None
        Milliseconds after which expiry deletes the tag. None: what the option `tag.default-time-retained`
        says, and for ever without that.

    Raises
    ------
    InvalidError
        No tag can have that name, or a tag has it with another snapshot or time.
    NotFoundError
        There is no such snapshot, or it expires just now.

    Examples
    --------
    >>> users.create_tag("first")
    >>> users.delete("true").rows
    2
    >>> users.scan(tag="first").to_arrow().num_rows
    2
    """
    store = table._committer.snapshots
    with table._same_table():
        snapshot = store.latest() if snapshot_id is None else load_snapshot(store, snapshot_id)
        # raises for a table without a snapshot
        snapshot = snapshot or load_snapshot(store, 1)
    if time_retained_millis is None:
        time_retained_millis = table._committer.schemas.latest().typed_options.get(
            TAG_DEFAULT_TIME_RETAINED
        )
    else:
        time_retained_millis = whole_number(time_retained_millis, "time_retained_millis", least=1)
    table._tags.create(name, Tag.of(snapshot, time_retained_millis, now_millis()))


def delete_tag(table: OpenTable, name: str, *, dry_run: bool = False) -> None:
    """Delete a tag.

    Files that only this tag kept are orphans from then on (`remove_orphan_files`).

    Parameters
    ----------
    name : str
        The name of the tag.
    dry_run : bool, default False
        Only look whether the tag is there.

    Raises
    ------
    NotFoundError
        There is no such tag.
    InvalidError
        No tag can have that name.
    """
    table._check_alive()
    table._tags.delete(name, dry_run=flag(dry_run, "dry_run"))


def tags(table: OpenTable) -> dict[str, Snapshot]:
    """List the tags.

    A tag whose file is damaged is left out, with a warning.

    Returns
    -------
    dict of str to Snapshot
        Name to snapshot, sorted by name; empty without tags.

    Raises
    ------
    NotFoundError
        The table was dropped.
    InvalidError
        The table was dropped and made again.
    """
    with table._same_table():
        return table._tags.all()


def consumers(table: OpenTable) -> dict[str, int]:
    """List the consumers.

    A consumer whose file is damaged is left out, with a warning.

    Returns
    -------
    dict of str to int
        Name to the first snapshot that the consumer has not read. This snapshot and later ones do not expire.

    Raises
    ------
    NotFoundError
        The table was dropped.
    InvalidError
        The table was dropped and made again.
    """
    with table._same_table():
        return table._consumers.all()


def delete_consumer(table: OpenTable, consumer_id: str, *, dry_run: bool = False) -> bool:
    """Forget a consumer, so that it no longer keeps snapshots.

    Parameters
    ----------
    consumer_id : str
        The name of the consumer.
    dry_run : bool, default False
        Only look whether the consumer is there.

    Returns
    -------
    bool
        Whether there was such a consumer.

    Raises
    ------
    InvalidError
        No consumer can have that name.
    NotFoundError
        The table was dropped.
    """
    table._check_alive()
    return table._consumers.delete(consumer_id, dry_run=flag(dry_run, "dry_run"))
