"""Where a source of a derived job is, and what its next batch holds: the driver's side of an engine.

    offset = {"version": 3, "barrier": all up to it is read, "revision": the last one of the job's
              tables, "table": the identity of the table}

In: offsets as the engine keeps them (JSON dicts). Out: offsets, and what each task reads; rules and errors of
`aligned_source`. The state of a stream is its offset; one source decides for all sources of the job which barriers come
next (`Rounds`). Raises InvalidError for the offset of another table, and for a job that is not registered,
ConflictError for an offset from before a revision.

It is a `ChangeStream`, but an engine must say where a batch begins: `unguided_end` raises UnsupportedError. What Spark
asks in a round, of a job with the sources a and b at barrier 10:

    a: next_end(10)   no plan exists; a is asked first: the sources have 20 in common, the plan is 10 -> 20
    b: next_end(10)   finds the plan: 20
    Spark notes 20, 20 in its log, then asks a.tasks(10, 20) and b.tasks(10, 20), and later both to record(10)

If b were free to decide, 20 could become available between the two questions, and Spark would note 10, 20. A driver
that is killed in between leaves a plan that the next run finds, so the batch ends where it would have ended.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Protocol

from widetable.catalog import Catalog
from widetable.connector.change_streams import POLL_SECONDS, ChangeStream, packed
from widetable.errors import InvalidError, UnsupportedError
from widetable.operations.barriers.aligned_source import AlignedSource, revised
from widetable.operations.handle.open_table import OpenTable
from widetable.read.change_read import StreamRead
from widetable.read.stream_plan import Limits
from widetable.storage.paths import table_name

# Stored in checkpoints of other programs: never change the meaning of a version.
BARRIER_OFFSET_VERSION: Final = 3


class Rounds(Protocol):
    """Tells one source of a job whether it is the first that the engine asks in a round.

    The engine makes it, as it knows where the sources of one query are planned. Where one process plans them in a fixed
    order, the first of them always is.
    """

    def asked(self) -> None:
        """Count a question to this source. It is called once per question, before `is_first`."""

    def is_first(self) -> bool:
        """Whether no other source was asked in this round.

        Returns
        -------
        bool
            Whether this source decides where the batch ends; exactly one may.
        """

    def close(self) -> None:
        """End: the engine no longer asks this source."""


class BarrierPosition:
    """The position of one source of a query. It is not thread-safe.

    Close it: until then the other sources see its count of questions. All its state can be rebuilt from the tables and
    the offset; offset 0 is where the query began, which may be a later barrier for a job that has records
    (`AlignedSource.reads`).
    """

    def __init__(self, source: AlignedSource, order: Rounds) -> None:
        self._source = source
        self._order = order
        self._polled_at = float("-inf")
        self._bound: int | None = None

    def initial(self) -> dict[str, Any]:
        """Return where a query without a checkpoint starts: always 0. The plan that comes after it says what 0 stands
        for.
        """
        return self._offset(0)

    def stop_at_newest(self) -> None:
        """Take the newest complete barrier of now as the last one of the query.

        Only the bound of the source that decides counts; the others follow its plans, also beyond their own bounds.
        """
        self._bound = self._source.newest()

    def next_end(self, start: Mapping[str, Any], limits: Limits) -> dict[str, Any]:
        """Return where the batch ends that begins at `start`; `start` when there is nothing to be read.

        limits: have no effect, a batch is what lies between two barriers.
        """
        # Plans are looked up at each of Spark's some 95 questions a second: a decision that the first source of this
        # round made a moment ago must be seen in the same round. Only the look for new barriers is throttled.
        self._order.asked()
        barrier = self._barrier(start)
        end = self._source.planned(barrier)
        now = time.monotonic()
        if end is None and now - self._polled_at >= POLL_SECONDS:
            self._polled_at = now
            self._source.check_alive()
            if self._order.is_first():
                end = self._source.decided(barrier, self._bound)
        return dict(start) if end is None else self._offset(end)

    def unguided_end(self) -> dict[str, Any]:
        """Raise UnsupportedError: plans are stored by where a batch begins."""
        raise UnsupportedError(
            "sources of a job",
            found="an engine that does not say where a batch begins",
            expected="Spark 4.2 or newer, or another engine that calls next_end",
            action="Install a newer pyspark.",
        )

    def newest(self) -> dict[str, Any] | None:
        """Return None in place of the offset at the newest complete barrier, which Spark would show in its progress.

        Otherwise each question of Spark would read the table.
        """
        return None

    def tasks(
        self, start: Mapping[str, Any], end: Mapping[str, Any]
    ) -> list[tuple[StreamRead, ...]]:
        """Return what the tasks of a batch read."""
        return packed(self._source.reads(self._barrier(start), self._barrier(end)))

    def record(self, end: Mapping[str, Any]) -> None:
        """Record that all rows before `end` are done: the job's consumer moves there, and older files may expire.

        Nothing is done for 0, where the batch ends that Spark runs before the sources have a barrier in common.
        """
        self._source.record(self._barrier(end))

    def close(self) -> None:
        """Remove the count of questions from those of the job's sources."""
        self._order.close()

    def _offset(self, barrier: int) -> dict[str, Any]:
        return {
            "version": BARRIER_OFFSET_VERSION,
            "barrier": barrier,
            "revision": self._source.revision,
            "table": self._source.identity,
        }

    def _barrier(self, offset: Mapping[str, Any]) -> int:
        """Return the barrier of an offset that was made by this version, for this table, in the same revision.

        Another revision is a ConflictError: the tables were taken back since (0046), and the query has to start again.
        """
        barrier = offset.get("barrier")
        is_ours = offset.get("version") == BARRIER_OFFSET_VERSION and type(barrier) is int
        if not is_ours or offset.get("table") != self._source.identity:
            raise InvalidError(
                "stream offset",
                found=str(dict(offset)),
                expected=f"an offset of version {BARRIER_OFFSET_VERSION} of the table {self._source.identity}",
                action="Start with a new checkpoint: the table was created again, or was read without the job.",
            )
        assert isinstance(barrier, int)
        if offset.get("revision") != self._source.revision:
            raise revised(self._source.job, offset.get("revision"))
        return barrier


