"""The queries of the bank, each a table that a job of Spark keeps: Jamie Brandon, "Internal consistency in streaming
systems". Money is moved, never made: at any moment of all of them the total is 0.

    transactions ─► accepted, outer_join, sums
                 ─► credits ─┬─► balance ─► total
                 ─► debits  ─┘
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.streaming.query import StreamingQuery

import widetable as wt
import widetable_spark
from widetable_spark import Etl, signed_sum

TRANSACTIONS = "bank.transactions"
OPTIONS = {"bucket": "1", "widetable.barrier-interval": "10 ms", "widetable.fsync": "false"}
COLUMNS = {
    "transactions": ("id", "source", "target", "amount"),
    "accepted": ("id",),
    "outer_join": ("id", "other_id"),
    "sums": ("one", "total"),
    "credits": ("account", "credits"),
    "debits": ("account", "debits"),
    "balance": ("account", "balance"),
    "total": ("one", "total"),
}


def create_tables(warehouse: Path) -> wt.Catalog:
    """All of them; what changes has a changelog."""
    catalog = wt.Catalog(warehouse)
    for name, columns in COLUMNS.items():
        is_fed_on = name in ("credits", "debits", "balance")
        catalog.create_table(
            f"bank.{name}",
            dict.fromkeys(columns, "BIGINT"),
            primary_key=[columns[0]],
            options={**OPTIONS, "changelog-producer": "lookup" if is_fed_on else "none"},
        )
    return catalog


def _one() -> Column:
    return sf.lit(1).cast("long")


def _accepted(etl: Etl) -> DataFrame:
    return etl.changes(TRANSACTIONS, ["id"]).select("id")


def _outer_join(etl: Etl) -> DataFrame:
    """LEFT JOIN of the table with itself: a row of one side, and whether the other one has it."""
    sides = [
        etl.changes(TRANSACTIONS, ["id"]).withColumn("is_right", sf.lit(side)) for side in (0, 1)
    ]
    is_right = sf.col("is_right") == 1
    joined = sides[0].unionByName(sides[1]).groupBy("id")
    return joined.agg(sf.max(sf.when(is_right, sf.col("id"))).alias("other_id"))


def _sums(etl: Etl) -> DataFrame:
    changes = etl.changes(TRANSACTIONS, ["id", "amount"]).withColumn("one", _one())
    return changes.groupBy("one").agg(signed_sum("amount").alias("total"))


def _by_account(side: str, name: str) -> Callable[[Etl], DataFrame]:
    def query(etl: Etl) -> DataFrame:
        changes = etl.changes(TRANSACTIONS, ["id", side, "amount"])
        grouped = changes.groupBy(sf.col(side).alias("account"))
        return grouped.agg(signed_sum("amount").alias(name))

    return query


def _balance(etl: Etl) -> DataFrame:
    """Credits JOIN debits, as the sum of both with their signs."""
    credits = etl.changes("bank.credits").withColumnRenamed("credits", "amount")
    debits = etl.changes("bank.debits").select(
        "account", (-sf.col("debits")).alias("amount"), "_row_kind"
    )
    return credits.unionByName(debits).groupBy("account").agg(signed_sum("amount").alias("balance"))


def _total(etl: Etl) -> DataFrame:
    changes = etl.changes("bank.balance").withColumn("one", _one())
    return changes.groupBy("one").agg(signed_sum("balance").alias("total"))


QUERIES: dict[str, Callable[[Etl], DataFrame]] = {
    "accepted": _accepted,
    "outer_join": _outer_join,
    "sums": _sums,
    "credits": _by_account("target", "credits"),
    "debits": _by_account("source", "debits"),
    "balance": _balance,
    "total": _total,
}


def start(spark: SparkSession, warehouse: Path) -> list[StreamingQuery]:
    """All queries; each goes on until it is stopped."""
    started = []
    for name, query in QUERIES.items():
        etl = widetable_spark.etl(spark, warehouse, name)
        rows = query(etl)
        mode = "append" if name == "accepted" else "update"
        writer = rows.writeStream.outputMode(mode).foreachBatch(etl.sink(f"bank.{name}"))
        started.append(
            writer.option("checkpointLocation", str(warehouse / "checkpoints" / name)).start()
        )
    return started
