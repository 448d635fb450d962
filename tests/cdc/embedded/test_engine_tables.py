"""Records of a real MariaDB fill its mirrors, each change once, wherever a job dies and however a round is cut."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

import widetable as wt
from tests.cdc.embedded.recorded_batches import ORDERS, PREFIX, batch_of, batches, recorded
from widetable.connector import last_identifier
from widetable_cdc import DebeziumSettings
from widetable_cdc.embedded.binlog_position import FIRST_IN_LOG, offset_position
from widetable_cdc.embedded.engine_state import EngineState, EngineStates
from widetable_cdc.embedded.engine_tables import EngineTables, MirrorRules
from widetable_cdc.embedded.rounds import RoundCutter

USER = "cdc/shop"
RULES = MirrorRules(
    name="shop",
    user=USER,
    tables=["shop.*"],
    exclude=[],
    settings=DebeziumSettings(),
    target=lambda database, name: f"mirror.{name}",
    key=lambda database, name: (),
    options=lambda database, name: {"bucket": "1"},
)


class DyingJob:
    """A job over recorded records that ends after some of its steps, and goes on from its state as a new process."""

    def __init__(self, catalog: wt.Catalog) -> None:
        self.catalog = catalog
        self.states = EngineStates(catalog, "mirror", "shop", USER)

    def runs(
        self, cuts: Sequence[int] = (), *, rounds: int | None = None, saves: bool = True
    ) -> None:
        """Apply what comes behind the state, in batches cut at these records.

        rounds: how many before the job dies; None for all. saves: whether the last of them is followed by its state.
        """
        state = self.states.load()
        records = recorded()
        if state.offset is not None:
            records = [each for each in records if _is_sent_again(each, state.offset)]
        tables = EngineTables(self.catalog, RULES, dict(state.forms))
        cutter = RoundCutter(PREFIX, state.offset)
        ends = [0, *(cut for cut in cuts if cut < len(records)), len(records)]
        done = 0
        for start, end in pairwise(ends):
            cutter.add(batch_of(records[start:end]))
            for each in cutter.take():
                begin = 0 if state.offset is None else offset_position(state.offset)
                position = tables.apply(each, state.position, begin)
                done += 1
                if each.ends_copy and each.offset is not None:
                    position = offset_position(each.offset)
                offset = state.offset if each.offset is None else each.offset
                made = replace(state, offset=offset, position=position, forms=dict(tables.forms))
                is_last = done == rounds
                if saves or not is_last:
                    self.states.save(made, 0)
                state = made
                if is_last:
                    return

    def check(self) -> None:
        """Compare the tables with what the statements left in the database."""
        rows = self.catalog.table("mirror.orders").scan().to_arrow().to_pylist()
        names = ("city", "amount", "big", "paid")
        found = {row["id"]: {name: row[name] for name in names} for row in rows}
        for row in found.values():
            row["amount"] = str(row["amount"])
        assert found == ORDERS
        assert self.catalog.table("mirror.tags").scan().to_arrow().num_rows == 0
        for name in ("orders", "tags"):
            identifiers = Counter(
                snapshot.commit_identifier
                for snapshot in self.catalog.table(f"mirror.{name}").snapshots()
                if snapshot.commit_user == USER and snapshot.commit_kind == "APPEND"
            )
            del identifiers[2**63 - 1]  # rows that an ALTER has filled
            assert set(identifiers.values()) == {1}, name


def _applied(tables: EngineTables, cutter: RoundCutter, position: int = 0, start: int = 0) -> None:
    for each in cutter.take():
        position = tables.apply(each, position, start)


def _is_sent_again(record: dict[str, Any], offset: str) -> bool:
    """Whether a server sends a record to an engine that begins at an offset."""
    if '"snapshot":' in record["offset"] or '"op":"r"' in record["value"]:
        return False
    return offset_position(record["offset"]) >= offset_position(offset)


@pytest.fixture
def job(tmp_path: Path) -> DyingJob:
    return DyingJob(wt.Catalog(str(tmp_path)))


def test_recorded_batches_leave_the_rows_of_the_database(job: DyingJob) -> None:
    ends = [0]
    for batch in batches():
        ends.append(ends[-1] + len(batch))
    job.runs(ends[1:-1])
    job.check()
    assert job.states.load().position > FIRST_IN_LOG


@pytest.mark.parametrize("saves", [True, False])
def test_a_job_that_dies_anywhere_writes_nothing_twice(
    tmp_path: Path, rng: random.Random, saves: bool
) -> None:
    count = len(recorded())
    for case in range(4):
        job = DyingJob(wt.Catalog(str(tmp_path / str(case))))
        for rounds in rng.sample(range(1, 8), 3):
            cuts = sorted(rng.sample(range(1, count), 6))
            job.runs(cuts, rounds=rounds, saves=saves)
        job.runs(sorted(rng.sample(range(1, count), 2)))
        job.runs()
        job.check()


def test_a_table_that_is_ahead_of_the_state_leaves_out_what_it_has(job: DyingJob) -> None:
    job.runs()
    state = job.states.load()
    first = next(each for each in recorded() if '"status":"BEGIN"' in each["value"])
    back = offset_position(first["offset"])
    job.states.save(replace(state, offset=first["offset"], position=back), 0)
    before = job.catalog.table("mirror.orders").scan().snapshot_id
    job.runs([5, 9])
    job.check()
    assert job.catalog.table("mirror.orders").scan().snapshot_id == before


def test_a_copy_that_begins_again_keeps_no_row_that_is_gone(job: DyingJob) -> None:
    columns = {"id": "INT NOT NULL", "city": "STRING"}
    table = job.catalog.create_table("mirror.orders", columns, primary_key=["id"])
    table.write([{"id": 99, "city": "gone"}], USER, 1)
    job.runs(rounds=1)
    rows = job.catalog.table("mirror.orders").scan(["id"]).to_arrow()
    assert sorted(rows.column("id").to_pylist()) == [1, 2]
    assert last_identifier(job.catalog.table("mirror.orders"), USER) == 2


def test_a_log_of_another_server_is_refused(job: DyingJob) -> None:
    job.runs(rounds=1)
    state = job.states.load()
    assert state.offset is not None
    later = offset_position(state.offset) + 10**9
    tables = EngineTables(job.catalog, RULES, dict(state.forms))
    cutter = RoundCutter(PREFIX, state.offset)
    cutter.add(batch_of([each for each in recorded() if _is_sent_again(each, state.offset)]))
    with pytest.raises(wt.InvalidError, match=r"binlog.*another server"):
        _applied(tables, cutter, state.position, later)


def test_a_table_without_a_key_is_refused_by_its_name(job: DyingJob) -> None:
    rows = [{**each, "key": "null"} for each in recorded() if '"op":"r"' in each["value"]]
    cutter = RoundCutter(PREFIX, None)
    cutter.add(batch_of(rows))
    tables = EngineTables(job.catalog, RULES, {})
    with pytest.raises(wt.InvalidError, match=r"shop\.orders.*no primary key"):
        _applied(tables, cutter)


def test_two_tables_of_one_target_are_refused(job: DyingJob) -> None:
    rules = replace(RULES, target=lambda database, name: "mirror.all")
    cutter = RoundCutter(PREFIX, None)
    cutter.add(batch_of(recorded()))
    with pytest.raises(wt.InvalidError, match=r"mirror\.all.*shop\.tags has"):
        _applied(EngineTables(job.catalog, rules, {}), cutter)


def test_a_state_is_what_was_saved(job: DyingJob) -> None:
    assert job.states.load() == EngineState()
    job.runs(rounds=1)
    state = replace(job.states.load(), history=("a", "b"))
    job.states.save(state, 0)
    job.states.save(replace(state, history=("a", "b", "c"), position=7), 2)
    assert job.states.load() == replace(state, history=("a", "b", "c"), position=7)
