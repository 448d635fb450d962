"""Where a source of a derived job is, and what its next batch holds: the driver's side, without Spark.

    offset = {"version": 3, "barrier": all up to it is read, "revision": the last one of the job's
              tables, "table": the identity of the table}

In: offsets as Spark keeps them (JSON dicts). Out: offsets, and what each task reads; rules and errors of
widetable.operations.aligned_source. The state of a stream is its offset; which barriers come next is said once for all
sources of the job (`asked_first`). Raises InvalidError for the offset of another table, and for a job that is not
registered, ConflictError for an offset of before a revision.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any, Final

from widetable import Catalog, InvalidError, Table, UnsupportedError
from widetable.connector import AlignedSource, Limits, StreamRead, revised, table_name
from widetable_spark.asked_first import AskedFirst
from widetable_spark.source_options import SourceOptions
from widetable_spark.spark_version import HAS_LIMITS, VERSION
from widetable_spark.stream_position import LOOK_SECONDS, packed

OFFSET_VERSION: Final = 3


class BarrierPosition:
    """Of one query. Not thread-safe. Close it."""

    def __init__(self, source: AlignedSource, asked: AskedFirst) -> None:
        self._source = source
        self._asked = asked
        self._looked_at = float("-inf")
        self._bound: int | None = None

    @staticmethod
    def of(options: SourceOptions, columns: Sequence[str]) -> BarrierPosition:
        """Of the job and table that options name."""
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
        """Where a query without a checkpoint starts."""
        return self._offset(0)

    def stop_at_newest(self) -> None:
        """Take what is complete now as the last that there will be."""
        self._bound = self._source.newest()

    def next_end(self, start: Mapping[str, Any], limits: Limits) -> dict[str, Any]:
        """Where the batch ends that begins at `start`; `start` when there is nothing to be read."""
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
        """The offset at the newest complete barrier."""
        return None

    def tasks(
        self, start: Mapping[str, Any], end: Mapping[str, Any]
    ) -> list[tuple[StreamRead, ...]]:
        """What the tasks of a batch read."""
        return packed(self._source.reads(self._barrier(start), self._barrier(end)))

    def record(self, end: Mapping[str, Any]) -> None:
        """All before `end` is done with."""
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
