"""How old a record is when a Spark streaming reader sees its changelog row: p50 and p99, local[2], one session.

A socket gives lines at an even pace, each with the time at which it was sent; a streaming query writes them into a
table with a lookup changelog; another reads the table's changelog, and each of its batches is collected, which is the
time at which its rows are seen. Both queries start the next batch as soon as the last one is done. The first seconds
are left out: they start Python workers and compile plans.
"""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

import widetable as wt
from benchmarks.harness import Row, Size, scratch
from benchmarks.spark_session import session

TARGET_MILLIS = 1_500.0
COLUMNS = 20
_OPTIONS = {
    "bucket": "1",
    "merge-engine": "partial-update",
    "changelog-producer": "lookup",
    "fields.sent.sequence-group": ",".join(f"c{i}" for i in range(COLUMNS)),
}
_LINES_PER_TICK, _TICK_SECONDS = 10, 0.02
_PATIENCE_SECONDS = 120.0


@dataclass(frozen=True)
class _FreshnessShape:
    """warm_seconds: at the start, not counted."""

    keys: int
    warm_seconds: float
    seconds: float


SHAPES = {
    Size.FULL: _FreshnessShape(100_000, 20.0, 90.0),
    Size.SHORT: _FreshnessShape(10_000, 10.0, 20.0),
    Size.TINY: _FreshnessShape(100, 0.0, 2.0),
}


def run(size: Size = Size.FULL) -> list[Row]:
    shape = SHAPES[size]
    spark = session()
    try:
        with scratch("freshness") as work:
            ages = ages_of_records(spark, work, shape)
    finally:
        spark.stop()
    p50, p99 = (float(np.percentile(ages, each)) for each in (50, 99))
    return [
        Row(
            "age of a record at a stream reader",
            f"p50 {p50:.0f} ms, p99 {p99:.0f} ms",
            f"{len(ages) / shape.seconds:.0f} records/s",
            p50 / TARGET_MILLIS,
            f"p50 <= {TARGET_MILLIS:.0f} ms",
            p50 <= TARGET_MILLIS if size is Size.FULL else None,
            {"p50": p50, "p99": p99, "max": float(ages.max()), "rows": len(ages)},
        )
    ]


def ages_of_records(spark: SparkSession, work: Path, shape: _FreshnessShape) -> np.ndarray:
    """Milliseconds from sending to seeing, of every changelog row after the warm-up."""
    fields = [pa.field("k", pa.int64(), nullable=False)]
    fields += [pa.field(f"c{i}", pa.string()) for i in range(COLUMNS)]
    schema = pa.schema([*fields, pa.field("sent", pa.int64())])
    table = wt.Catalog(str(work / "warehouse")).create_table(
        "bench.freshness", schema, primary_key=["k"], options=_OPTIONS
    )
    seen: list[tuple[float, np.ndarray]] = []
    with _Source(shape.keys) as source:
        queries = [_writing(spark, source.port, table, work)]
        try:
            _wait(queries, lambda: bool(table.snapshots()), 0.0)
            queries.append(_reading(spark, table, work, seen))
            first = (time.time() + shape.warm_seconds) * 1e3
            _wait(
                queries,
                lambda: any((sent >= first).any() for _, sent in seen),
                shape.warm_seconds + shape.seconds,
            )
            source.close()
            for query in queries:
                query.processAllAvailable()  # stopped in a batch they fill the log
        finally:
            for query in queries:
                query.stop()
    return np.concatenate([now - sent[sent >= first] for now, sent in seen])


def _wait(queries: list[StreamingQuery], is_reached: Callable[[], bool], seconds: float) -> None:
    """Until the time has passed and it is reached. Raises what a query died of, and TimeoutError."""
    enough = time.monotonic() + seconds
    while time.monotonic() < enough or not is_reached():
        if time.monotonic() > enough + _PATIENCE_SECONDS:
            raise TimeoutError("no row of the stream went through")
        for query in queries:
            query.awaitTermination(1)


def _writing(spark: SparkSession, port: int, table: wt.Table, work: Path) -> StreamingQuery:
    lines = (
        spark.readStream.format("socket").option("host", "127.0.0.1").option("port", port).load()
    )
    part = F.split("value", ",")
    texts = [F.concat(F.lit(f"value-{i}-"), part[0]).alias(f"c{i}") for i in range(COLUMNS)]
    rows = lines.select(part[0].cast("long").alias("k"), *texts, part[1].cast("long").alias("sent"))
    return (
        rows.writeStream.format("widetable")
        .option("path", table.path)
        .option("checkpointLocation", str(work / "writing"))
        .start()
    )


def _reading(
    spark: SparkSession, table: wt.Table, work: Path, seen: list[tuple[float, np.ndarray]]
) -> StreamingQuery:
    """seen: gets (epoch milliseconds, when the records were sent) of each batch, updates by their new row."""
    changes = spark.readStream.format("widetable").option("read.changelog", "true").load(table.path)

    def collect(batch: DataFrame, _: int) -> None:
        sent = [row["sent"] for row in batch.where("_row_kind in ('+I', '+U')").collect()]
        if sent:
            seen.append((time.time() * 1e3, np.array(sent)))

    return (
        changes.writeStream.foreachBatch(collect)
        .option("checkpointLocation", str(work / "reading"))
        .start()
    )


class _Source:
    """A server on this machine that sends `key,epoch milliseconds` lines to who connects, until it is closed."""

    def __init__(self, keys: int) -> None:
        self._keys = keys
        self._closed = threading.Event()
        self._server = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._server.getsockname()[1]
        self._threads = [threading.Thread(target=self._accept, daemon=True)]

    def __enter__(self) -> _Source:
        self._threads[0].start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Send nothing more. May be called twice."""
        self._closed.set()
        with contextlib.suppress(OSError):
            self._server.shutdown(socket.SHUT_RDWR)
        self._server.close()
        for thread in self._threads:
            thread.join()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while not self._closed.is_set():
                connection, _ = self._server.accept()
                thread = threading.Thread(target=self._send, args=(connection,), daemon=True)
                self._threads.append(thread)
                thread.start()

    def _send(self, connection: socket.socket) -> None:
        rng = np.random.default_rng(5)
        with connection, contextlib.suppress(OSError):
            while not self._closed.wait(_TICK_SECONDS):
                now = int(time.time() * 1e3)
                keys = rng.integers(0, self._keys, _LINES_PER_TICK)
                connection.sendall("".join(f"{key},{now}\n" for key in keys).encode())
