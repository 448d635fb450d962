"""The files of the streams come in one after the other while the queries run, as fast as the machine holds (`pace`).

In: the workspace with the files, how many records they hold. Out: when each file came, epoch seconds. A file of a
stream comes by a link in the folder that its query watches, so it comes as a whole; one of a database by a call.

The first file of every stream is there when its query starts: with it Spark starts its Python processes. `begin` lets
the others come, so that all streams end together. `adapt` changes the pace while they come.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from examples.flights.pace import FIRST_RECORDS_PER_SECOND, next_pace
from examples.flights.watched_thread import WatchedThread
from examples.flights.wide_table import STREAMS
from examples.flights.workspace import Workspace


class Arrivals:
    """Brings files until the context is left. times: of those that have come, by stream; counts: of all files.

    into: brings a file of a stream that no query watches, by its name. What it raises is raised at the end.
    """

    def __init__(
        self,
        workspace: Workspace,
        record_count: int,
        records_per_second: float = FIRST_RECORDS_PER_SECOND,
        into: Mapping[str, Callable[[Path], None]] | None = None,
    ) -> None:
        files = {group.name: sorted(workspace.stream(group.name).iterdir()) for group in STREAMS}
        self.counts = {name: len(of_stream) for name, of_stream in files.items()}
        self.times: dict[str, list[float]] = {name: [] for name in files}
        self._workspace = workspace
        self._into = dict(into or {})
        self._records_per_file = record_count / sum(self.counts.values())
        self._records_per_second = records_per_second
        in_turn = sorted(
            (number / len(of_stream), name, file)
            for name, of_stream in files.items()
            for number, file in enumerate(of_stream)
        )
        self._first = [(name, file) for share, name, file in in_turn if share == 0]
        self._others = [(name, file) for share, name, file in in_turn if share > 0]
        self._thread = WatchedThread("arrivals", self._work)

    def __enter__(self) -> Arrivals:
        self.bring_first()
        return self

    def bring_first(self) -> None:
        """Bring the first file of each stream, unless they have come."""
        first, self._first = self._first, []
        for name, file in first:
            if name not in self._into:
                self._workspace.arrived(name).mkdir(parents=True)
            self._bring(name, file)

    def __exit__(self, *_: object) -> None:
        self._thread.end()
        self.check()

    def check(self) -> None:
        """Raise what a file could not be brought for."""
        self._thread.check()

    @property
    def has_begun(self) -> bool:
        """Whether more than the first files come."""
        return self._thread.has_begun

    @property
    def is_over(self) -> bool:
        """Whether all files have come."""
        return all(len(self.times[name]) == count for name, count in self.counts.items())

    def begin(self) -> None:
        """Let the other files come. To be called once."""
        self._thread.start()

    def adapt(self, taken: Mapping[str, int], behind_seconds: float) -> None:
        """Set the pace by the files that were taken and the age of the newest barrier, while files come."""
        if self.has_begun and not self.is_over:
            self._set_pace(taken, behind_seconds)

    def _set_pace(self, taken: Mapping[str, int], behind_seconds: float) -> None:
        waiting = max(len(times) - taken[name] for name, times in self.times.items())
        self._records_per_second = next_pace(self._records_per_second, waiting, behind_seconds)

    def _work(self, stop: threading.Event) -> None:
        due = time.monotonic()
        for name, file in self._others:
            if stop.wait(max(0.0, due - time.monotonic())):
                return
            self._bring(name, file)
            due = max(due, time.monotonic() - 1) + self._records_per_file / self._records_per_second

    def _bring(self, name: str, file: Path) -> None:
        if name in self._into:
            self._into[name](file)
        else:
            os.link(file, self._workspace.arrived(name) / file.name)
        self.times[name].append(time.time())
