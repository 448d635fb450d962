"""The files of the streams come in one after the other, at a steady pace, while the queries run.

In: the workspace with the files, how many records they hold. Out: when each file came, epoch seconds. A file comes by
a link in the folder that its query watches: it is there as a whole or not at all.

The first file of every stream is there when its query starts: with it Spark starts its Python processes. `begin` lets
the others come, each stream its own evenly over the same time, so that the records of all streams together come at
`RECORDS_PER_SECOND`. That is what two cores hold with all queries running; were it more, files would queue, and the
age of a record would tell how long the demo has run, not how long a change takes.
"""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path

from examples.flights.wide_table import STREAMS
from examples.flights.workspace import Workspace

RECORDS_PER_SECOND = 13_000


class Arrivals:
    """Brings files until the context is left. times: of those that have come, by stream; counts: of all files."""

    def __init__(self, workspace: Workspace, record_count: int) -> None:
        files = {group.name: sorted(workspace.stream(group.name).iterdir()) for group in STREAMS}
        self.counts = {name: len(of_stream) for name, of_stream in files.items()}
        self.times: dict[str, list[float]] = {name: [] for name in files}
        self._workspace = workspace
        self._pause_seconds = record_count / RECORDS_PER_SECOND / sum(self.counts.values())
        in_turn = sorted(
            (number / len(of_stream), name, file)
            for name, of_stream in files.items()
            for number, file in enumerate(of_stream)
        )
        self._first = [(name, file) for share, name, file in in_turn if share == 0]
        self._others = [(name, file) for share, name, file in in_turn if share > 0]
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._work, name="arrivals")

    def __enter__(self) -> Arrivals:
        for name, file in self._first:
            self._workspace.arrived(name).mkdir(parents=True)
            self._bring(name, file)
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        if self.has_begun:
            self._thread.join()

    @property
    def has_begun(self) -> bool:
        """Whether more than the first files come."""
        return self._thread.ident is not None

    def begin(self) -> None:
        """Let the other files come. To be called once."""
        self._thread.start()

    def _work(self) -> None:
        began = time.monotonic()
        for number, (name, file) in enumerate(self._others):
            if self._stop.wait(max(0.0, began + number * self._pause_seconds - time.monotonic())):
                return
            self._bring(name, file)

    def _bring(self, name: str, file: Path) -> None:
        os.link(file, self._workspace.arrived(name) / file.name)
        self.times[name].append(time.time())
