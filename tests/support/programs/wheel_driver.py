"""A Spark application that test_wheel.py copies out of the checkout and runs on the installed wheel.

Arguments: the zip that Spark ships to its workers, the bin folder of the workers' environment (where
widetable is not installed), and a warehouse to make. Prints one JSON object: where each process has
widetable from, what was committed, and the rows that were read back.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

import pyarrow as pa
from pyspark.sql import SparkSession

import widetable as wt
import widetable_spark


def session(archive: str, worker_bin: str) -> SparkSession:
    """One executor in a process of its own. `python3` is another interpreter there than here."""
    builder = SparkSession.builder.master("local-cluster[1,1,1024]")
    options = os.environ.get("SPARK_SUBMIT_OPTS", "").split()
    for key, value in {
        "spark.submit.pyFiles": archive,
        "spark.executor.memory": "512m",
        "spark.executor.extraJavaOptions": " ".join(
            o for o in options if not o.startswith("-Dspark.")
        ),
        "spark.executorEnv.PATH": f"{worker_bin}:/usr/bin:/bin",
        "spark.pyspark.python": "python3",
        "spark.sql.shuffle.partitions": "1",
        "spark.ui.enabled": "false",
    }.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def where_the_worker_has_it(spark: SparkSession) -> str:
    def locate(_: Iterable[int]) -> Iterator[str]:
        import widetable

        yield f"{sys.prefix} {widetable.__file__}"

    answer: str = spark.sparkContext.parallelize([0], 1).mapPartitions(locate).first()
    return answer


def main(archive: str, worker_bin: str, warehouse: str) -> None:
    schema = pa.schema([("id", pa.int64()), ("v", pa.int64()), ("w", pa.string())])
    table = wt.Catalog(warehouse).create_table(
        "d.t", schema, primary_key=["id"], options={"merge-engine": "partial-update"}
    )
    path = str(Path(warehouse) / "d.db" / "t")
    spark = session(archive, worker_bin)
    spark.dataSource.register(widetable_spark.WidetableDataSource)

    rows = spark.range(5).selectExpr("id", "id * 10 AS v")
    rows.write.format("widetable").mode("append").save(path)
    inputs = f"{warehouse}/inputs"
    spark.range(3).selectExpr("id", "'s' || id AS w").coalesce(1).write.parquet(inputs)
    stream = spark.readStream.schema("id BIGINT, w STRING").parquet(inputs).writeStream
    stream = stream.format("widetable").option("path", path).trigger(availableNow=True)
    stream.option("checkpointLocation", f"{warehouse}/checkpoint").start().awaitTermination()

    read = spark.read.format("widetable").load(path).orderBy("id").collect()
    facts = {
        "driver": f"{sys.prefix} {wt.__file__}",
        "worker": where_the_worker_has_it(spark),
        "snapshots": len(table.snapshots()),
        "spark": [[row.id, row.v, row.w] for row in read],
        "arrow": sorted([r["id"], r["v"], r["w"]] for r in table.scan().to_arrow().to_pylist()),
    }
    spark.stop()
    sys.stdout.write(json.dumps(facts) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
