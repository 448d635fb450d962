"""The barrier properties of a commit to a table under barriers (option `widetable.barrier-interval`); else none.

In: the commit, and the snapshot that it follows. Out: properties of its own snapshot. Raises InvalidError for an append
without a writer, and for one with a writer to a table without barriers; UnsupportedError for an overwrite that is no
revision; ConflictError for a compaction that is not cut at a barrier; and the errors of
`barrier_step`. The schema is the newest one, also for commits that began before the table was put under barriers.
"""

from __future__ import annotations

from widetable.acceptance.acceptance import Use, accept
from widetable.commit.barriers.barrier_state import BARRIERS
from widetable.commit.barriers.barrier_step import (
    Act,
    BarrierStep,
    properties_after,
    unchanged_properties,
)
from widetable.commit.barriers.barrier_table import interval_of
from widetable.commit.barriers.level0_labels import Level0Labels
from widetable.commit.transaction.commit_request import (
    Append,
    CommitRequest,
    Compact,
    FileChanges,
    Restore,
)
from widetable.commit.transaction.table_head import HeadState
from widetable.schema.barrier_options import BARRIER_INTERVAL


def barrier_properties(
    request: CommitRequest, changes: FileChanges, head: HeadState, level0: Level0Labels
) -> dict[str, str] | None:
    """Return the barrier properties of a commit after `head`; None for a no-op.

    Called again in each attempt: the label and the members depend on the snapshot that the commit follows. A revision
    is the only overwrite that is allowed; a compaction belongs to no writer, and only records the labels that it moved.
    """
    schema, latest, path = head.schema, head.latest, level0.path
    interval, step = schema.typed_options.get(BARRIER_INTERVAL), _step(request)
    if interval is None:
        if step is not None:
            interval_of(schema, path)
        return {}
    if isinstance(request, Compact):
        if latest is None:
            return {}
        return {BARRIERS: level0.compacted(latest, interval, changes.deletes).to_json()}
    if step is None:
        use = Use.TAKE_UNNAMED_ROWS if isinstance(request, Append) else Use.REPLACE
        accept(schema, use, path=path)
    assert step is not None, "rows without a writer are refused"
    if step.act is Act.BEGIN:
        begun = level0.begun(latest, interval)
        return None if begun is None else {BARRIERS: begun.to_json()}
    has_files = any(entry.file.level == 0 for entry in changes.adds)
    state = level0.state(latest, interval)
    after = properties_after(state, step, has_files=has_files)
    if after is None and request.header.says_something:
        return unchanged_properties(state, step)
    return after


def _step(request: CommitRequest) -> BarrierStep | None:
    match request:
        case Append(barrier=step) | Restore(target=BarrierStep() as step):
            return step
    return None
