"""`maintain` on Spark keeps facts wide and their index fed, while others write facts and dims."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import SparkSession

from tests.spark.jobs.test_maintaining import maintained, wait_for
from tests.widetable.derive.widening.shop import Shop


def test_a_query_widens_facts_and_feeds_their_index(spark: SparkSession, tmp_path: Path) -> None:
    shop = Shop(tmp_path, **{"write-only": "true", "index.cust": "db.by_cust"})
    shop.orders((1, 7, 10.0), (2, 9, 5.0))
    with maintained(spark, shop.fact) as query:
        wait_for(lambda: shop.widened()[0] == (1, 7, "Oslo", 1), query)
        shop.customers((9, "Kyiv", 3), (7, "Bergen", 1))
        expected = [(1, 7, "Bergen", 1), (2, 9, "Kyiv", 3)]
        wait_for(lambda: shop.widened() == expected, query)
        states = shop.fact.inspect().derived
        assert [state.option for state in states] == ["index.cust", "widen.cust"]
    assert shop.fact.maintain(once=True, expire=False).derived_rows == 0
    assert shop.fact.lookup_index([9], ["id"])["id"].to_pylist() == [2]
    assert shop.fact.audit().ok
