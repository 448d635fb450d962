"""kill -9 of writers, of a maintainer, of a reader of the changelog and of real Spark queries, at random moments and at
named points; then every cell, the whole changelog and the reader's totals are audited.

WIDETABLE_KILLS: kills of plain processes (default 48), and a sixth as many where the writers make the changelog
themselves; WIDETABLE_SPARK_KILLS: kills of a Spark query (default 2).
"""

from __future__ import annotations

import os
import random
from pathlib import Path

import pyarrow.parquet as pq
import pytest

import widetable as wt
from tests.kill.campaign import Campaign
from tests.kill.killing_caches import CACHE_POINTS
from tests.kill.killing_file_io import CHANGELOG_POINTS, POINTS
from tests.kill.outcome import audit_changelog, audit_rows
from tests.kill.programs.reader import READER_POINTS
from tests.kill.workload import batch, table_options, table_schema, totals_schema
from tests.support.faults.patience import PATIENCE_SECONDS
from tests.support.programs.tallies import Note

KILLS = int(os.environ.get("WIDETABLE_KILLS", "48"))
SPARK_KILLS = int(os.environ.get("WIDETABLE_SPARK_KILLS", "2"))
PLAIN_WRITERS, BATCHES, SPARK_BATCHES = 3, 40, SPARK_KILLS + 2
INLINE_KILLS = max(KILLS // 6, 8)
INLINE_BATCHES = 3 * INLINE_KILLS  # of each of two writers: one that dies has sent three, or fewer
DEADLINE_SECONDS = PATIENCE_SECONDS + 60 * (KILLS + SPARK_KILLS)
COMPACTION_POINTS = (*CACHE_POINTS, *CHANGELOG_POINTS)


@pytest.mark.slow
@pytest.mark.timeout(DEADLINE_SECONDS + 300)  # Spark starts often, where others use the cores
def test_no_cell_is_lost_or_doubled_by_kills(
    rng: random.Random, java_home: str, tmp_path: Path, tally: Note
) -> None:
    assert java_home
    seed = rng.randrange(2**32)
    table, totals = _tables(tmp_path, {"write-only": "true"})
    (tmp_path / "source").mkdir()
    for number in range(SPARK_BATCHES):
        pq.write_table(batch(seed, 3, number), tmp_path / "source" / f"{number:04d}.parquet")
        os.utime(tmp_path / "source" / f"{number:04d}.parquet", (number + 1, number + 1))
    points_of = {
        "writer": ((), POINTS),
        "maintainer": (COMPACTION_POINTS, POINTS),
        "reader": (READER_POINTS, POINTS),
    }
    campaign = Campaign(
        rng, table, totals, tmp_path, seed, points_of, KILLS, BATCHES, spark_kills=SPARK_KILLS
    )
    campaign.start_spark()
    for name in ("writer-0", "writer-1", "writer-2", "maintainer-0", "maintainer-1", "reader"):
        campaign.start(name)
    campaign.run(DEADLINE_SECONDS)
    tally(kills=campaign.kills.total(), spark_kills=campaign.kills["spark"])
    audit_rows(table, seed, dict.fromkeys(range(PLAIN_WRITERS), BATCHES) | {3: SPARK_BATCHES})
    audit_changelog(table, totals)
    assert campaign.kills["spark"] == SPARK_KILLS
    _assert_killed_at(campaign, KILLS, (*POINTS, *COMPACTION_POINTS, *READER_POINTS))


@pytest.mark.slow
@pytest.mark.timeout(DEADLINE_SECONDS + 300)
def test_writers_that_make_the_changelog_themselves_lose_none_of_it(
    rng: random.Random, tmp_path: Path, tally: Note
) -> None:
    """Nobody maintains the table: what a killed writer left over, and its lease, the others take."""
    seed = rng.randrange(2**32)
    table, totals = _tables(tmp_path, {"write-only": "false"})
    points_of = {
        "writer": (COMPACTION_POINTS, POINTS),
        "reader": (READER_POINTS, POINTS),
    }
    campaign = Campaign(rng, table, totals, tmp_path, seed, points_of, INLINE_KILLS, INLINE_BATCHES)
    for name in ("writer-0", "writer-1", "reader"):
        campaign.start(name)
    campaign.run(DEADLINE_SECONDS)
    tally(kills=campaign.kills.total(), spark_kills=campaign.kills["spark"])
    audit_changelog(table, totals)
    audit_rows(table, seed, dict.fromkeys(range(2), INLINE_BATCHES))
    _assert_killed_at(campaign, INLINE_KILLS, COMPACTION_POINTS)


def _tables(folder: Path, options: dict[str, str]) -> tuple[wt.Table, wt.Table]:
    catalog = wt.Catalog(str(folder / "wh"))
    table = catalog.create_table(
        "db.t", table_schema(), primary_key=["k"], options=table_options() | options
    )
    return table, catalog.create_table("db.totals", totals_schema(), primary_key=["bucket"])


def _assert_killed_at(campaign: Campaign, kills: int, points: tuple[str, ...]) -> None:
    assert campaign.plain_kills >= kills
    assert not [point for point in points if not campaign.kills[point]], campaign.kills
