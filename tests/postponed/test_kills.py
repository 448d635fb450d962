"""Whoever writes and compacts a table with postponed buckets is killed before a write to the storage, at one after the
other. In between each partition has the rows of some compaction; the next life finishes, with each row once.

WIDETABLE_POSTPONED_KILL_STRIDE: how many writes from one kill to the next (default 8).
"""

from __future__ import annotations

import os
import random
import shutil
from itertools import count
from pathlib import Path

import pytest

import widetable as wt
from tests.kill.processes import start
from tests.kill.programs.postponed_program import WRITES, visible
from tests.support.faults.patience import PATIENCE_SECONDS
from tests.support.programs.tallies import Note

STRIDE = int(os.environ.get("WIDETABLE_POSTPONED_KILL_STRIDE", "8"))


def ended(table: Path, call: int) -> int | None:
    process = start("postponed_program", [str(table), str(call)], table.parent.parent / "out")
    process.join(PATIENCE_SECONDS)
    assert process.exitcode in (0, -9), (table.parent.parent / "out").read_text()
    return process.exitcode


def rows(table: wt.Table) -> dict[int, str]:
    return {row["k"]: row["v"] for row in table.scan().to_arrow().to_pylist()}


@pytest.mark.timeout(PATIENCE_SECONDS * 2)
def test_killed_before_any_write_the_next_life_finishes(
    tmp_path: Path, rng: random.Random, tally: Note
) -> None:
    (tmp_path / "out").touch()
    wt.Catalog(str(tmp_path / "wh")).create_table(
        "db.t",
        {"p": "INT NOT NULL", "k": "BIGINT NOT NULL", "v": "STRING"},
        primary_key=["p", "k"],
        partition_by=["p"],
        options={
            "bucket": "-2",
            "changelog-producer": "lookup",
            "postpone.target-row-num-per-bucket": "2",
            "widetable.fsync": "false",
        },
    )
    states = [visible(number) for number in range(WRITES + 1)]
    kills = 0
    for call in count(rng.randrange(STRIDE), STRIDE):
        copy = Path(shutil.copytree(tmp_path / "wh", tmp_path / "killed")) / "db.db/t"
        if ended(copy, call) == 0:
            break
        kills += 1
        between = rows(wt.Table.open(copy))
        for partition in range(2):
            part = {k: v for k, v in between.items() if k % 2 == partition}
            possible = [{k: v for k, v in state.items() if k % 2 == partition} for state in states]
            assert part in possible, f"killed at write {call}"
        assert ended(copy, -1) == 0
        table = wt.Table.open(copy)
        assert rows(table) == states[-1], f"killed at write {call}"
        assert table.audit().findings == ()
        folded: dict[int, str] = {}
        for row in table.changes(0, table.snapshots()[-1].id).to_pylist():
            if row["_row_kind"] in ("+I", "+U"):
                folded[row["k"]] = row["v"]
        assert folded == states[-1]
        shutil.rmtree(tmp_path / "killed")
    assert kills > 40 // STRIDE
    tally(kills=kills)
