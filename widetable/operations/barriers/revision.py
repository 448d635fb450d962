"""One table goes back to a barrier: its rows as of then come back, by a commit that goes forward.

    now   a b c d        as of T   a x          the OVERWRITE deletes all, adds a' and x' (the bytes of a and x)

All that comes back gets new names, so that each file lives in one run of snapshots; its label is T. With the producer
`lookup` it is what lies above level 0 at the changelog position of T, so that the changes after T begin behind it.
Writers are where they were at T; a job that came to the table later begins anew. Source: rule R20 of
docs/consistency.md. Raises NotFoundError for a barrier that the table does not have or that has expired,
UnsupportedError for files that cannot come back, InvalidError for rows that the table had before it was put under
barriers, ConflictError where other commits were faster again and again.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from widetable.commit.barriers.barrier_state import DERIVED
from widetable.commit.barriers.barrier_step import Act, BarrierStep
from widetable.commit.transaction.commit_identity import Identity
from widetable.errors import ConflictError, InvalidError
from widetable.format.manifest_entry import ManifestEntry
from widetable.operations.handle.barrier_scan import barrier_changes, barrier_views, newest_revision
from widetable.operations.handle.compaction_threads import wait_for_compactions
from widetable.operations.handle.open_table import OpenTable
from widetable.operations.handle.supported import check_writable
from widetable.operations.health.restored_files import check_restorable, linked
from widetable.read.barrier_changes import BY_COMPACTION
from widetable.read.barrier_view import BarrierViews
from widetable.schema import options as opt
from widetable.write.discard import discard

# Who commits; its identifier is the revision.
REVISER: Final = "widetable-revise"


class LostCommits(NamedTuple):
    """records: that they brought.
    Of the files, not merged. commits: those with records.
    """

    commits: int
    records: int


def barrier_to_go_to(table: OpenTable, barrier: int, revision: int | None) -> int:
    """0 where the table is to be cleared, as it had nothing as of the barrier. revision: that counts until then.

    Raises what makes it impossible now, NotFoundError for a barrier whose files have expired,
    before anything is noted: a revision that is noted must be carried out (0046).
    """
    views, changes = barrier_views(table, revision), barrier_changes(table, revision)
    frontier = views.newest().frontier
    _check_rows_of_before(table, views, barrier)
    if not barrier or not frontier:
        return 0
    # All snapshots are kept, and none is exact up to there: the jobs that make the table began later.
    if barrier <= frontier and changes.has_all and not views.exact.at_most(barrier):
        return 0
    views.check(barrier)
    _files_as_of(table, barrier, revision)
    return barrier


def _check_rows_of_before(table: OpenTable, views: BarrierViews, barrier: int) -> None:
    """Refuse to go back to before a table was put under barriers: the rows that it had then would go, and no job makes
    them again.
    """
    state = views.newest()
    if state.since and (not state.first or barrier < state.first):
        raise InvalidError(
            f"revision of {table.path}",
            found="rows of before the table was put under barriers, which no job makes again",
            expected=f"barrier {state.first} or a later one, which have them"
            if state.first
            else "a table that has come to a barrier since",
            action="Go back to such a barrier.",
        )


def lost_commits(table: OpenTable, barrier: int, revision: int | None) -> LostCommits:
    """Those of later barriers, as far as they are kept."""
    views = barrier_views(table, revision)
    later = [id for id in views.ids if (views.label(id) or 0) > barrier]
    added = [table._committer.snapshots.load(id).delta_record_count or 0 for id in later]
    return LostCommits(sum(1 for records in added if records), sum(added))


def came_to(table: OpenTable, barrier: int, revision: int | None) -> frozenset[str]:
    """The jobs that had come to the barrier.
    By the snapshot that completed it; none for 0. They go on behind it, the others begin anew.
    """
    if not barrier:
        return frozenset()
    views = barrier_views(table, revision)
    members = views.state(views.view(barrier).end.id).members
    return frozenset(name for name, member in members.items() if member.kind == DERIVED)


def go_back(table: OpenTable, number: int, barrier: int, revision: int | None) -> int | None:
    """In one commit, its snapshot; None where it has done so. number: of the revision. revision: as above.

    May be called again after any end: the snapshots say whether it is in, and the commit's
    identity (`REVISER`, number) says it once more, for two that do it at once. Readers see
    nothing of it until the revision is active.
    """
    if newest_revision(table) >= number:
        return None
    state = table._state()
    check_writable(state.schema)
    wait_for_compactions(table.path)
    files = _files_as_of(table, barrier, revision) if barrier else []
    is_rescaled = table._committer.schemas.is_rescaled()
    for entry in files:
        check_restorable(state, entry, is_rescaled=is_rescaled)
    asked = BarrierStep(
        Act.REVISE,
        REVISER,
        "",
        barrier=barrier or None,
        revision=number,
        came=came_to(table, barrier, revision),
    )
    messages = linked(state, files)
    by = Identity.of(REVISER, number)
    try:
        result = table._committer.restore(messages, (), by=by, barrier=asked)
    except (ConflictError, InvalidError):  # certainly not in; of any other error that is not known
        discard(state, messages)
        raise
    if not result.committed:
        discard(state, messages)
    return result.snapshot_id


def _files_as_of(table: OpenTable, barrier: int, revision: int | None) -> list[ManifestEntry]:
    """The files whose rows come back. Those that wait at level 0 for their changelog are left out
    with the producer `lookup`: at the changelog position of T all that belongs to T has moved up.
    """
    live_files = table._committer.live_files
    if table.schema.typed_options.get(opt.CHANGELOG_PRODUCER) == BY_COMPACTION:
        at = barrier_changes(table, revision).position(barrier)
        live = live_files.live_entries(table._committer.snapshots.load(at))
        return [entry for entry in live if entry.file.level > 0]
    view = barrier_views(table, revision).view(barrier)
    base = [] if view.base is None else live_files.live_entries(view.base)
    return [*(entry for entry in base if entry.identity not in view.hidden), *view.extras]
