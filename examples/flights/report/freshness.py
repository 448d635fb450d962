"""How old records are when they have arrived: in the table, in its changelog, in the second layer.

A record's way is read from what happened, not measured beside it:

    arrived  its file came to where Spark looks for files
    taken    the trigger of its stream's micro-batch began: Spark took the record from the source; each takes one file
    stored   the snapshot of that micro-batch's commit, whose files hold it in level 0
    told     the COMPACT snapshot that moved its file up from level 0, with the changelog of its rows
    counted  the commit of the second layer's first micro-batch that read the barrier of its records

Rows of one commit that were moved up by the same compaction go together: a `Journey`. Medians and
other quantiles are over records, so a journey counts as often as it has rows. Times are epoch seconds.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

import widetable as wt
from examples.flights.pipeline import PipelineRun
from examples.flights.second_layer import end_barrier
from examples.flights.wide_table import WIDENER_USER

STAGES = ("stored", "told", "counted")
BARRIER = "widetable.barrier"  # property of a snapshot: the barrier of its records
NO_BATCH = (
    2**63 - 1
)  # the identifier of commits that are no batch's: of compactions, of a writer that is idle


@dataclass(frozen=True)
class Journey:
    """Rows that went together. snapshot_id: of the commit that stored them."""

    group: str
    snapshot_id: int
    row_count: int
    arrived: float
    taken: float
    stored: float
    told: float
    counted: float

    def age(self, stage: str) -> float:
        """Seconds from when the rows arrived until they were there."""
        seconds: float = getattr(self, stage) - self.arrived
        return seconds


@dataclass(frozen=True)
class Freshness:
    """All rows of all streams, in the order in which they were stored."""

    journeys: tuple[Journey, ...]

    def without_first_batches(self) -> Freshness:
        """Without the first batch of each stream, in which Spark starts its Python processes."""
        first = {
            group: min(each.arrived for each in self.journeys if each.group == group)
            for group in {journey.group for journey in self.journeys}
        }
        return Freshness(tuple(each for each in self.journeys if each.arrived > first[each.group]))

    def ages(self, stage: str) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
        """Ages in seconds, ascending; and which share of all rows was not older than that."""
        order = sorted(self.journeys, key=lambda journey: journey.age(stage))
        rows = np.cumsum([journey.row_count for journey in order], dtype=np.float64)
        total = rows[-1] if len(rows) else 1.0
        return np.array([journey.age(stage) for journey in order]), rows / total

    def quantile(self, stage: str, share: float) -> float:
        """The age in seconds that this share of all rows did not exceed; NaN without rows."""
        ages, shares = self.ages(stage)
        if not len(ages):
            return float("nan")
        return float(ages[min(int(np.searchsorted(shares, share - 1e-12)), len(ages) - 1)])


def measure_freshness(wide: wt.Table, hourly: wt.Table, run: PipelineRun) -> Freshness:
    """Follow all rows that streams wrote into the wide table. Raises KeyError when some never arrived."""
    snapshots = {snapshot.id: snapshot for snapshot in wide.snapshots()}
    streams = {stream.query_id: stream for stream in run.streams}
    counted = _counted(hourly, run)
    journeys = []
    for (stored_id, told_id), row_count in sorted(level0_moves(wide).items()):
        stored = snapshots[stored_id]
        if stored.commit_user == WIDENER_USER:
            continue
        stream = streams[stored.commit_user]
        journeys.append(
            Journey(
                group=stream.group,
                snapshot_id=stored_id,
                row_count=row_count,
                arrived=stream.arrivals[stored.commit_identifier],
                taken=stream.batch(stored.commit_identifier).started,
                stored=stored.time_millis / 1000,
                told=snapshots[told_id].time_millis / 1000,
                counted=_first_from(counted, int(stored.properties[BARRIER])),
            )
        )
    return Freshness(tuple(journeys))


def level0_moves(table: wt.Table) -> dict[tuple[int, int], int]:
    """Rows by (snapshot whose commit put them in level 0, snapshot that moved them up)."""
    moves: Counter[tuple[int, int]] = Counter()
    waiting: dict[str, tuple[int, int]] = {}
    for snapshot in table.snapshots():
        live = {
            file.file_name: file.row_count
            for split in table.scan(snapshot_id=snapshot.id).splits()
            for file in split.files
            if file.level == 0
        }
        for name in waiting.keys() - live.keys():
            stored_id, row_count = waiting.pop(name)
            moves[stored_id, snapshot.id] += row_count
        for name in live.keys() - waiting.keys():
            waiting[name] = (snapshot.id, live[name])
    return dict(moves)


def _counted(hourly: wt.Table, run: PipelineRun) -> list[tuple[int, float]]:
    """Up to which barrier each batch of the second layer read, and when it was in; ascending."""
    committed = {
        snapshot.commit_identifier: snapshot.time_millis / 1000
        for snapshot in hourly.snapshots()
        if snapshot.commit_user == run.layer.query_id
    }
    return [
        (end_barrier(batch), committed.get(batch.batch_id, batch.ended))
        for batch in run.layer.batches
    ]


def _first_from(counted: list[tuple[int, float]], barrier: int) -> float:
    """Raises KeyError where no batch came so far."""
    for end, at in counted:
        if end >= barrier:
            return at
    raise KeyError(barrier)
