"""Sessions over two layers of tables while all of them are written, compacted and expired: no read is of another moment
than its session's, as a checker says that only replays the sources; newest rows are seen to mix moments.

WIDETABLE_READS: how many (default 3,000), in parts of 10,000, each over tables of its own.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import widetable as wt
from tests.support.faults.background import going_on
from tests.support.models.read_history import Put, Read, Replay, Rows, Sources, anomalies
from tests.support.programs.tallies import Note
from tests.support.tables.derived_job import Job, sink_table, source_table

PART = 10_000
READS = int(os.environ.get("WIDETABLE_READS", "3000"))
READERS, REPEATED = 2, 5


def counts(*names: str) -> Callable[[Sources], Rows]:
    return lambda sources: {0: {name: len(sources[name]) for name in names}}


TABLES: dict[str, Callable[[Sources], Rows]] = {
    "d.x": lambda sources: sources["x"],
    "d.y": lambda sources: sources["y"],
    "d.p": counts("x"),
    "d.q": counts("x", "y"),
}


class Shop:
    """Sources x and y, and jobs that count them."""

    def __init__(self, warehouse: Path, rng: random.Random) -> None:
        self.warehouse, self.rng = warehouse, rng
        sources = {
            name: source_table(warehouse, name, changelog_producer=producer)
            for name, producer in (("x", "lookup"), ("y", "none"))
        }
        self.writers = {name: wt.Catalog(warehouse).writer(f"d.{name}", "w") for name in sources}
        p, q = sink_table(warehouse, "p", ["x"]), sink_table(warehouse, "q", ["x", "y"])
        self.tables = [*sources.values(), p, q]
        self.topology = wt.Catalog(warehouse).topology()
        for job, names in (("p", ["d.x"]), ("q", ["d.x", "d.y"])):
            self.topology.register(job, sources=names, sinks={f"d.{job}": None})
            self.topology.running(job)
        self.jobs = [Job("p", {"x": sources["x"]}, p), Job("q", sources, q)]
        self.puts: list[Put] = []
        self.ends = dict.fromkeys(sources, 0)
        self.keys: dict[str, set[int]] = {name: set() for name in sources}

    def write(self, name: str) -> None:
        """One barrier of a source. y has only new rows: its records are all the changes that there are."""
        self.ends[name] = barrier = self.ends[name] + 10
        keys, have = self.rng.sample(range(40), self.rng.randrange(1, 4)), self.keys[name]
        if name == "y":
            keys = [key for key in keys if key not in have]
        kinds = ["-D" if key in have and self.rng.random() < 0.5 else "+U" for key in keys]
        for key, kind in zip(keys, kinds, strict=True):
            self.puts.append(Put(name, barrier, key, None if kind == "-D" else barrier))
            have.discard(key) if kind == "-D" else have.add(key)
        rows = {"id": keys, "v": [barrier] * len(keys), "_row_kind": kinds}
        if keys:
            self.writers[name].write(rows, barrier=barrier, complete=True)
        else:
            self.writers[name].complete(barrier)

    def step(self) -> None:
        """Somebody does something."""
        what = self.rng.random()
        if what < 0.5:
            self.write(self.rng.choice("xy"))
        elif what < 0.9:
            job = self.rng.choice(self.jobs)
            end = job.next_end()
            if end is not None:
                job.run_batch(end)
        else:
            table = self.rng.choice(self.tables)
            table.compact(full=self.rng.random() < 0.3)
            self.topology.keep()
            table.expire_snapshots(1, 1, 0)


def rows_of(table: str, scan: wt.TableScan) -> Rows:
    found: list[dict[str, Any]] = scan.to_arrow().to_pylist()
    if table in ("d.x", "d.y"):
        return {row["id"]: row["v"] for row in found}
    return {row.pop("id"): row for row in found}


def read(shop: Shop, reader: int, number: int, consistency: str) -> list[Read]:
    """A session over all tables, asked again and again."""
    with wt.Catalog(shop.warehouse).session(list(TABLES), consistency=consistency) as session:
        barrier = session.barrier or min(shop.ends.values())
        return [
            Read(reader, number, barrier, table, rows_of(table, session.table(table).scan()))
            for _ in range(REPEATED)
            for table in TABLES
        ]


@pytest.mark.parametrize("before", range(0, READS, PART))
def test_no_session_sees_two_moments(
    before: int, tmp_path: Path, rng: random.Random, tally: Note
) -> None:
    shop = Shop(tmp_path, rng)
    while not wt.Catalog(tmp_path).topology().common_barrier():
        shop.step()
    reads: list[Read] = []
    mixed: list[Read] = []
    with going_on(shop.step, 0.1):
        number = 0
        while len(reads) < min(PART, READS - before):
            number += 1
            consistency = rng.choice(("RepeatableRead", "ReadCommitted"))
            reads += read(shop, rng.randrange(READERS), number, consistency)
            if number % 10 == 0:
                mixed += read(shop, READERS, number, "ReadUncommitted")
    replay = Replay(shop.puts, TABLES)
    assert anomalies(reads, replay) == []
    assert anomalies(mixed, replay), "newest rows never mixed moments: this test could not fail"
    tally(reads=len(reads), barriers=len({read.barrier for read in reads}))
    for planted in plant(reads, replay, rng):
        assert anomalies(planted, replay), "a planted anomaly was not found"


def plant(reads: list[Read], replay: Replay, rng: random.Random) -> Iterator[list[Read]]:
    """Histories that are wrong in one place."""
    barriers = sorted({each.barrier for each in reads})
    for table in TABLES:
        places = [
            (at, other)
            for at, each in enumerate(reads)
            for other in barriers
            if each.table == table and replay.expected(table, other) != each.rows
        ]
        at, other = rng.choice(places)
        yield [
            *reads[:at],
            reads[at]._replace(rows=replay.expected(table, other)),
            *reads[at + 1 :],
        ]
        yield [*reads[:at], reads[at]._replace(rows={**reads[at].rows, 99: 1}), *reads[at + 1 :]]
    last = reads[-1]
    yield [
        *reads,
        last._replace(barrier=barriers[0], rows=replay.expected(last.table, barriers[0])),
    ]
