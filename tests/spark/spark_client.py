"""Spark in scenarios of tests/pairs: its ways to write a table, and to read it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

import widetable as wt
import widetable_spark
from tests.pairs.reading import CONDITION, Request
from tests.support.models.plain_rows import python_rows

Rows = list[dict[str, Any]]


class SparkClient:
    """Of one scenario. folder: for checkpoints, and what streams read. storage: options of an object store, whose
    environment Spark's processes do not have.
    """

    def __init__(self, spark: SparkSession, folder: Path, storage: Mapping[str, str]) -> None:
        self._spark = spark
        self._folder = folder
        self._storage = dict(storage)
        self._files = 0

    # Writing

    def write_batch(self, table: wt.Table, rows: pa.Table) -> None:
        """In one or two tasks, of which the first has the first rows."""
        frame = self._spark.createDataFrame(rows)
        writer = frame.write.format("widetable").options(**self._storage)
        writer.mode("append").save(table.path)

    def write_stream(self, table: wt.Table, rows: pa.Table) -> None:
        """The next micro-batch of a query that stands still between them."""
        source = self._folder / "written"
        source.mkdir(exist_ok=True)
        self._files += 1
        pq.write_table(rows, source / f"{self._files}.parquet")
        schema = self._spark.createDataFrame(rows).schema
        stream = self._spark.readStream.schema(schema).parquet(str(source)).writeStream
        stream = stream.format("widetable").options(**self._storage)
        self._run(stream.option("path", table.path), "writes")

    def _run(self, stream: Any, name: str) -> None:
        stream = stream.option("checkpointLocation", str(self._folder / name))
        stream.trigger(availableNow=True).start().awaitTermination()

    # Reading

    def read(self, request: Request) -> Rows:
        return self._read(request)

    def read_condition(self, request: Request) -> Rows:
        return self._read(request, list(request.columns), CONDITION)

    def _read(self, request: Request, *how: Any) -> Rows:
        path, storage = _path(request), self._storage
        return _rows(widetable_spark.read(self._spark, path, *how, storage_options=storage))

    def read_source(self, request: Request) -> Rows:
        """With a snapshot, or at a barrier, where the request has one."""
        reader = self._spark.read.format("widetable").options(**self._storage)
        reader = reader.option("branch", request.branch)
        if request.snapshot is not None:
            reader = reader.option("snapshot-id", str(request.snapshot))
        return _rows(reader.load(request.path))

    def join(self, request: Request) -> Rows:
        table = wt.Table.open(
            request.path, branch=request.branch, storage_options=self._storage or None
        )
        keys = pa.Table.from_pylist([dict(key) for key in request.keys])
        keys = keys.cast(table.arrow_schema.empty_table().select(keys.column_names).schema)
        left = self._spark.createDataFrame(keys)
        return _rows(widetable_spark.lookup_join(left, table, keys.column_names, how="inner"))

    def changes(self, table: wt.Table) -> Iterator[pa.RecordBatch]:
        """What has come since the last call, in the order of a stream, which goes on from its checkpoint."""
        found: list[pa.Table] = []

        def take(frame: DataFrame, _: int) -> None:
            found.append(frame.toArrow())

        options = {
            **self._storage,
            "read.changelog": "true",
            "scan.mode": "from-snapshot",
            "scan.snapshot-id": "1",
            "consumer-id": "spark",
        }
        stream = self._spark.readStream.format("widetable").options(**options).load(table.path)
        self._run(stream.writeStream.foreachBatch(take), "reads")
        for rows in found:
            yield from rows.to_batches()


def _path(request: Request) -> str:
    """The directory of its branch says the same as an option."""
    is_main = request.branch == "main"
    return request.path if is_main else f"{request.path}/branch/branch-{request.branch}"


def _rows(frame: DataFrame) -> Rows:
    return python_rows(frame.toArrow())
