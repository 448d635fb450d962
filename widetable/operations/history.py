"""What a table keeps of its past: snapshots, those that tags keep, and what consumers have read.

Raises InvalidError for names that break a rule or are taken and for a table that was dropped and made again,
NotFoundError for what is not there, StorageError.
"""

from __future__ import annotations

import contextlib

from widetable.arguments import flag, whole_number
from widetable.errors import NotFoundError
from widetable.format.snapshot import Snapshot, Tag
from widetable.machine_clock import now_millis
from widetable.operations.open_table import OpenTable
from widetable.operations.snapshot_choice import load_snapshot
from widetable.tag_options import TAG_DEFAULT_TIME_RETAINED


def snapshots(table: OpenTable) -> list[Snapshot]:
    """All snapshots that are kept, newest last.
    Reads the file of each: as many requests as there are snapshots.
    """
    store = table._committer.snapshots
    found = []
    with table._of_one_life():
        for id in store.ids():
            with contextlib.suppress(NotFoundError):  # expired since the directory was listed
                found.append(store.load(id))
    return found


def create_tag(
    table: OpenTable,
    name: str,
    snapshot_id: int | None = None,
    time_retained_millis: int | None = None,
) -> None:
    """Keep a snapshot, the newest by default, under a name: it can be read for as long as the
    tag is there. time_retained_millis: after which expiry deletes the tag; by default
    `tag.default-time-retained`, and for ever without that. Made again with the same snapshot and
    time it is left as it is; with others that is an InvalidError. NotFoundError for a snapshot
    that is not there, or expires just now.
    """
    store = table._committer.snapshots
    with table._of_one_life():
        snapshot = store.latest() if snapshot_id is None else load_snapshot(store, snapshot_id)
        # A table without a snapshot: raises what says so.
        snapshot = snapshot or load_snapshot(store, 1)
    if time_retained_millis is None:
        time_retained_millis = table._committer.schemas.latest().typed_options.get(
            TAG_DEFAULT_TIME_RETAINED
        )
    else:
        time_retained_millis = whole_number(time_retained_millis, "time_retained_millis", least=1)
    table._tags.create(name, Tag.of(snapshot, time_retained_millis, now_millis()))


def delete_tag(table: OpenTable, name: str, *, dry_run: bool = False) -> None:
    """Let a tag go. Files that only it kept are orphans from then on (`remove_orphan_files`). dry_run: only look.
    Raises NotFoundError when it is not there.
    """
    table._check_alive()
    table._tags.delete(name, dry_run=flag(dry_run, "dry_run"))


def tags(table: OpenTable) -> dict[str, Snapshot]:
    """Name to snapshot of all tags, sorted by name. One whose file is damaged is left out, with a warning."""
    with table._of_one_life():
        return table._tags.all()


def consumers(table: OpenTable) -> dict[str, int]:
    """Consumer to the first snapshot that it has not read; this one and later ones do not expire. One whose file is
    damaged is left out, with a warning.
    """
    with table._of_one_life():
        return table._consumers.all()


def delete_consumer(table: OpenTable, consumer_id: str, *, dry_run: bool = False) -> bool:
    """Forget a consumer, so that it keeps no snapshot any more; whether there was one. dry_run: only look."""
    table._check_alive()
    return table._consumers.delete(consumer_id, dry_run=flag(dry_run, "dry_run"))
