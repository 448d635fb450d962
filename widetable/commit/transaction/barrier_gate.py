"""What a commit must say in a table under barriers (option `widetable.barrier-interval`); nothing in any other.

In: the commit, the snapshot that it comes behind. Out: properties of its own snapshot. Raises InvalidError for an
append without a writer, and for one with a writer where there are no barriers; UnsupportedError for an overwrite that
is no revision (`barrier_table`); ConflictError for a compaction that is not cut at a barrier; and what the step raises
(`barrier_step`). The schema is the newest one, also for commits that began before the table was put under barriers.
"""

from __future__ import annotations

from widetable.commit.barriers.barrier_state import BARRIERS
from widetable.commit.barriers.barrier_step import Act, properties_after
from widetable.commit.barriers.barrier_table import check_rows_stay, interval_of, no_writer
from widetable.commit.barriers.level0_labels import Level0Labels
from widetable.commit.transaction.commit_request import CommitRequest
from widetable.commit.transaction.table_head import HeadState
from widetable.format.snapshot import COMMIT_KIND_COMPACT, COMMIT_KIND_OVERWRITE
from widetable.schema.barrier_options import BARRIER_INTERVAL


def barrier_properties(
    asked: CommitRequest, head: HeadState, level0: Level0Labels
) -> dict[str, str] | None:
    """None when there is nothing to do. head: what it comes behind.

    Asked in each attempt anew: the label and the members depend on the snapshot that the commit
    comes behind. A revision is the only overwrite that passes; a compaction belongs to no writer,
    and only says what it moved.
    """
    schema, latest, path = head.schema, head.latest, level0.path
    interval = schema.typed_options.get(BARRIER_INTERVAL)
    if interval is None:
        if asked.barrier is not None:
            interval_of(schema, path)
        return {}
    act = None if asked.barrier is None else asked.barrier.act
    if asked.kind == COMMIT_KIND_OVERWRITE and act is not Act.REVISE:
        check_rows_stay(schema, path)
    if asked.kind == COMMIT_KIND_COMPACT and latest is not None:
        return {BARRIERS: level0.compacted(latest, interval, asked.deletes).to_json()}
    if asked.barrier is None:
        raise no_writer(path)
    if act is Act.BEGIN:
        begun = level0.begun(latest, interval)
        return None if begun is None else {BARRIERS: begun.to_json()}
    state = level0.state(latest, interval)
    return properties_after(
        state, asked.barrier, has_files=any(e.file.level == 0 for e in asked.adds)
    )
