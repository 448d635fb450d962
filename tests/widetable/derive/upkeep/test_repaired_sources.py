"""Tables that are made of others go on where a repair of one of those has left snapshots that cannot be read."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import widetable as wt
from tests.support.tables.joined import Joined

FAST = {"widetable.fsync": "false", "bucket": "1"}
CITIES = {n: f"city {n}" for n in range(5)}


def halve_a_file(table: wt.Table) -> None:
    """The first that is live."""
    path = Path(table.path, table.inspect.files().to_pylist()[0]["path"])
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def kept_up(table: wt.Table) -> None:
    """Until nothing is left to be done."""
    while not table.maintain(once=True).is_idle:
        pass


class Shop:
    """Orders that are widened by the city of their customer, and have an index by customer."""

    def __init__(self, warehouse: Path) -> None:
        self.catalog = wt.Catalog(warehouse)
        self.customers = self.catalog.create_table(
            "s.customers", {"id": "BIGINT", "city": "STRING"}, primary_key=["id"], options=FAST
        )
        self.orders = self.catalog.create_table(
            "s.orders",
            {"o": "BIGINT", "c": "BIGINT", "at": "BIGINT"},
            primary_key=["o"],
            options=FAST
            | {
                "merge-engine": "partial-update",
                "changelog-producer": "lookup",
                "fields.at.sequence-group": "c",
                "widen.c": "s.customers(city as city)",
                "index.c": "s.by_customer",
            },
        )
        self.customers.write([{"id": n, "city": city} for n, city in CITIES.items()])
        self.orders.write([{"o": n, "c": n % 7, "at": 1} for n in range(20)])
        kept_up(self.orders)

    def check(self) -> None:
        there = self.customers.scan().to_arrow().to_pylist()
        city_of = {row["id"]: row["city"] for row in there}
        rows = self.orders.scan().to_arrow().to_pylist()
        assert rows
        assert [row["city"] for row in rows] == [city_of.get(row["c"]) for row in rows]
        index = self.catalog.table("s.by_customer").scan().to_arrow().to_pylist()
        pairs = sorted((row["c"], row["o"]) for row in index)
        assert pairs == sorted((row["c"], row["o"]) for row in rows)
        assert not {"index", "widened"} & set(self.orders.audit().found)


@pytest.mark.parametrize("is_dim", [False, True], ids=["facts", "dim"])
def test_widened_and_indexed_tables_go_on(tmp_path: Path, is_dim: bool) -> None:
    """Each round failed of what the last one had read, and so did the audit."""
    shop = Shop(tmp_path)
    shop.orders.write([{"o": 300, "c": 1, "at": 1}])
    damaged = shop.customers if is_dim else shop.orders
    halve_a_file(damaged)
    assert damaged.repair().snapshot_id is not None
    kept_up(shop.orders)
    shop.check()
    shop.customers.write([{"id": 1, "city": "later"}])
    shop.orders.write([{"o": 400, "c": 1, "at": 1}])
    kept_up(shop.orders)
    shop.check()


@pytest.mark.parametrize("side", ["a", "b"])
def test_a_join_goes_on(tmp_path: Path, side: str) -> None:
    joined = Joined(tmp_path, "left")
    joined.write_a(*(("+I", key, 1, 10) for key in range(4)))
    joined.write_b(*(("+I", key, "Ann") for key in range(4)))
    joined.join.run_once()
    damaged: wt.Table = getattr(joined, side)
    halve_a_file(damaged)
    assert damaged.repair().snapshot_id is not None
    joined.join.run_once()
    joined.write_a(("+I", 9, 1, 90))
    joined.join.run_once()
    names = {row["u"]: row["name"] for row in joined.b.scan().to_arrow().to_pylist()}
    left = joined.a.scan().to_arrow().to_pylist()
    expected = sorted((row["u"], row["o"], row["amt"], names.get(row["u"])) for row in left)
    assert joined.rows == expected
    assert "joined" not in joined.out.audit().found


def lose_snapshots(table: wt.Table) -> None:
    for path in Path(table.path).glob("snapshot/*"):
        path.unlink()


@pytest.mark.parametrize("damage", [halve_a_file, lose_snapshots])
def test_an_index_that_cannot_be_read_is_a_finding(
    tmp_path: Path, damage: Callable[[wt.Table], None]
) -> None:
    """The audit raised it, and said nothing of the other laws."""
    shop = Shop(tmp_path)
    damage(shop.catalog.table("s.by_customer"))
    report = shop.orders.audit()
    assert set(report.found) == {"index"}
    assert "widened" in report.checks
