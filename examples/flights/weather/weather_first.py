"""Departures go to the query that looks the weather up when the weather of their hours is known for good.

A lookup join takes what is in the table when its micro-batch begins; weather that comes later does not mend
what went out. So that every cell can be compared, a file of departures is let in when the final readings of all hours
up to its last are committed. This is a property of the demo's input, not of the join.

In: the files of both streams. Out: links in the folder that the query watches.
"""

from __future__ import annotations

import os
import time

import duckdb

from examples.flights.dimensions import WEATHER
from examples.flights.wide_table import DEPARTURE
from examples.flights.workspace import Workspace

LOOKUP = "departure-weather"
_NEEDED = r"""
    WITH final AS (
        SELECT time_hour, min(file) AS file
        FROM (SELECT *, regexp_extract(filename, '-(\d+)\.parquet$', 1)::INT AS file
              FROM read_parquet(?, filename = true)
              QUALIFY wx_seq = max(wx_seq) OVER (PARTITION BY origin, time_hour))
        GROUP BY origin, time_hour)
    SELECT coalesce((SELECT max(file) + 1 FROM final WHERE final.time_hour <= last), 0)
    FROM (SELECT filename, max(time_hour + to_minutes(greatest(coalesce(dep_delay, 0), 0) + 60)) AS last
          FROM read_parquet(?, filename = true) GROUP BY filename)
    ORDER BY filename
"""


class WeatherFirst:
    """Used by one thread. times: when files were let in, epoch seconds; count: of all files."""

    def __init__(self, workspace: Workspace) -> None:
        self._files = sorted(workspace.stream(DEPARTURE.name).iterdir())
        self._folder = workspace.arrived(LOOKUP)
        self._folder.mkdir(parents=True)
        self._needed = weather_needed(workspace)
        self.count = len(self._files)
        self.times: list[float] = []

    def let_in(self, departure_files: int, weather_files: int) -> None:
        """Of those departure files that have come, what these files of weather, which are committed, are enough for."""
        while len(self.times) < departure_files and self._needed[len(self.times)] <= weather_files:
            file = self._files[len(self.times)]
            os.link(file, self._folder / file.name)
            self.times.append(time.time())


def weather_needed(workspace: Workspace) -> list[int]:
    """For each file of departures, how many files of weather hold the final readings of all hours up to its last."""
    files = [str(workspace.stream(name) / "*.parquet") for name in (WEATHER.name, DEPARTURE.name)]
    with duckdb.connect(":memory:") as database:
        return [needed for (needed,) in database.execute(_NEEDED, files).fetchall()]
