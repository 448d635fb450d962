"""What is made of columns follows them when one is dropped and added again, or takes another one's name: no snapshot
says so, and neither do names and types.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import widetable as wt
from tests.widetable.derive.widening.shop import Shop
from widetable.derive.widening.widening import FACT

OPTIONS = {"widetable.fsync": "false"}
SOURCE = pa.schema([("k", pa.int64()), ("x", pa.string()), ("y", pa.string())])


def made_again(catalog: wt.Catalog, table: str, column: str) -> None:
    kind = catalog.table(table).arrow_schema.field(column)
    catalog.alter_table(table, drop_columns=[column])
    catalog.alter_table(table, add_columns=pa.schema([kind]))


def swapped(catalog: wt.Catalog, table: str, one: str, other: str) -> None:
    for old, new in ((one, "t"), (other, one), ("t", other)):
        catalog.alter_table(table, rename_columns={old: new})


def test_widened_columns_follow_a_column_that_is_made_again(tmp_path: Path) -> None:
    shop = Shop(tmp_path)
    shop.orders((1, 7, 1.0))
    shop.round()
    assert shop.widened() == [(1, 7, "Oslo", 1)]
    made_again(shop.catalog, "db.customers", "city")
    assert shop.round() == 1
    assert shop.widened() == [(1, 7, None, 1)]
    assert shop.fact.audit().ok
    assert shop.round() == 0


def test_widened_columns_follow_names_that_are_exchanged(tmp_path: Path) -> None:
    catalog = wt.Catalog(str(tmp_path))
    dim = catalog.create_table("db.dim", SOURCE, primary_key=["k"], options=OPTIONS)
    fact = catalog.create_table(
        "db.fact",
        pa.schema([("id", pa.int64()), ("fk", pa.int64())]),
        primary_key=["id"],
        options=OPTIONS | {"merge-engine": "partial-update", "widen.fk": "db.dim(x)"},
    )
    dim.write([{"k": 1, "x": "X", "y": "Y"}])
    fact.write([{"id": 5, "fk": 1}])
    fact.maintain(once=True)
    swapped(catalog, "db.dim", "x", "y")
    fact.maintain(once=True)
    assert fact.scan(["id", "x"]).to_arrow().to_pylist() == [{"id": 5, "x": "Y"}]
    assert fact.audit().ok


def test_widened_columns_that_are_made_again_are_filled(tmp_path: Path) -> None:
    shop = Shop(tmp_path)
    shop.orders((1, 7, 1.0))
    shop.round()
    sequence = "_widen_cust"
    shop.fact.alter_options(remove_options=["widen.cust"])
    shop.catalog.alter_table(
        "db.f",
        drop_columns=["c_city", "c_level", sequence],
        remove_options=[f"fields.{sequence}.sequence-group"],
    )
    option = {"widen.cust": "db.customers(city as c_city, level as c_level)"}
    shop.catalog.alter_table("db.f", set_options=option)
    assert shop.round() == 1
    assert shop.widened() == [(1, 7, "Oslo", 1)]


def test_an_audit_after_an_alteration_waits_for_the_next_round(tmp_path: Path) -> None:
    """The columns are those of another dim yet."""
    shop = Shop(tmp_path)
    shop.orders((1, 7, 1.0))
    shop.round()
    shop.catalog.create_table(
        "db.others", shop.dim.arrow_schema, primary_key=["id"], options=OPTIONS
    )
    shop.catalog.table("db.others").write([{"id": 7, "city": "Kyiv", "level": 9}])
    shop.fact.alter_options({"widen.cust": "db.others(city as c_city, level as c_level)"})
    report = shop.fact.audit()
    assert report.ok
    assert "have changed since that round" in report.skipped[-1]
    assert max(s.id for s in shop.fact.snapshots() if FACT in s.properties) > 0
    shop.round()
    assert shop.widened() == [(1, 7, "Kyiv", 9)]
    report = shop.fact.audit()
    assert (report.ok, report.checks["widened"], report.skipped) == (True, 1, ())


def joined(catalog: wt.Catalog) -> tuple[wt.DeltaJoin, wt.Table]:
    left = pa.schema([("u", pa.int64()), ("v", pa.string())])
    sides = (("db.left", left, "u"), ("db.right", SOURCE, "k"))
    for name, schema, key in sides:
        catalog.create_table(name, schema, primary_key=[key], options=OPTIONS)
    join = wt.DeltaJoin(catalog, "db.out", "db.left", "db.right", {"u": "k"}, "left")
    out = join.create(OPTIONS)
    catalog.table("db.left").write([{"u": 1, "v": "v"}])
    catalog.table("db.right").write([{"k": 1, "x": "X", "y": "Y"}])
    assert join.run_once().rows_added == 1
    return join, out


def rows(table: wt.Table) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = table.scan().to_arrow().to_pylist()
    return found


@pytest.mark.parametrize("how", ["made again", "swapped"])
def test_a_join_follows_columns_of_its_tables(tmp_path: Path, how: str) -> None:
    catalog = wt.Catalog(str(tmp_path))
    join, out = joined(catalog)
    if how == "swapped":
        swapped(catalog, "db.right", "x", "y")
    else:
        made_again(catalog, "db.right", "y")
    x, y = ("Y", "X") if how == "swapped" else ("X", None)
    assert join.run_once().rows_added == 1
    assert rows(out) == [{"u": 1, "v": "v", "x": x, "y": y}]
    assert out.audit().ok
    assert join.run_once().snapshot_id is None


def test_a_joined_column_that_is_made_again_is_filled(tmp_path: Path) -> None:
    catalog = wt.Catalog(str(tmp_path))
    join, out = joined(catalog)
    made_again(catalog, "db.out", "y")
    assert join.run_once().rows_added == 1
    assert rows(out) == [{"u": 1, "v": "v", "x": "X", "y": "Y"}]


def test_what_somebody_wrote_while_nothing_widened_is_overwritten(tmp_path: Path) -> None:
    """Without the option the columns are everybody's, and so is the number of the round, which says who wins."""
    shop = Shop(tmp_path)
    shop.orders((1, 7, 1.0), (2, 8, 1.0))
    shop.round()
    option = shop.fact.schema.options["widen.cust"]
    shop.fact.alter_options(remove_options=["widen.cust"])
    theirs = {"id": 1, "c_city": "mine", "c_level": 9, "_widen_cust": 1000}
    shop.fact.write([theirs])
    shop.fact.alter_options({"widen.cust": option})
    assert shop.round() == 1
    assert shop.widened() == [(1, 7, "Oslo", 1), (2, 8, "Rome", 2)]
    assert shop.round() == 0
    shop.customers((7, "Bergen", 1), (8, "Milan", 2))
    assert shop.round() == 2
    assert shop.widened() == [(1, 7, "Bergen", 1), (2, 8, "Milan", 2)]
    assert shop.fact.audit().ok


