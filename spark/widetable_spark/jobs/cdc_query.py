"""The streaming query of a job of change data capture: each tick runs rounds and chunks for a second.

    tick ─► [ step: a round, then chunks as tasks of Spark ]* ─► what the run has done so far, for `lastProgress`

It is a query of Spark, whose only rows are the ticks: all that the job must remember is in its own tables, so a query
that was killed goes on where it was with any checkpoint, and so does a job without Spark. The driver reads the log: a
slot has one reader. Ticks run one after the other, in a thread of Spark.

    stop()                     the step ends, tasks of chunks are cancelled, the sessions with the server are closed
    the goal is reached        likewise
    nobody answers             the next tick tries again, as `SyncRun.attempt` does
    a step raises              the query ends with the error

Raises into the query what `SyncRun.attempt` raises.
"""

from __future__ import annotations

import json
import logging
import shutil
import threading
import time
from collections import deque
from typing import Any, Final

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.sql import DataFrame
from pyspark.sql.streaming.listener import StreamingQueryProgress
from pyspark.sql.streaming.query import StreamingQuery

from widetable import StorageError
from widetable_cdc.jobs.config import SyncConfig
from widetable_cdc.jobs.source_link import SourceLink
from widetable_cdc.running.sync_run import SyncRun

# Spark writes two small files for each tick, and reports one progress.
_TICK_SECONDS: Final = 1.0
# As many as Spark keeps.
_KEPT_PROGRESSES: Final = 100
_log = logging.getLogger("widetable.spark")


class CdcTicks:
    """The function of the ticks.

    stopped: set to end the query's work. ended: set when there is nothing left to do, by the goal or by the end.
    """

    def __init__(self, run: SyncRun) -> None:
        self._run = run
        self.stopped = threading.Event()
        self.ended = threading.Event()
        self._progresses: deque[tuple[int, dict[str, Any]]] = deque(maxlen=_KEPT_PROGRESSES)
        self._reports: deque[threading.Event] = deque()

    def __call__(self, ticks: DataFrame, number: int) -> None:
        """Run steps for a while; one at least, unless the query is stopped. The row of the tick is not read."""
        # Spark has reported the progress of the tick before.
        self._reported()
        if self._run.at_goal:
            self.stopped.set()
            self.ended.set()
        ends = time.monotonic() + _TICK_SECONDS
        while not self.stopped.is_set():
            has_moved = self._attempt()
            if self._run.at_goal or self._reports or time.monotonic() > ends:
                break
            if not has_moved:
                self.stopped.wait(self._run.pause_seconds)
                break
        if self._run.is_open:
            self._progresses.append((number, self._run.progress().to_dict()))

    def _attempt(self) -> bool:
        try:
            return self._run.attempt(self.stopped)
        except StorageError:
            # A query that is stopped cancels its tasks.
            if self.stopped.is_set():
                return False
            raise

    def progress_of(self, number: int) -> dict[str, Any] | None:
        """Return what the run had done at the end of a tick; None if that is not known any more."""
        return dict(self._progresses).get(number)

    def when_has(self, lsn: int) -> threading.Event:
        """Return what is set when the tables have all up to an LSN, or when the query has ended."""
        event = self._run.when_has(lsn)
        if self.ended.is_set():
            event.set()
        return event

    def when_reported(self) -> threading.Event:
        """Return what is set when `lastProgress` shows a tick that runs now, or a later one, or the query has ended."""
        event = threading.Event()
        self._reports.append(event)
        if self.ended.is_set():
            event.set()
        return event

    def end(self) -> None:
        """Wake all that wait: the query has ended."""
        self.stopped.set()
        self.ended.set()
        self._run.wake()
        self._reported()

    def _reported(self) -> None:
        while self._reports:
            self._reports.popleft().set()


class CdcQuery(StreamingQuery):
    """A query of Spark that knows what its job has done. query: as Spark has it."""

    def __init__(self, query: StreamingQuery, ticks: CdcTicks, config: SyncConfig) -> None:
        super().__init__(query._jsq)
        self._ticks = ticks
        self._config = config
        self._closed = threading.Event()

    def end_with(self, run: SyncRun, checkpoint: str) -> None:
        """Close the run when the query has ended, and stop the query when its goal is reached. Daemon threads do so."""
        for work in (lambda: self._close(run, checkpoint), self._stop_at_goal):
            threading.Thread(target=work, name="widetable-cdc", daemon=True).start()

    @property
    def lastProgress(self) -> StreamingQueryProgress | None:
        """The last progress, with that of the job as an observed metric of its name."""
        progress = super().lastProgress
        return None if progress is None else self._with_metrics(progress)

    @property
    def recentProgress(self) -> list[StreamingQueryProgress]:
        """The last progresses, as `lastProgress` gives them."""
        return [self._with_metrics(progress) for progress in super().recentProgress]

    def processAllAvailable(self) -> None:
        """Wait until the tables are copied and have all that the database has now, and `lastProgress` says so.

        Raises what ended the query.
        """
        with SourceLink.looking(self._config) as link:
            lsn = link.server_lsn()
        self._ticks.when_has(lsn).wait()
        self._ticks.when_reported().wait()
        failure = self.exception() if self._ticks.ended.is_set() else None
        if failure is not None:
            raise failure

    def stop(self) -> None:
        """Stop the query behind the round that runs, and wait until another job may begin."""
        self._ticks.stopped.set()
        super().stop()
        self._closed.wait()

    def awaitTermination(self, timeout: int | None = None) -> bool | None:
        """Wait until the query has ended, as any query does, and until another job may begin."""
        try:
            has_ended = super().awaitTermination(timeout)
        except StreamingQueryException:
            self._closed.wait()
            raise
        if has_ended is not False:
            self._closed.wait()
        return has_ended

    def _with_metrics(self, progress: StreamingQueryProgress) -> StreamingQueryProgress:
        metrics = self._ticks.progress_of(progress.batchId)
        if metrics is None:
            return progress
        body = json.loads(progress.json)
        body["observedMetrics"] = {self._config.name: metrics}
        return StreamingQueryProgress.fromJson(body)

    def _close(self, run: SyncRun, checkpoint: str) -> None:
        try:
            super().awaitTermination()
        except (
            PySparkException,
            Py4JError,
            OSError,
        ):  # the caller that waits for the query sees it
            _log.debug("the query of %s ended", self._config.name, exc_info=True)
        finally:
            run.close()
            shutil.rmtree(checkpoint, ignore_errors=True)
            self._closed.set()
            self._ticks.end()

    def _stop_at_goal(self) -> None:
        self._ticks.ended.wait()
        try:
            super().stop()
        except (PySparkException, Py4JError, OSError):  # the session is gone
            _log.debug("nothing to stop", exc_info=True)
