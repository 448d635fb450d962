"""Spark's own scans of tables in an object store, by Hadoop's S3A connector.

    hadoop_job.py WAREHOUSE ENDPOINT JARS

WAREHOUSE: an s3a URL. JARS: a directory with hadoop-aws and what it needs. Prints a line of JSON for a table that is
compacted, and one for when two of its partitions need a merge again: whether Spark scans files itself, and the rows,
of Spark and of widetable's own scan.
"""

from __future__ import annotations

import json
import sys
from decimal import Decimal
from pathlib import Path

from pyspark.sql import SparkSession

import widetable as wt
import widetable_spark
from tests.object_stores.s3_server import ACCESS_KEY, SECRET_KEY

PARTITIONS = ["plain", "a b", "100%", "%3A", "x[1]{2}*?", "ü/é", "a:b=c", "#1&2+3", "'\""]


def main(warehouse: str, endpoint: str, jars: str) -> None:
    spark = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.jars", ",".join(map(str, Path(jars).glob("*.jar"))))
        .config("spark.hadoop.fs.s3a.endpoint", endpoint)
        .config("spark.hadoop.fs.s3a.endpoint.region", "us-east-1")
        .config("spark.hadoop.fs.s3a.access.key", ACCESS_KEY)
        .config("spark.hadoop.fs.s3a.secret.key", SECRET_KEY)
        .config("spark.hadoop.fs.s3a.path.style.access", "true")
        .config("spark.hadoop.fs.s3a.connection.ssl.enabled", "false")
        .getOrCreate()
    )
    columns = {"p": "STRING", "k": "BIGINT", "d": "DECIMAL(20, 2)", "l": "ARRAY<STRING>"}
    table = wt.Catalog(warehouse).create_table(
        "db.t", columns, primary_key=["p", "k"], partition_by=["p"], options={"bucket": "1"}
    )
    for first, compacted in ((0, True), (50, False)):
        rows = [
            {"p": value, "k": first + k, "d": Decimal("1.50"), "l": [value, None]}
            for value in PARTITIONS
            for k in range(3)
        ]
        table.write(rows if compacted else rows[:6])
        if compacted:
            table.compact(full=True)
        frame = widetable_spark.read(spark, table.path)
        filtered = widetable_spark.read(spark, table.path, ["k"], "p = '100%' AND k > 0")
        found = {
            "scans_itself": "FileScan parquet" in frame._jdf.queryExecution().toString(),
            "rows": sorted(map(repr, map(tuple, frame.collect()))),
            "own": sorted(repr(tuple(row.values())) for row in table.scan().to_arrow().to_pylist()),
            "filtered": sorted(row.k for row in filtered.collect()),
        }
        sys.stdout.write("\n" + json.dumps(found) + "\n")
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