@pytest.mark.parametrize("column", ["cust", "c_city", "_widen_cust"])
@pytest.mark.parametrize("how", ["drop", "rename"])
def test_columns_that_derived_options_name_keep_their_names(
    tmp_path: Path, column: str, how: str
) -> None:
    """The error says what to type, and that works."""
    options = {"index.cust": "db.by_cust", "index.c_city": "db.by_city"}
    shop = Shop(tmp_path, **options)
    shop.orders((1, 7, 1.0))
    shop.round()
    change: dict[str, Any] = {"drop_columns": [column]}
    if how == "rename":
        change = {"rename_columns": {column: "other"}}
    with pytest.raises(wt.InvalidError, match=rf"{column}.*remove_options=\['") as refused:
        shop.catalog.alter_table("db.f", **change)
    assert any(option in str(refused.value) for option in (*options, "widen.cust"))
    if how == "rename":
        removed = ["widen.cust", *options]
        table = shop.catalog.alter_table("db.f", **change, remove_options=removed)
        assert "other" in table.schema.names


def altered_within(catalog: wt.Catalog, table: str, column: str, how: str) -> None:
    """A column that is ROW<a INT, b INT>."""
    a, b = f"{column}.a", f"{column}.b"
    if how == "swapped":
        catalog.alter_table(table, rename_columns={a: "b", b: "a"}, move_columns={b: "first"})
    else:
        catalog.alter_table(table, drop_columns=[b])
        catalog.alter_table(table, add_columns=[pa.field(b, pa.int32())])


WITHIN = {"swapped": {"a": 2, "b": 1}, "made again": {"a": 1, "b": None}}


@pytest.mark.parametrize("how", WITHIN)
def test_widened_columns_follow_their_fields(tmp_path: Path, how: str) -> None:
    catalog = wt.Catalog(str(tmp_path))
    columns = {"k": "BIGINT", "x": "ROW<a INT, b INT>"}
    dim = catalog.create_table("db.dim", columns, primary_key=["k"], options=OPTIONS)
    fact = catalog.create_table(
        "db.fact",
        {"id": "BIGINT", "fk": "BIGINT"},
        primary_key=["id"],
        options=OPTIONS | {"merge-engine": "partial-update", "widen.fk": "db.dim(x)"},
    )
    dim.write([{"k": 1, "x": {"a": 1, "b": 2}}])
    fact.write([{"id": 5, "fk": 1}])
    fact.maintain(once=True)
    altered_within(catalog, "db.dim", "x", how)
    fact.maintain(once=True)
    assert fact.scan(["id", "x"]).to_arrow().to_pylist() == [{"id": 5, "x": WITHIN[how]}]
    assert fact.audit().ok


@pytest.mark.parametrize("how", WITHIN)
def test_a_join_follows_fields_of_its_columns(tmp_path: Path, how: str) -> None:
    catalog = wt.Catalog(str(tmp_path))
    columns = {"k": "BIGINT", "x": "ARRAY<ROW<a INT, b INT>>"}
    catalog.create_table("db.left", {"u": "BIGINT"}, primary_key=["u"], options=OPTIONS)
    right = catalog.create_table("db.right", columns, primary_key=["k"], options=OPTIONS)
    join = wt.DeltaJoin(catalog, "db.out", "db.left", "db.right", {"u": "k"}, "left")
    out = join.create(OPTIONS)
    catalog.table("db.left").write([{"u": 1}])
    right.write([{"k": 1, "x": [{"a": 1, "b": 2}]}])
    assert join.run_once().rows_added == 1
    altered_within(catalog, "db.right", "x.element", how)
    assert join.run_once().rows_added == 1
    assert rows(out) == [{"u": 1, "x": [WITHIN[how]]}]
    assert join.run_once().snapshot_id is None
