"""Widened columns: the acceptance cases of foreign keys, and the law after every round of random histories."""

from __future__ import annotations

import contextlib
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import widetable as wt
from tests.widetable.derive.widening.shop import CUSTOMERS, FACT_SCHEMA, WIDEN, Killed, Shop, once
from widetable.cli.output.inspection_text import inspection_lines
from widetable.commit.transaction.commit_identity import Identity
from widetable.derive.changes import touched_rows
from widetable.derive.widening import widen_candidates, widening
from widetable.derive.widening.widening import DIM, FACT, widen_round
from widetable.operations.writes.table_commit import append_messages
from widetable.operations.writes.table_write import any_writer
from widetable.schema.derived_options import widen_options


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    made = Shop(tmp_path)
    made.orders((1, 7, 10.0))
    assert made.round() == 1
    return made


def test_case_13_a_new_fact_gets_the_columns_of_its_dim(shop: Shop) -> None:
    assert shop.widened() == [(1, 7, "Oslo", 1)]
    assert shop.fact.schema.names == (
        *FACT_SCHEMA.names, "c_city", "c_level", "_widen_cust",
    )  # fmt: skip
    assert shop.round() == 0


def test_case_14_a_change_of_the_dim_reaches_the_changelog_once(shop: Shop) -> None:
    before = shop.latest()
    shop.customers((7, "Bergen", 1))
    assert shop.round() == 1
    assert shop.round() == 0
    assert shop.changes(before) == [("-U", 1, "Oslo", 1), ("+U", 1, "Bergen", 1)]


def test_case_15_another_foreign_key_brings_other_columns(shop: Shop) -> None:
    shop.orders((1, 8, 10.0))
    assert shop.round() == 1
    assert shop.widened() == [(1, 8, "Rome", 2)]


def test_case_16_a_dim_that_comes_late_is_made_up_for(shop: Shop) -> None:
    shop.orders((2, 9, 5.0), (3, None, 6.0))
    assert shop.round() == 0
    assert shop.widened()[1:] == [(2, 9, None, None), (3, None, None, None)]
    shop.customers((9, "Kyiv", 3))
    assert shop.round() == 1
    assert shop.widened()[1:] == [(2, 9, "Kyiv", 3), (3, None, None, None)]


def test_case_17_a_dim_that_is_deleted_leaves_nulls(shop: Shop) -> None:
    before = shop.latest()
    shop.forget(7)
    assert shop.round() == 1
    assert shop.widened() == [(1, 7, None, None)]
    assert shop.changes(before) == [("-U", 1, "Oslo", 1), ("+U", 1, None, None)]


def test_case_18_what_changes_together_shows_once(shop: Shop) -> None:
    before = shop.latest()
    shop.orders((1, 8, 10.0))
    shop.customers((7, "Paris", 1), (8, "Milan", 2))
    assert shop.round() == 1
    assert shop.widened() == [(1, 8, "Milan", 2)]
    assert "Paris" not in [change[2] for change in shop.changes(before)]


