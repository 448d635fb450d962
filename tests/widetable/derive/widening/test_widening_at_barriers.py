"""Widened columns of tables under barriers: those of the dim as of each barrier, whatever comes when."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import widetable as wt
from tests.support.tables.barrier_tables import UNDER_BARRIERS, commit_without_barriers
from tests.widetable.derive.widening.orders import (
    COMMON,
    DIM,
    DIM_SCHEMA,
    FACT,
    WIDENER,
    Orders,
)
from widetable.connector import Upkeep
from widetable.derive.changes import touched_rows
from widetable.derive.upkeep.upkeep import maintainer
from widetable.derive.widening import widen_candidates
from widetable.derive.widening.widen_at_barrier import next_widened
from widetable.errors import ConflictError, InvalidError, NotFoundError, StorageError
from widetable.operations.handle.barrier_scan import barrier_views
from widetable.operations.writes.table_commit import append_messages
from widetable.read.next_barrier import Available
from widetable.schema.derived_options import widen_options


@pytest.fixture
def orders(tmp_path: Path) -> Orders:
    made = Orders(tmp_path)
    made.round()  # joins
    made.write("dim", {7: ("Oslo", 1), 8: ("Rome", 2)}, 10)
    return made


def test_a_barrier_waits_for_the_widener_and_shows_the_dim_as_of_it(orders: Orders) -> None:
    orders.write("cust", {1: 7, 2: 8, 3: None}, 10)
    orders.write("amount", {1: 100, 2: 200}, 10)
    with pytest.raises(NotFoundError, match=rf"{WIDENER}.*the table's maintainer"):
        orders.as_of()
    with pytest.raises(NotFoundError, match=rf"{WIDENER} \(at 0\).*the table's maintainer"):
        orders.fact.scan(barrier=10)
    orders.write("dim", {7: ("Bergen", 3)}, 20)
    orders.write("cust", {2: 7}, 20)
    assert orders.round() == 2
    assert orders.as_of() == (10, orders.expected(10))
    assert orders.expected(10)[1] == (7, 100, "Oslo", 1)
    orders.writers["amount"].complete(20)
    assert orders.round() == 2
    assert orders.as_of(20) == (20, orders.expected(20))
    assert orders.as_of(10) == (10, orders.expected(10))


def test_a_dim_that_is_behind_is_waited_for(orders: Orders) -> None:
    for barrier in (10, 20, 30):
        orders.write("cust", {1: 7}, barrier)
        orders.writers["amount"].complete(barrier)
    orders.round()
    assert orders.as_of()[0] == 10
    assert orders.round() == 0
    orders.write("dim", {7: None}, 30)
    while orders.frontiers()[WIDENER] < 30:
        orders.round()
    assert orders.as_of() == (30, orders.expected(30))
    assert orders.as_of()[1][1] == (7, None, None, None)


def test_changes_have_the_widened_columns_of_their_barrier(orders: Orders) -> None:
    orders.write("cust", {1: 7}, 10)
    orders.writers["amount"].complete(10)
    orders.round()
    orders.write("dim", {7: ("Bergen", 3)}, 20)
    orders.write("amount", {1: 5}, 20)
    orders.writers["cust"].complete(20)
    orders.round()
    names = ["id", "cust", "amount", "city", "grade"]
    changes = orders.fact.changes(10, 20, names, mode="barrier").to_pylist()
    assert [tuple(change[name] for name in ("_row_kind", *names)) for change in changes] == [
        ("-U", 1, 7, None, "Oslo", 1),
        ("+U", 1, 7, 5, "Bergen", 3),
    ]


def test_rows_that_later_records_delete_stay_deleted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    group = {"fields.ts.sequence-group": "cust"}
    orders = Orders(tmp_path, **group, **{"partial-update.remove-record-on-sequence-group": "ts"})
    orders.round()
    orders.write("dim", {7: ("Oslo", 1)}, 10)
    orders.write("cust", {1: 7, 2: 7, 3: 7}, 10)
    orders.writers["amount"].complete(10)

    def delete(id: int) -> None:
        nothing = pa.array([None], pa.int64())
        rows = {"id": [id], "cust": nothing, "ts": [20], "_row_kind": ["-D"]}
        orders.writers["cust"].write(rows, barrier=20)

    delete(1)
    real = append_messages

    def at_the_last_moment(*given: Any, **named: Any) -> Any:
        monkeypatch.setattr(touched_rows, "append_messages", real)
        delete(2)
        return real(*given, **named)

    monkeypatch.setattr(touched_rows, "append_messages", at_the_last_moment)
    orders.round()
    assert sorted(orders.fact.scan(["id"]).to_arrow()["id"].to_pylist()) == [3]
    assert orders.as_of()[0] == 10
    assert orders.as_of()[1][3] == (7, None, "Oslo", 1)
    for who in ("cust", "amount", "dim"):
        orders.writers[who].complete(20)
    orders.round()
    assert orders.as_of(20) == (20, {3: (7, None, "Oslo", 1)})
    assert not orders.fact.audit().findings


@pytest.mark.parametrize("removes", [False, True], ids=["never", "too late"])
def test_a_retraction_that_deletes_nothing_leaves_the_columns_right(
    tmp_path: Path, removes: bool
) -> None:
    """It takes something off a sum, or comes too late to count."""
    options = {
        "fields.amount.aggregate-function": "sum",
        "fields.paid.sequence-group": "amount",
        "fields.ts.sequence-group": "cust",
    }
    if removes:
        options["partial-update.remove-record-on-sequence-group"] = "ts"
    orders = Orders(tmp_path, **options)
    orders.round()
    orders.write("dim", {7: ("Oslo", 1)}, 10)
    orders.write("cust", {1: 7}, 10)
    orders.write("amount", {1: 5}, 10)
    orders.round()
    orders.write("dim", {7: ("Bergen", 2)}, 20)
    orders.writers["cust"].complete(20)
    orders.writers["amount"].complete(20)
    late = {"id": [1], "ts": [1], "cust": pa.array([7], pa.int64()), "_row_kind": ["-D"]}
    off = {"id": [1], "amount": [2], "paid": [30], "_row_kind": ["-U"]}
    if removes:
        orders.writers["cust"].write(late, barrier=30)
    else:
        orders.writers["amount"].write(off, barrier=30)
    orders.round()
    assert orders.as_of(20)[1] == {1: (7, 5, "Bergen", 2)}
    assert not orders.fact.audit().findings


def test_what_another_client_writes_is_widened_with_the_next_barrier(
    orders: Orders, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where that came while the widener was at the barrier that it belongs to."""
    monkeypatch.setattr(widen_candidates, "SCAN_SHARE", 100)
    orders.write("cust", {1: 7}, 10)
    orders.writers["amount"].complete(10)

    def meanwhile(*given: Any, **named: Any) -> Any:
        monkeypatch.setattr(touched_rows, "append_messages", append_messages)
        commit_without_barriers(orders.fact, {"id": [5], "cust": [8]})
        return append_messages(*given, **named)

    monkeypatch.setattr(touched_rows, "append_messages", meanwhile)
    orders.round()
    assert orders.as_of()[1][5] == (8, None, None, None)
    for who in ("cust", "amount", "dim"):
        orders.writers[who].complete(20)
    orders.round()
    assert orders.as_of()[1][5] == (8, None, "Rome", 2)


