"""Where a source of a derived job is, and what its next batch holds: the driver's side, without Spark.

    offset = {"version": 3, "barrier": all up to it is read, "revision": the last one of the job's
              tables, "table": the identity of the table}

In: offsets as Spark keeps them (JSON dicts). Out: offsets, and what each task reads; rules and errors of
`aligned_source`. The state of a stream is its offset; which barriers come next is said once for all
sources of the job (`asked_first`). Raises InvalidError for the offset of another table, and for a job that is not
registered, ConflictError for an offset of before a revision.

It answers the same calls as `stream_position.StreamPosition`, and `stream_reader` does not tell
them apart. What Spark asks in a round, of a job with the sources a and b at barrier 10:

    a: next_end(10)   nobody has planned; a is asked first: the sources have 20 in common, the plan says 10 -> 20
    b: next_end(10)   finds the plan: 20
    Spark notes 20, 20 in its log, then asks a.tasks(10, 20) and b.tasks(10, 20), and later both to record(10)

Had b been free to decide, 20 could have become available between the two questions, and Spark
would have noted 10, 20. Whoever is killed in between leaves a plan that the next run finds, so
the batch ends where it would have ended.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any, Final

from widetable import Catalog, InvalidError, Table, UnsupportedError
from widetable.connector import AlignedSource, Limits, StreamRead, revised, table_name
from widetable_spark.frames.source_options import SourceOptions
from widetable_spark.reading.stream_position import LOOK_SECONDS, packed
from widetable_spark.startup.source_order import AskedFirst
from widetable_spark.startup.spark_version import HAS_LIMITS, VERSION

OFFSET_VERSION: Final = 3


class BarrierPosition:
    """Of one source of a query. Not thread-safe. Close it: its count of questions is seen by the
    other sources until then. All it holds can be made anew from the tables and the offset;
    offset 0 is where the query began, which may be a later barrier for a job that has records
    (`AlignedSource.reads`).
    """

    def __init__(self, source: AlignedSource, asked: AskedFirst) -> None:
        self._source = source
        self._asked = asked
        self._looked_at = float("-inf")
        self._bound: int | None = None

    @staticmethod
    def of(options: SourceOptions, columns: Sequence[str]) -> BarrierPosition:
        """Of the job and table that options name. It looks at the registrations of the whole
        warehouse. Raises UnsupportedError before Spark 4.2: plans are kept by where a batch
        begins, which older ones do not say.
        """
        if not HAS_LIMITS:
            raise UnsupportedError(
                "sources of a job",
                found=f"them in Spark {VERSION}, which does not say where a batch begins",
                expected="Spark 4.2 or newer",
                action="Install a newer pyspark.",
            )
        table, job = options.table(), options.barrier_job or ""
        place = table_name(table.path)
        if place is None:
            raise InvalidError(
                f"job {job!r}",
                found=f"the source {table.path}, which lies in no warehouse",
                expected="a table of a warehouse, whose jobs are known there",
                action="Read a table that a catalog has made.",
            )
        catalog = Catalog(place[0], storage_options=options.storage_dict)
        source = _source(table, job, catalog, columns)
        return BarrierPosition(source, AskedFirst(f"{place[0]} {job}"))

    def initial(self) -> dict[str, Any]:
        """Where a query without a checkpoint starts. It is always 0, the same whenever it
        is asked; what 0 stands for says the plan that comes after it.
        """
        return self._offset(0)

    def stop_at_newest(self) -> None:
        """Take what is complete now as the last that there will be. Of the bounds of all sources
        that of the one counts which decides; the others follow its plans, also beyond their own.
        """
        self._bound = self._source.newest()

    def next_end(self, start: Mapping[str, Any], limits: Limits) -> dict[str, Any]:
        """Where the batch ends that begins at `start`; `start` when there is nothing to be read.
        limits: have no say, a batch is what lies between two barriers.
        """
        # Plans are looked up at each of Spark's some 95 questions a second: what the first
        # source of this round has decided a moment ago must be seen in the same round. To look
        # for new barriers is what is throttled.
        self._asked.asked()
        barrier = self._barrier(start)
        end = self._source.planned(barrier)
        now = time.monotonic()
        if end is None and now - self._looked_at >= LOOK_SECONDS:
            self._looked_at = now
            self._source.check_alive()
            if self._asked.is_first():
                end = self._source.decided(barrier, self._bound)
        return dict(start) if end is None else self._offset(end)

    def unguided_end(self) -> dict[str, Any]:
        """Spark 4.1 and older do not say where a batch begins; they were refused."""
        raise AssertionError("refused when this was made")

    def newest(self) -> dict[str, Any] | None:
        """The offset at the newest complete barrier. Spark would show it in its progress; it is
        not said, as that would be a look at the table each time that Spark asks.
        """
        return None

    def tasks(
        self, start: Mapping[str, Any], end: Mapping[str, Any]
    ) -> list[tuple[StreamRead, ...]]:
        """What the tasks of a batch read."""
        return packed(self._source.reads(self._barrier(start), self._barrier(end)))

    def record(self, end: Mapping[str, Any]) -> None:
        """All before `end` is done with. The job's consumer moves there, and expiry may take
        what is older. Nothing is done for 0, where the batch ends that Spark runs before the
        sources have a barrier in common.
        """
        self._source.record(self._barrier(end))

    def close(self) -> None:
        """Let go of the place among the job's sources."""
        self._asked.close()

    def _offset(self, barrier: int) -> dict[str, Any]:
        return {
            "version": OFFSET_VERSION,
            "barrier": barrier,
            "revision": self._source.revision,
            "table": self._source.identity,
        }

    def _barrier(self, offset: Mapping[str, Any]) -> int:
        """The barrier of an offset that was made by this version, for this table, behind the
        same revision. Another revision is a ConflictError: the tables went back since (0046),
        and the query has to begin anew.
        """
        found = offset.get("barrier")
        is_ours = offset.get("version") == OFFSET_VERSION and type(found) is int
        if not is_ours or offset.get("table") != self._source.identity:
            raise InvalidError(
                "stream offset",
                found=str(dict(offset)),
                expected=f"one of version {OFFSET_VERSION} of the table {self._source.identity}",
                action="Start with a new checkpoint: the table was made again, or was read without the job.",
            )
        assert isinstance(found, int)
        if offset.get("revision") != self._source.revision:
            raise revised(self._source.job, offset.get("revision"))
        return found


def _source(table: Table, name: str, catalog: Catalog, columns: Sequence[str]) -> AlignedSource:
    job = next((job for job in catalog.topology().jobs() if job.name == name), None)
    if job is None or not job.sources:
        raise InvalidError(
            f"job {name!r}",
            found="no registered job with sources",
            expected="one whose sources and sinks are known before its query starts",
            action="Make the query's sink with etl.sink(..), or call catalog.topology().register(..).",
        )
    sources = [catalog.table(source) for source in job.sources]
    if table.path not in {source.path for source in sources}:
        raise InvalidError(
            f"job {name!r}",
            found=f"{table.path}, which is no source of it",
            expected=f"one of {', '.join(job.sources)}",
            action="Register the job with all of its sources.",
        )
    return AlignedSource(name, table, sources, catalog.table(job.tables[0]), columns)
