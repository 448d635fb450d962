"""Cases 6, 7, 9 and 10: what a change of the source's schema does to a target that streams."""

from __future__ import annotations

import pytest

import widetable as wt
from tests.support.databases.synced_database import SyncedDatabase
from widetable_cdc import Sync


def test_06_a_column_with_a_constant_default_fills_rows_that_are_there(
    shop: SyncedDatabase,
) -> None:
    shop.execute("insert into t select i, 'n' from generate_series(1, 3) as i")
    shop.run()
    before = shop.table().snapshots()[-1].id
    shop.execute("alter table t add column extra int default 7", "insert into t (id) values (9)")
    shop.run()
    assert [(row["id"], row["extra"]) for row in shop.target()] == [(1, 7), (2, 7), (3, 7), (9, 7)]
    table = shop.table()
    changes = table.changes(before, table.snapshots()[-1].id).to_pylist()
    assert [row["id"] for row in changes if row["_row_kind"] == "+U"] == [1, 2, 3]
    assert shop.folded() == shop.target()


def test_07_a_column_with_a_volatile_default_is_copied_again(shop: SyncedDatabase) -> None:
    shop.execute("insert into t select i, 'n' from generate_series(1, 50) as i")
    shop.run()
    shop.execute("alter table t add column r float8 default random()", "insert into t values (99)")
    shop.run()
    assert shop.target() == shop.source()
    assert shop.folded() == shop.target()


def test_09_a_rename_keeps_the_field_and_a_new_column_is_a_new_field(shop: SyncedDatabase) -> None:
    shop.execute("insert into t values (1, 'a')")
    shop.run()
    field = shop.table().schema.field("name").id
    shop.execute("alter table t rename column name to label", "insert into t values (2, 'b')")
    shop.run()
    assert shop.table().schema.field("label").id == field
    assert [row["label"] for row in shop.target()] == ["a", "b"]
    shop.transaction("alter table t drop column label", "alter table t add column label int")
    shop.execute("insert into t (id, label) values (3, 5)")
    shop.run()
    assert shop.table().schema.field("label").id != field
    assert [row["label"] for row in shop.target()] == [None, None, 5]


def test_10_a_change_of_the_key_parks_the_table_alone(shop: SyncedDatabase) -> None:
    shop.execute("create table u (id int primary key)", "insert into t values (1, 'a')")
    shop.run()
    shop.execute("alter table t alter column id type bigint", "insert into t values (2, 'b')")
    shop.execute("insert into u values (1)")
    status = shop.run()
    parked = next(one for one in status.tables if one.relation == "public.t")
    assert parked.status.value == "parked"
    assert "id" in parked.reason
    assert status.needs_attention
    assert [row["id"] for row in shop.target("u")] == [1]
    assert [row["id"] for row in shop.target()] == [1]
    Sync(shop.config()).resume("public.t", recopy=True)
    shop.run()
    assert str(shop.table().schema.field("id").type).startswith("BIGINT")
    assert [row["id"] for row in shop.target()] == [1, 2]


@pytest.mark.parametrize(
    "change",
    [
        "alter table t add column plain int",
        "alter table t alter column name type varchar(40)",
        "alter table t alter column name type text",
        "alter table t add column n int; alter table t alter column n type bigint",
        "alter table t drop column big",
        "alter table t add column a int; alter table t add column b int; "
        "alter table t rename column a to x; alter table t rename column b to a; "
        "alter table t rename column x to b",
    ],
)
def test_a_change_of_the_schema_beside_rows(shop: SyncedDatabase, change: str) -> None:
    shop.execute("insert into t values (1, 'a', 'x')")
    shop.run()
    shop.execute("insert into t values (2, 'b', 'y')", change, "insert into t (id) values (3)")
    shop.execute("update t set name = 'c' where id = 1")
    shop.run()
    columns = shop.source()[0].keys()
    target = [{name: row[name] for name in columns} for row in shop.target()]
    assert target == shop.source()
    assert isinstance(shop.table(), wt.Table)
    assert shop.folded() == shop.target()


@pytest.mark.parametrize(
    "change",
    ["alter table t add column r float8 default random()", "alter table t drop column big"],
)
def test_a_table_that_is_altered_while_it_is_copied(shop: SyncedDatabase, change: str) -> None:
    shop.execute("insert into t select i, 'n', 'x' from generate_series(1, 30) as i")
    job = Sync(shop.config(limits={"chunk-rows": 10}))
    job.prepare()
    shop.execute(change)
    assert job.run("caught-up").tables[0].status.value == "streaming"
    columns = shop.source()[0].keys()
    assert [{name: row[name] for name in columns} for row in shop.target()] == shop.source()
    assert shop.folded() == shop.target()


@pytest.mark.parametrize("rewrite", ["type text using upper(big)", "set default 'x'"])
def test_rewritten_values_arrive_though_the_log_says_nothing_new(
    shop: SyncedDatabase, rewrite: str
) -> None:
    shop.execute("insert into t values (1, 'a', 'x'), (2, 'b', 'y')")
    shop.run()
    shop.execute(f"alter table t alter column big {rewrite}", "insert into t (id) values (3)")
    shop.run()
    assert shop.target() == shop.source()
    assert shop.folded() == shop.target()
