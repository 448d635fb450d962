"""Queries of Spark over a warehouse that this process may read and not write.

    read_only_queries.py WAREHOUSE SCRATCH

Writes a JSON object to standard output: what each query gave, or the message of its error. SCRATCH: for checkpoints,
which may be written.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

import widetable as wt
import widetable_spark


def main() -> None:
    warehouse, scratch = sys.argv[1:]
    spark = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.driver.memory", "512m")
        .config("spark.sql.warehouse.dir", f"{scratch}/spark")
        .config(map=widetable_spark.local_checkpoints())
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("OFF")
    results = {name: _result(run) for name, run in queries(spark, warehouse, scratch)}
    sys.stdout.write(json.dumps(results) + "\n")


def queries(
    spark: SparkSession, warehouse: str, scratch: str
) -> list[tuple[str, Callable[[], Any]]]:
    dim, facts = f"{warehouse}/shop.db/dim", f"{warehouse}/shop.db/facts"
    left = spark.createDataFrame([(7, 70)], "ref BIGINT, code BIGINT")

    def streamed(frame: DataFrame, name: str) -> list[list[Any]]:
        rows: list[list[Any]] = []
        query = (
            frame.writeStream.foreachBatch(lambda df, _: rows.extend(map(list, df.collect())))
            .option("checkpointLocation", f"{scratch}/{name}")
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination(300)
        return rows

    def stream(path: str, **options: str) -> DataFrame:
        return spark.readStream.format("widetable").options(**options).load(path)

    def joined(**how: Any) -> DataFrame:
        rows = stream(facts).selectExpr("id AS ref")
        return widetable_spark.lookup_join(rows, dim, {"ref": "id"}, **how)

    def in_session() -> list[list[Any]]:
        with widetable_spark.session(spark, warehouse) as opened:
            return _rows(opened.table("shop.jobs"))

    def by_name() -> list[list[Any]]:
        widetable_spark.register_catalog(spark, warehouse)
        return _rows(spark.sql("SELECT id, code FROM shop.dim"))

    def changes() -> list[list[Any]]:
        widetable_spark.register_changes(spark)
        return _rows(spark.sql(f"SELECT id, _row_kind FROM widetable_changes('{dim}', 0, 1)"))

    def write() -> None:
        rows = spark.createDataFrame([(8, 80)], "id BIGINT, code BIGINT")
        rows.write.format("widetable").mode("append").save(dim)

    join = widetable_spark.lookup_join
    progress = {"consumer-id": "c", "scan.mode": "from-snapshot", "scan.snapshot-id": "1"}
    return [
        ("load", lambda: _rows(spark.read.format("widetable").load(dim))),
        ("read", lambda: _rows(widetable_spark.read(spark, dim))),
        ("name", by_name),
        ("changes", changes),
        ("inspect", lambda: widetable_spark.inspect(spark, dim, "snapshots").count() > 0),
        ("session", in_session),
        ("join", lambda: _rows(join(left.select("ref"), dim, {"ref": "id"}))),
        ("join by an index", lambda: _rows(join(left.select("code"), dim, ["code"], ["id"]))),
        ("stream", lambda: streamed(stream(dim), "stream")),
        ("stream that keeps progress", lambda: streamed(stream(dim, **progress), "progress")),
        ("join of a stream", lambda: streamed(joined(), "joined")),
        ("write", write),
    ]


def _result(run: Callable[[], Any]) -> Any:
    try:
        return run()
    except (PySparkException, wt.WidetableError) as error:
        return f"{type(error).__name__}: {error}"


def _rows(frame: DataFrame) -> list[list[Any]]:
    return sorted(map(list, frame.collect()))


if __name__ == "__main__":
    main()
