"""A streaming query over files of left rows, and the table that its lookup join asks."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

import widetable as wt

Rows = list[tuple[Any, ...]]


def put(table: wt.Table, *rows: tuple[Any, ...]) -> None:
    names = table.arrow_schema.names
    table.write([dict(zip(names, row, strict=True)) for row in rows])


def drop(folder: Path, number: int, *rows: tuple[int, int | None]) -> None:
    """A file of left rows (id, k), for one micro-batch."""
    folder.mkdir(parents=True, exist_ok=True)
    ids, keys = zip(*rows, strict=True)
    left = pa.table({"id": pa.array(ids, pa.int64()), "k": pa.array(keys, pa.int64())})
    pq.write_table(left, folder / f".{number:04}.tmp")
    # Spark takes older files first.
    os.utime(folder / f".{number:04}.tmp", (number + 1, number + 1))
    (folder / f".{number:04}.tmp").rename(folder / f"{number:04}.parquet")


def tuples(frame: DataFrame) -> Rows:
    return sorted(tuple(row) for row in frame.collect())


class Query:
    """Left rows of files in a folder, one per micro-batch, through `join` into a sink that keeps what it got.

    fails: called after the sink has got the rows of a batch.
    """

    def __init__(
        self, spark: SparkSession, folder: Path, join: Callable[[DataFrame], DataFrame]
    ) -> None:
        self.spark, self.source, self.checkpoint = spark, folder / "source", folder / "checkpoint"
        self.join = join
        self.got: list[tuple[int, Rows]] = []
        self.fails: Callable[[int], None] = lambda batch_id: None

    def run(self) -> None:
        """All that is there."""
        left = self.spark.readStream.schema("id long, k long").option("maxFilesPerTrigger", 1)
        writer = self.join(left.parquet(str(self.source))).writeStream.foreachBatch(self._sink)
        writer = writer.option("checkpointLocation", str(self.checkpoint))
        writer.trigger(availableNow=True).start().awaitTermination()

    def _sink(self, rows: DataFrame, batch_id: int) -> None:
        self.got.append((batch_id, tuples(rows)))
        self.fails(batch_id)


def fail_once(batch_id: int) -> Callable[[int], None]:
    failed: list[int] = []

    def fail(each: int) -> None:
        if each == batch_id and not failed:
            failed.append(each)
            raise OSError("the sink is full")

    return fail


def pins(table: wt.Table) -> list[str]:
    folder = Path(table.path) / "service"
    return sorted(path.name for path in folder.glob("widetable-lookup-pin-*"))


LEFT: Rows = [(10, 1), (11, 2), (12, 3), (13, None), (14, 9), (15, 1)]
JOINED: Rows = [
    (10, 1, "Ann", "Oslo"),
    (11, 2, "Bob", "Rome"),
    (12, 3, None, None),
    (13, None, None, None),
    (14, 9, None, None),
    (15, 1, "Ann", "Oslo"),
]
