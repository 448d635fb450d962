"""Where a source of a derived job is, and what its next batch holds: the driver's side, without Spark.

    offset = {"version": 3, "barrier": all up to it is read, "revision": the last one of the job's
              tables, "table": the identity of the table}

In: offsets as Spark keeps them (JSON dicts). Out: offsets, and what each task reads; rules and errors of
`aligned_source`. The state of a stream is its offset; one source decides for all sources of the job which barriers come
next (`source_order`). Raises InvalidError for the offset of another table, and for a job that is not registered,
ConflictError for an offset from before a revision.

It has the methods of `stream_position.StreamPosition`, and `stream_reader` does not distinguish the two. What Spark
asks in a round, of a job with the sources a and b at barrier 10:

    a: next_end(10)   no plan exists; a is asked first: the sources have 20 in common, the plan is 10 -> 20
    b: next_end(10)   finds the plan: 20
    Spark notes 20, 20 in its log, then asks a.tasks(10, 20) and b.tasks(10, 20), and later both to record(10)

If b were free to decide, 20 could become available between the two questions, and Spark would note 10, 20. A driver
that is killed in between leaves a plan that the next run finds, so the batch ends where it would have ended.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any, Final

from widetable import Catalog, InvalidError, Table, UnsupportedError
from widetable.connector import AlignedSource, Limits, StreamRead, revised, table_name
from widetable_spark.frames.source_options import SourceOptions
from widetable_spark.reading.stream_position import POLL_SECONDS, packed
from widetable_spark.startup.source_order import RoundCount
from widetable_spark.startup.spark_version import HAS_LIMITS, VERSION

OFFSET_VERSION: Final = 3


class BarrierPosition:
    """The position of one source of a query. It is not thread-safe.

    Close it: until then the other sources see its count of questions. All its state can be rebuilt from the tables and
    the offset; offset 0 is where the query began, which may be a later barrier for a job that has records
    (`AlignedSource.reads`).
    """

    def __init__(self, source: AlignedSource, order: RoundCount) -> None:
        self._source = source
        self._order = order
        self._polled_at = float("-inf")
        self._bound: int | None = None

    @staticmethod
    def of(options: SourceOptions, columns: Sequence[str]) -> BarrierPosition:
        """Return the position of the job and table that options name. It reads the registrations of the whole
        warehouse.

        Raises UnsupportedError before Spark 4.2: plans are stored by where a batch begins, which older versions do not
        pass.
        """
        if not HAS_LIMITS:
            raise UnsupportedError(
                "sources of a job",
                found=f"Spark {VERSION}, which does not say where a batch begins",
                expected="Spark 4.2 or newer",
                action="Install a newer pyspark.",
            )
        table, job = options.table(), options.barrier_job or ""
        place = table_name(table.path)
        if place is None:
            raise InvalidError(
                f"job {job!r}",
                found=f"the source {table.path}, which is in no warehouse",
                expected="a table of a warehouse, where its jobs are registered",
                action="Read a table that a catalog has created.",
            )
        catalog = Catalog(place[0], storage_options=options.storage_dict)
        source = _source(table, job, catalog, columns)
        return BarrierPosition(source, RoundCount(f"{place[0]} {job}"))

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
        """Fail: Spark 4.1 and older do not say where a batch begins, and `of` has refused them."""
        raise AssertionError("refused when this was made")

    def newest(self) -> dict[str, Any] | None:
        """Return None in place of the offset at the newest complete barrier, which Spark would show in its progress.

        It would take a look at the table each time that Spark asks.
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
            "version": OFFSET_VERSION,
            "barrier": barrier,
            "revision": self._source.revision,
            "table": self._source.identity,
        }

    def _barrier(self, offset: Mapping[str, Any]) -> int:
        """Return the barrier of an offset that was made by this version, for this table, in the same revision.

        Another revision is a ConflictError: the tables were taken back since (0046), and the query has to begin anew.
        """
        barrier = offset.get("barrier")
        is_ours = offset.get("version") == OFFSET_VERSION and type(barrier) is int
        if not is_ours or offset.get("table") != self._source.identity:
            raise InvalidError(
                "stream offset",
                found=str(dict(offset)),
                expected=f"an offset of version {OFFSET_VERSION} of the table {self._source.identity}",
                action="Start with a new checkpoint: the table was created again, or was read without the job.",
            )
        assert isinstance(barrier, int)
        if offset.get("revision") != self._source.revision:
            raise revised(self._source.job, offset.get("revision"))
        return barrier


def _source(table: Table, name: str, catalog: Catalog, columns: Sequence[str]) -> AlignedSource:
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
