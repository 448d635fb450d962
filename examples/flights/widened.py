"""What the widener did, read from its commits: how much it wrote, and how soon.

A round of the widener reads one snapshot of the flights and one of the aircraft; its last commit names both
(`widen.fact`, `widen.dim`). So a commit of schedules, or of aircraft, has been followed when a round that read it, or a
later one, ended: that is its lag. A commit behind which no round had anything to write has none.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

import widetable as wt
from examples.flights.dimensions import PLANES
from examples.flights.pipeline import PipelineRun
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
    ends = [each for each in commits if "widen.dim" in each.properties]
    of_facts, of_dims = (
        [(int(end.properties[name]), end.time_millis) for end in ends]
        for name in ("widen.fact", "widen.dim")
    )
    query_ids = {stream.group: stream.query_id for stream in run.streams}
    lags = [
        *_lags(tables.wide, query_ids[SCHEDULE.name], of_facts),
        *_lags(tables.planes, query_ids[PLANES.name], of_dims),
    ]
    return Widened(
        round_count=len(ends),
        row_count=sum(int(each.properties["widetable.rows"]) for each in commits),
        lags=tuple(sorted(lags)),
    )


def _lags(table: wt.Table, writer: str, ends: Sequence[tuple[int, int]]) -> list[float]:
    """Of the commits of one writer. ends: which snapshot of the table a round read, and when it ended."""
    lags = []
    for snapshot in table.snapshots():
        times = [end for read, end in ends if read >= snapshot.id]
        if snapshot.commit_user == writer and times:
            lags.append((min(times) - snapshot.time_millis) / 1000)
    return lags
