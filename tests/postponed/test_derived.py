"""What follows a table whose buckets are postponed: it takes a row when a compaction has given it a bucket.

Rows that wait are in no scan, so nothing derived from a scan has them either, whenever it is brought up to date.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any, Final, TypeAlias

import pyarrow as pa
import pytest

import widetable as wt
from tests.conftest import SEED

Row: TypeAlias = dict[str, Any]

POSTPONED: Final = {
    "bucket": "-2",
    "postpone.default-bucket-num": "2",
    "changelog-producer": "lookup",
    "widetable.fsync": "false",
}
CUSTOMERS: Final = {"id": "BIGINT", "city": "STRING"}
ORDERS: Final = {"customer": "BIGINT", "number": "BIGINT", "amount": "BIGINT"}


def catalog(folder: Path) -> wt.Catalog:
    return wt.Catalog(str(folder))


def rows_of(table: wt.Table, columns: list[str] | None = None) -> list[Row]:
    rows: list[Row] = table.scan(columns).to_arrow().to_pylist()
    return sorted(rows, key=str)


def orders(rng: random.Random) -> list[Row]:
    return [
        {"customer": rng.randrange(4), "number": rng.randrange(3), "amount": rng.randrange(9)}
        for _ in range(rng.randrange(1, 4))
    ]


def customers(rng: random.Random) -> list[Row]:
    return [{"id": rng.randrange(4), "city": rng.choice("abc")} for _ in range(rng.randrange(1, 3))]


@pytest.mark.parametrize("case", range(6))
def test_a_join_has_the_rows_that_have_buckets(tmp_path: Path, case: int) -> None:
    rng, warehouse = random.Random(f"{SEED} join {case}"), catalog(tmp_path)
    left = warehouse.create_table(
        "db.orders",
        ORDERS,
        primary_key=["customer", "number"],
        options={**POSTPONED, "bucket-key": "customer"},
    )
    right = warehouse.create_table("db.customers", CUSTOMERS, primary_key=["id"], options=POSTPONED)
    join = wt.DeltaJoin(
        warehouse, "db.joined", "db.orders", "db.customers", {"customer": "id"}, how="left"
    )
    joined = join.create({"widetable.fsync": "false"})
    for _ in range(12):
        step = rng.choice(["order", "order", "customer", "customer", "compact", "compact"])
        if step == "order":
            left.write(orders(rng))
        elif step == "customer":
            right.write(customers(rng))
        else:
            rng.choice([left, right]).compact()
        join.run_once()
        cities = {row["id"]: row["city"] for row in rows_of(right)}
        expected = [row | {"city": cities.get(row["customer"])} for row in rows_of(left)]
        assert rows_of(joined) == sorted(expected, key=str)


@pytest.mark.parametrize("case", range(6))
def test_widened_columns_and_indexes_follow_rows_that_have_buckets(
    tmp_path: Path, case: int
) -> None:
    rng, warehouse = random.Random(f"{SEED} widen {case}"), catalog(tmp_path)
    dim = warehouse.create_table("db.customers", CUSTOMERS, primary_key=["id"], options=POSTPONED)
    fact = warehouse.create_table(
        "db.orders",
        {"number": "BIGINT", "at": "BIGINT", "customer": "BIGINT"},
        primary_key=["number"],
        options={
            **POSTPONED,
            "merge-engine": "partial-update",
            "fields.at.sequence-group": "customer",
            "widen.customer": "db.customers(city)",
            "index.customer": "db.by_customer",
        },
    )
    for moment in range(12):
        step = rng.choice(["order", "order", "customer", "compact", "compact dim", "maintain"])
        if step == "order":
            row = {"number": rng.randrange(3), "customer": rng.randrange(4), "at": moment}
            fact.write([row])
        elif step == "customer":
            dim.write(customers(rng))
        elif step == "maintain":
            fact.maintain(once=True)
        else:
            (fact if step == "compact" else dim).compact()
    dim.compact()
    # The widener's own rows wait for a bucket, too.
    for _ in range(3):
        fact.maintain(once=True)
    cities = {row["id"]: row["city"] for row in rows_of(dim)}
    for row in rows_of(fact):
        assert row["city"] == cities.get(row["customer"]), row
    names = ["customer", "number"]
    assert rows_of(warehouse.table("db.by_customer"), names) == rows_of(fact, names)
    assert fact.audit().findings == ()


def test_a_version_begins_when_a_row_has_a_bucket(tmp_path: Path) -> None:
    warehouse = catalog(tmp_path)
    options = {**POSTPONED, "history.table": "db.history"}
    table = warehouse.create_table("db.customers", CUSTOMERS, primary_key=["id"], options=options)
    moments = [datetime.now(timezone.utc)]
    for city in ("a", "b"):
        table.write([{"id": 1, "city": city}])
        written = datetime.now(timezone.utc)
        table.maintain(once=True)
        moments += [written, datetime.now(timezone.utc)]
    asked = pa.table({"id": [1] * 5, "at": moments})
    known = table.point_in_time(asked, at="at", columns=["city"])
    assert known["city"].to_pylist() == [None, None, "a", "a", "b"]
    table.maintain(once=True)
    versions = rows_of(warehouse.table("db.history"), ["id", "city", "_deleted"])
    assert versions == [{"id": 1, "city": city, "_deleted": False} for city in ("a", "b")]


def _tiles(warehouse: wt.Catalog, name: str, size: str, options: Mapping[str, str]) -> wt.Table:
    return warehouse.create_table(
        name,
        {"user": "BIGINT", "tile": "TIMESTAMP", "clicks": "BIGINT"},
        primary_key=["user", "tile"],
        options={
            "merge-engine": "aggregation",
            "fields.clicks.aggregate-function": "sum",
            "aggregation.remove-record-on-delete": "true",
            "bucket-key": "user",
            "widetable.tile-size": size,
            **options,
        },
    )


def test_larger_tiles_have_the_rows_that_have_buckets(tmp_path: Path) -> None:
    warehouse, day = catalog(tmp_path), datetime(2026, 1, 2)
    hours = _tiles(warehouse, "db.hours", "1 h", POSTPONED)
    days = _tiles(warehouse, "db.days", "1 d", {"tiles.from": "db.hours", "bucket": "1"})
    asked = pa.table({"user": [1], "event_timestamp": [day + timedelta(days=1)]})
    window = {"clicks": wt.window("clicks", "count", "1 d")}

    def sums() -> list[int | None]:
        days.maintain(once=True)
        windows = hours.windows(asked, features=window, coarse=[days], empty_zero=True)
        return [
            *days.scan(["clicks"]).to_arrow()["clicks"].to_pylist(),
            *windows["clicks"].to_pylist(),
        ]

    for placed, hour in enumerate((1, 5, 5)):
        hours.write([{"user": 1, "tile": day.replace(hour=hour), "clicks": 1}])
        assert sums() == ([placed, placed] if placed else [0])
        hours.compact()
        assert sums() == [placed + 1, placed + 1]


def test_what_would_miss_rows_that_wait_is_refused(tmp_path: Path) -> None:
    warehouse = catalog(tmp_path)
    for name in ("left", "right"):
        columns = {"id": "BIGINT", name: "STRING"}
        warehouse.create_table(f"db.{name}", columns, primary_key=["id"])
    join = wt.DeltaJoin(warehouse, "db.joined", "db.left", "db.right", {"id": "id"})
    with pytest.raises(wt.UnsupportedError, match="holds a join"):
        join.create({"bucket": "-2"})
    _tiles(warehouse, "db.hours", "1 h", {"bucket": "1"})
    with pytest.raises(wt.UnsupportedError, match="tiles of another table"):
        _tiles(warehouse, "db.days", "1 d", {"tiles.from": "db.hours", "bucket": "-2"})
    table = warehouse.create_table("db.rows", CUSTOMERS, primary_key=["id"], options=POSTPONED)
    with pytest.raises(wt.UnsupportedError, match="the table of the samples"):
        table.follow_samples("reader", complete=["city"], wait="1 h", on="id", writers=["a"])
