"""One state of the protocol: the tables, what each process has on disk and in memory, and what may still go wrong."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from tests.model_checking.chain import Chain, Ids, Table

THERE, GONE, DEAD = range(3)  # what became of the leaver; gone, it may come back


class Prepared(NamedTuple):
    """A commit that has looked at its table and is not published; lost in a crash."""

    seen: Chain
    label: int
    completes: bool


class RootState(NamedTuple):
    """planned, logged: batches."""

    planned: int = 0
    logged: int = 0
    prepared: Prepared | None = None


class JobState(NamedTuple):
    """batch: the next; at: the barrier that each source is read up to; ahead: up to which this batch reads, written
    before it runs; asked: the same while it is asked source by source, in memory; has_run: in memory; plan: the barrier
    of the batch, written with the first that is asked; consumer: what expiry is told of.
    """

    batch: int
    at: Ids
    ahead: Ids | None
    asked: tuple[int | None, ...]
    has_run: bool
    plan: int | None
    consumer: Ids


class Compaction(NamedTuple):
    """What a compactor has planned, in memory: the files that it still moves up, and up to which barrier."""

    files: Ids
    cut: int


class Session(NamedTuple):
    """A reader at a barrier; pins: tables and the snapshot that must stay of each."""

    barrier: int
    pins: tuple[tuple[str, int], ...] = ()


class ReaderState(NamedTuple):
    """left: sessions to come; seen: the last barrier that was read."""

    session: Session | None
    left: int
    seen: int = 0


class State(NamedTuple):
    """now: the barrier that sources have reached; tables and processes in the order of the configuration."""

    now: int
    tables: tuple[Table, ...]
    roots: tuple[RootState, ...]
    jobs: tuple[JobState, ...]
    compactions: tuple[Compaction | None, ...]
    reader: ReaderState
    crashes: int
    leaver: int

    def with_root(self, index: int, root: RootState) -> State:
        return self._replace(roots=(*self.roots[:index], root, *self.roots[index + 1 :]))

    def with_job(self, index: int, job: JobState) -> State:
        return self._replace(jobs=(*self.jobs[:index], job, *self.jobs[index + 1 :]))

    def with_compaction(self, index: int, compaction: Compaction | None) -> State:
        before, after = self.compactions[:index], self.compactions[index + 1 :]
        return self._replace(compactions=(*before, compaction, *after))

    def with_table(self, index: int, table: Table) -> State:
        return self._replace(tables=(*self.tables[:index], table, *self.tables[index + 1 :]))

    def crashed(self) -> State:
        return self._replace(crashes=self.crashes - 1)


Steps = Iterator[tuple[str, State]]
