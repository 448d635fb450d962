"""A query of `widetable_spark.cdc` whose first worker dies by SIGKILL, and whose driver dies behind the third commit.

    killed_cdc.py NAME DSN WAREHOUSE MARKS

The worker dies when it has written the files of its chunk, so Spark runs the task again. The driver dies whole, with
Java and its workers, before it has saved the state of the chunk. MARKS gets a line for each of these events. Spark logs
what it does, at level INFO.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import Any

from pyspark import TaskContext
from pyspark.sql import SparkSession

import widetable_spark
from tests.spark.joining.killed_join import kill_all
from widetable_cdc.applying import target
from widetable_cdc.applying.target import BarrierTarget
from widetable_cdc.running.chunk_task import ChunkOutcome, ChunkTask
from widetable_spark.jobs import cdc_chunks


def main() -> None:
    name, dsn, warehouse, marks = sys.argv[1:]
    spark = (
        SparkSession.builder.master("local[2,4]")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.driver.memory", "512m")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("INFO")

    def dying_worker(task: ChunkTask) -> ChunkOutcome:
        outcome = task.run()
        context = TaskContext.get()
        assert context is not None
        if task.chunk.chunk == 0 and context.attemptNumber() == 0:
            mark("worker")
            os.kill(os.getpid(), signal.SIGKILL)
        return outcome

    def mark(event: str) -> int:
        with Path(marks).open("a") as file:
            file.write(f"{event}\n")
        return Path(marks).read_text().count(event)

    commit = BarrierTarget.commit_chunk

    def dying_driver(of: BarrierTarget, files: Any) -> Any:
        result = commit(of, files)
        if mark("committed") == 3:
            kill_all()
        return result

    vars(cdc_chunks)["carried_out"] = dying_worker
    vars(target)["BarrierTarget"].commit_chunk = dying_driver
    config = {
        "name": name,
        "tables": ["public.*"],
        "source": {"dsn": f"{dsn} password=geheim"},
        "target": {
            "warehouse": warehouse,
            "database": "shop",
            "options": {"changelog-producer": "lookup"},
        },
        "limits": {"chunk-rows": 10},
    }
    widetable_spark.cdc(spark, config, until="caught-up").awaitTermination()


if __name__ == "__main__":
    main()
