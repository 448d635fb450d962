"""How long a table has not been compacted, carried from snapshot to snapshot: known to a commit without a look back.

    widetable.uncompacted = "3 1764400000000"     3 commits of records since a compaction, the first of that time

Noted in `write-only` tables whose changelog comes of compactions. Pure; a note that cannot be read counts for none.

    5 COMPACT   6 APPEND (t=60): "1 60"   7 APPEND without rows: "1 60"   8 APPEND: "2 60"   9 COMPACT: none

Snapshots of other clients do not carry the note. Those behind our newest snapshot are counted by kind:

    5 ours: "3 60"   6 another's APPEND   7 our APPEND: "5 60"   8 another's COMPACT   9 our APPEND (t=90): "1 90"
"""

from __future__ import annotations

from typing import Final, NamedTuple

from widetable.commit.snapshots.committed import UNCOMPACTED, Load, before, remembers
from widetable.format.snapshot import COMMIT_KIND_COMPACT, Snapshot
from widetable.schema import options as opt
from widetable.schema.options import TableOptions

# Which changelogs come of compactions, and what moves their level-0 files up.
MADE_BY_COMPACTION: Final = ("lookup", "full-compaction")


class Uncompacted(NamedTuple):
    """commits: of records. began_millis: time of the first, epoch."""

    commits: int
    began_millis: int


def needs_a_maintainer(options: TableOptions) -> bool:
    """Whether the changelog waits for somebody else than the writers."""
    made = options.get(opt.CHANGELOG_PRODUCER) in MADE_BY_COMPACTION
    return made and options.get(opt.WRITE_ONLY)


def uncompacted(snapshot: Snapshot) -> Uncompacted | None:
    """As of a snapshot; None where nothing waits, or it does not say."""
    words = snapshot.properties.get(UNCOMPACTED, "").split()
    if len(words) != 2 or not all(word.isdecimal() for word in words):
        return None
    return Uncompacted(*map(int, words))


def uncompacted_behind(latest: Snapshot | None, load: Load) -> Uncompacted | None:
    """Count what waits as of a snapshot of any client; None if nothing is known to wait. load: a snapshot by its id."""
    commits, began_millis = 0, 0
    snapshot = latest
    while snapshot is not None and not remembers(snapshot):
        if snapshot.commit_kind == COMMIT_KIND_COMPACT:
            return Uncompacted(commits, began_millis) if commits else None
        if snapshot.delta_record_count:
            commits, began_millis = commits + 1, snapshot.time_millis
        snapshot = before(snapshot, load)
    known = None if snapshot is None else uncompacted(snapshot)
    if known is None:
        return Uncompacted(commits, began_millis) if commits else None
    return Uncompacted(known.commits + commits, known.began_millis)


def next_uncompacted(
    waiting: Uncompacted | None, kind: str, time_millis: int, *, has_rows: bool
) -> dict[str, str]:
    """Make the property of the next snapshot. waiting: as of the snapshot before it. has_rows: the commit adds rows."""
    if kind == COMMIT_KIND_COMPACT:
        return {}
    if has_rows:
        commits, began_millis = (0, time_millis) if waiting is None else waiting
        waiting = Uncompacted(commits + 1, began_millis)
    return {} if waiting is None else {UNCOMPACTED: f"{waiting.commits} {waiting.began_millis}"}
