"""The offsets that Spark has noted for a batch of a running query: where its sources end.

Spark writes them before the batch begins, and never again: a replay uses them. They are read through the driver's own
log, so the place of the checkpoint does not matter. Raises InvalidError for a source of a derived job that is not read
from barrier to barrier, and ConflictError for sources that do not end at one barrier.

    offsets of batch 7, as Spark keeps them, one JSON text per source:
        {"version": 3, "barrier": 20, ..}, {"version": 3, "barrier": 20, ..}      barrier(7): 20
        {"version": 3, "barrier": 20, ..}, {"version": 3, "barrier": 30, ..}      ConflictError: two queries of the job
        {"version": 3, "barrier": 20, ..}, {"logOffset": 0}                       InvalidError: a source of files
        not in the log                                                            barrier(7): None

The log is read by py4j from classes of Spark that are not public (`offsetLog`); Spark Connect has no such access, so
`etl` refuses it.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any

from pyspark.sql.streaming.query import StreamingQuery

from widetable import ConflictError, InvalidError
from widetable.connector import BARRIER_OFFSET_VERSION


class QueryOffsets:
    """The offsets of one query of this driver."""

    def __init__(self, query: StreamingQuery) -> None:
        self._log: Any = query._jsq.streamingQuery().offsetLog()

    def digest(self, batch: int) -> str:
        """Return a digest of the offsets of a batch, which is equal when the batch is repeated.

        It covers the offsets alone, without the time that `batch_digest` has: two batches of different numbers may have
        one digest, so it distinguishes only batches of the same number.
        """
        return hashlib.sha256("\n".join(self._texts(batch)).encode()).hexdigest()

    def barrier(self, batch: int) -> int | None:
        """Return the barrier at which all sources of a batch end; None for a batch that the log no longer has, or never
        had.
        """
        return self._common_value(batch, "barrier")

    def revision(self, batch: int) -> int | None:
        """Return the revision of the job's tables in which the sources are read; None as for `barrier`."""
        return self._common_value(batch, "revision")

    def _common_value(self, batch: int, field: str) -> int | None:
        values = [_value(text, field) for text in self._texts(batch)]
        if len(set(values)) > 1:
            raise ConflictError(
                f"batch {batch}",
                found=f"sources that end at different {field}s: {', '.join(map(str, values))}",
                expected=f"one {field}",
                action="Stop all queries of the job but one, and start it with a new checkpoint.",
            )
        return values[0] if values else None

    def check_outside(self, batch: int) -> None:
        """Refuse changes of another job as the rows of a root."""
        if any(_body(text).get("version") == BARRIER_OFFSET_VERSION for text in self._texts(batch)):
            raise InvalidError(
                "sources of the query",
                found="a source that is read from barrier to barrier, and a sink whose job has no such source",
                expected="changes and sink of the same etl(..), changes first",
                action="Call changes(..) and then sink(..) of the same object.",
            )

    def _texts(self, batch: int) -> list[str]:
        """Return the offsets as JSON, in the order of the sources, or of their names (`OffsetMap`).

        A source without an offset yet is left out.
        """
        noted = self._log.get(batch) if batch >= 0 else None
        if noted is None or noted.isEmpty():
            return []
        return [one.get().json() for one in _source_offsets(noted.get()) if one.isDefined()]


def _source_offsets(noted: Any) -> list[Any]:
    """Return the offset of each source of a batch, in either format (`spark.sql.streaming.offsetLog.formatVersion`)."""
    if noted.getClass().getSimpleName() == "OffsetMap":
        entries, by_name = noted.offsetsMap().iterator(), {}
        while entries.hasNext():
            entry = entries.next()
            by_name[str(entry._1())] = entry._2()
        return [by_name[name] for name in sorted(by_name)]
    offsets = noted.offsets()
    return [offsets.apply(index) for index in range(offsets.size())]


def _value(text: str, field: str) -> int:
    body = _body(text)
    if body.get("version") != BARRIER_OFFSET_VERSION:
        raise InvalidError(
            "sources of the query",
            found=f"a source with the offset {text[:80]}",
            expected="only sources that etl.changes(..) reads: others are at no barrier",
            action="Load its rows into a table by a root job, and read that table.",
        )
    value: int = body[field]
    return value


def _body(text: str) -> dict[str, Any]:
    """Parse an offset; {} for one that is no JSON object, as other sources may have."""
    try:
        body = json.loads(text)
    except ValueError:
        return {}
    return body if isinstance(body, dict) else {}