def test_later_records_of_a_row_do_not_hold_the_widener_up(
    orders: Orders, monkeypatch: pytest.MonkeyPatch
) -> None:
    orders.write("cust", {1: 7}, 10)
    orders.writers["amount"].complete(10)
    commits = 0

    def meanwhile(*given: Any, **named: Any) -> Any:
        nonlocal commits
        commits += 1
        orders.write("cust", {1: 8}, 20, all=False)
        return append_messages(*given, **named)

    monkeypatch.setattr(touched_rows, "append_messages", meanwhile)
    orders.round()
    assert orders.as_of() == (10, {1: (7, None, "Oslo", 1)})
    assert commits == 1


_NO_ANSWER = StorageError("publish", found="no answer", expected="one", action="Look.")


@pytest.mark.parametrize("lost", [_NO_ANSWER, KeyboardInterrupt()])
def test_a_commit_whose_answer_is_lost_keeps_its_files(
    orders: Orders, monkeypatch: pytest.MonkeyPatch, lost: BaseException
) -> None:
    """It may be in."""
    orders.write("cust", {1: 7}, 10)
    orders.writers["amount"].complete(10)

    def commit(*given: Any, **named: Any) -> Any:
        append_messages(*given, **named)
        raise lost

    with monkeypatch.context() as here:
        here.setattr(touched_rows, "append_messages", commit)
        with pytest.raises(type(lost)):
            orders.round()
    assert orders.as_of() == (10, {1: (7, None, "Oslo", 1)})
    assert orders.round() == 0
    assert not orders.fact.audit().findings


