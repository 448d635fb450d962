"""The bank by derived jobs: at every moment that a session sees, over any of its tables, money is where it belongs;
newest rows are seen not to agree.

WIDETABLE_TRANSFERS: how many (default 4,000; `make bank` moves 10 million).
"""

from __future__ import annotations

import os
import random
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import widetable as wt
from tests.bank import ACCOUNTS, Transfer, balances, original
from tests.bank_queries import COLUMNS, QUERIES, TRANSACTIONS, create_tables, start
from tests.patience import PATIENCE_SECONDS
from tests.tallies import Note

TRANSFERS = int(os.environ.get("WIDETABLE_TRANSFERS", "4000"))
SIZE = max(TRANSFERS // 100, 500)


def write(catalog: wt.Catalog, transfers: list[Transfer]) -> None:
    """A barrier for each batch, as fast as they go."""
    writer = catalog.writer(TRANSACTIONS, "transfers")
    for number, begin in enumerate(range(0, len(transfers), SIZE), 1):
        batch = transfers[begin : begin + SIZE]
        rows = {
            "id": [*range(begin, begin + len(batch))],
            "source": [each.debited for each in batch],
            "target": [each.credited for each in batch],
            "amount": [1] * len(batch),
        }
        writer.write(rows, barrier=10 * number, complete=True)
        time.sleep(0.5)


def values(session: wt.Session, name: str) -> dict[int, int]:
    """Key to value; a table of keys alone: to themselves."""
    columns = COLUMNS[name]
    found = session.table(f"bank.{name}").scan().to_arrow()
    return dict(zip(found[columns[0]].to_pylist(), found[columns[-1]].to_pylist(), strict=True))


def faults(session: wt.Session, names: list[str], moved: int | None = None) -> list[str]:
    """What does not agree among these tables. moved: how many transfers there must be."""
    seen = {name: values(session, name) for name in names}
    counted: dict[str, Callable[[dict[int, int]], int]] = {
        "accepted": len,
        "sums": lambda of: of.get(1, 0),
        "credits": lambda of: sum(of.values()),
        "debits": lambda of: sum(of.values()),
    }
    found = {name: counted[name](seen[name]) for name in names if name in counted}
    wrong = [f"counts {found}"] if len({*found.values(), *([moved] if moved else [])}) > 1 else []
    wrong += ["a total"] * bool(seen.get("total", {}).get(1, 0))
    wrong += ["balances"] * bool(sum(seen.get("balance", {}).values()))
    wrong += ["no other id"] * (None in seen.get("outer_join", {}).values())
    if "balance" in seen and {"credits", "debits"} <= seen.keys():
        expected = {
            account: seen["credits"].get(account, 0) - seen["debits"].get(account, 0)
            for account in seen["credits"].keys() | seen["debits"].keys()
        }
        wrong += ["balances of accounts"] * (seen["balance"] != expected)
    return wrong


@pytest.mark.slow
def test_case_23_money_is_all_there_in_tables_that_jobs_keep(
    jobs: SparkSession, tmp_path: Path, rng: random.Random, tally: Note
) -> None:
    catalog, transfers = create_tables(tmp_path), original(TRANSFERS)
    batches = -(-TRANSFERS // SIZE)
    queries = start(jobs, tmp_path)
    writing = threading.Thread(target=write, args=(catalog, transfers))
    writing.start()
    seen, sessions, mixed, until = set[int](), 0, 0, time.monotonic() + PATIENCE_SECONDS
    every = list(QUERIES)
    try:
        while max(seen, default=0) < 10 * batches:
            assert time.monotonic() < until
            for query in queries:
                assert query.exception() is None
            names = rng.sample(every, rng.randrange(2, len(every) + 1))
            try:
                with catalog.session([f"bank.{name}" for name in names]) as session:
                    barrier = session.barrier
                    assert barrier is not None
                    moved = min(barrier // 10 * SIZE, TRANSFERS)
                    assert faults(session, names, moved) == [], (barrier, names)
                    if "balance" in names:
                        sums = balances(transfers[:moved])
                        have = values(session, "balance")
                        assert [have.get(each, 0) for each in range(ACCOUNTS)] == sums
                    seen, sessions = (
                        seen | ({barrier} if len(names) == len(every) else set()),
                        sessions + 1,
                    )
            except wt.NotFoundError:
                assert not seen, "a moment was there, and is not any more"
            with catalog.session(
                [f"bank.{name}" for name in every], consistency="ReadUncommitted"
            ) as session:
                mixed += bool(faults(session, every))
    finally:
        writing.join()
        for query in queries:
            query.stop()
    assert mixed, "newest rows always agreed: this test could not fail"
    for name in COLUMNS:
        assert not catalog.table(f"bank.{name}").audit().findings
    tally(sessions=sessions, barriers=len(seen), mixed=mixed)
