"""What the service answers as JSON, besides the values of the engine (`widetable.Job`, `widetable.TableProgress`, ..),
which have the fields that their classes have. Barriers and times are epoch milliseconds.

In: values of calls. Out: their schema in /openapi.json, where the docstrings here are
descriptions; the client reads answers by the same classes. A field that is added is no harm to
older clients, one that goes or changes is.
"""

from __future__ import annotations

from typing import Final

from pydantic import BaseModel

from widetable import (
    Job,
    JobDelay,
    JobSink,
    RevisedTable,
    TableDelay,
    TableProgress,
    WaitedWriter,
)

# pydantic finds what the engine's classes are made of in `widetable`, which holds a name once it was asked for.
NESTED: Final = (JobDelay, JobSink, RevisedTable, TableDelay, WaitedWriter)


class ErrorAnswer(BaseModel):
    """kind: one of the six kinds. message: all of it in one text."""

    kind: str
    message: str
    subject: str
    found: str
    expected: str
    action: str


class TopologyAnswer(BaseModel):
    """layers: tables that no job makes of others in front. common_barrier: of all tables; None without one."""

    jobs: list[Job]
    tables: list[TableProgress]
    layers: list[list[str]]
    common_barrier: int | None


class LineageAnswer(BaseModel):
    """Of one table."""

    table: str
    upstream: list[str]
    downstream: list[str]


class PinnedTable(BaseModel):
    """snapshot_id: by which any client reads the rows of the session; None where no snapshot has just these, then
    widetable reads them by the barrier. lease: the name of the read lease that holds them, None without a snapshot: who
    finds it among the table's files looks at the same warehouse.
    """

    snapshot_id: int | None
    lease: str | None


class SessionAnswer(BaseModel):
    """barrier, revision: None for ReadUncommitted. expires: when it is closed, unless it is renewed before. warehouse:
    where it lies for the service.
    """

    id: str
    warehouse: str
    consistency: str
    barrier: int | None
    revision: int | None
    tables: dict[str, PinnedTable]
    expires: int


class LeftAnswer(BaseModel):
    """left: the job or writer. tables: that it left, or would leave."""

    left: str
    tables: list[str]
    dry_run: bool


class HealthAnswer(BaseModel):
    """Of the instance that answers. url: its own."""

    status: str
    version: str
    url: str
    is_leader: bool
    sessions: int


class LeaderAnswer(BaseModel):
    """url: of who leads, None where nobody does. is_here: whether it is the instance that answers."""

    url: str | None
    is_here: bool
