"""A TRUNCATE gives a table other files, as a rewrite does: it is copied again where the log does not explain them."""

from __future__ import annotations

import pytest

from tests.support.databases.synced_database import SyncedDatabase

INSERT = "insert into {0} values (1, 'a')"
OTHER = "insert into {0} values (8, 'h')"
TRUNCATE = "truncate {0}"
REWRITE = "alter table {0} alter column name type varchar(20) using upper(name) || '!'"
# Transactions, by the name of the table that they are done to.
EXPLAINED = {
    "between_rows": [[OTHER], [TRUNCATE], [INSERT]],
    "behind_a_rewrite": [[REWRITE], [OTHER, TRUNCATE], [INSERT]],
    "rewritten_without_rows": [[TRUNCATE, REWRITE], [INSERT]],
}
UNEXPLAINED = {
    "rewritten_in_its_transaction": [[TRUNCATE, INSERT, REWRITE]],
    "rewritten_behind": [[TRUNCATE], [INSERT], [REWRITE], ["delete from {0} where id = 9"]],
    "in_a_subtransaction": [["savepoint s", TRUNCATE, "release s"], [INSERT]],
}
CASES = EXPLAINED | UNEXPLAINED


def copied_again(caplog: pytest.LogCaptureFixture) -> set[str]:
    """The tables of which a warning says so."""
    warned = [each for each in caplog.records if getattr(each, "code", None) == "WT-W902"]
    return {name for name in CASES for each in warned if f"public.{name} " in each.getMessage()}


def test_a_table_is_copied_again_where_the_log_does_not_explain_its_files(
    shop: SyncedDatabase, caplog: pytest.LogCaptureFixture
) -> None:
    for name in CASES:
        shop.execute(
            f"create table {name} (id int primary key, name varchar(20))",
            f"insert into {name} select i, 'n' || i from generate_series(1, 5) as i",
        )
    target = {"warehouse": str(shop.warehouse), "database": "shop", "barriers": "none"}
    shop.run(target=target)
    caplog.clear()
    for name, transactions in CASES.items():
        for statements in transactions:
            shop.transaction(*(statement.format(name) for statement in statements))
    shop.run(target=target)
    assert copied_again(caplog) == set(UNEXPLAINED)
    caplog.clear()
    shop.execute("insert into between_rows values (7, 'later')")
    shop.run(target=target)
    assert copied_again(caplog) == set()
    for name in CASES:
        assert shop.target(name) == shop.source(name), name


@pytest.mark.parametrize("members", ["for all tables", "for tables in schema public"])
def test_a_table_that_was_unlogged_behind_a_truncate_is_copied_again(
    shop: SyncedDatabase, members: str
) -> None:
    """The server refuses that for tables that a publication lists, not for those that it sends with all others."""
    shop.execute(
        "create table loaded (id int primary key, name varchar(20))",
        "insert into loaded select i, 'n' || i from generate_series(1, 5) as i",
        f"create publication widetable_{shop.name} {members} with (publish_via_partition_root = true)",
    )
    shop.run()
    load = [TRUNCATE, "alter table {0} set unlogged", INSERT, "alter table {0} set logged"]
    shop.transaction(*(statement.format("loaded") for statement in load))
    shop.execute(OTHER.format("loaded"))
    shop.run()
    left = [{"id": 1, "name": "a"}, {"id": 8, "name": "h"}]
    assert shop.target("loaded") == shop.source("loaded") == left
