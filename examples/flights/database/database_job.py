"""The job that brings the database along: a full copy, then the log, into `nyc.planes` and `nyc.weather`.

In: the database. Out: the two tables, which the job makes, under barriers of the clock: so they are read at one moment
with what streams fill. It runs in a thread of the demo, in two runs: the first ends when the tables are copied, the
second one goes on where it was. `finish` lets a third one end when the tables have all that the database has.

A file of records is in the tables when the job has confirmed the log behind its transaction; of those that were there
at the beginning, when the copy is over.
"""

from __future__ import annotations

import threading
import time
from types import TracebackType
from typing import Final

from examples.flights.database.source_database import SourceDatabase
from examples.flights.dimensions import DIMENSIONS, dimension_options
from examples.flights.watched_thread import WatchedThread
from examples.flights.workspace import Workspace
from widetable_cdc import Sync, SyncStatus

JOB: Final = "registers"
USER: Final = f"cdc/{JOB}"


class DatabaseJob:
    """Runs from `with` to its end. noted: when files were in the tables, epoch seconds, by dimension."""

    def __init__(self, workspace: Workspace, database: SourceDatabase) -> None:
        self.noted: dict[str, list[float]] = {group.name: [] for group in DIMENSIONS}
        self._database = database
        self._sync = Sync(
            {
                "name": JOB,
                "source": {"dsn": database.dsn},
                "tables": [f"public.{group.name}" for group in DIMENSIONS],
                "target": {
                    "warehouse": str(workspace.warehouse),
                    "database": "nyc",
                    "barriers": "clock",
                    "options": dimension_options(),
                },
                "limits": {"max-delay": "250 ms"},
            }
        )
        self._copied = threading.Event()
        self._thread = WatchedThread("database job", self._work)

    def prepare(self) -> None:
        """Make the publication, the slot and the two tables."""
        self._sync.prepare()

    def __enter__(self) -> DatabaseJob:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._thread.end()
        if error is None:
            self.check()

    def check(self) -> None:
        """Raise the error that ended the job, if there is one."""
        self._thread.check()

    def note(self) -> None:
        """Note which files are in the tables by now."""
        self.check()
        if not self._copied.is_set():
            return
        confirmed, now = self._database.confirmed(self._sync.config.source.slot), time.time()
        for name, noted in self.noted.items():
            lsns = list(self._database.lsns[name])
            there = sum(1 for number, lsn in enumerate(lsns) if number == 0 or lsn <= confirmed)
            noted.extend([now] * (there - len(noted)))

    def finish(self) -> SyncStatus:
        """Bring the tables to what the database has now. To be called behind the `with` block."""
        return self._sync.run(until="caught-up")

    def _work(self, stop: threading.Event) -> None:
        self._sync.run(until="copied", stop=stop)
        self._copied.set()
        self._sync.run(stop=stop)
