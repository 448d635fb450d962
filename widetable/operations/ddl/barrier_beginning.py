"""Puts a table that has rows under barriers, once its schema says so (docs/decisions/0064).

    alter      schema 4 with the interval   ─►   snapshot 18, without files: the barriers begin here

    commit 17 was about to be published when schema 4 came           it belongs to the rows before the barriers
    a commit after 18 reads the schema after snapshot 18: it sees 4   it is refused without a writer

If the process is killed in between, the table is under barriers nevertheless, and the first commit of a writer records
that they begin. Only if no snapshot of ours is kept is this unknown; then the user sets the option again.
Raises what a commit raises.
"""

from __future__ import annotations

from typing import Final

from widetable.commit.barriers.barrier_step import Act, BarrierStep
from widetable.commit.transaction.commit_identity import Identity
from widetable.operations.handle.open_table import OpenTable
from widetable.schema.barrier_options import BARRIER_INTERVAL

# The commit user of the snapshot that begins the barriers.
BEGINNER: Final = "widetable-barriers"


def begin_barriers(table: OpenTable) -> None:
    """Commit the snapshot with which the barriers of a table begin.

    A table needs none that has no snapshots, that was created under barriers, or whose snapshots state them already.
    """
    schemas = table._committer.schemas
    first = schemas.load(schemas.first_id())
    if first.typed_options.get(BARRIER_INTERVAL) is None:
        step = BarrierStep(Act.BEGIN, BEGINNER, "")
        table._committer.append([], Identity.unnamed(BEGINNER), barrier=step)