def test_two_wideners_of_a_table_do_not_wait_for_each_other(tmp_path: Path) -> None:
    """And one whose foreign key another one gives waits for that."""
    orders = Orders(tmp_path)
    other = orders.catalog.create_table(
        "db.cities",
        pa.schema([("city", pa.string()), ("land", pa.string())]),
        primary_key=["city"],
        options=COMMON,
    )
    orders.fact.alter_options(
        {"widen.city": "db.cities(land)", "widen.amount": f"{DIM}(city as to)"}
    )
    cities = orders.catalog.writer("db.cities", "cities")
    orders.round()
    for barrier, land in ((10, "NO"), (20, "Norge")):
        cities.write({"city": ["Oslo"], "land": [land]}, barrier=barrier, complete=True)
        orders.write("dim", {7: ("Oslo", 1), 8: ("Rome", barrier)}, barrier)
        orders.write("cust", {1: 7}, barrier)
        orders.write("amount", {1: 8}, barrier)
        orders.round()
        orders.round()
        orders.round()
        rows = orders.fact.scan(["city", "land", "to"], barrier=barrier).to_arrow().to_pylist()
        assert rows == [{"city": "Oslo", "land": land, "to": "Rome"}]
    assert not other.audit().findings
    assert not orders.fact.audit().findings


def test_which_barrier_a_widener_takes(orders: Orders) -> None:
    for barrier in (10, 20, 30, 40, 50):
        for who in ("cust", "amount", "dim"):
            if (who, barrier) != ("dim", 10):
                orders.writers[who].complete(barrier)
    orders.round()
    assert orders.as_of()[0] == 50, "at first the newest"
    for barrier in (60, 70, 80, 90):
        for who in ("cust", "amount", "dim"):
            orders.writers[who].complete(barrier)
    taken: list[int] = []
    while not taken or orders.frontiers()[WIDENER] < 90:
        with maintainer(orders.maintained, Upkeep(expire=False)) as its:
            its.round()
        taken.append(orders.frontiers()[WIDENER])
    assert taken == [80, 90], "then the roundest, as jobs do"


def test_a_widener_whose_option_is_gone_is_waited_for_no_more(orders: Orders) -> None:
    orders.write("cust", {1: 7}, 10)
    orders.writers["amount"].complete(10)
    assert orders.frontiers().keys() == {"orders", "payments", WIDENER}
    orders.fact.alter_options(remove_options=["widen.cust"])
    assert orders.frontiers().keys() == {"orders", "payments"}
    assert orders.as_of()[0] == 10


def test_the_topology_knows_of_the_widener(orders: Orders) -> None:
    topology = orders.catalog.topology()
    assert topology.downstream(DIM) == [FACT]
    (job,) = (job for job in topology.jobs() if job.name == WIDENER)
    assert (job.sources, job.kind) == ((DIM,), "derived")
    with pytest.raises(ConflictError, match=WIDENER):
        topology.register("back", sources=[FACT], sinks={DIM: None})


def test_a_widener_is_alive_while_somebody_maintains_the_table(tmp_path: Path) -> None:
    orders = Orders(tmp_path, **{"write-only": "true"})
    orders.round()

    def is_alive() -> bool:
        tables = orders.catalog.topology().tables()
        writers = {writer.name: writer for table in tables for writer in table.writers}
        return writers[WIDENER].alive

    assert not is_alive()
    with orders.fact.maintainer(Upkeep(expire=False)) as maintainer:
        maintainer.round()
        assert is_alive()
    assert not is_alive()


