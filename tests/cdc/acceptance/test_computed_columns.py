"""Computed columns and columns of metadata: by the copy and by the log, through changes of the schema, in `verify`."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest

import widetable as wt
from tests.support.databases.synced_database import SyncedDatabase
from widetable_cdc import Sync, SyncedTable, SyncStatus

# Too big for a row, so the log does not carry it where it is unchanged.
BIG = "(select string_agg(md5((i * 1000 + j)::text), '') from generate_series(1, 200) as j)"
COMPUTED = {
    "day": "date_format(at, 'yyyy-MM-dd')",
    "hour": "hour(at)",
    "cents": "truncate(amount, 100)",
    "tag": "upper(trim(name))",
    "part": "substring(name, 1, 3)",
    "shard": "'eu'",
}
# What the server makes of the same columns.
SQL = """
select id, to_char(at at time zone 'UTC', 'YYYY-MM-DD'), extract(hour from at at time zone 'UTC')::int,
       trunc(amount), upper(btrim(name)), substr(name, 2, 2), 'eu'
from o order by id
"""


def section(**more: Any) -> dict[str, Any]:
    return {"public.o": {"computed": COMPUTED} | more}


def of(status: SyncStatus, relation: str) -> SyncedTable:
    return next(one for one in status.tables if one.relation == relation)


@pytest.fixture
def orders(shop: SyncedDatabase) -> SyncedDatabase:
    shop.execute(
        "create table o (id int primary key, at timestamptz, amount numeric(10,2), name text, big text)",
        "insert into o select i, '2026-01-02 23:30:00.5+00'::timestamptz + i * interval '7 hours', "
        f"i + 0.75, ' ab' || i, {BIG} from generate_series(1, 40) as i",
        "insert into o values (99)",
    )
    return shop


def computed(shop: SyncedDatabase) -> list[tuple[Any, ...]]:
    return [tuple(row[name] for name in ("id", *COMPUTED)) for row in shop.target("o")]


def test_values_are_those_that_the_server_computes(orders: SyncedDatabase) -> None:
    orders.run(table=section(), limits={"chunk-rows": 10})
    assert computed(orders) == orders.execute(SQL)
    orders.execute(
        "update o set at = at + interval '1 day', amount = amount * 3 where id < 9",
        "update o set id = 500 where id = 40",
        "delete from o where id = 7",
        "update o set name = null where id = 3",
        "insert into o values (600, '1999-12-31 23:59:59.999999+00', -0.5, 'xyz')",
    )
    orders.run(table=section())
    assert [row[:3] + row[4:] for row in computed(orders)] == [
        row[:3] + row[4:] for row in orders.execute(SQL)
    ]
    # Paimon's truncate goes down, PostgreSQL's trunc to zero.
    assert orders.target("o")[-1]["cents"] == -1
    report = Sync(orders.config(table=section())).verify("public.o")
    assert report.is_equal
    assert orders.target("o") == orders.folded("o")


def test_a_wrong_computed_value_is_a_difference(orders: SyncedDatabase) -> None:
    target = {"warehouse": str(orders.warehouse), "database": "shop", "barriers": "none"}
    orders.run(table=section(), target=target)
    row = orders.target("o")[0]
    orders.table("o").write([row | {"tag": "wrong"}])
    (one,) = Sync(orders.config(table=section(), target=target)).verify("public.o").tables
    assert (one.different, one.columns) == (1, ("tag",))


def test_a_big_value_that_the_log_does_not_carry_is_computed_of(orders: SyncedDatabase) -> None:
    table = {"public.o": {"computed": {"head": "substring(big, 0, 5)"}}}
    orders.run(table=table)
    orders.execute("update o set name = 'x' where id = 1", "update o set id = 700 where id = 2")
    orders.run(table=table)
    heads = {row["id"]: row["head"] for row in orders.target("o")}
    assert heads == dict(orders.execute("select id, substr(big, 1, 5) from o"))


def test_metadata_says_where_a_row_came_from(orders: SyncedDatabase) -> None:
    names = ["table_name", "schema_name", "database_name", "op_ts"]
    table = {"public.o": {"metadata": names, "computed": {"seen": "now()"}}}
    before = orders.execute("select clock_timestamp()")[0][0]
    orders.run(table=table)
    between = orders.execute("select clock_timestamp()")[0][0]
    rows = {row["id"]: row for row in orders.target("o")}
    assert {tuple(row[n] for n in names[:3]) for row in rows.values()} == {
        ("o", "public", orders.name)
    }
    assert all(before <= row["op_ts"] <= between for row in rows.values())
    orders.execute("update o set name = 'x' where id = 1")
    orders.execute("update o set name = 'y' where id = 2")
    after = orders.execute("select clock_timestamp()")[0][0]
    orders.run(table=table)
    rows = {row["id"]: row for row in orders.target("o")}
    assert between <= rows[1]["op_ts"] < rows[2]["op_ts"] <= after
    assert rows[3]["op_ts"] <= between
    assert rows[1]["seen"] - datetime.now(rows[1]["seen"].tzinfo) < timedelta(0)
    assert Sync(orders.config(table=table)).verify("public.o").is_equal


def test_a_change_of_the_schema_leaves_computed_columns_right(orders: SyncedDatabase) -> None:
    orders.run(table=section())
    orders.execute(
        "alter table o add column more int default 7",
        "insert into o values (601, now(), 5.25, 'new', null, 8)",
        "alter table o drop column big",
        "update o set name = 'later' where id = 1",
        "alter table o alter column amount type numeric(10,2) using amount * 2",
    )
    orders.run(table=section())
    assert computed(orders) == orders.execute(SQL)
    assert orders.target("o")[0]["more"] == 7


@pytest.mark.parametrize(
    ("statement", "reason"),
    [
        ("alter table o rename column name to label", "'name'.*no such column"),
        ("alter table o drop column at", "'at'.*no such column"),
        ("alter table o add column tag text", "computed column 'tag'"),
        ("alter table o alter column amount type numeric(12,2)", "'cents' was DECIMAL.*DECIMAL"),
    ],
)
def test_a_change_that_computed_columns_do_not_survive_parks_the_table_alone(
    orders: SyncedDatabase, statement: str, reason: str
) -> None:
    orders.run(table=section())
    orders.execute(statement, "insert into o (id) values (602)", "insert into t values (1)")
    status = orders.run(table=section())
    parked = of(status, "public.o")
    assert parked.status.value == "parked"
    with pytest.raises(AssertionError, match=reason):
        raise AssertionError(parked.reason)
    assert orders.target() == orders.source()


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        ({"computed": {"x": "foo(name)"}}, "'foo'.*one of year, month"),
        ({"computed": {"x": "upper(nam)"}}, "'nam'.*Did you mean name"),
        ({"computed": {"x": "year(name)"}}, "'year'.*STRING"),
        ({"computed": {"name": "upper(name)"}}, "'name'.*another name"),
        ({"metadata": ["tables_name"]}, "'tables_name'.*table_name"),
        ({"key": ["nothing"]}, "'nothing'.*neither"),
        ({"key": ["name"]}, "no column of 'id'"),
        ({"key": ["id", "name"]}, "'name'.*replica identity"),
        ({"computed": {"x": "truncate(id, 10)"}, "key": ["x"]}, "no column of 'id'"),
        ({"computed": {"x": "upper(name)"}, "key": ["id", "x"]}, "'name'.*replica identity"),
        ({"metadata": ["op_ts"], "key": ["id", "op_ts"]}, "'op_ts'.*another value"),
        ({"group": {"columns": ["name"], "sequence": "s"}, "computed": {"x": "1"}}, "'x'.*neither"),
    ],
)
def test_a_section_that_does_not_fit_is_refused_at_the_start(
    orders: SyncedDatabase, more: dict[str, Any], reason: str
) -> None:
    with pytest.raises(wt.InvalidError, match=reason):
        orders.run(table={"public.o": more})
