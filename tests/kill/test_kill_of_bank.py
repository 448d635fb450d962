"""The bank: transfers are booked in two tables by a program that is killed at any moment and started again, while
sessions read both, and a compactor and expiry go on. At every barrier the money is all there and each account has what
the transfers up to it say; the newest rows of both are seen not to agree, which shows that the test can fail.

WIDETABLE_KILLS: a quarter as many kills (default 12).
"""

from __future__ import annotations

import contextlib
import os
import random
import time
from collections import Counter
from functools import partial
from pathlib import Path

import pytest

import widetable as wt
from tests.kill.killing_file_io import POINTS
from tests.kill.processes import start
from tests.kill.programs.bank_writer import CREDITS, DEBITS, INTERVAL
from tests.support.faults.background import going_on
from tests.support.faults.patience import PATIENCE_SECONDS
from tests.support.programs.tallies import Note
from tests.support.tables.bank import ACCOUNTS, balances, original, simplified
from widetable.errors import NotFoundError
from widetable.operations.handle.barrier_scan import barrier_changes

KILLS = max(int(os.environ.get("WIDETABLE_KILLS", "48")) // 4, 1)
TRANSFERS, SIZE = 100_000, 1_000
# Published with the inputs' generator: docs of the design, acceptance case 23.
KNOWN = {
    1_000: [-5, -13, 15, -5, 24, -9, -17, 13, -2, -1],
    10_000: [43, -19, 32, 19, 105, -57, -70, 42, -61, -34],
    100_000: [35, 112, 64, 93, 59, 32, -69, -46, -398, 118],
}


class Bank:
    """Two tables of sums by account, and what must be in them at each barrier."""

    def __init__(self, warehouse: Path, rng: random.Random) -> None:
        self.catalog = wt.Catalog(warehouse)
        for name in (CREDITS, DEBITS):
            self.catalog.create_table(
                name,
                {"account": "BIGINT", "total": "BIGINT"},
                primary_key=["account"],
                options={
                    "merge-engine": "aggregation",
                    "fields.total.aggregate-function": "sum",
                    "widetable.barrier-interval": f"{INTERVAL} ms",
                    "widetable.fsync": "false",
                    "bucket": rng.choice("12"),
                    "changelog-producer": "lookup",
                },
            )
        transfers = original(TRANSFERS)
        self.expected = {
            INTERVAL * end // SIZE: balances(transfers[:end])
            for end in range(SIZE, TRANSFERS + SIZE, SIZE)
        }

    def balances(self, session: wt.Session) -> list[int]:
        """Credits less debits, by account."""
        found = [0] * ACCOUNTS
        for name, sign in ((CREDITS, 1), (DEBITS, -1)):
            for row in session.table(name).scan().to_arrow().to_pylist():
                found[row["account"]] += sign * row["total"]
        return found

    def check(self, as_of: int | None = None) -> int:
        """A session has what its barrier says; which one it was."""
        with self.catalog.session(as_of=as_of) as session:
            barrier = session.barrier
            assert barrier is not None
            assert self.balances(session) == self.expected[barrier], f"at barrier {barrier}"
            return barrier

    def changes_end_right(self, table: wt.Table, newest: int) -> bool:
        """The changes since the oldest barrier that they can start at end in the rows of the newest one."""
        start, scan = self.oldest(table)
        rows = {row["account"]: row["total"] for row in scan.to_arrow().to_pylist()}
        for change in table.changes(start, newest, mode="barrier").to_pylist():
            account, total, kind = change["account"], change["total"], change["_row_kind"]
            if kind in ("+I", "+U"):
                rows[account] = total
            elif rows[account] != total:
                return False
        return rows == {
            r["account"]: r["total"] for r in table.scan(barrier=newest).to_arrow().to_pylist()
        }

    def oldest(self, table: wt.Table) -> tuple[int, wt.TableScan]:
        """The first barrier that changes can start at and whose rows are kept: both are asked for."""
        for barrier, _ in barrier_changes(table).available(0):
            with contextlib.suppress(NotFoundError):
                return barrier, table.scan(barrier=barrier)
        raise AssertionError("the newest barrier is kept, and changes stop at it")

    def disagrees(self) -> bool:
        """Whether money is missing in the newest rows of both."""
        with self.catalog.session(consistency="ReadUncommitted") as session:
            return sum(self.balances(session)) != 0


def test_the_inputs_are_the_published_ones() -> None:
    transfers = original(TRANSFERS)
    assert {count: balances(transfers[:count]) for count in KNOWN} == KNOWN
    for count in (25, 1_005):
        assert balances(simplified(count)) == [-1, 0, 0, 0, 0, 1, 0, 0, 0, 0]


def keep(bank: Bank, rng: random.Random) -> None:
    """Compact one of the tables, and expire of it what may."""
    table = bank.catalog.table(rng.choice((CREDITS, DEBITS)))
    with contextlib.suppress(wt.ConflictError):
        table.compact(full=rng.random() < 0.3)
    table.expire_snapshots(1, 2)


@pytest.mark.slow
@pytest.mark.timeout(PATIENCE_SECONDS + 60 * KILLS)
def test_money_is_all_there_at_every_barrier(
    tmp_path: Path, rng: random.Random, tally: Note
) -> None:
    bank = Bank(tmp_path, rng)
    kills: Counter[str] = Counter()
    sessions = disagreements = newest = 0
    arguments = [str(tmp_path), str(TRANSFERS), str(SIZE)]
    with going_on(partial(keep, bank, rng), 0.05):
        while True:
            point = rng.choice(POINTS) if kills.total() < KILLS else "nowhere"
            process = start(
                "bank_writer", [*arguments, point, str(rng.randrange(1, 12))], tmp_path / "out"
            )
            while process.exitcode is None:
                try:
                    seen = bank.check()
                    assert seen >= newest
                    newest, sessions = seen, sessions + 1
                except NotFoundError:
                    assert not newest, "a barrier was there, and is not any more"
                disagreements += bank.disagrees()
                time.sleep(0.02)
            assert process.exitcode in (0, -9), (tmp_path / "out").read_text()
            kills[point] += process.exitcode == -9
            if process.exitcode == 0:
                newest = bank.check()
                break
    assert newest == max(bank.expected)
    assert kills.total()
    assert disagreements, "read uncommitted was always right: this test could not fail"
    for name in (CREDITS, DEBITS):
        table = bank.catalog.table(name)
        # What the last commit compacts may have lost against the upkeep, which nobody goes on with.
        table.compact()
        assert not table.audit().findings
        assert bank.changes_end_right(table, newest), "changes do not end where the table is"
    tally(kills=kills.total(), sessions=sessions, disagreements=disagreements)
