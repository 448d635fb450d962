"""Two joiners of one table, killed with -9 in their rounds while writers change both sources: in the end the table is
their join, its changelog says so, and every change of it is a difference.
"""

from __future__ import annotations

import os
import random
import time
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import widetable as wt
from tests.kill.killing_file_io import POINTS
from tests.kill.processes import start
from tests.kill.programs.joiner import JOINER_POINTS
from tests.support.faults.patience import PATIENCE_SECONDS
from tests.support.programs.tallies import Note
from tests.support.tables.joined import A, B, changes, newest

KILLS = int(os.environ.get("WIDETABLE_JOIN_KILLS", "6"))
JOINERS, KEYS = 2, 12
_POINTS = (*JOINER_POINTS, *POINTS)
FAST = {"widetable.fsync": "false"}


class Joiners:
    """One that died by its own hand is started again; points that nobody died at come first."""

    def __init__(self, out: wt.Table, work: Path, rng: random.Random) -> None:
        self._out, self._work, self._rng = out, work, rng
        self._running: dict[int, BaseProcess] = {}
        self.stop = work / "stop"
        self.kills: list[str] = []
        for number in range(JOINERS):
            self.start(number)

    def start(self, number: int) -> None:
        left = [each for each in _POINTS if each not in self.kills]
        point = "none" if self.is_over else self._rng.choice(left or _POINTS)
        call = str(self._rng.randrange(3))
        arguments = [self._out.path, str(self.stop), point, call]
        self._running[number] = start("joiner", arguments, self._work / "out.txt")
        self._running[number].name = point

    @property
    def is_over(self) -> bool:
        """Whether enough were killed, at each point one."""
        return len(self.kills) >= KILLS and set(self.kills) == set(_POINTS)

    def watch(self) -> bool:
        """Whether any is left."""
        for number, process in list(self._running.items()):
            code = process.exitcode
            if code is None:
                continue
            del self._running[number]
            if code == -9:
                self.kills.append(process.name)
                self.start(number)
            else:
                assert code == 0, (self._work / "out.txt").read_text()[-4000:]
        return bool(self._running)

    def kill(self) -> None:
        for process in self._running.values():
            process.kill()
            process.join()


@pytest.mark.slow
def test_joiners_that_are_killed_leave_the_join(
    rng: random.Random, tmp_path: Path, tally: Note
) -> None:
    catalog = wt.Catalog(str(tmp_path / "wh"))
    bucketed = {"bucket-key": "u", "bucket": "2", **FAST}
    a = catalog.create_table("db.a", A, primary_key=["u", "o"], options=bucketed)
    b = catalog.create_table("db.b", B, primary_key=["u"], options=FAST)
    join = wt.DeltaJoin(catalog, "db.out", "db.a", "db.b", ["u"], "left")
    out = join.create({"changelog-producer": "input", **FAST})
    joiners = Joiners(out, tmp_path, rng)
    deadline = time.monotonic() + PATIENCE_SECONDS
    try:
        while joiners.watch():
            assert time.monotonic() < deadline, f"not done in time: {joiners.kills}"
            time.sleep(0.1)
            if joiners.is_over:
                joiners.stop.touch()
                continue
            write_some(rng, a, [("u", KEYS), ("o", 4), ("amt", 3)])
            write_some(rng, b, [("u", KEYS), ("name", 3)])
            for table in (a, b):
                table.expire_snapshots(num_retained_min=2, time_retained_millis=0, limit=2)
    finally:
        joiners.kill()
    tally(kills=len(joiners.kills))
    assert joiners.is_over
    join.run_once()
    audit(a, b, out)


def write_some(rng: random.Random, table: wt.Table, columns: list[tuple[str, int]]) -> None:
    """Rows of small random values; a third of them are deleted."""
    schema = table.arrow_schema
    rows = []
    for _ in range(4):
        row: dict[str, Any] = {name: rng.randrange(most) for name, most in columns}
        if "name" in row:
            row["name"] = f"name {row['name']}"
        rows.append({**row, "_row_kind": rng.choice(["+I", "+U", "-D"])})
    table.write(pa.Table.from_pylist(rows, schema.append(pa.field("_row_kind", pa.string()))))


def audit(a: wt.Table, b: wt.Table, out: wt.Table) -> None:
    names = {row["u"]: row["name"] for row in b.scan().to_arrow().to_pylist()}
    expected = {
        (row["u"], row["o"]): (row["u"], row["o"], row["amt"], names.get(row["u"]))
        for row in a.scan().to_arrow().to_pylist()
    }
    found = {
        tuple(row.values())[:2]: tuple(row.values()) for row in out.scan().to_arrow().to_pylist()
    }
    assert found == expected
    rounds = [each for each in out.snapshots() if each.commit_user == "join"]
    assert [each.commit_identifier for each in rounds] == [*range(1, len(rounds) + 1)]
    folded: dict[Any, tuple[Any, ...]] = {}
    for kind, *values in changes(out, 0, newest(out), in_order=True):
        key = tuple(values[:2])
        if kind in ("-U", "-D"):
            assert folded.pop(key) == tuple(values)
        else:
            assert key not in folded
            folded[key] = tuple(values)
    assert folded == expected
