"""What Spark tells of the micro-batches of a streaming query.

In: a query, running or ended. Out: one `MicroBatch` per batch that it finished and still remembers
(`session` makes it remember all). Times are epoch seconds.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime

from pyspark.sql.streaming.listener import StreamingQueryProgress
from pyspark.sql.streaming.query import StreamingQuery


@dataclass(frozen=True)
class MicroBatch:
    """started: when the trigger began, which is when records were taken from the source.

    row_count: that were read; 0 for a batch whose reader wanted none. end_offset: where the source was
    then, as the source writes it.
    """

    batch_id: int
    started: float
    ended: float
    row_count: int
    end_offset: str


def micro_batches(query: StreamingQuery) -> list[MicroBatch]:
    """The batches that went on in the only source of the query, in order."""
    batches = []
    for progress in query.recentProgress:
        (source,) = progress.sources
        if source.endOffset != source.startOffset:
            batches.append(_micro_batch(progress))
    return batches


def last_batch(query: StreamingQuery) -> MicroBatch | None:
    """The last one that Spark tells of, which may have gone nowhere; cheap enough to be asked often."""
    progress = query.lastProgress
    return None if progress is None else _micro_batch(progress)


def files_taken(query: StreamingQuery) -> int:
    """Of a query that takes one file per batch, by the batches that are done. A query that waits for its first file has
    no offset.
    """
    last = last_batch(query)
    offset = None if last is None else json.loads(last.end_offset)
    return 0 if offset is None else int(offset["logOffset"]) + 1


def _micro_batch(progress: StreamingQueryProgress) -> MicroBatch:
    started = _epoch_seconds(progress.timestamp)
    (source,) = progress.sources
    return MicroBatch(
        batch_id=progress.batchId,
        started=started,
        ended=started + progress.batchDuration / 1000,
        row_count=progress.numInputRows,
        end_offset=source.endOffset,
    )


def _epoch_seconds(timestamp: str) -> float:
    """Of ISO text in UTC."""
    return datetime.fromisoformat(timestamp.replace("Z", "+00:00")).timestamp()
