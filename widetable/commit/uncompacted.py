"""How long a table has not been compacted, carried from snapshot to snapshot: known to a commit without a look back.

    widetable.uncompacted = "3 1764400000000"     3 commits of records since a compaction, the first of that time

Noted in `write-only` tables whose changelog comes of compactions. Pure; a note that cannot be read counts for none.

    5 COMPACT   6 APPEND (t=60): "1 60"   7 APPEND without rows: "1 60"   8 APPEND: "2 60"   9 COMPACT: none

Behind a snapshot of another client, which carries no notes on, it begins anew: too few is said then, never too much.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from widetable import options as opt
from widetable.commit.committed import UNCOMPACTED
from widetable.format.snapshot import COMMIT_KIND_COMPACT, Snapshot
from widetable.options import TableOptions

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


def next_uncompacted(
    previous: Snapshot | None, kind: str, time_millis: int, *, has_rows: bool
) -> dict[str, str]:
    """The property of the snapshot that follows. has_rows: the commit brings some."""
    before = None if previous is None else uncompacted(previous)
    if kind == COMMIT_KIND_COMPACT:
        return {}
    if has_rows:
        commits, began_millis = (0, time_millis) if before is None else before
        before = Uncompacted(commits + 1, began_millis)
    return {} if before is None else {UNCOMPACTED: f"{before.commits} {before.began_millis}"}
