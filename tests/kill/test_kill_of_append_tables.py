"""Whoever writes, deletes, updates, compacts, sorts and expires an append table is killed before a write to the
storage, at one after the other. In between the table has the rows of a step; the next life finishes, each row once.

WIDETABLE_APPEND_KILL_STRIDE: how many writes from one kill to the next (default 8); 1 for all of them, as in campaigns.
"""

from __future__ import annotations

import os
import random
import shutil
from itertools import count
from pathlib import Path

import pytest

import widetable as wt
from tests.append.model import KINDS
from tests.kill.processes import start
from tests.kill.programs.append_program import Rows, states
from tests.support.faults.patience import PATIENCE_SECONDS
from tests.support.programs.tallies import Note

STRIDE = int(os.environ.get("WIDETABLE_APPEND_KILL_STRIDE", "8"))


def ended(table: Path, call: int) -> int | None:
    process = start("append_program", [str(table), str(call)], table.parent.parent / "out")
    process.join(PATIENCE_SECONDS)
    assert process.exitcode in (0, -9), (table.parent.parent / "out").read_text()
    return process.exitcode


def rows(table: wt.Table) -> Rows:
    actual = table.scan(["n", "s"]).to_arrow().to_pylist()
    by_number = {row["n"]: row["s"] for row in actual}
    assert len(by_number) == len(actual), "a row is there twice"
    return by_number


@pytest.mark.timeout(PATIENCE_SECONDS * 2)
@pytest.mark.parametrize("kind", ["vectors", "buckets"])
def test_killed_before_any_write_the_next_life_finishes(
    tmp_path: Path, rng: random.Random, tally: Note, kind: str
) -> None:
    (tmp_path / "out").touch()
    columns = {"p": "INT", "n": "BIGINT", "s": "STRING"}
    options = {**KINDS[kind], "widetable.fsync": "false"}
    if "bucket-key" in options:
        options["bucket-key"] = "n"
    empty = wt.Catalog(str(tmp_path / "wh")).create_table(
        "db.t", columns, partition_by=["p"], options=options
    )
    every = states()
    kills = seen = 0
    for call in count(rng.randrange(STRIDE), STRIDE):
        copy = Path(shutil.copytree(tmp_path / "wh", tmp_path / "killed")) / "db.db/t"
        if ended(copy, call) == 0:
            break
        kills += 1
        between = rows(wt.Table.open(copy))
        assert between in every, f"killed at write {call}"
        seen += bool(between)
        assert ended(copy, -1) == 0
        table = wt.Table.open(copy)
        assert rows(table) == every[-1], f"killed at write {call}"
        assert table.audit().findings == ()
        if kind == "buckets":
            _check_order(table)
        shutil.rmtree(tmp_path / "killed")
    assert empty.snapshots() == []
    assert kills > 100 // STRIDE
    assert seen > 40 // STRIDE
    tally(kills=kills, seen=seen)


def _check_order(table: wt.Table) -> None:
    """Rows of a bucket come in the order of the commits, whoever was killed."""
    for split in table.scan(["n"]).split_reads():
        numbers = [n for batch in split.to_batches() for n in batch.column("n").to_pylist()]
        assert numbers == sorted(numbers)