def test_case_19_a_fact_that_was_deleted_meanwhile_stays_deleted(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop.orders((2, 8, 1.0), (3, 8, 1.0))
    before = shop.latest()
    once(monkeypatch, lambda: shop.orders((2, 8, None), kind="-D"))
    shop.round()
    assert shop.widened() == [(1, 7, "Oslo", 1), (3, 8, "Rome", 2)]
    shop.round()
    assert shop.widened() == [(1, 7, "Oslo", 1), (3, 8, "Rome", 2)]
    assert [change for change in shop.changes(before) if change[1] == 2] == [("-D", 2, None, None)]


@pytest.mark.parametrize("at", ["untouched_rows", "append_messages"])
def test_a_fact_that_is_deleted_at_the_last_moment_stays_deleted(
    shop: Shop, monkeypatch: pytest.MonkeyPatch, at: str
) -> None:
    shop.orders((2, 8, 1.0), (3, 8, 1.0))
    once(monkeypatch, lambda: shop.orders((2, 8, None), kind="-D"), at)
    shop.round()
    assert shop.widened() == [(1, 7, "Oslo", 1), (3, 8, "Rome", 2)]


def test_case_20_pieces_are_made_up_for_and_only_the_last_has_the_properties(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop = Shop(tmp_path, **{"widetable.widen-piece-rows": "500", "index.cust": "db.by_cust"})
    shop.orders(*[(id, 7, 1.0) for id in range(2000)], *[(id, 8, 1.0) for id in range(2000, 30000)])
    shop.round()
    before = shop.latest()
    shop.customers((7, "Bergen", 1))
    real = append_messages
    for commits in range(3):
        left = [1]

        def commit(*given: Any, left: list[int] = left, **named: Any) -> Any:
            if not left[0]:
                raise Killed
            left[0] -= 1
            return real(*given, **named)

        monkeypatch.setattr(touched_rows, "append_messages", commit)
        with pytest.raises(Killed):
            shop.round()
        assert count(shop, "Bergen") == 500 * (commits + 1)
    monkeypatch.setattr(touched_rows, "append_messages", real)
    assert shop.round() == 500
    assert count(shop, "Bergen") == 2000
    changes = shop.changes(before)
    assert sorted(changes) == sorted(
        change for id in range(2000) for change in (("-U", id, "Oslo", 1), ("+U", id, "Bergen", 1))
    )
    properties = [
        snapshot.properties
        for snapshot in sorted(shop.fact.snapshots(), key=lambda snapshot: snapshot.id)
        if snapshot.id > before and snapshot.commit_user == "widen/cust"
    ]
    assert [DIM in each for each in properties] == [False, False, False, True]


def count(shop: Shop, city: str) -> int:
    return int(shop.fact.scan(["id"], f"c_city = '{city}'").to_arrow().num_rows)


def test_case_21_of_two_maintainers_one_widens(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    shop.customers((7, "Bergen", 1))
    (option,) = widen_options(shop.fact.schema.options)
    others: list[object] = []
    once(monkeypatch, lambda: others.append(widen_round(shop.fact, option)))
    done = widen_round(shop.fact, option)
    assert (others, done and done.rows) == ([None], 1)


@pytest.mark.parametrize("back", ["Oslo", "Kyiv"])
def test_a_widener_that_was_overtaken_writes_nothing(
    shop: Shop, monkeypatch: pytest.MonkeyPatch, back: str
) -> None:
    """Also where the faster one found that nothing differs any more."""
    (option,) = widen_options(shop.fact.schema.options)
    monkeypatch.setattr(widening, "held_lease", lambda *_, **__: contextlib.nullcontext(True))
    shop.customers((7, "Bergen", 1))

    def overtake() -> None:
        shop.customers((7, back, 1))
        assert widen_round(shop.fact, option) is not None

    once(monkeypatch, overtake)
    assert widen_round(shop.fact, option) is None
    assert shop.widened() == [(1, 7, back, 1)]
    assert shop.round() == 0
    assert shop.fact.audit().ok


def many_orders(tmp_path: Path) -> Shop:
    """200 that are widened; the last round had next to nothing to do."""
    shop = Shop(tmp_path)
    shop.orders(*((id, 7, 1.0) for id in range(200)))
    shop.round()
    shop.orders((200, 9, 1.0))
    shop.round()
    return shop


def test_a_fact_that_was_written_before_and_after_a_rescaling_is_widened_once(
    tmp_path: Path,
) -> None:
    shop = many_orders(tmp_path)
    shop.orders(*((id, 8, 1.0) for id in range(8)))
    shop.fact.rescale(3)
    shop.orders(*((id, 8, 2.0) for id in range(8)))
    assert shop.round() == 8
    assert shop.widened()[:9] == [*((id, 8, "Rome", 2) for id in range(8)), (8, 7, "Oslo", 1)]


def test_what_a_round_wrote_is_not_asked_again_by_the_next_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop = Shop(tmp_path)
    shop.orders(*((id, 7, 1.0) for id in range(200)))
    assert shop.round() == 200
    shop.orders((3, 8, 2.0))
    monkeypatch.delattr(widen_candidates, "scan_at")
    assert shop.round() == 1
    assert shop.widened()[3] == (3, 8, "Rome", 2)


def test_case_22_tables_that_widen_each_other_are_refused(tmp_path: Path) -> None:
    catalog = wt.Catalog(str(tmp_path))
    schema = pa.schema([("k", pa.int64()), ("other", pa.int64()), ("v", pa.string())])
    options = {"merge-engine": "partial-update"}
    catalog.create_table("db.a", schema, primary_key=["k"], options=options)
    catalog.create_table(
        "db.b", schema, primary_key=["k"], options=options | {"widen.other": "db.a(v as a_v)"}
    )
    with pytest.raises(wt.InvalidError, match=r"db\.a is widened from db\.b is widened from db\.a"):
        catalog.alter_table("db.a", set_options={"widen.other": "db.b(v as b_v)"})
    for alter in (partial(catalog.alter_table, "db.a"), catalog.table("db.a").alter_options):
        with pytest.raises(wt.InvalidError, match="circle"):
            alter(set_options={"widen.other": "db.a(v as a_v)"})
        with pytest.raises(wt.InvalidError, match="circle"):
            alter(set_options={"widen.other": "db.b(v as b_v)"})


def test_chains_follow_the_dim_of_the_dim(tmp_path: Path) -> None:
    catalog = wt.Catalog(str(tmp_path))
    schema = pa.schema([("k", pa.int64()), ("up", pa.int64()), ("v", pa.string())])
    options = {"merge-engine": "partial-update"}
    tables = [catalog.create_table("db.t0", schema, primary_key=["k"], options=options)]
    for number in (1, 2):
        widen = {"widen.up": f"db.t{number - 1}({'v' if number == 1 else 'up_v'} as up_v)"}
        made = catalog.create_table(
            f"db.t{number}", schema, primary_key=["k"], options=options | widen
        )
        tables.append(made)
    for table in tables:
        table.write(pa.table({"k": [1], "up": [1], "v": [table.path[-2:]]}))
        table.maintain(once=True)
    assert tables[2].lookup([1], ["up_v"])["up_v"].to_pylist() == ["t0"]
    tables[0].write(pa.table({"k": [1], "v": ["new"]}))
    for table in tables:
        table.maintain(once=True)
    assert tables[2].lookup([1], ["up_v"])["up_v"].to_pylist() == ["new"]


def test_what_no_batch_may_lack_is_carried_along(tmp_path: Path) -> None:
    """A NOT NULL column in a group of others, whose sequence and columns come with it."""
    catalog = wt.Catalog(str(tmp_path))
    catalog.create_table("db.customers", CUSTOMERS, primary_key=["id"]).write(
        pa.table({"id": [7], "city": ["Oslo"], "level": pa.array([1], pa.int32())})
    )
    fields = [f.with_nullable(f.name != "cust") for f in FACT_SCHEMA]
    fact = catalog.create_table(
        "db.f",
        pa.schema(fields),
        primary_key=["id"],
        options={"merge-engine": "partial-update", "fields.ts.sequence-group": "cust,amount"}
        | WIDEN,
    )
    fact.write({"id": [1], "cust": [7], "amount": [2.5], "ts": [3]})
    assert fact.maintain(once=True).derived_rows == 1
    row = {"id": 1, "cust": 7, "amount": 2.5, "ts": 3, "c_city": "Oslo", "c_level": 1}
    assert fact.scan(list(row)).to_arrow().to_pylist() == [row]


def test_an_existing_table_is_widened(tmp_path: Path) -> None:
    catalog = wt.Catalog(str(tmp_path))
    fact = catalog.create_table(
        "db.f", FACT_SCHEMA, primary_key=["id"], options={"merge-engine": "partial-update"}
    )
    fact.write(pa.table({"id": [1, 2], "cust": [7, 9]}))
    catalog.create_table("db.customers", CUSTOMERS, primary_key=["id"]).write(
        pa.table({"id": [7], "city": ["Oslo"], "level": pa.array([1], pa.int32())})
    )
    fact.alter_options(WIDEN)
    assert fact.maintain(once=True).derived_rows == 1
    assert fact.lookup([1, 2], ["c_city"])["c_city"].to_pylist() == ["Oslo", None]


@pytest.mark.parametrize("column", ["c_city", "_widen_cust"])
def test_other_writers_of_widened_columns_are_refused(shop: Shop, column: str) -> None:
    value: list[Any] = ["x"] if column == "c_city" else [1]
    for write in (shop.fact.write, shop.fact.overwrite):
        with pytest.raises(wt.InvalidError, match=r"widen\.cust"):
            write({"id": [1], "cust": [7], "ts": [9], "amount": [1.0], column: value})


@pytest.mark.parametrize(
    ("options", "names"),
    [
        ({"widen.a/b": "db.customers(city)"}, "without /"),
        ({"widen.cust": "db.customers"}, "db.table"),
        ({"widen.cust": "db.customers(city as a, level as a)"}, "each column once"),
        ({"widen.cust": "db.customers(city as a, city as b)"}, "each column once"),
        ({"widen.cust": "db.none(city)"}, r"db\.none"),
        ({"widen.cust": "db.customers(nope)"}, "nope"),
        ({"widen.nope": "db.customers(city)"}, "nope"),
        ({"widen.amount": "db.customers(city)"}, "double"),
        ({"widen.cust": "db.customers(city as cust)"}, "'cust' of type int64"),
        ({"widen.cust": "db.customers(city as amount)"}, "'amount' of type double"),
        ({"widen.cust": "db.customers(city)", "merge-engine": "deduplicate"}, "partial-update"),
    ],
)
def test_a_wrong_widen_option_is_refused_at_once(
    tmp_path: Path, options: dict[str, str], names: str
) -> None:
    catalog = wt.Catalog(str(tmp_path))
    catalog.create_table("db.customers", CUSTOMERS, primary_key=["id"])
    with pytest.raises((wt.InvalidError, wt.NotFoundError), match=names):
        catalog.create_table(
            "db.f",
            pa.schema([*FACT_SCHEMA, ("a/b", pa.int64())]),
            primary_key=["id"],
            options={"merge-engine": "partial-update"} | options,
        )


def test_an_audit_finds_widened_columns_that_are_not_those_of_the_dim(shop: Shop) -> None:
    shop.orders((2, 9, 5.0), (3, 8, 1.0))
    shop.round()
    report = shop.fact.audit()
    assert (report.ok, report.checks["widened"]) == (True, 3)
    shop.orders((2, 8, 5.0))  # nobody has widened it yet: no finding
    shop.round()
    (newest,) = [s for s in shop.fact.snapshots() if s.id == shop.latest()]
    with any_writer(shop.fact, ["id", "c_city", "c_level", "_widen_cust"]) as writer:
        writer.write(
            pa.table(
                {
                    "id": [1],
                    "c_city": ["Bergen"],
                    "c_level": pa.array([1], pa.int32()),
                    "_widen_cust": [99],
                }
            )
        )
        messages = writer.finish()
    ends = [s for s in shop.fact.snapshots() if FACT in s.properties]
    properties = max(ends, key=lambda snapshot: snapshot.id).properties
    by = Identity("widen/cust", 1 << 40)
    append_messages(shop.fact, messages, by, properties={n: properties[n] for n in (FACT, DIM)})
    report = shop.fact.audit()
    assert report.found == {"widened": 1}
    assert report.findings[0].key == {"id": 1}
    assert newest.id < shop.latest()


def test_a_dim_whose_columns_were_altered_is_an_error_that_says_so(shop: Shop) -> None:
    shop.catalog.alter_table("db.customers", change_types={"level": pa.int64()})
    wide = shop.dim.arrow_schema
    shop.dim.write(pa.table([[7], ["Bergen"], [2**40]], schema=wide))
    with pytest.raises(wt.InvalidError, match=r"'c_level' of type int32.*int64"):
        shop.fact.maintain(once=True)
    shop.catalog.alter_table("db.f", change_types={"c_level": pa.int64()})
    assert shop.round() == 1
    assert shop.widened() == [(1, 7, "Bergen", 2**40)]


def test_inspect_shows_round_lag_and_cost(shop: Shop) -> None:
    shop.round()
    (state,) = shop.fact.inspect().derived
    assert (state.option, state.round, state.rows) == ("widen.cust", 1, 1)
    assert dict(state.behind) == {"db.f": 0, "db.customers": 0}
    shop.customers((7, "Bergen", 1))
    (state,) = shop.fact.inspect().derived
    assert dict(state.behind) == {"db.f": 0, "db.customers": 2}
    lines = [line for line, _ in inspection_lines(shop.fact.inspect())]
    (line,) = [line for line in lines if line.strip().startswith("widen")]
    assert "2 snapshots of db.customers behind, round 1 of" in line
    assert "wrote 1 row" in line


def test_the_engine_is_known_in_any_letters(tmp_path: Path) -> None:
    catalog = wt.Catalog(tmp_path)
    dim = catalog.create_table(
        "db.dim",
        {"k": "BIGINT", "x": "BIGINT"},
        primary_key=["k"],
        options={"bucket": "1", "changelog-producer": "lookup"},
    )
    dim.write([{"k": 1, "x": 77}])
    fact = catalog.create_table(
        "db.fact",
        {"k": "BIGINT", "fk": "BIGINT", "x": "BIGINT", "_widen_fk": "BIGINT"},
        primary_key=["k"],
        options={
            "bucket": "1",
            "changelog-producer": "lookup",
            "merge-engine": "Partial-Update",
            "fields._widen_fk.sequence-group": "x",
            "widen.fk": "db.dim(x)",
        },
    )
    fact.write([{"k": 1, "fk": 1}])
    fact.maintain(once=True)
    assert fact.scan(["k", "x"]).to_arrow().to_pylist() == [{"k": 1, "x": 77}]
