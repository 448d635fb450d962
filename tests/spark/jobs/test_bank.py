"""The bank by derived jobs: at every moment that a session sees, over any of its tables, money is where it belongs;
newest rows are seen not to agree.

WIDETABLE_TRANSFERS: how many (default 2,500; `make bank` moves 10 million).
"""

from __future__ import annotations

import os
import random
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import widetable as wt
from tests.support.faults.patience import PATIENCE_SECONDS
from tests.support.programs.spark_home import LONG_RUN
from tests.support.programs.tallies import Note
from tests.support.tables.bank import ACCOUNTS, Transfer, balances, original
from tests.support.tables.bank_queries import COLUMNS, QUERIES, TRANSACTIONS, create_tables, start

TRANSFERS = int(os.environ.get("WIDETABLE_TRANSFERS", "2500"))
SIZE = max(TRANSFERS // 100, 500)
LONG = ("accepted", "outer_join")


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
    """Key to value, of a table of few rows."""
    columns = COLUMNS[name]
    found = session.table(f"bank.{name}").scan().to_arrow()
    return dict(zip(found[columns[0]].to_pylist(), found[columns[-1]].to_pylist(), strict=True))


def counted(session: wt.Session, name: str) -> int:
    """How many rows a table of a row for each transfer has."""
    rows = session.table(f"bank.{name}").scan(columns=["id"]).to_batches()
    return sum(batch.num_rows for batch in rows)


def has_no_other(session: wt.Session) -> bool:
    rows = session.table("bank.outer_join").scan(columns=["other_id"]).to_batches()
    return any([batch.column(0).null_count for batch in rows])


def faults(session: wt.Session, names: list[str], moved: int | None = None) -> list[str]:
    """What does not agree among these tables. moved: how many transfers there must be."""
    seen = {name: values(session, name) for name in names if name not in LONG}
    sums: dict[str, Callable[[dict[int, int]], int]] = {
        "sums": lambda of: of.get(1, 0),
        "credits": lambda of: sum(of.values()),
        "debits": lambda of: sum(of.values()),
    }
    found = {name: sums[name](seen[name]) for name in names if name in sums}
    found |= {name: counted(session, name) for name in names if name in LONG}
    wrong = [f"counts {found}"] if len({*found.values(), *([moved] if moved else [])}) > 1 else []
    wrong += ["a total"] * bool(seen.get("total", {}).get(1, 0))
    wrong += ["balances"] * bool(sum(seen.get("balance", {}).values()))
    wrong += ["no other id"] * ("outer_join" in names and has_no_other(session))
    if "balance" in seen and {"credits", "debits"} <= seen.keys():
        expected = {
            account: seen["credits"].get(account, 0) - seen["debits"].get(account, 0)
            for account in seen["credits"].keys() | seen["debits"].keys()
        }
        wrong += ["balances of accounts"] * (seen["balance"] != expected)
    return wrong


@pytest.fixture
def many_groups(jobs: SparkSession) -> Iterator[SparkSession]:
    """The state of a group for each of many transfers lies in RocksDB, beside Java's memory."""
    if not LONG_RUN:
        yield jobs
        return
    key = "spark.sql.streaming.stateStore.providerClass"
    package = "org.apache.spark.sql.execution.streaming.state"
    jobs.conf.set(key, f"{package}.RocksDBStateStoreProvider")
    yield jobs
    jobs.conf.unset(key)


@pytest.mark.slow
def test_case_23_money_is_all_there_in_tables_that_jobs_keep(
    many_groups: SparkSession, tmp_path: Path, rng: random.Random, tally: Note
) -> None:
    catalog, transfers = create_tables(tmp_path), original(TRANSFERS)
    sums = [balances(transfers[:0])]
    for begin in range(0, TRANSFERS, SIZE):
        moved = balances(transfers[begin : begin + SIZE])
        sums.append([before + more for before, more in zip(sums[-1], moved, strict=True)])
    batches = len(sums) - 1
    queries = start(many_groups, tmp_path)
    writing = threading.Thread(target=write, args=(catalog, transfers))
    writing.start()
    seen, newest, sessions, mixed = set[int](), 0, 0, 0
    every, until = list(QUERIES), time.monotonic() + PATIENCE_SECONDS
    try:
        while max(seen, default=0) < 10 * batches:
            assert time.monotonic() < until
            time.sleep(0.2)  # the jobs are to have the machine
            for query in queries:
                assert query.exception() is None
            names = rng.sample(every, rng.randrange(2, len(every) + 1))
            try:
                with catalog.session([f"bank.{name}" for name in names]) as session:
                    barrier = session.barrier
                    assert barrier is not None
                    count = min(barrier // 10 * SIZE, TRANSFERS)
                    assert faults(session, names, count) == [], (barrier, names)
                    if "balance" in names:
                        have = values(session, "balance")
                        assert [have.get(each, 0) for each in range(ACCOUNTS)] == sums[
                            barrier // 10
                        ]
                    if barrier > newest:
                        newest, until = barrier, time.monotonic() + PATIENCE_SECONDS
                    seen |= {barrier} if len(names) == len(every) else set()
                    sessions += 1
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
