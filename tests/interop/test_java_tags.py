"""Automatic tags: Paimon's Java and we tag the same snapshots, as often as either looks."""

from __future__ import annotations

import random
import shutil
from datetime import datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest

import widetable as wt
from tests.interop.java.java_process import JavaProcess, JavaTable
from tests.interop.java.java_session import NEEDS_JAVA
from tests.support.tables.dated_snapshots import dated_table

pytestmark = [pytest.mark.interop, NEEDS_JAVA]
TABLES, COMMITS = 12, 12


def drawn_options(rng: random.Random) -> dict[str, str]:
    found = {
        "tag.automatic-creation": rng.choice(["process-time", "watermark"]),
        "tag.creation-period": rng.choice(["daily", "hourly", "two-hours"]),
        "tag.period-formatter": rng.choice(
            ["with_dashes", "without_dashes", "without_dashes_and_spaces"]
        ),
        "tag.creation-delay": rng.choice(["0 s", "25 min"]),
        "tag.automatic-completion": rng.choice(["true", "false"]),
        "sink.watermark-time-zone": rng.choice(["UTC", "Asia/Tokyo", "America/St_Johns"]),
        "snapshot.time-retained": "36500 d",
    }
    if rng.random() < 0.3:
        found["tag.num-retained-max"] = str(rng.randrange(1, 4))
        found["tag.automatic-completion"] = (
            "false"  # its commit makes a snapshot more, and that a tag
        )
    return found


def test_both_tag_the_same_snapshots(tmp_path: Path, java: JavaProcess, rng: random.Random) -> None:
    for number in range(TABLES):
        options = drawn_options(rng)
        dated, time = dated_table(tmp_path / f"{number}", options), datetime(2024, 3, 9, 7)
        step_minutes = 1500 if options["tag.creation-period"] == "daily" else 150
        for _ in range(COMMITS):
            time += timedelta(minutes=rng.randrange(step_minutes))
            watermark = int(time.timestamp() * 1000) - 60_000
            dated.add(time, watermark if rng.random() < 0.8 else None)
        ours, theirs = dated.table, tmp_path / f"{number}/db.db/theirs"
        shutil.copytree(ours.path, theirs)
        row = pa.table({"k": [99], "v": [0]}, ours.arrow_schema)
        ours.write(row)
        ours.expire_snapshots()
        # Its commit, whose time is now, makes tags of what came before.
        JavaTable(java, theirs).write(row, options={"write-only": "false"})
        assert kept(wt.Table.open(str(theirs))) == kept(ours), options


def kept(table: wt.Table) -> dict[str, int]:
    """Those of snapshots that both have."""
    found = table.tags().items()
    return {name: snapshot.id for name, snapshot in found if snapshot.id <= COMMITS}
