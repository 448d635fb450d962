"""The rules of a job: truncates, one commit for each transaction, the warning of a slot that holds much."""

from __future__ import annotations

import pytest

import widetable as wt
from tests.support.databases.synced_database import SyncedDatabase


def test_a_truncate_is_passed_by(shop: SyncedDatabase) -> None:
    shop.execute("insert into t values (1)")
    rules = {"truncate": "ignore"}
    shop.run(rules=rules)
    shop.execute("truncate t", "insert into t values (2)")
    shop.run(rules=rules)
    assert [row["id"] for row in shop.target()] == [1, 2]


def test_a_job_stops_at_a_truncate_until_the_rule_is_another(shop: SyncedDatabase) -> None:
    shop.execute("insert into t values (1)")
    rules = {"truncate": "stop"}
    shop.run(rules=rules)
    shop.execute("truncate t", "insert into t values (2)")
    for _ in range(2):
        with pytest.raises(wt.InvalidError, match=r"public\.t.*TRUNCATE.*truncate = 'stop'"):
            shop.run(rules=rules)
    assert [row["id"] for row in shop.target()] == [1]
    shop.run()
    assert shop.target() == shop.source()


def test_a_job_stops_at_a_truncate_beside_an_altered_column(shop: SyncedDatabase) -> None:
    """A column whose rows get unknown values leads to a new copy, which would delete the rows."""
    shop.execute("insert into t values (1)")
    rules = {"truncate": "stop"}
    shop.run(rules=rules)
    shop.execute("truncate t", "alter table t add column r float8 default random()")
    shop.execute("insert into t values (2)")
    with pytest.raises(wt.InvalidError, match=r"public\.t.*TRUNCATE"):
        shop.run(rules=rules)
    assert [row["id"] for row in shop.target()] == [1]


def test_each_transaction_is_a_commit_where_the_rule_says_so(shop: SyncedDatabase) -> None:
    rules = {"every-transaction": True}
    shop.execute("insert into t values (1, 'a')")
    shop.run(rules=rules)
    before = shop.table().snapshots()[-1].id
    shop.transaction("update t set name = 'b'", "update t set name = 'c'")
    shop.execute("update t set name = 'd'", "update t set name = 'e'")
    shop.run(rules=rules)
    changes = shop.table().changes(before, shop.table().snapshots()[-1].id).to_pylist()
    names = [change["name"] for change in changes if change["_row_kind"] == "+U"]
    assert names == ["c", "d", "e"]


def test_a_slot_that_holds_much_is_warned_of(
    shop: SyncedDatabase, caplog: pytest.LogCaptureFixture
) -> None:
    shop.execute("insert into t values (1)")
    shop.run()
    shop.execute("insert into t select i from generate_series(2, 50) as i")
    shop.run()
    assert "bytes of log, more than" not in caplog.text
    shop.execute("insert into t select i from generate_series(51, 99) as i")
    shop.run(limits={"max-held": "1 kb"})
    assert "bytes of log, more than 1024 bytes" in caplog.text
