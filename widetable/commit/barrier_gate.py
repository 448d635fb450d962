"""What a commit must say in a table under barriers (option `widetable.barrier-interval`); nothing in any other.

In: the commit, the snapshot that it comes behind. Out: properties of its own snapshot. Raises InvalidError for an
append without a writer, and for one with a writer where there are no barriers; UnsupportedError for an overwrite
(`barrier_table`); and what the step raises (`barrier_step`).
"""

from __future__ import annotations

from widetable.barrier_options import BARRIER_INTERVAL
from widetable.commit.barrier_state import BARRIERS, state_at
from widetable.commit.barrier_step import properties_after
from widetable.commit.barrier_table import check_rows_stay, interval_of, no_writer
from widetable.commit.commit_request import CommitRequest
from widetable.commit.committed import Load
from widetable.format.snapshot import COMMIT_KIND_COMPACT, COMMIT_KIND_OVERWRITE, Snapshot
from widetable.schema import TableSchema


def barrier_properties(
    asked: CommitRequest, latest: Snapshot | None, schema: TableSchema, load: Load, path: str
) -> dict[str, str] | None:
    """None when there is nothing to do. load: a snapshot by id. path: of the table, for messages."""
    interval = schema.typed_options.get(BARRIER_INTERVAL)
    if interval is None:
        if asked.barrier is not None:
            interval_of(schema, path)
        return {}
    if asked.kind == COMMIT_KIND_OVERWRITE:
        check_rows_stay(schema, path)
    state = state_at(latest, load, interval)
    if asked.kind == COMMIT_KIND_COMPACT:
        return {BARRIERS: state.to_json()}
    if asked.barrier is None:
        raise no_writer(path)
    return properties_after(state, asked.barrier)
