"""Sources of a job end at one barrier, whatever becomes available between the questions, whoever died before."""

from __future__ import annotations

import os
import random
from pathlib import Path
from typing import Any, cast

import pytest

from widetable.commit.barriers.barrier_plan import BarrierPlans
from widetable.connector import Limits, barrier_streams
from widetable.connector.barrier_streams import BarrierPosition
from widetable.operations.barriers.aligned_source import AlignedSource
from widetable.storage.local import LocalFileIO
from widetable.storage.paths import TablePaths
from widetable_spark.startup.source_order import RoundCount

STARTS = int(os.environ.get("WIDETABLE_STARTS", "1000"))


class Barriers:
    """What a source knows: plans on a disk, and barriers that become available at any moment."""

    identity = "t"
    revision = 0

    def __init__(self, folder: Path) -> None:
        self.plans = BarrierPlans(LocalFileIO(fsync=False), TablePaths(str(folder)), "job")
        self.available = 0

    def check_alive(self) -> None:
        pass

    def planned(self, barrier: int) -> int | None:
        return self.plans.after(barrier)

    def decided(self, barrier: int, newest: int | None) -> int | None:
        return self.plans.decide(barrier, self.available) if self.available > barrier else None


def test_case_6_two_barriers_are_never_in_one_batch(
    tmp_path: Path, rng: random.Random, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(barrier_streams, "POLL_SECONDS", 0)
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    barriers = Barriers(tmp_path / "table")
    at, batches = 0, 0
    for _ in range(STARTS):
        sources = [
            BarrierPosition(cast("AlignedSource", barriers), RoundCount("job"))
            for _ in range(rng.choice((1, 2, 2, 3, 6)))
        ]
        for _ in range(rng.randrange(1, 4)):
            start = {"version": 3, "barrier": at, "revision": 0, "table": "t"}
            ends: list[dict[str, Any]] = []
            for source in sources:
                barriers.available += 10 * (rng.random() < 0.2)
                ends.append(source.next_end(start, Limits()))
            assert all(end == ends[0] for end in ends), "a batch of two barriers"
            batches += ends[0]["barrier"] > at
            at = ends[0]["barrier"]
        for source in sources:
            if rng.random() < 0.5:
                source.close()
            else:  # its process ends by force
                os.close(cast("RoundCount", source._order)._descriptor)
    assert batches > STARTS // 10


def test_a_query_that_has_not_ended_yet_makes_the_next_one_wait(tmp_path: Path) -> None:
    key = str(tmp_path)
    before, after = RoundCount(key), RoundCount(key)
    for _ in range(3):
        before.asked()
    after.asked()
    assert not after.is_first()
    before.close()
    assert after.is_first()
    after.close()
