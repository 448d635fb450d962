"""What is made of a table and fails stops nobody else: compaction, the other ones, inspections and audits go on."""

from __future__ import annotations

import threading
from pathlib import Path

import pyarrow as pa
import pytest

import widetable as wt
from tests.widetable.derive.widening.shop import CUSTOMERS, Shop
from widetable.derive.upkeep import derived_tables
from widetable.operations.maintenance.maintenance import Upkeep
from widetable.operations.maintenance.maintenance_result import MaintenanceResult

OPTIONS = {"widetable.fsync": "false", "write-only": "true"}
KINDS = ("index", "widen", "join")


def broken(folder: Path, kind: str) -> tuple[wt.Table, str, str]:
    """A table with rows that wait for compaction, an option that cannot be honoured any more, and why."""
    if kind == "join":
        return joined(folder)
    catalog = wt.Catalog(str(folder))
    if kind == "index":
        by_city = {"index.c_city": "db.taken"}
        shop = Shop(folder, **OPTIONS, **by_city)
        catalog.create_table("db.taken", CUSTOMERS, primary_key=["id"])
    else:
        shop = Shop(folder, **OPTIONS, **{"index.cust": "db.by_cust"})
        catalog.drop_table("db.customers")
    shop.orders((1, 7, 1.0))
    shop.orders((1, 8, 1.0))
    if kind == "index":
        return shop.fact, "index.c_city", "no index"
    return shop.fact, "widen.cust", "no table at"


def joined(folder: Path) -> tuple[wt.Table, str, str]:
    catalog = wt.Catalog(str(folder))
    for name, columns in (("left", ["u", "v"]), ("right", ["u", "w"])):
        schema = pa.schema([(column, pa.int64()) for column in columns])
        catalog.create_table(f"db.{name}", schema, primary_key=["u"], options=OPTIONS)
    join = wt.DeltaJoin(catalog, "db.out", "db.left", "db.right", ["u"])
    out = join.create(OPTIONS | {"changelog-producer": "lookup"})
    catalog.table("db.left").write([{"u": 1, "v": 1}])
    catalog.table("db.right").write([{"u": 1, "w": 1}])
    join.run_once()
    catalog.alter_table("db.right", change_types={"w": pa.float64()})
    return out, "join.left", "'w' of the joined table"


@pytest.mark.parametrize("kind", KINDS)
def test_a_maintainer_goes_on_beside_it(
    tmp_path: Path, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    table, option, why = broken(tmp_path, kind)
    with table.maintainer(Upkeep(interval_millis=0)) as maintainer:
        first = maintainer.round()
        done = first.plus(maintainer.round())
    assert done.compactions >= 1
    assert (done.failures, done.derived_failures) == (0, 1)
    logged = [one.getMessage() for one in caplog.records if option in one.getMessage()]
    assert logged
    assert all(why in text for text in logged)
    if kind == "widen":
        assert table.lookup_index([8], ["id"])["id"].to_pylist() == [1]
    if kind == "index":
        assert table.scan(["c_city"]).to_arrow().to_pylist() == [{"c_city": "Rome"}]


@pytest.mark.parametrize("kind", KINDS)
def test_with_once_the_error_is_raised_when_all_else_is_done(tmp_path: Path, kind: str) -> None:
    table, _, why = broken(tmp_path, kind)
    with pytest.raises(wt.WidetableError, match=why):
        table.maintain(once=True)
    assert any(snapshot.commit_kind == "COMPACT" for snapshot in table.snapshots())


@pytest.mark.parametrize("write_only", ["true", "false"])
def test_one_call_with_once_leaves_nothing_due(tmp_path: Path, write_only: str) -> None:
    options = {"write-only": write_only, "index.cust": "db.by_customer"}
    shop = Shop(tmp_path, **options)
    shop.orders((1, 7, 1.0), (2, 8, 2.0))
    shop.fact.maintain(once=True)
    assert shop.widened() == [(1, 7, "Oslo", 1), (2, 8, "Rome", 2)]
    changes = shop.fact.changes(0, shop.fact.snapshots()[-1].id).to_pylist()
    newest = {row["id"]: row["c_city"] for row in changes if row["_row_kind"] in ("+I", "+U")}
    assert newest == {1: "Oslo", 2: "Rome"}  # the widened values are in the changelog
    assert {files for files in shop.fact.inspect.files()["level"].to_pylist()}.isdisjoint({0})
    assert shop.fact.maintain(once=True).is_idle


@pytest.mark.parametrize("kind", KINDS)
def test_inspections_and_audits_name_it(tmp_path: Path, kind: str) -> None:
    table, option, why = broken(tmp_path, kind)
    found = table.inspect()
    (state,) = [one for one in found.derived if one.option.startswith(option.partition(".")[0])][:1]
    assert why in (state.error or "")
    assert set(state.behind.values()) == {None}
    assert [one for one in found.warnings if why in one] == [f"WT-W404 {state.error}"]
    report = table.audit()
    assert report.checks
    assert [one for one in report.skipped if why in one]


def test_what_failed_is_left_alone_for_a_while(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    table, option, _ = broken(tmp_path, "join")
    pauses = iter([0, 10**9])
    monkeypatch.setattr(derived_tables, "wait_millis", lambda *_: next(pauses))
    with table.maintainer(Upkeep(interval_millis=0)) as maintainer:
        rounds = [maintainer.round() for _ in range(4)]
    assert [one.derived_failures for one in rounds] == [1, 1, 1, 1]
    assert sum(option in one.getMessage() for one in caplog.records) == 2


def test_a_table_that_is_mended_is_made_while_the_maintainer_runs(tmp_path: Path) -> None:
    shop = Shop(tmp_path)
    shop.orders((1, 7, 1.0))
    shop.round()
    shop.catalog.alter_table("db.customers", change_types={"level": pa.int64()})
    shop.dim.write(pa.table([[7], ["Bergen"], [2**40]], schema=shop.dim.arrow_schema))
    stop = threading.Event()
    rounds: list[MaintenanceResult] = []

    def on_round(done: MaintenanceResult) -> None:
        rounds.append(done)
        if len(rounds) == 1:
            shop.catalog.alter_table("db.f", change_types={"c_level": pa.int64()})
        if done.derived_rows:
            stop.set()

    shop.fact.maintain(interval_millis=10, stop=stop, on_round=on_round)
    assert (rounds[0].derived_failures, rounds[-1].derived_failures) == (1, 0)
    assert shop.widened() == [(1, 7, "Bergen", 2**40)]


def test_inspect_shows_how_far_a_join_is_behind(tmp_path: Path) -> None:
    catalog = wt.Catalog(str(tmp_path))
    for name, column in (("left", "v"), ("right", "w")):
        schema = pa.schema([("u", pa.int64()), (column, pa.int64())])
        catalog.create_table(f"db.{name}", schema, primary_key=["u"], options=OPTIONS)
    join = wt.DeltaJoin(catalog, "db.out", "db.left", "db.right", ["u"])
    out = join.create(OPTIONS)
    (state,) = out.inspect().derived
    assert (state.round, dict(state.behind)) == (None, {"db.left": None, "db.right": None})
    catalog.table("db.left").write([{"u": 1, "v": 1}])
    catalog.table("db.right").write([{"u": 1, "w": 1}])
    join.run_once()
    catalog.table("db.right").write([{"u": 1, "w": 2}])
    (state,) = out.inspect().derived
    assert (state.option, state.round) == ("join.on", 1)
    assert dict(state.behind) == {"db.left": 0, "db.right": 1}
