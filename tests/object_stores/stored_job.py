"""Spark on tables in an object store whose environment says nothing: all is given as options.

    stored_job.py WAREHOUSE ENDPOINT FOLDER

Logs at INFO; prints plans, then as a last line what it read, as JSON.
"""

from __future__ import annotations

import json
import sys

from pyspark.sql import DataFrame, SparkSession

import widetable as wt
import widetable_spark
from tests.object_stores.s3_server import ACCESS_KEY, SECRET_KEY


def main(warehouse: str, endpoint: str, folder: str) -> None:
    storage = {
        "s3.endpoint": endpoint,
        "s3.access-key": ACCESS_KEY,
        "s3.secret-key": SECRET_KEY,
        "s3.region": "us-east-1",
    }
    catalog = wt.Catalog(warehouse, storage_options=storage)
    options = {"bucket": "2", "changelog-producer": "lookup"}
    table = catalog.create_table(
        "db.t", {"k": "BIGINT", "v": "STRING"}, primary_key=["k"], options=options
    )
    spark = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.memory", "700m")
        .config("spark.sql.shuffle.partitions", "2")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("INFO")
    rows = spark.createDataFrame([(1, "a"), (2, "b")], "k bigint, v string")
    rows.write.parquet(f"{folder}/in")
    rows.write.format("widetable").options(**storage).mode("append").save(table.path)
    source = spark.readStream.schema("k bigint, v string").parquet(f"{folder}/in")
    joined = widetable_spark.lookup_join(source, table, {"k": "k"}, ["v"], prefix="old_")
    written = joined.selectExpr("k + 10 AS k", "concat(v, old_v) AS v")
    stream = written.writeStream.format("widetable").options(**storage).option("path", table.path)
    stream = stream.option("checkpointLocation", f"{folder}/write").trigger(availableNow=True)
    stream.start().awaitTermination()
    frame = spark.read.format("widetable").options(**storage).load(table.path)
    frame.explain(True)
    found = {
        "format": got(frame),
        "read": got(widetable_spark.read(spark, table.path, storage_options=storage)),
        "snapshots": widetable_spark.inspect(
            spark, table.path, "snapshots", storage_options=storage
        ).count(),
        "error": refusal(spark, f"{warehouse}/db.db/nothing", storage),
    }
    spark.stop()
    sys.stdout.write("\n" + json.dumps(found) + "\n")


def refusal(spark: SparkSession, path: str, storage: dict[str, str]) -> str:
    try:
        spark.read.format("widetable").options(**storage).load(path).collect()
    except Exception as error:  # noqa: BLE001
        return str(error)
    return ""


def got(frame: DataFrame) -> list[list[object]]:
    return sorted([*row] for row in frame.collect())


if __name__ == "__main__":
    main(*sys.argv[1:])
