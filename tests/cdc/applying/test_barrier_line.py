"""Which barrier a round belongs to: by the clock, the same in all targets, also across kills at any place."""

from __future__ import annotations

import random

from widetable_cdc.applying.barrier_line import ClockLine, LsnLine

INTERVAL = 10


class Clock:
    def __init__(self, now: int) -> None:
        self.now = now

    def __call__(self) -> int:
        return self.now


def test_a_position_of_the_log_is_its_own_barrier() -> None:
    line = LsnLine()
    assert [line.of_round(lsn) for lsn in (7, 900)] == [7, 900]
    assert line.completes_rounds


def test_a_round_belongs_to_the_first_open_barrier_from_the_clock_s_on() -> None:
    clock = Clock(47)
    line = ClockLine(INTERVAL, clock)
    line.join(lsn=5, completed=30, last_barrier=30)
    assert line.of_round(6) == 40
    clock.now = 48
    assert line.due(6) == 40
    line.completed = 40
    assert line.due(6) is None
    assert line.of_round(7) == 50, "40 is complete and takes no more rows"
    assert line.due(7) is None, "the clock has not come to 50"
    assert line.due(7, ends=True) == 50
    clock.now = 33
    assert line.of_round(8) == 50, "barriers of a writer do not go back with its clock"


def test_targets_that_lack_the_last_round_get_its_barrier() -> None:
    clock = Clock(95)
    line = ClockLine(INTERVAL, clock)
    line.join(lsn=900, completed=30, last_barrier=40)
    line.join(lsn=700, completed=30, last_barrier=30)
    assert line.unfinished(700) == 900
    assert line.due(700, ends=True) is None, "others would be complete without the round"
    assert [line.of_round(lsn) for lsn in (800, 900)] == [40, 40]
    assert line.unfinished(900) is None
    assert line.of_round(950) == 90


def test_a_transaction_has_one_barrier_in_all_tables_whenever_the_job_is_killed(
    rng: random.Random,
) -> None:
    """A model of tables: label, frontier and position as the engine keeps them. Runs of the job end at any step."""
    for _ in range(300):
        tables = [Model() for _ in range(rng.randint(1, 4))]
        clock, confirmed, end = Clock(rng.randint(10, 99)), 0, 0
        for _ in range(rng.randint(2, 6)):
            end += rng.randint(1, 5)
            confirmed = run_until_killed(tables, clock, confirmed, end, rng)
        labels = [table.labels for table in tables]
        for lsn in range(1, end + 1):
            written = {of[lsn] for of in labels if lsn in of}
            assert len(written) <= 1, (lsn, labels)
        for table in tables:
            for lsn, at in table.labels.items():
                assert at > table.frontier_at[lsn], "rows joined a complete barrier"


class Model:
    """A table of the engine. labels: the barrier of each transaction. frontier_at: what was complete before it came."""

    def __init__(self) -> None:
        self.position = self.frontier = self.last = 0
        self.labels: dict[int, int] = {}
        self.frontier_at: dict[int, int] = {}

    def write(self, since: int, lsn: int, barrier: int) -> None:
        label = max(barrier, self.frontier + INTERVAL, self.last)
        for transaction in range(max(since, self.position) + 1, lsn + 1):
            self.labels[transaction] = label
            self.frontier_at[transaction] = self.frontier
        self.position, self.last = lsn, label


def run_until_killed(
    tables: list[Model], clock: Clock, confirmed: int, end: int, rng: random.Random
) -> int:
    """Run a job up to the LSN `end`, and kill it at any step; return what is confirmed then."""
    line = ClockLine(INTERVAL, clock)
    for table in tables:
        line.join(table.position, table.frontier, table.last)
    steps = rng.randint(0, 30)
    while steps > 0:
        clock.now += rng.choice([0, 0, 1, 7, 25, -3])
        ends_at = min(end, confirmed + rng.randint(1, 3))
        upto = line.unfinished(confirmed)
        ends_at = ends_at if upto is None else min(ends_at, upto)
        if ends_at > confirmed:
            for table in rng.sample(tables, len(tables)):
                steps -= 1
                if steps <= 0:
                    return confirmed
                if table.position < ends_at:
                    table.write(confirmed, ends_at, line.of_round(ends_at))
            confirmed = ends_at
        barrier = line.due(confirmed)
        for table in tables if barrier is not None else ():
            steps -= 1
            if steps <= 0:
                return confirmed
            table.frontier = max(table.frontier, barrier or 0)
        line.completed = max(line.completed, barrier or 0)
        steps -= 1
    return confirmed
