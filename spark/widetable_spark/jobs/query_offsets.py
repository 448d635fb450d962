"""What Spark has noted of a batch of a running query: the offsets at which its sources end.

Spark writes them before the batch begins, and never again: a replay goes by them. Read through the driver's own log, so
it does not matter where the checkpoint is. Raises InvalidError for a source of a derived job that is not read from
barrier to barrier, and ConflictError for sources that do not end at one barrier.

    offsets of batch 7, as Spark keeps them, one JSON text per source:
        {"version": 3, "barrier": 20, ..}, {"version": 3, "barrier": 20, ..}      barrier(7): 20
        {"version": 3, "barrier": 20, ..}, {"version": 3, "barrier": 30, ..}      ConflictError: two queries of the job
        {"version": 3, "barrier": 20, ..}, {"logOffset": 0}                       InvalidError: a source of files
        not in the log                                                            barrier(7): None

It goes by py4j into classes of Spark that are not public (`offsetLog`); Spark Connect has no such
way, so `etl` refuses it.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any

from pyspark.sql.streaming.query import StreamingQuery

from widetable import ConflictError, InvalidError
from widetable_spark.reading.barrier_position import OFFSET_VERSION


class QueryOffsets:
    """Of one query of this driver."""

    def __init__(self, query: StreamingQuery) -> None:
        self._log: Any = query._jsq.streamingQuery().offsetLog()

    def digest(self, batch: int) -> str:
        """The same when the batch comes again. Of the offsets alone, without the time that
        `batch_digest` has: two batches of different numbers may have one digest, which tells
        only batches of the same number apart.
        """
        return hashlib.sha256("\n".join(self._texts(batch)).encode()).hexdigest()

    def barrier(self, batch: int) -> int | None:
        """At which all of its sources end; None for a batch that the log does not have any more, or never had."""
        return self._alike(batch, "barrier")

    def revision(self, batch: int) -> int | None:
        """Of the job's tables, in which its sources are read; None as above."""
        return self._alike(batch, "revision")

    def _alike(self, batch: int, what: str) -> int | None:
        found = [_value(text, what) for text in self._texts(batch)]
        if len(set(found)) > 1:
            raise ConflictError(
                f"batch {batch}",
                found=f"sources that end at different {what}s: {', '.join(map(str, found))}",
                expected=f"one {what}",
                action="Stop all queries of the job but one, and start it with a new checkpoint.",
            )
        return found[0] if found else None

    def check_outside(self, batch: int) -> None:
        """Refuse changes of another job as the rows of a root."""
        if any(_body(text).get("version") == OFFSET_VERSION for text in self._texts(batch)):
            raise InvalidError(
                "sources of the query",
                found="one that is read from barrier to barrier, and a sink whose job has no such source",
                expected="changes and sink of one etl(..), the changes first",
                action="Call changes(..) and then sink(..) of the same object.",
            )

    def _texts(self, batch: int) -> list[str]:
        """In the order of the sources, or of their names (`OffsetMap`); one that has said nothing yet is left out."""
        noted = self._log.get(batch) if batch >= 0 else None
        if noted is None or noted.isEmpty():
            return []
        return [one.get().json() for one in _ends(noted.get()) if one.isDefined()]


def _ends(noted: Any) -> list[Any]:
    """Of each source of a batch, by what `spark.sql.streaming.offsetLog.formatVersion` wrote."""
    if noted.getClass().getSimpleName() == "OffsetMap":
        entries, named = noted.offsetsMap().iterator(), {}
        while entries.hasNext():
            entry = entries.next()
            named[str(entry._1())] = entry._2()
        return [named[name] for name in sorted(named)]
    offsets = noted.offsets()
    return [offsets.apply(index) for index in range(offsets.size())]


def _value(text: str, what: str) -> int:
    body = _body(text)
    if body.get("version") != OFFSET_VERSION:
        raise InvalidError(
            "sources of the query",
            found=f"one that is at {text[:80]}",
            expected="sources that are all read with etl.changes(..): others are at no barrier",
            action="Load it into a table by a root job, and read that.",
        )
    value: int = body[what]
    return value


def _body(text: str) -> dict[str, Any]:
    """{} for what other sources say."""
    try:
        body = json.loads(text)
    except ValueError:
        return {}
    return body if isinstance(body, dict) else {}
