"""kill -9 of maintainers that widen a table and feed its index, at random moments and at named points, while facts and
dims are written and deleted; then every widened cell, the index and the whole changelog are audited.

WIDETABLE_KILLS: kills (default 48, of which these are a third).
"""

from __future__ import annotations

import contextlib
import os
import random
import time
from multiprocessing.process import BaseProcess
from pathlib import Path

import pyarrow as pa
import pytest

from tests.kill.killing_file_io import CHANGELOG_POINTS, POINTS
from tests.kill.processes import start
from tests.support.faults.patience import PATIENCE_SECONDS
from tests.support.programs.tallies import Note
from tests.widetable.derive.widening.shop import Shop

KILLS = max(int(os.environ.get("WIDETABLE_KILLS", "48")) // 3, 8)
DEADLINE_SECONDS = PATIENCE_SECONDS + 60 * KILLS
FACTS, CUSTOMERS = 60, 12


def write_something(shop: Shop, rng: random.Random) -> None:
    """As a writer that other writers do not wait for."""
    ids = rng.sample(range(FACTS), 5)
    kind = rng.random()
    if kind < 0.55:
        shop.orders(*[(id, rng.choice([None, *range(CUSTOMERS)]), 1.0) for id in ids])
    elif kind < 0.7:
        shop.orders(*[(id, None, None) for id in ids[:2]], kind="-D")
    elif kind < 0.9:
        chosen = rng.sample(range(CUSTOMERS), 3)
        shop.customers(*[(id, f"city {rng.randrange(10**6)}", id) for id in chosen])
    else:
        shop.forget(rng.randrange(CUSTOMERS))


@pytest.mark.slow
@pytest.mark.timeout(DEADLINE_SECONDS + 300)
def test_killed_wideners_leave_no_wrong_cell(
    rng: random.Random, tmp_path: Path, tally: Note
) -> None:
    options = {"index.cust": "db.by_cust", "widetable.widen-piece-rows": "7", "write-only": "true"}
    shop, stop = Shop(tmp_path, **options), tmp_path / "stop"
    points = ["none", "none", *POINTS, *CHANGELOG_POINTS]
    running: list[BaseProcess] = []
    kills, deadline = 0, time.monotonic() + DEADLINE_SECONDS
    while kills < KILLS and time.monotonic() < deadline:
        for process in [each for each in running if each.exitcode is not None]:
            assert process.exitcode == -9, (tmp_path / "out").read_text()
            running.remove(process)
            kills += 1
        while len(running) < 2:
            given = [shop.fact.path, str(stop), rng.choice(points), str(rng.randrange(6))]
            running.append(start("widener", given, tmp_path / "out"))
        write_something(shop, rng)
        time.sleep(rng.random() / 20)
        if rng.random() < 0.1:
            with contextlib.suppress(ProcessLookupError):
                rng.choice(running).kill()
    stop.touch()
    for process in running:
        process.join(PATIENCE_SECONDS)
        assert process.exitcode in (0, -9), (tmp_path / "out").read_text()
    tally(kills=kills)
    assert kills >= KILLS
    check(shop)


def check(shop: Shop) -> None:
    while shop.fact.maintain(once=True, expire=False).derived_rows:
        pass
    dims = {row["id"]: row for row in shop.dim.scan().to_arrow().to_pylist()}
    rows = shop.widened()
    for id, cust, city, level in rows:
        row = dims.get(cust, {"city": None, "level": None})
        assert (id, city, level) == (id, row["city"], row["level"])
    report = shop.fact.audit(start=0)
    assert report.ok, "\n".join(map(str, report.findings))
    assert report.checks["widened"] == len(rows)
    found = shop.fact.lookup_index(pa.table({"cust": range(CUSTOMERS)}), ["id"])
    assert sorted(found["id"].to_pylist()) == [id for id, cust, *_ in rows if cust is not None]
    appends = [s for s in shop.fact.snapshots() if s.commit_user == "widen/cust"]
    assert len({s.commit_identifier for s in appends if s.commit_kind == "APPEND"}) == len(
        [s for s in appends if s.commit_kind == "APPEND"]
    )
