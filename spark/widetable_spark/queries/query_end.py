"""A listener that learns from Spark that a streaming query has ended, and how: it reports one run, once.

Spark calls all listeners of a session one after the other. So a thread does the work, for which the process waits
before it ends; the listener then removes itself. Spark reports the end a moment after `awaitTermination` and `stop`: a
driver that ends right there learns nothing, unless it stops the session first, which waits for listeners. Raises
nothing into Spark.

The run may end before, while or after the listener is added, and may be reported twice:

    addListener, the run ends, isActive: no    reported by Spark's event and by the look; a lock that is taken once
                                               and never released lets one of them through
    the run ends, addListener, isActive: no    no listener got Spark's event; reported by the look
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
    """A listener for the end of one run.

    stopped: called when the run was stopped, or has finished its work; not when an exception ended it. It raises
    nothing.
    """

    def __init__(
        self, session: SparkSession, query: StreamingQuery, stopped: Callable[[], None]
    ) -> None:
        self._streams = session.streams
        self._query = query
        self._run_id = str(query.runId)
        self._stopped = stopped
        self._reported = threading.Lock()

    def listen(self) -> None:
        """Start to listen; the run may have ended before Spark knew of this listener."""
        self._streams.addListener(self)
        if not self._query.isActive:
            self._report(self._query.exception() is None)

    def onQueryStarted(self, event: QueryStartedEvent) -> None:
        """Ignore the start of a query."""

    def onQueryProgress(self, event: QueryProgressEvent) -> None:
        """Ignore the progress of a query."""

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:
        # The id of a query is that of its checkpoint, which its next run has, too.
        if str(event.runId) == self._run_id:
            self._report(event.exception is None)

    def _report(self, is_stopped: bool) -> None:
        """Handle the first report of the end; a thread does the work, as Spark's listeners wait for this one."""
        if self._reported.acquire(blocking=False):
            WorkerThread("query-end").submit(Task(partial(self._end, is_stopped)))

    def _end(self, is_stopped: bool) -> None:
        try:
            if is_stopped:
                self._stopped()
        finally:
            with suppress(PySparkException, Py4JError, OSError):  # the session is gone
                self._streams.removeListener(self)
