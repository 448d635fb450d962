"""Hears from Spark that a streaming query has ended, and how: one run of it, once.

Spark tells all listeners of a session one after the other. So what is to be done is done by a thread, which the process
waits for before it ends, and who has heard it listens no more. Spark tells it a moment behind `awaitTermination` and
`stop`: a driver that ends right there hears nothing, unless it stops the session first, which waits for listeners.
Raises nothing into Spark.

The run may end before, while or after the listener is added, and may be heard twice:

    addListener, the run ends, isActive: no    heard by Spark's event and by the look; a lock that is taken once
                                               and never given back lets one of them through
    the run ends, addListener, isActive: no    Spark's event went to nobody; heard by the look
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.listener import (
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
)
from pyspark.sql.streaming.query import StreamingQuery

from widetable.connector import Task, WorkerThread


class QueryEnd(StreamingQueryListener):
    """stopped: called when the run was stopped, or has done all that it was to do; not when an exception ended it. It
    raises nothing.
    """

    def __init__(
        self, session: SparkSession, query: StreamingQuery, stopped: Callable[[], None]
    ) -> None:
        self._streams = session.streams
        self._query = query
        self._run_id = str(query.runId)
        self._stopped = stopped
        self._heard = threading.Lock()

    def listen(self) -> None:
        """From now on; the run may have ended before Spark knew of this listener."""
        self._streams.addListener(self)
        if not self._query.isActive:
            self._hear(self._query.exception() is None)

    def onQueryStarted(self, event: QueryStartedEvent) -> None:
        """Nothing to do."""

    def onQueryProgress(self, event: QueryProgressEvent) -> None:
        """Nothing to do."""

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:
        # The id of a query is that of its checkpoint, which its next run has, too.
        if str(event.runId) == self._run_id:
            self._hear(event.exception is None)

    def _hear(self, is_stopped: bool) -> None:
        """Whoever comes first; a thread does the rest, as Spark's listeners wait for this one."""
        if self._heard.acquire(blocking=False):
            WorkerThread("query-end").submit(Task(partial(self._end, is_stopped)))

    def _end(self, is_stopped: bool) -> None:
        try:
            if is_stopped:
                self._stopped()
        finally:
            with suppress(PySparkException, Py4JError, OSError):  # the session is gone
                self._streams.removeListener(self)