def test_the_pure_choice_takes_none_where_none_is_new(orders: Orders) -> None:
    state = barrier_views(orders.fact).newest()
    schema = orders.fact.schema
    (option,) = widen_options(schema.options)
    assert next_widened(state, FACT, schema, option, Available([(10, 50)])) is None
    orders.writers["cust"].complete(40)
    orders.writers["amount"].complete(30)
    state = barrier_views(orders.fact).newest()
    assert next_widened(state, FACT, schema, option, Available([(10, 50)])) == 30
    assert next_widened(state, FACT, schema, option, Available([(10, 20)])) == 20
    assert next_widened(state, FACT, schema, option, Available([])) is None


def test_a_revision_of_the_dim_takes_the_fact_back_with_it(tmp_path: Path) -> None:
    """And refuses where that would lose rows from outside."""
    orders = Orders(tmp_path)
    orders.catalog.create_table("db.crm", DIM_SCHEMA, primary_key=["id"], options=COMMON)
    crm = orders.catalog.writer("db.crm", "crm")
    orders.catalog.topology().register("customers", sources=["db.crm"], sinks={DIM: None})
    orders.writers["dim"] = orders.catalog.writer(DIM, "customers")
    orders.round()
    for barrier, city in ((10, "Oslo"), (20, "Bergen")):
        crm.complete(barrier)
        orders.write("dim", {7: (city, 1)}, barrier)
        orders.write("cust", {1: 7}, barrier)
        orders.writers["amount"].complete(barrier)
        orders.round()
    with pytest.raises(InvalidError, match="orders, whose rows from outside"):
        orders.catalog.revise(DIM, to=10)
    for who in ("cust", "amount"):
        orders.writers[who].leave()
    assert {t.table for t in orders.catalog.revise(DIM, to=10).tables} == {DIM, FACT}
    assert orders.as_of() == (10, {1: (7, None, "Oslo", 1)})
    orders.writers["dim"] = orders.catalog.writer(DIM, "customers")
    orders.write("dim", {7: ("Paris", 1)}, 20)
    orders.round()
    assert orders.as_of() == (20, {1: (7, None, "Paris", 1)})
    assert not orders.fact.audit().findings


def test_a_table_that_was_widened_without_barriers_goes_on_with_them(tmp_path: Path) -> None:
    catalog = wt.Catalog(tmp_path)
    plain = {key: value for key, value in COMMON.items() if key not in UNDER_BARRIERS}
    dim = catalog.create_table(DIM, DIM_SCHEMA, primary_key=["id"], options=plain)
    widen = {"merge-engine": "partial-update", "widen.cust": f"{DIM}(city)"}
    schema = pa.schema([("id", pa.int64()), ("cust", pa.int64()), ("amount", pa.int64())])
    fact = catalog.create_table(FACT, schema, primary_key=["id"], options={**plain, **widen})
    dim.write({"id": [7, 8], "city": ["Oslo", "Rome"]})
    fact.write({"id": [1, 2, 3], "cust": [7, 8, 7]})
    fact.maintain(once=True)
    fact.write({"id": [3], "cust": [8]})  # the widener has not seen it
    with pytest.raises(
        InvalidError, match=f"{FACT} with the interval 10 ms, {DIM} with no interval"
    ):
        catalog.alter_table(FACT, set_options=UNDER_BARRIERS)
    for name in (DIM, FACT):
        catalog.alter_table(name, set_options=UNDER_BARRIERS)
    cities, orders = (
        catalog.writer(DIM, "cities"),
        catalog.writer(FACT, "orders", ["cust", "amount"]),
    )
    fact.maintain(once=True)  # joins
    cities.complete(40)
    orders.write({"id": [4], "cust": [7]}, barrier=20, complete=True)
    assert not fact.maintain(once=True).derived_failures, "the dim has no earlier barrier than 40"
    orders.complete(40)
    fact.maintain(once=True)
    cities.write({"id": [7], "city": ["Bergen"]}, barrier=50, complete=True)
    orders.write({"id": [2], "cust": [7]}, barrier=50, complete=True)
    fact.maintain(once=True)
    expected = {40: ["Oslo", "Rome", "Rome", "Oslo"], 50: ["Bergen", "Bergen", "Rome", "Bergen"]}
    for barrier, found in expected.items():
        with catalog.session([FACT, DIM], as_of=barrier) as session:
            rows = session.table(FACT).scan(["id", "city"]).to_arrow().sort_by("id")
            assert rows["city"].to_pylist() == found
    assert not fact.audit().findings
