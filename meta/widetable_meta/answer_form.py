"""The JSON answers of the service, besides the values of the engine (`widetable.Job`, `widetable.TableProgress`, ..),
which have the fields of their classes. Barriers and times are epoch milliseconds.

In: values of calls. Out: their schema in /openapi.json, which shows the docstrings of this module as descriptions. The
client reads answers with the same classes. A new field does not break older clients; a removed or changed field does.
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

# pydantic looks up the types of the engine's fields in `widetable`, which has a name only after its first use.
NESTED: Final = (JobDelay, JobSink, RevisedTable, TableDelay, WaitedWriter)


class ErrorAnswer(BaseModel):
    """An error. kind: one of the six kinds. message: the whole error as one text. code: stable (docs/errors.md)."""

    kind: str
    message: str
    subject: str
    found: str
    expected: str
    action: str
    code: str


class TopologyAnswer(BaseModel):
    """Jobs and tables. layers: the tables by layer, those first that no job derives from others. common_barrier: the
    newest barrier that all tables have in common; None: there is none.
    """

    jobs: list[Job]
    tables: list[TableProgress]
    layers: list[list[str]]
    common_barrier: int | None


class LineageAnswer(BaseModel):
    """The tables before and after one table."""

    table: str
    upstream: list[str]
    downstream: list[str]


class PinnedTable(BaseModel):
    """A table of a session. snapshot_id: the snapshot with exactly the rows of the session; None: no snapshot has them,
    and widetable reads them by the barrier. lease: the name of the read lease that keeps the rows; None without a
    snapshot. A client that finds the lease among the files of the table reads the same warehouse.
    """

    snapshot_id: int | None
    lease: str | None


class SessionAnswer(BaseModel):
    """A session. barrier, revision: None for ReadUncommitted. expires: when the session is closed unless it is renewed
    before. warehouse: its path on the host of the service.
    """

    id: str
    warehouse: str
    consistency: str
    barrier: int | None
    revision: int | None
    tables: dict[str, PinnedTable]
    expires: int


class LeftAnswer(BaseModel):
    """The end of a job or writer. left: its name. tables: those that it left, or would leave."""

    left: str
    tables: list[str]
    dry_run: bool


class HealthAnswer(BaseModel):
    """The state of the instance that answers. url: its own URL."""

    status: str
    version: str
    url: str
    is_leader: bool
    sessions: int


class LeaderAnswer(BaseModel):
    """The leader. url: its URL; None: no instance leads. is_here: whether the instance that answers leads."""

    url: str | None
    is_here: bool
