"""Random histories of a fact that is widened under barriers: every cell of every barrier, with wideners that die."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.faults.faults import FaultyFileIO
from tests.support.programs.tallies import Note
from tests.widetable.derive.widening.orders import FACT, INTERVAL, WIDENER, Killed, Orders
from widetable.derive.changes import touched_rows
from widetable.derive.widening import widen_candidates
from widetable.errors import NotFoundError, StorageError
from widetable.operations.writes.table_commit import append_messages
from widetable.storage.file_io import FileIO
from widetable.storage.local import LocalFileIO

_STEPS = 60


class _History:
    """Random steps, and what must hold between them."""

    def __init__(
        self,
        folder: Path,
        rng: random.Random,
        options: dict[str, str],
        storage: FileIO | None = None,
    ) -> None:
        self.orders = Orders(folder, storage, **options)
        self.orders.round()  # barriers from here on are widened
        self.rng = rng
        self.at = dict.fromkeys(self.orders.writers, INTERVAL)
        self.kills = self.checked = 0

    def step(self, patch: pytest.MonkeyPatch) -> None:
        steps: list[Callable[[], None]] = [self._write] * 5 + [self._complete] * 3
        steps += [lambda: self._round(patch)] * 3 + [self._compact, self._expire, self._foreign]
        self.rng.choice(steps)()

    def check(self) -> None:
        """All barriers that both tables have, and are kept."""
        try:
            newest, _ = self.orders.as_of()
        except NotFoundError:
            return
        for barrier in range(INTERVAL, newest + 1, INTERVAL):
            try:
                found = self.orders.as_of(barrier)[1]
            except NotFoundError:
                continue
            assert found == self.orders.expected(barrier), barrier
            self.checked += 1

    def end(self) -> None:
        """All is completed and widened; every barrier that is kept is right."""
        newest = max(self.at.values()) + INTERVAL
        for writer in self.orders.writers.values():
            writer.complete(newest)
        while self.orders.frontiers().get(WIDENER, 0) < newest:
            self.orders.round()
        assert self.orders.as_of() == (newest, self.orders.expected(newest))
        self.check()
        assert self.checked
        assert not self.orders.fact.audit().findings

    def _write(self) -> None:
        who, ids = (
            self.rng.choice(list(self.at)),
            self.rng.sample(range(12), self.rng.randint(1, 6)),
        )
        values: dict[int, Any]
        if who == "dim":
            values = {
                id % 5: self.rng.choice([None, (self.rng.choice("OPQR"), self.rng.randint(0, 3))])
                for id in ids
            }
        elif who == "cust":
            values = {id: self.rng.randint(0, 5) for id in ids}
        else:
            values = {id: self.rng.randint(0, 99) for id in ids}
        all = self.rng.random() < 0.5
        self.orders.write(who, values, self.at[who], all=all)
        if all:
            self.at[who] += INTERVAL

    def _complete(self) -> None:
        who = min(self.at, key=lambda who: (self.at[who], self.rng.random()))
        self.at[who] += INTERVAL * self.rng.randint(0, 2)
        self.orders.writers[who].complete(self.at[who])
        self.at[who] += INTERVAL

    def _round(self, patch: pytest.MonkeyPatch) -> None:
        left, real = self.rng.choice([None, None, 0, 1]), append_messages

        def commit(*given: Any, **named: Any) -> Any:
            nonlocal left
            if left == 0:
                raise Killed
            left = None if left is None else left - 1
            return real(*given, **named)

        with patch.context() as here:
            here.setattr(touched_rows, "append_messages", commit)
            try:
                self.orders.round()
            except Killed:
                self.kills += 1

    def _compact(self) -> None:
        self.rng.choice([self.orders.fact, self.orders.dim]).compact(full=self.rng.random() < 0.5)

    def _expire(self) -> None:
        self.rng.choice([self.orders.fact, self.orders.dim]).expire_snapshots(1, 3)

    def _foreign(self) -> None:
        """A reader of another kind, in between."""
        self.orders.fact.scan().to_arrow()


@pytest.mark.parametrize("scan_share", [0.0, 100.0])
@pytest.mark.parametrize("options", [{}, {"index.cust": "db.by_cust"}], ids=["plain", "index"])
def test_each_barrier_has_the_columns_of_the_dim_as_of_it(
    tmp_path: Path,
    rng: random.Random,
    monkeypatch: pytest.MonkeyPatch,
    scan_share: float,
    options: dict[str, str],
    tally: Note,
) -> None:
    """The rows of all writers, and the widened columns, at every barrier; with wideners that are killed."""
    monkeypatch.setattr(widen_candidates, "SCAN_SHARE", scan_share)
    history = _History(tmp_path, rng, {"widetable.widen-piece-rows": "2", **options})
    for _ in range(_STEPS):
        history.step(monkeypatch)
        if rng.random() < 0.3:
            history.check()
    history.end()
    tally(barriers=history.checked, kills=history.kills)


def test_wideners_whose_storage_fails_leave_each_barrier_right(
    tmp_path: Path, rng: random.Random, monkeypatch: pytest.MonkeyPatch, tally: Note
) -> None:
    """Full disks and lost answers at any operation of a round; one that comes later goes through."""
    storage = FaultyFileIO(LocalFileIO(fsync=False), seed=rng.randrange(2**32))
    options = {"widetable.widen-piece-rows": "2", "index.cust": "db.by_cust"}
    history, refused = _History(tmp_path, rng, options, storage), 0
    for _ in range(_STEPS):
        storage.rate = 0.01
        try:
            history.step(monkeypatch)
        except StorageError:
            refused += 1
            for lease in tmp_path.rglob("*-lease*"):  # one may stay that would run out in a minute
                lease.unlink(missing_ok=True)
        storage.rate = 0.0
        if rng.random() < 0.3:
            history.check()
    history.end()
    assert refused
    tally(barriers=history.checked, refused=refused)


def test_many_wideners_at_once_do_the_work_of_one(tmp_path: Path, rng: random.Random) -> None:
    history = _History(tmp_path, rng, {"widetable.widen-piece-rows": "3"})
    orders, last = history.orders, 6 * INTERVAL
    for barrier in range(INTERVAL, last, INTERVAL):
        orders.write("cust", {id: rng.randint(0, 5) for id in range(12)}, barrier)
        orders.write("amount", dict.fromkeys(rng.sample(range(12), 3), barrier), barrier)
        orders.write("dim", {id: (rng.choice("OPQR"), barrier) for id in range(5)}, barrier)
    begin, failures = threading.Barrier(16), list[BaseException]()

    def maintain() -> None:
        table = orders.catalog.table(FACT)
        begin.wait()
        for _ in range(3):
            try:
                table.maintain(once=True, expire=False)
            except BaseException as error:  # noqa: BLE001
                failures.append(error)

    threads = [threading.Thread(target=maintain) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    history.at = dict.fromkeys(history.at, last)
    history.end()
    ends = [
        int(each.properties["widetable.barrier"])
        for each in orders.fact.snapshots()
        if "widen.rows" in each.properties
    ]
    assert ends == sorted(set(ends)), "each barrier was completed once"
