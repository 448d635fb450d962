"""Writers that never pause, a maintainer and a reader of the changelog, while the table gets other buckets up and down,
and kill -9 of whoever does that; then every cell, the whole changelog and the reader's totals are audited.

WIDETABLE_KILLS: a sixteenth as many kills (default 3).
"""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

import widetable as wt
from tests.kill.campaign import Campaign
from tests.kill.killing_file_io import POINTS
from tests.kill.outcome import audit_changelog, audit_rows
from tests.kill.workload import table_options, table_schema, totals_schema
from tests.support.faults.patience import PATIENCE_SECONDS
from tests.support.programs.tallies import Note
from widetable.commit.snapshots.committed import RESCALED
from widetable.format.snapshot import Snapshot

KILLS = max(int(os.environ.get("WIDETABLE_KILLS", "48")) // 16, 3)
WRITERS, BATCHES = 2, 10 * KILLS
DEADLINE_SECONDS = PATIENCE_SECONDS + 60 * KILLS
# Of the writers and of the rescaler: to be between a commit's lists and its snapshot, or just behind it.
RESCALER_POINTS = ("before_publish", "after_publish", "torn_file")


@pytest.mark.slow
@pytest.mark.timeout(DEADLINE_SECONDS + 300)
@pytest.mark.parametrize("attempt", range(1 if KILLS == 3 else 4))
def test_rescalings_lose_nothing_and_refuse_nobody(
    rng: random.Random, tmp_path: Path, tally: Note, attempt: int
) -> None:
    seed, write_only = rng.randrange(2**32), rng.choice(["true", "false"])
    catalog = wt.Catalog(str(tmp_path / "wh"))
    options = table_options() | {"write-only": write_only, "widetable.fsync": "false"}
    table = catalog.create_table("db.t", table_schema(), primary_key=["k"], options=options)
    totals = catalog.create_table("db.totals", totals_schema(), primary_key=["bucket"])
    points_of = {
        "writer": ((), POINTS),
        "rescaler": (RESCALER_POINTS, ()),
        "maintainer": ((), POINTS),
        "reader": ((), POINTS),
    }
    campaign = Campaign(rng, table, totals, tmp_path, seed, points_of, KILLS, BATCHES)
    names = ["writer-0", "writer-1", "rescaler", "reader"]
    for name in [*names, "maintainer-0"] if write_only == "true" else names:
        campaign.start(name)
    campaign.run(DEADLINE_SECONDS)
    table = wt.Table.open(table.path)
    moves = [
        (s.id, int(s.properties[RESCALED])) for s in snapshots(table) if RESCALED in s.properties
    ]
    appends = [s.id for s in snapshots(table) if s.commit_kind == "APPEND"]
    beside = sum(appends[0] < id < appends[-1] for id, _ in moves)
    tally(kills=campaign.kills.total(), rescalings=len(moves), beside_writers=beside)
    assert {1, 5} <= {buckets for _, buckets in moves}, f"seed {seed}"
    audit_changelog(table, totals)
    audit_rows(table, seed, dict.fromkeys(range(WRITERS), BATCHES))


def snapshots(table: wt.Table) -> list[Snapshot]:
    store = table._committer.snapshots
    return [store.load(id) for id in store.ids()]
