"""What the widener did, read from its commits: how much it wrote, and how soon.

A round of the widener reads flights and aircraft as of one barrier, which its last commit completes. So a commit of
schedules, or of aircraft, has been followed when the round of its barrier, or of a later one, ended: that is its lag.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

import widetable as wt
from examples.flights.dimensions import PLANES
from examples.flights.pipeline import PipelineRun
from examples.flights.report.freshness import BARRIER, NO_BATCH
from examples.flights.tables import DemoTables
from examples.flights.wide_table import SCHEDULE, WIDENER_USER


@dataclass(frozen=True)
class Widened:
    """row_count: that were written, some flights more than once. lags: seconds, ascending."""

    round_count: int
    row_count: int
    lags: tuple[float, ...]

    def lag(self, share: float) -> float:
        """Seconds that this share of the commits did not exceed; NaN without any."""
        return float(np.quantile(self.lags, share)) if self.lags else float("nan")


def read_widened(tables: DemoTables, run: PipelineRun) -> Widened:
    """Read the snapshots of both tables."""
    commits = [each for each in tables.wide.snapshots() if each.commit_user == WIDENER_USER]
    ended = {int(each.properties[BARRIER]): each.time_millis for each in commits}  # its last commit
    query_ids = {stream.group: stream.query_id for stream in run.inputs}
    lags = [
        *_lags(tables.wide, query_ids[SCHEDULE.name], ended),
        *_lags(tables.planes, query_ids[PLANES.name], ended),
    ]
    return Widened(
        round_count=len(ended),
        row_count=sum(int(each.properties["widetable.rows"]) for each in commits),
        lags=tuple(sorted(lags)),
    )


def _lags(table: wt.Table, writer: str, ended: Mapping[int, int]) -> list[float]:
    """Of the commits of one writer. ended: when rounds did, epoch milliseconds, by their barriers."""
    lags = []
    for snapshot in table.snapshots():
        if snapshot.commit_user == writer and snapshot.commit_identifier != NO_BATCH:
            barrier = int(snapshot.properties[BARRIER])
            followed = min(at for read, at in ended.items() if read >= barrier)
            lags.append((followed - snapshot.time_millis) / 1000)
    return lags
