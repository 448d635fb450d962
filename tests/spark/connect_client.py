"""A client of Spark Connect, whose server it starts: does with tables what can be done, and prints what it got as JSON.

connect_client.py FOLDER
"""

from __future__ import annotations

import json
import sys
from datetime import datetime
from typing import Any

from pyspark.sql import DataFrame, SparkSession

import widetable as wt
import widetable_spark
from widetable.errors import WidetableError


def main(folder: str) -> None:
    catalog = wt.Catalog(f"{folder}/warehouse")
    options = {"bucket": "2", "changelog-producer": "lookup"}
    options["changelog-producer.row-deduplicate"] = "true"  # the stream writes the same rows
    columns = {"k": "BIGINT", "v": "STRING"}
    table = catalog.create_table("db.t", columns, primary_key=["k"], options=options)
    dim = catalog.create_table("db.d", {"k": "BIGINT", "w": "STRING"}, primary_key=["k"])
    dim.write([{"k": 1, "w": "one"}])
    spark = SparkSession.builder.remote("local[2]").getOrCreate()
    rows = spark.createDataFrame([(1, "a"), (2, "b")], "k bigint, v string")
    rows.write.parquet(f"{folder}/in")
    rows.write.format("widetable").mode("append").save(table.path)
    found: dict[str, Any] = {"session": type(spark).__module__}
    found["format"] = got(spark.read.format("widetable").load(table.path))
    found["read"] = got(widetable_spark.read(spark, table.path, where="k > 1"))
    found["join"] = got(widetable_spark.lookup_join(rows, dim.path, ["k"], ["w"], name="j"))
    asked = rows.selectExpr("k", "v", "DATE'2100-01-01' AS at")
    past = widetable_spark.point_in_time(asked, dim.path, "at", prefix="then_")
    found["point in time"] = got(past.select("k", "v", "then_w"))
    sums = {"merge-engine": "aggregation", "fields.n.aggregate-function": "sum", "bucket": "2"}
    columns = {"k": "BIGINT", "tile": "TIMESTAMP", "n": "BIGINT"}
    tiles = catalog.create_table("db.n", columns, primary_key=["k", "tile"], options=sums)
    tiles.write([{"k": 1, "tile": datetime(2099, 12, 31), "n": 7}])
    features = {"n": wt.window("n", "sum", "1 d")}
    windows = widetable_spark.windows(asked, tiles.path, "at", features=features)
    found["windows"] = got(windows.select("k", "v", "n"))

    source = spark.readStream.schema("k bigint, v string").parquet(f"{folder}/in")
    run(source, f"{folder}/write", "widetable", path=table.path)
    joined = widetable_spark.lookup_join(source, dim.path, ["k"], ["w"], name="s")
    run(joined, f"{folder}/join", "memory", name="joined")
    found["stream join"] = got(spark.table("joined"))
    changes = spark.readStream.format("widetable").option("path", table.path)
    changes = changes.option("read.changelog", "true").option("scan.mode", "from-snapshot")
    changes = changes.option("scan.snapshot-id", "1")
    run(changes.load(), f"{folder}/changes", "memory", name="changes")
    found["changes"] = got(spark.table("changes"))
    samples = widetable_spark.samples(spark, dim.path, ["w"], columns=["w"])
    run(samples, f"{folder}/samples", "memory", name="samples")
    found["samples"] = got(spark.table("samples"))
    widetable_spark.register_catalog(spark, f"{folder}/warehouse")
    found["sql"] = got(spark.sql("SELECT k, v FROM db.t WHERE k = 1"))
    database = {
        "name": "shop",
        "tables": ["public.*"],
        "source": {"dsn": "host=127.0.0.1 port=1 dbname=shop"},
        "target": {"warehouse": f"{folder}/warehouse", "database": "shop"},
    }
    found["refused"] = [
        refusal(lambda: widetable_spark.maintain(spark, table.path)),
        refusal(lambda: widetable_spark.lookup_join(rows, dim.path, ["k"], ["w"])),
        refusal(lambda: widetable_spark.cdc(spark, database)),
    ]
    spark.stop()
    sys.stdout.write("\n" + json.dumps(found) + "\n")


def got(frame: DataFrame) -> list[list[Any]]:
    return sorted([*row] for row in frame.collect())


def run(frame: DataFrame, checkpoint: str, kind: str, name: str = "", path: str = "") -> None:
    stream = frame.writeStream.format(kind).option("checkpointLocation", checkpoint)
    stream = stream.option("path", path) if path else stream.queryName(name)
    stream.outputMode("append").trigger(availableNow=True).start().awaitTermination()


def refusal(call: Any) -> str:
    try:
        call()
    except WidetableError as error:
        return f"{type(error).__name__}: {error}"
    return ""


if __name__ == "__main__":
    main(sys.argv[1])
