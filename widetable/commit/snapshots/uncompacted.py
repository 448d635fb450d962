"""The backlog of compactions, carried from snapshot to snapshot: a commit knows it without reading older snapshots.

    widetable.uncompacted = "3 1764400000000"     3 commits of records since a compaction, the first of that time

It is recorded in `write-only` tables whose changelog is made by compactions, and in tables with postponed buckets.
Pure; an unreadable value counts as none.

    5 COMPACT   6 APPEND (t=60): "1 60"   7 APPEND without rows: "1 60"   8 APPEND: "2 60"   9 COMPACT: none

Snapshots of other clients do not carry the value. Those after our newest snapshot are counted by kind:

    5 ours: "3 60"   6 another's APPEND   7 our APPEND: "5 60"   8 another's COMPACT   9 our APPEND (t=90): "1 90"
"""

from __future__ import annotations

from typing import Final, NamedTuple

from widetable.commit.snapshots.committed import UNCOMPACTED, Load, before, remembers
from widetable.format.snapshot import COMMIT_KIND_COMPACT, Snapshot
from widetable.schema import options as opt
from widetable.schema.options import TableOptions
from widetable.storage.paths import POSTPONED

# The changelog producers whose changelogs are made by compactions, which move level-0 files up.
MADE_BY_COMPACTION: Final = ("lookup", "full-compaction")


class Uncompacted(NamedTuple):
    """A backlog. commits: number of commits with records. began_millis: time of the first one, epoch."""

    commits: int
    began_millis: int


def needs_a_maintainer(options: TableOptions) -> bool:
    """Return whether the rows or the changelog wait for another process than the writers."""
    if options.get(opt.BUCKET) == POSTPONED:
        return True
    made = options.get(opt.CHANGELOG_PRODUCER) in MADE_BY_COMPACTION
    return made and options.get(opt.WRITE_ONLY)


def uncompacted(snapshot: Snapshot) -> Uncompacted | None:
    """Return the backlog that a snapshot records; None without one."""
    words = snapshot.properties.get(UNCOMPACTED, "").split()
    if len(words) != 2 or not all(word.isdecimal() for word in words):
        return None
    return Uncompacted(*map(int, words))


def uncompacted_behind(latest: Snapshot | None, load: Load) -> Uncompacted | None:
    """Return the backlog as of a snapshot of any client; None if none is known. load: returns a snapshot by id."""
    commits, began_millis = 0, 0
    snapshot = latest
    while snapshot is not None and not remembers(snapshot):
        if snapshot.commit_kind == COMMIT_KIND_COMPACT:
            return Uncompacted(commits, began_millis) if commits else None
        if snapshot.delta_record_count:
            commits, began_millis = commits + 1, snapshot.time_millis
        snapshot = before(snapshot, load)
    recorded = None if snapshot is None else uncompacted(snapshot)
    if recorded is None:
        return Uncompacted(commits, began_millis) if commits else None
    return Uncompacted(recorded.commits + commits, recorded.began_millis)


def next_uncompacted(
    waiting: Uncompacted | None, kind: str, time_millis: int, *, has_rows: bool
) -> dict[str, str]:
    """Return the property of the next snapshot. waiting: the backlog before. has_rows: whether the commit adds rows."""
    if kind == COMMIT_KIND_COMPACT:
        return {}
    if has_rows:
        commits, began_millis = (0, time_millis) if waiting is None else waiting
        waiting = Uncompacted(commits + 1, began_millis)
    return {} if waiting is None else {UNCOMPACTED: f"{waiting.commits} {waiting.began_millis}"}
