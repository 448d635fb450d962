"""kill -9 of maintainers that widen a table under barriers, at random moments and at named points, while its writers
go on, and those of the dim; then every cell of every barrier is compared, and the table audited.

WIDETABLE_KILLS: kills (default 48, of which these are an eighth).
"""

from __future__ import annotations

import os
import random
import time
from multiprocessing.process import BaseProcess
from pathlib import Path

import pytest

from tests.kill.killing_file_io import CHANGELOG_POINTS, POINTS
from tests.kill.processes import start
from tests.support.faults.patience import PATIENCE_SECONDS
from tests.support.programs.tallies import Note
from tests.widetable.derive.widening.orders import INTERVAL, WIDENER, Orders
from widetable.errors import NotFoundError

KILLS = max(int(os.environ.get("WIDETABLE_KILLS", "48")) // 8, 5)
DEADLINE_SECONDS = PATIENCE_SECONDS + 60 * KILLS


@pytest.mark.slow
@pytest.mark.timeout(DEADLINE_SECONDS + 300)
def test_killed_wideners_leave_no_wrong_cell_at_any_barrier(
    rng: random.Random, tmp_path: Path, tally: Note
) -> None:
    options = {"widetable.widen-piece-rows": "7", "write-only": "true"}
    orders, stop = Orders(tmp_path, **options), tmp_path / "stop"
    orders.round()
    points, running = ["none", *POINTS, *CHANGELOG_POINTS], list[BaseProcess]()
    kills, barrier, deadline = 0, 0, time.monotonic() + DEADLINE_SECONDS
    while kills < KILLS and time.monotonic() < deadline:
        for process in [each for each in running if each.exitcode is not None]:
            assert process.exitcode == -9, (tmp_path / "out").read_text()
            running.remove(process)
            kills += 1
        while len(running) < 2:
            given = [orders.fact.path, str(stop), rng.choice(points), str(rng.randrange(6))]
            running.append(start("widener", given, tmp_path / "out"))
        barrier += INTERVAL
        _write(orders, rng, barrier)
        time.sleep(rng.random() / 10)
        if rng.random() < 0.1:
            rng.choice(running).kill()
    stop.touch()
    for process in running:
        process.join(PATIENCE_SECONDS)
        assert process.exitcode in (0, -9), (tmp_path / "out").read_text()
    assert kills >= KILLS
    while orders.frontiers()[WIDENER] < barrier:
        orders.round()
    orders.round()  # compacts what the last one let go
    compared = 0
    for each in range(INTERVAL, barrier + 1, INTERVAL):
        try:
            found = orders.as_of(each)[1]
        except NotFoundError:  # passed over
            continue
        assert found == orders.expected(each), each
        compared += 1
    assert orders.as_of() == (barrier, orders.expected(barrier))
    report = orders.fact.audit(start=0)
    assert report.ok, "\n".join(map(str, report.findings))
    assert report.checks["widened"] == len(orders.expected(barrier))
    tally(kills=kills, barriers=compared)


def _write(orders: Orders, rng: random.Random, barrier: int) -> None:
    """One barrier of all three writers."""
    values = {id % 9: (rng.choice("OPQR"), id) for id in rng.sample(range(99), 3)}
    orders.write("dim", {**values, rng.randrange(9): None}, barrier)
    for who, most in (("cust", 10), ("amount", 99)):
        ids = rng.sample(range(60), 5)
        orders.write(who, {id: rng.randrange(most) for id in ids}, barrier)
