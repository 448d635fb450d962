"""Derived tables by jobs of Spark: whole barriers, every batch once, the same moment in all tables."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import widetable as wt
import widetable_spark

SHOPPING = "shop.shopping"
AMOUNT, PRICE = "shop.user_item_amount", "shop.user_item_price"
KEY = {"user": "BIGINT NOT NULL", "item": "BIGINT NOT NULL"}


@pytest.fixture
def jobs(spark: SparkSession) -> Iterator[SparkSession]:
    key = "spark.sql.streaming.noDataMicroBatches.enabled"
    before = spark.conf.get(key)
    spark.conf.set(key, "false")
    yield spark
    spark.conf.set(key, before or "true")


def table(catalog: wt.Catalog, name: str, columns: dict[str, Any], **options: str) -> wt.Table:
    return catalog.create_table(
        name,
        {**KEY, **columns},
        primary_key=["user", "item"],
        options={"bucket": "1", "widetable.barrier-interval": "10 ms", **options},
    )


def shop(warehouse: Path) -> wt.Catalog:
    catalog = wt.Catalog(warehouse)
    table(
        catalog,
        SHOPPING,
        {"amount": "BIGINT", "price": "BIGINT"},
        **{
            "merge-engine": "aggregation",
            "fields.default-aggregate-function": "sum",
            "changelog-producer": "lookup",
        },
    )
    table(catalog, AMOUNT, {"amount": "BIGINT"})
    table(catalog, PRICE, {"price": "BIGINT"})
    return catalog


class SumJob:
    """One column of shopping by user and item."""

    def __init__(self, spark: SparkSession, warehouse: Path, column: str, target: str) -> None:
        self.spark, self.warehouse, self.column, self.target = spark, warehouse, column, target

    def run(self) -> None:
        """All that is there."""
        etl = widetable_spark.etl(self.spark, self.warehouse, f"{self.column}s")
        changes = etl.changes(SHOPPING, ["user", "item", self.column])
        summed = changes.groupBy("user", "item").agg(
            widetable_spark.signed_sum(self.column).alias(self.column)
        )
        query = (
            summed.writeStream.outputMode("update")
            .foreachBatch(etl.sink(self.target))
            .option("checkpointLocation", str(self.warehouse / f"checkpoint-{self.column}"))
            .trigger(availableNow=True)
            .start()
        )
        assert query.awaitTermination(120)
        assert query.exception() is None


def seen(session: wt.Session) -> tuple[int, int, float]:
    amount, price = (
        session.table(name).scan().to_arrow()[column].to_pylist()
        for name, column in ((AMOUNT, "amount"), (PRICE, "price"))
    )
    return price[0], amount[0], round(price[0] / amount[0], 3)


def test_case_1_sessions_see_one_moment_of_two_jobs(jobs: SparkSession, tmp_path: Path) -> None:
    catalog = shop(tmp_path)
    root = catalog.writer(SHOPPING, "clicks")
    amounts = SumJob(jobs, tmp_path, "amount", AMOUNT)
    prices = SumJob(jobs, tmp_path, "price", PRICE)
    root.write(
        {"user": [1], "item": [1], "amount": [100], "price": [1000]}, barrier=10, complete=True
    )
    amounts.run()
    prices.run()
    root.write(
        {"user": [1], "item": [1], "amount": [200], "price": [1500]}, barrier=20, complete=True
    )
    prices.run()
    with catalog.session(tables=[AMOUNT, PRICE], consistency="ReadUncommitted") as session:
        assert seen(session) == (2500, 100, 25)
    for consistency in ("RepeatableRead", "ReadCommitted"):
        with catalog.session(tables=[AMOUNT, PRICE], consistency=consistency) as session:
            assert (session.barrier, *seen(session)) == (10, 1000, 100, 10)
    with catalog.session(tables=[AMOUNT, PRICE]) as before:
        amounts.run()
        with catalog.session(tables=[AMOUNT, PRICE]) as after:
            assert (after.barrier, *seen(after)) == (20, 2500, 300, 8.333)
        assert (before.barrier, *seen(before)) == (10, 1000, 100, 10)
    jobs_by_name = {job.name: job for job in catalog.topology().jobs()}
    assert jobs_by_name["amounts"].sources == (SHOPPING,)
    assert catalog.topology().downstream(SHOPPING) == [AMOUNT, PRICE]
