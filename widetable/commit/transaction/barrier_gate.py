"""The barrier properties of a commit to a table under barriers (option `widetable.barrier-interval`); else none.

In: the commit, and the snapshot that it follows. Out: properties of its own snapshot. Raises InvalidError for an append
without a writer, and for one with a writer to a table without barriers; UnsupportedError for an overwrite that is no
revision; ConflictError for a compaction that is not cut at a barrier; and the errors of
`barrier_step`. The schema is the newest one, also for commits that began before the table was put under barriers.
"""

from __future__ import annotations

from widetable.acceptance.acceptance import Use, accept
from widetable.commit.barriers.barrier_state import BARRIERS
from widetable.commit.barriers.barrier_step import Act, properties_after
from widetable.commit.barriers.barrier_table import interval_of
from widetable.commit.barriers.level0_labels import Level0Labels
from widetable.commit.transaction.commit_request import CommitRequest
from widetable.commit.transaction.table_head import HeadState
from widetable.format.snapshot import COMMIT_KIND_COMPACT, COMMIT_KIND_OVERWRITE
from widetable.schema.barrier_options import BARRIER_INTERVAL


def barrier_properties(
    request: CommitRequest, head: HeadState, level0: Level0Labels
) -> dict[str, str] | None:
    """Return the barrier properties of a commit after `head`; None for a no-op.

    Called again in each attempt: the label and the members depend on the snapshot that the commit follows. A revision
    is the only overwrite that is allowed; a compaction belongs to no writer, and only records the labels that it moved.
    """
    schema, latest, path = head.schema, head.latest, level0.path
    interval = schema.typed_options.get(BARRIER_INTERVAL)
    if interval is None:
        if request.barrier is not None:
            interval_of(schema, path)
        return {}
    act = None if request.barrier is None else request.barrier.act
    if request.kind == COMMIT_KIND_OVERWRITE and act is not Act.REVISE:
        accept(schema, Use.REPLACE, path=path)
    if request.kind == COMMIT_KIND_COMPACT and latest is not None:
        return {BARRIERS: level0.compacted(latest, interval, request.deletes).to_json()}
    if request.barrier is None:
        accept(schema, Use.TAKE_UNNAMED_ROWS, path=path)
    assert request.barrier is not None, "rows without a writer are refused"
    if act is Act.BEGIN:
        begun = level0.begun(latest, interval)
        return None if begun is None else {BARRIERS: begun.to_json()}
    state = level0.state(latest, interval)
    return properties_after(
        state, request.barrier, has_files=any(e.file.level == 0 for e in request.adds)
    )
