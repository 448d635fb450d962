"""A table that holds an inner join of two append-only tables against Spark's stream-stream join, on local[2].

1 M rows on the left and 100 K on the right are there; each round appends 1 % to both, of which some match rows of years
ago: so nothing has a watermark. Ours: a round of `DeltaJoin.run_once`, index fed and changelog made. Theirs: a running
query that joins two streams of Parquet files into Parquet files, once with Spark's own state store and once with
RocksDB; the better of both counts in each round, from the files until they are processed. Outputs are compared before
time counts, and after. State: what is on disk beyond the sources, the output, and (ours) the index; theirs as their
checkpoints have it.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

import widetable as wt
from benchmarks.harness import Row, Size, paired, scratch
from benchmarks.spark_session import session

_SEED, _SHARE, _COLUMNS = 7, 0.01, 8
_PROVIDERS = {
    "own store": "org.apache.spark.sql.execution.streaming.state.HDFSBackedStateStoreProvider",
    "RocksDB": "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",
}
_SETTINGS = "spark.sql.streaming.stateStore."


@dataclass(frozen=True)
class _StreamShape:
    """rounds: that count; rows are there from round 0, and one more gets both sides warm."""

    lefts: int
    rights: int
    rounds: int

    def rows(self, number: int) -> tuple[pa.Table, pa.Table]:
        """Of both sides in a round. Some of the left rows match right ones of later rounds."""
        rng = np.random.default_rng([_SEED, number])
        ids, keys = _ids(self.lefts, number), _ids(self.rights, number)
        left = {
            "id": pa.array(ids),
            "key": pa.array(rng.integers(0, _ids(self.rights, self.rounds + 2)[0], len(ids))),
        }
        for column in range(_COLUMNS):
            left[f"v{column}"] = pa.array(rng.random(len(ids)).round(2))
        cities = pa.array([f"city {each % 97}" for each in keys.tolist()])
        return pa.table(left), pa.table({"key": pa.array(keys), "city": cities})


def _ids(first: int, number: int) -> np.ndarray:
    """Those of a round: so many in round 0, then a share of them in each."""
    more = max(int(first * _SHARE), 1)
    begin = 0 if number == 0 else first + (number - 1) * more
    return np.arange(begin, first if number == 0 else begin + more)


SHAPES = {
    Size.FULL: _StreamShape(1_000_000, 100_000, 7),
    Size.SHORT: _StreamShape(100_000, 10_000, 3),
    Size.TINY: _StreamShape(1_000, 100, 1),
}


def run(size: Size = Size.FULL) -> list[Row]:
    spark = session()
    try:
        with scratch("stream_join") as work:
            return measured(spark, work, SHAPES[size])
    finally:
        spark.stop()


def measured(spark: SparkSession, work: Path, shape: _StreamShape) -> list[Row]:
    """All rows, in a session."""
    ours = _Ours(work, shape)
    theirs = [_Theirs(spark, work / name, shape, name) for name in _PROVIDERS]

    def their_round() -> float:
        return min(each.round() for each in theirs)

    try:
        for _ in range(2):
            ours.round()
            their_round()
        for each in theirs:
            _compare(ours, each)
        taken, joined, ratio, pairs = paired(ours.round, their_round, shape.rounds)
        for each in theirs:
            _compare(ours, each)
    finally:
        for each in theirs:
            each.query.stop()
    states = ", ".join(f"{each.name} {each.state_bytes() / 1e6:.1f} MB" for each in theirs)
    return [
        Row(
            f"delta join of appended rows, {shape.lefts:,} and {shape.rights:,}, 1 % more of both",
            f"{taken:.2f} s a round, {ours.state_bytes():,} bytes of notes",
            f"stream-stream join {joined:.2f} s; state: {states}",
            ratio,
            details={"pairs": pairs, "seconds": {each.name: each.seconds for each in theirs}},
        )
    ]


class _Ours:
    def __init__(self, work: Path, shape: _StreamShape) -> None:
        self._work, self._shape, self._number = work, shape, 0
        left, right = shape.rows(0)
        catalog = wt.Catalog(str(work / "wh"))
        indexed = {"index.key": "b.by_key", "bucket": "2"}
        self._a = catalog.create_table("b.a", left.schema, primary_key=["id"], options=indexed)
        self._b = catalog.create_table("b.b", right.schema, primary_key=["key"])
        self._join = wt.DeltaJoin(catalog, "b.out", "b.a", "b.b", ["key"], "inner")
        self._out = self._join.create({"changelog-producer": "lookup"})

    def round(self) -> float:
        left, right = self._shape.rows(self._number)
        self._number += 1
        self._a.write(left)
        self._b.write(right)
        began = time.perf_counter()
        assert self._join.run_once().rows_added
        return time.perf_counter() - began

    def joined(self) -> pa.Table:
        return self._out.scan().to_arrow()

    def state_bytes(self) -> int:
        """Of consumers, leases and notes, in all tables."""
        folders = [*self._work.glob("wh/*/*/service"), *self._work.glob("wh/*/*/consumer")]
        return sum(path.stat().st_size for folder in folders for path in folder.iterdir())


class _Theirs:
    """seconds: of each round."""

    def __init__(self, spark: SparkSession, work: Path, shape: _StreamShape, name: str) -> None:
        self.name, self.seconds = name, list[float]()
        self._work, self._shape, self._number = work, shape, 0
        spark.conf.set(f"{_SETTINGS}providerClass", _PROVIDERS[name])
        spark.conf.set(f"{_SETTINGS}rocksdb.changelogCheckpointing.enabled", "true")
        left, right = shape.rows(0)
        for side in ("left", "right"):
            (work / side).mkdir(parents=True)
        streams = [
            spark.readStream.schema(spark.createDataFrame(rows.slice(0, 1)).schema).parquet(
                str(work / side)
            )
            for side, rows in (("left", left), ("right", right))
        ]
        writer = streams[0].join(streams[1], "key").writeStream.format("parquet")
        writer = writer.option("checkpointLocation", str(work / "checkpoint"))
        self.query: StreamingQuery = writer.option("path", str(work / "out")).start()

    def round(self) -> float:
        sides = self._shape.rows(self._number)
        for side, rows in zip(("left", "right"), sides, strict=True):
            hidden = self._work / f".{side}-{self._number}"
            pq.write_table(rows, hidden)
            hidden.rename(self._work / side / f"{self._number:03}.parquet")
        self._number += 1
        began = time.perf_counter()
        self.query.processAllAvailable()
        self.seconds.append(time.perf_counter() - began)
        return self.seconds[-1]

    def joined(self) -> pa.Table:
        return pq.read_table(self._work / "out")

    def state_bytes(self) -> int:
        paths = (self._work / "checkpoint" / "state").rglob("*")
        return sum(path.stat().st_size for path in paths if path.is_file())


def _compare(ours: _Ours, theirs: _Theirs) -> None:
    found = ours.joined().sort_by("id").combine_chunks()
    expected = theirs.joined().select(found.column_names).cast(found.schema)
    assert found.equals(expected.sort_by("id").combine_chunks()), f"differs from {theirs.name}"
