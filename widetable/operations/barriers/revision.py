"""Take one table back to a barrier: a new commit restores its rows as of the barrier.

    now   a b c d        as of T   a x          the OVERWRITE deletes all, adds a' and x' (the bytes of a and x)

Restored files get new names, so that each file is live in one contiguous range of snapshots; their label is T. With the
producer `lookup` the restored files are those above level 0 at the changelog position of T, so that the changes after T
begin after them. Writers return to their progress at T; a job that joined the table later starts from the beginning.
Source: rule R20 of docs/consistency.md. Raises NotFoundError for a barrier that the table does not have or that has
expired, UnsupportedError for files that cannot be restored, InvalidError for rows that the table had before it was put
under barriers, ConflictError if other commits were faster several times.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from widetable.acceptance.acceptance import Use, accept
from widetable.commit.barriers.barrier_state import DERIVED
from widetable.commit.barriers.barrier_step import Act, BarrierStep
from widetable.commit.transaction.commit_identity import Identity
from widetable.errors import ConflictError, InvalidError
from widetable.format.manifest_entry import ManifestEntry
from widetable.operations.handle.barrier_scan import barrier_changes, barrier_views, newest_revision
from widetable.operations.handle.compaction_threads import wait_for_compactions
from widetable.operations.handle.open_table import OpenTable
from widetable.operations.health.restored_files import check_restorable, linked
from widetable.read.barrier_changes import BY_COMPACTION
from widetable.read.barrier_view import BarrierViews
from widetable.schema import options as opt
from widetable.write.discard import discard

# The commit user of revisions; the commit identifier is the revision.
REVISER: Final = "widetable-revise"


class LostCommits(NamedTuple):
    """Counts commits with records, and their records: rows of their files, not merged."""

    commits: int
    records: int


def restorable_barrier(table: OpenTable, barrier: int, revision: int | None) -> int:
    """Return the barrier to which the table goes back; 0 clears it, because it had no rows as of the barrier.

    revision: the one that is valid until then. Raises what makes the return impossible, such as NotFoundError for a
    barrier whose files have expired, before the revision is noted: a noted revision must be carried out (0046).
    """
    views, changes = barrier_views(table, revision), barrier_changes(table, revision)
    frontier = views.newest().frontier
    _check_rows_of_before(table, views, barrier)
    if not barrier or not frontier:
        return 0
    # All snapshots are kept, and none is exact up to there, so the jobs that write the table began later.
    if barrier <= frontier and changes.has_all and not views.exact.at_most(barrier):
        return 0
    views.check(barrier)
    _files_as_of(table, barrier, revision)
    return barrier


def _check_rows_of_before(table: OpenTable, views: BarrierViews, barrier: int) -> None:
    """Raise InvalidError for a barrier from before the table was put under barriers: its rows of that time would be
    lost, because no job writes them again.
    """
    state = views.newest()
    if state.since and (not state.first or barrier < state.first):
        raise InvalidError(
            f"revision of {table.path}",
            found="rows from before the table was put under barriers, which no job writes again",
            expected=f"barrier {state.first} or a later one, which have these rows"
            if state.first
            else "a table that has completed a barrier since",
            action="Go back to such a barrier.",
        )


def lost_commits(table: OpenTable, barrier: int, revision: int | None) -> LostCommits:
    """Count the commits of later barriers whose snapshots are kept."""
    views = barrier_views(table, revision)
    later = [id for id in views.ids if (views.label(id) or 0) > barrier]
    added = [table._committer.snapshots.load(id).delta_record_count or 0 for id in later]
    return LostCommits(sum(1 for records in added if records), sum(added))


def jobs_at(table: OpenTable, barrier: int, revision: int | None) -> frozenset[str]:
    """Return the derived jobs that had reached the barrier, by the snapshot that completed it; none for 0.

    These jobs continue after the barrier, the others start from the beginning.
    """
    if not barrier:
        return frozenset()
    views = barrier_views(table, revision)
    members = views.state(views.view(barrier).end.id).members
    return frozenset(name for name, member in members.items() if member.kind == DERIVED)


def go_back(table: OpenTable, number: int, barrier: int, revision: int | None) -> int | None:
    """Go back in one commit, and return its snapshot; None if the table has done so already.

    number: of the revision. revision: the one that is valid until then. After any failure the call may be repeated: the
    snapshots show whether the commit happened, and the commit's identity (`REVISER`, number) prevents two at a time.
    Readers do not see it until the revision is active.
    """
    if newest_revision(table) >= number:
        return None
    state = table._state()
    accept(state.schema, Use.MAINTAIN)
    wait_for_compactions(table.path)
    files = _files_as_of(table, barrier, revision) if barrier else []
    is_rescaled = table._committer.schemas.is_rescaled()
    for entry in files:
        check_restorable(state, entry, is_rescaled=is_rescaled)
    step = BarrierStep(
        Act.REVISE,
        REVISER,
        "",
        barrier=barrier or None,
        revision=number,
        came=jobs_at(table, barrier, revision),
    )
    messages = linked(state, files)
    by = Identity.of(REVISER, number)
    try:
        result = table._committer.restore(messages, (), step, by)
    except (
        ConflictError,
        InvalidError,
    ):  # the commit certainly did not happen; other errors leave it open
        discard(state, messages)
        raise
    if not result.committed:
        discard(state, messages)
    return result.snapshot_id


def _files_as_of(table: OpenTable, barrier: int, revision: int | None) -> list[ManifestEntry]:
    """Return the files to restore. With the producer `lookup`, files that wait at level 0 for their changelog are left
    out: at the changelog position of T all records of T have moved up.
    """
    live_files = table._committer.live_files
    if table.schema.typed_options.get(opt.CHANGELOG_PRODUCER) == BY_COMPACTION:
        at = barrier_changes(table, revision).position(barrier)
        live = live_files.live_entries(table._committer.snapshots.load(at))
        return [entry for entry in live if entry.file.level > 0]
    view = barrier_views(table, revision).view(barrier)
    base = [] if view.base is None else live_files.live_entries(view.base)
    return [*(entry for entry in base if entry.identity not in view.hidden), *view.extras]
