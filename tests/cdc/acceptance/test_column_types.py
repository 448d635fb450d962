"""Other types of columns: by the copy and by the log, through changes of the schema, and in `verify`."""

from __future__ import annotations

from typing import Any

import pytest

import widetable as wt
from tests.support.databases.synced_database import SyncedDatabase
from widetable_cdc import Sync, SyncedTable, SyncStatus

TYPES = {"amount": "STRING", "big": "DECIMAL(38,2)", "n": "BIGINT", "day": "STRING"}
TABLE = {"public.v": {"types": TYPES}}


def of(status: SyncStatus, relation: str) -> SyncedTable:
    return next(one for one in status.tables if one.relation == relation)


def texts(shop: SyncedDatabase, columns: str) -> list[Any]:
    return shop.execute(f"select {columns} from v order by id")


@pytest.fixture
def values(shop: SyncedDatabase) -> SyncedDatabase:
    shop.execute(
        "create table v (id int primary key, amount numeric(10,2), big numeric, n int, day date)",
        "insert into v values (1, 'NaN', 1.005, 7, 'infinity'), (2, 1.5, null, null, '10000-01-01')",
    )
    return shop


def as_at_the_source(shop: SyncedDatabase) -> None:
    rows = [
        (row["id"], row["amount"], row["big"], row["n"], row["day"]) for row in shop.target("v")
    ]
    assert rows == texts(shop, "id, amount::text, big::numeric(38,2), n::bigint, day::text")
    report = Sync(shop.config(table=TABLE)).verify("public.v")
    assert report.is_equal
    assert report.tables[0].bad == 0


def test_the_copy_the_log_and_verify_have_the_types_that_are_wished_for(
    values: SyncedDatabase,
) -> None:
    status = values.run(table=TABLE)
    as_at_the_source(values)
    values.execute(
        "insert into v values (3, 2, 99.999, -1, '-infinity')",
        "update v set amount = 'NaN', day = '0044-03-15 BC' where id = 2",
    )
    status = values.run(table=TABLE)
    as_at_the_source(values)
    assert status.errors == 0
    types = {field.name: str(field.type) for field in values.table("v").schema.fields}
    assert (types["amount"], types["big"], types["n"]) == ("STRING", "DECIMAL(38, 2)", "BIGINT")


def test_a_wish_outlives_changes_of_the_schema(values: SyncedDatabase) -> None:
    values.run(table=TABLE)
    values.execute(
        "alter table v alter amount type numeric(14,4)",
        "alter table v add more numeric default 'NaN'",
        "insert into v values (4, 1.2345, 3, 2, null, 5)",
    )
    more = {"public.v": {"types": TYPES | {"more": "STRING"}}}
    values.run(table=more)
    assert texts(values, "id, amount::text, more::text") == [
        (row["id"], row["amount"], row["more"]) for row in values.target("v")
    ]
    values.execute(
        "alter table v alter n type bigint", "insert into v values (5, 0, 0, 1 << 31, null)"
    )
    assert of(values.run(table=more), "public.v").status.value == "streaming"
    assert values.target("v")[-1]["n"] == -(1 << 31)


def test_a_type_that_is_no_longer_cast_to_the_wish_parks_its_table_alone(
    values: SyncedDatabase,
) -> None:
    values.run(table=TABLE)
    values.execute(
        "alter table v alter n type text",
        "insert into v values (4, 0, 0, 'x', null)",
        "insert into t values (1)",
    )
    status = values.run(table=TABLE)
    parked = of(status, "public.v")
    assert parked.status.value == "parked"
    assert "column 'n'" in parked.reason
    assert "BIGINT" in parked.reason
    assert values.target() == values.source()


@pytest.mark.parametrize(
    ("types", "names"),
    [
        ({"amont": "STRING"}, "'amont'.*Did you mean amount"),
        ({"n": "DATE"}, r"'DATE'.*int4.*BIGINT or STRING"),
    ],
)
def test_a_wish_that_cannot_be_met_is_refused_at_the_start(
    values: SyncedDatabase, types: dict[str, str], names: str
) -> None:
    with pytest.raises(wt.InvalidError, match=names):
        values.run(table={"public.v": {"types": types}})


def test_a_key_can_be_a_string(shop: SyncedDatabase) -> None:
    table = {"public.t": {"types": {"id": "STRING"}}}
    shop.execute("insert into t select i, 'n' from generate_series(1, 50) as i")
    limits = {"chunk-rows": 10}
    shop.run(table=table, limits=limits)
    shop.execute(
        "update t set id = 100 where id = 1",
        "delete from t where id = 2",
        "insert into t values (2)",
    )
    shop.run(table=table, limits=limits)
    assert [row["id"] for row in shop.target()] == sorted(
        (str(row["id"]) for row in shop.source()), key=repr
    )
    assert Sync(shop.config(table=table, limits=limits)).verify("public.t").is_equal
