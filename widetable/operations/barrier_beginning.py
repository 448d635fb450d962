"""Puts a table that has rows under barriers, once its schema says so (docs/decisions/0064).

    alter      schema 4 with the interval   ─►   snapshot 18, without files: the barriers begin here

    a commit of before, 17, that was about to be published when schema 4 came    is in the table as it was
    a commit behind 18 looks at the schema after 18 was there: it finds 4         without a writer it is refused

Killed in between, the table is under barriers all the same: the first commit of a writer says that they begin. Only
where no snapshot of ours is kept nobody can tell, and the option is to be set once more. Raises what a commit raises.
"""

from __future__ import annotations

from typing import Final

from widetable.barrier_options import BARRIER_INTERVAL
from widetable.commit.barrier_step import Act, BarrierStep
from widetable.commit.commit_identity import Identity
from widetable.operations.open_table import OpenTable

# Who commits that.
BEGINNER: Final = "widetable-barriers"


def begin_barriers(table: OpenTable) -> None:
    """Commit the snapshot, where the table needs one: not without snapshots, nor where it was made under barriers, or
    says them already.
    """
    schemas = table._committer.schemas
    first = schemas.load(schemas.first_id())
    if first.typed_options.get(BARRIER_INTERVAL) is None:
        step = BarrierStep(Act.BEGIN, BEGINNER, "")
        table._committer.append([], Identity.unnamed(BEGINNER), barrier=step)
