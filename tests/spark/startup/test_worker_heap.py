"""Workers of Spark do not go through all that was imported after each task."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import widetable as wt
from widetable_spark.frames.spark_types import spark_schema
from widetable_spark.reading import reading

_COUNT = """
import gc
before = gc.get_freeze_count()  # Python 3.12 begins with some
import widetable_spark
from widetable_spark.startup.worker_heap import settle
print(gc.get_freeze_count() - before, len(gc.get_objects()))
more = [[] for _ in range(50_000)]
settle()
print(gc.get_freeze_count() - before, len(gc.get_objects()))
"""


def counts(**environment: str) -> list[list[int]]:
    """(frozen, others): of a process that has imported us, and with much more at its next task."""
    ran = subprocess.run(
        [sys.executable, "-c", _COUNT],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=True,
    )
    return [[int(word) for word in line.split()] for line in ran.stdout.splitlines()]


def test_a_worker_collects_what_its_tasks_leave_only() -> None:
    imported, later = counts(SPARK_REUSE_WORKER="1")
    assert imported[0] > 50_000
    assert imported[1] < 20_000
    assert later[0] > imported[0] + 50_000
    assert later[1] < 20_000


def test_another_process_is_left_as_it_is() -> None:
    for frozen, others in counts():
        assert frozen == 0
        assert others > 50_000


def test_a_worker_of_a_session_is_one(spark: SparkSession) -> None:
    def frozen(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import gc

        import widetable_spark as widetable_spark

        assert sum(batch.num_rows for batch in batches)
        yield pa.RecordBatch.from_pydict({"frozen": [gc.get_freeze_count()]})

    (row,) = spark.range(0, 1, 1, 1).mapInArrow(frozen, "frozen bigint").collect()
    assert row["frozen"] > 50_000


def test_a_task_that_merges_settles(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = wt.Catalog(tmp_path).create_table(
        "db.t", {"k": pa.int64()}, primary_key=["k"], options={"write-only": "true"}
    )
    table.write({"k": [1]})
    found: list[object] = []
    monkeypatch.setattr(reading, "settle", lambda: found.append("settled"))

    def run(task: Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]], _: object) -> Any:
        for batch in task(iter([pa.record_batch({"id": [0]})])):
            found.extend(batch["k"].to_pylist())

    spark: Any = SimpleNamespace(range=lambda *_: SimpleNamespace(mapInArrow=run))
    scan = table.scan()
    reading._merge_scan(spark, list(scan.split_reads()), spark_schema(scan.arrow_schema))
    assert found == ["settled", 1]
