"""Joins whose left table is found by an index on the join key; a maintainer runs them, and an audit knows them."""

from __future__ import annotations

import random
import sys
from pathlib import Path

import pyarrow as pa
import pytest

import widetable as wt
from tests.support.tables.joined import FAST, LOOKUP, newest
from widetable.commit.snapshots.snapshot_store import SnapshotStore
from widetable.operations.handle.held_lease import held_lease
from widetable.operations.writes.table_write import any_writer

COLUMNS = ("id", "cust", "amount")


class Orders:
    """Orders by id, with an index on their customer; customers by id; and their join, keyed as the orders."""

    def __init__(self, folder: Path, how: str) -> None:
        self.catalog = wt.Catalog(str(folder))
        self.orders = self.catalog.create_table(
            "db.orders",
            {name: pa.int64() for name in COLUMNS},
            primary_key=["id"],
            options={"index.cust": "db.by_cust", "bucket": "2", **FAST},
        )
        self.customers = self.catalog.create_table(
            "db.customers",
            {"id": pa.int64(), "name": pa.string()},
            primary_key=["id"],
            options=FAST,
        )
        self.how = how
        self.join = wt.DeltaJoin(
            self.catalog, "db.out", "db.orders", "db.customers", {"cust": "id"}, how
        )
        self.out = self.join.create({**LOOKUP, **FAST})

    def write_something(self, rng: random.Random) -> None:
        kind = rng.choice(["+I", "+I", "+I", "-D"])
        if rng.random() < 0.6:
            cust = rng.choice([None, *range(5)])
            row = {"id": rng.randrange(12), "cust": cust, "amount": rng.randrange(9)}
            self.orders.write([{**row, "_row_kind": kind}])
        else:
            row = {"id": rng.randrange(5), "name": f"n{rng.randrange(9)}"}
            self.customers.write([{**row, "_row_kind": kind}])

    def check(self) -> None:
        names = {row["id"]: row["name"] for row in self.customers.scan().to_arrow().to_pylist()}
        expected = [
            {**row, "name": names.get(row["cust"])}
            for row in self.orders.scan().to_arrow().to_pylist()
            if self.how == "left" or row["cust"] in names
        ]
        found = self.out.scan().to_arrow().to_pylist()
        assert sorted(found, key=repr) == sorted(expected, key=repr)


@pytest.mark.parametrize("how", ["inner", "left"])
def test_a_join_finds_its_left_rows_by_an_index(
    tmp_path: Path, rng: random.Random, how: str
) -> None:
    shop = Orders(tmp_path, how)
    shop.join.run_once()
    for _ in range(12):
        for _ in range(rng.randrange(6)):
            shop.write_something(rng)
        if rng.random() < 0.5:
            shop.orders.maintain(once=True)
        shop.out.maintain(once=True)
        shop.check()
        report = shop.out.audit()
        assert report.ok, "\n".join(map(str, report.findings))
        assert shop.out.maintain(once=True).derived_rows == 0
    assert newest(shop.out) > 0


@pytest.mark.parametrize("how", ["inner", "left"])
@pytest.mark.parametrize("wrong", ["missing", "too many", "another value"])
def test_an_audit_finds_a_row_that_is_not_the_join_s(tmp_path: Path, how: str, wrong: str) -> None:
    shop = Orders(tmp_path, how)
    shop.orders.write([{"id": 1, "cust": 7, "amount": 3}, {"id": 2, "cust": 7, "amount": 4}])
    shop.customers.write([{"id": 7, "name": "Ann"}])
    shop.join.run_once()
    report = shop.out.audit()
    assert (report.ok, report.checks["joined"]) == (True, 2)
    names = ["id", "cust", "amount", "name", "_row_kind"]
    row = {
        "missing": (1, 7, 3, "Ann", "-D"),
        "too many": (9, 7, 3, "Ann", "+I"),
        "another value": (1, 7, 3, "Bob", "+I"),
    }[wrong]
    with any_writer(shop.out, names) as writer:
        writer.write([dict(zip(names, row, strict=True))])
        shop.out.commit_append(writer.finish())
    assert set(shop.out.audit().found) == {"joined"}


def test_a_joiner_gives_way_to_who_feeds_its_index_for_the_first_time(tmp_path: Path) -> None:
    shop = Orders(tmp_path, "left")
    shop.orders.write([{"id": 1, "cust": 2, "amount": 3}])
    lease = f"{shop.orders._paths.service_dir}/widetable-index-lease-db.by_cust"
    with held_lease(shop.orders._state(), path=lease) as is_ours:
        assert is_ours
        assert shop.join.run_once().gave_way
    assert shop.join.run_once().rows_added == 1
    shop.check()


@pytest.mark.parametrize("side", ["db.a", "db.b"])
def test_a_table_that_gets_its_first_rows_while_a_round_begins_is_not_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, side: str
) -> None:
    """No index knows them yet."""
    catalog = wt.Catalog(str(tmp_path))
    for name, key, on in (("a", "o", "u"), ("b", "t", "w")):
        catalog.create_table(
            f"db.{name}",
            {key: pa.int64(), on: pa.int64()},
            primary_key=[key],
            options={f"index.{on}": f"db.by_{on}", **FAST},
        )
    join = wt.DeltaJoin(catalog, "db.out", "db.a", "db.b", {"u": "w"})
    out = join.create(FAST)
    first = {"db.a": [{"o": 1, "u": 7}], "db.b": [{"t": 2, "w": 7}]}
    other = "db.b" if side == "db.a" else "db.a"
    catalog.table(other).write(first[other])
    real = SnapshotStore.latest_id

    def late(store: SnapshotStore) -> int | None:
        found = real(store)
        if found is None and sys._getframe(1).f_code.co_name == "_pinned":
            monkeypatch.setattr(SnapshotStore, "latest_id", real)
            catalog.table(side).write(first[side])
        return found

    monkeypatch.setattr(SnapshotStore, "latest_id", late)
    join.run_once()
    join.run_once()
    assert out.scan().to_arrow().to_pylist() == [{"u": 7, "o": 1, "t": 2}]
