"""Spark reads the tables in `__meta`, all eight, as any table: what jobs and barriers there are, by SQL."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

import widetable as wt
from tests.support.tables.derived_job import Job, sink_table, source_table


def in_order(rows: list[dict[str, Any]]) -> list[str]:
    return sorted(json.dumps(row, sort_keys=True) for row in rows)


def test_spark_reads_the_meta_tables(spark: SparkSession, tmp_path: Path) -> None:
    source, sink = source_table(tmp_path, "x"), sink_table(tmp_path, "s", ["x"])
    catalog = wt.Catalog(tmp_path)
    topology = catalog.topology()
    topology.register("s", sources=["d.x"], sinks={"d.s": None})
    topology.running("s")
    root, job = catalog.writer("d.x", "root"), Job("s", {"x": source}, sink)
    for barrier in (10, 20):
        root.write({"id": [barrier], "v": [1]}, barrier=barrier, complete=True)
        job.run()
    catalog.revise("d.s", to=10)
    counts = topology.rebuild()
    assert len(counts) == 8
    for name in counts:
        path = catalog.table(name).path
        seen = spark.read.format("widetable").load(path)
        seen.createOrReplaceTempView(name.removeprefix("__meta."))
        rows = in_order([row.asDict() for row in seen.collect()])
        assert len(rows) == counts[name] > 0, name
        assert rows == in_order(catalog.table(name).scan().to_arrow().to_pylist()), name
    barriers = spark.sql(
        "SELECT s.job_id, s.table_name, b.barrier FROM __META_ETL_SINK s JOIN __META_JOB_BARRIER b "
        "ON s.job_id = b.job_id AND s.table_name = b.table_name ORDER BY b.barrier"
    ).collect()
    assert [tuple(row) for row in barriers] == [("root", "d.x", 10), ("root", "d.x", 20)]