def barrier_stream(
    table: OpenTable,
    job: str,
    columns: Sequence[str],
    rounds: Callable[[str], Rounds],
    storage_options: Mapping[str, str] | None = None,
) -> ChangeStream:
    """Open one source of a job: a table under barriers that is read in step with the job's other sources.

    It reads the registrations of the whole warehouse.

    Parameters
    ----------
    table : OpenTable
        The table.
    job : str
        The name of the registered job.
    columns : list of str
        The columns, in the order wanted.
    rounds : callable
        Makes the Rounds of a source from a text that all sources of the job share.
    storage_options : dict of str to str, default None
        Options of an object store, as in `Catalog`. None: the environment provides them.

    Returns
    -------
    ChangeStream
        The source; close it.

    Raises
    ------
    InvalidError
        The table is in no warehouse, or the job is not registered with it as a source.
    """
    place = table_name(table.path)
    if place is None:
        raise InvalidError(
            f"job {job!r}",
            found=f"the source {table.path}, which is in no warehouse",
            expected="a table of a warehouse, where its jobs are registered",
            action="Read a table that a catalog has created.",
        )
    source = _source(table, job, Catalog(place[0], storage_options=storage_options), columns)
    return BarrierPosition(source, rounds(f"{place[0]} {job}"))


def _source(table: OpenTable, name: str, catalog: Catalog, columns: Sequence[str]) -> AlignedSource:
    job = next((job for job in catalog.topology().jobs() if job.name == name), None)
    if job is None or not job.sources:
        raise InvalidError(
            f"job {name!r}",
            found="no registered job with sources",
            expected="a job whose sources and sinks are registered before its query starts",
            action="Make the query's sink with etl.sink(..), or call catalog.topology().register(..).",
        )
    sources = [catalog.table(source) for source in job.sources]
    if table.path not in {source.path for source in sources}:
        raise InvalidError(
            f"job {name!r}",
            found=f"{table.path}, which is not among its sources",
            expected=f"one of {', '.join(job.sources)}",
            action="Register the job with all of its sources.",
        )
    return AlignedSource(name, table, sources, catalog.table(job.tables[0]), columns)
