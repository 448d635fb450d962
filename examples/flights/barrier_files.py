"""The files of the third layer: the records of the first months out of the three streams of flights, narrow, and those
of all aircraft.

They come by links, as in `arrivals`, one file of each stream at a time, so that what is read can be told from how far
the streams are: no file comes before barriers of the files before it were read (`BarrierFiles.bring_next`).
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from examples.flights.barrier_tables import AIRCRAFT, BARRIER_STREAMS, of_first_months
from examples.flights.inputs import cut
from examples.flights.wide_table import SCHEDULE
from examples.flights.workspace import Workspace

FILE_COUNT = 10  # of each stream
PAUSE_SECONDS = 1.0  # between files of a stream
# A look takes a moment: the streams do not wait for each one.
MOST_AHEAD = 3


def store_counted_streams(streams: Mapping[str, Sequence[pa.Table]], workspace: Workspace) -> None:
    """Write the files. streams: those of the wide table, by name, each in order of arrival."""
    months = pa.concat_tables(streams[SCHEDULE.name])["month"]
    for group in BARRIER_STREAMS:
        records = pa.concat_tables(streams[group.name]).select(group.written_schema.names)
        if group is not AIRCRAFT:
            records = of_first_months(records, months)
        folder = workspace.counted_stream(group.name)
        folder.mkdir(parents=True)
        for number, table in enumerate(cut(records, FILE_COUNT)):
            pq.write_table(table, folder / f"{group.name}-{number:03d}.parquet")


class BarrierFiles:
    """Used by one thread. came: when the files of each round did, epoch seconds."""

    def __init__(self, workspace: Workspace, pause_seconds: float = PAUSE_SECONDS) -> None:
        self.came: list[float] = []
        self._pause_seconds = pause_seconds
        self._folders: list[tuple[list[Path], Path]] = []
        for group in BARRIER_STREAMS:
            arrived = workspace.counted_arrived(group.name)
            arrived.mkdir(parents=True)
            files = sorted(workspace.counted_stream(group.name).iterdir())
            self._folders.append((files, arrived))

    def bring_next(self, barriers_read: int) -> None:
        """The next file of each stream, if there is one, its time has come, and at most `MOST_AHEAD` files came whose
        barriers were not read.
        """
        number = len(self.came)
        if number == FILE_COUNT or number - barriers_read >= MOST_AHEAD:
            return
        if number and time.time() - self.came[-1] < self._pause_seconds:
            return
        now = time.time()
        for files, arrived in self._folders:
            # Spark takes files by their time of modification.
            os.utime(files[number], (now, now))
            os.link(files[number], arrived / files[number].name)
        self.came.append(now)
