"""Samples with labels of 30 minutes from three streams, against Spark's outer joins of streams with watermarks.

Exposures, clicks and buys come in rounds of ten minutes; one in ten exposures is clicked, one in a hundred bought, some
of them too late. Ours: each round is written into a table by three writers, and `follow_samples` gives what is due.
Theirs, on local[2] with RocksDB as the state store: exposures left outer join clicks left outer join buys, within 30
minutes, from Parquet files into Parquet files. A round ends when the side has given what it can. A last round ends all
windows. Samples are compared with what the rules say, in numpy. State: ours is the table of those who wait, theirs the
state of the checkpoint.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

import widetable as wt
from benchmarks.harness import Row, Size, scratch
from benchmarks.spark_session import session

_SEED, _FEATURES = 9, 8
_ROUND_MILLIS, _WAIT_MILLIS = 600_000, 1_800_000
# Rounds in which no exposure comes: three end our windows, and seven those of two joins, of which each adds its time.
_LAST_ROUNDS = 8
_PROVIDER = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"


class _Round(NamedTuple):
    """What comes in a round. until_millis: the watermark of all writers then."""

    exposures: pa.Table
    clicks: pa.Table
    buys: pa.Table
    until_millis: int


@dataclass(frozen=True)
class _SampleShape:
    """rounds with exposures each."""

    rounds: int
    exposures: int

    def all_rounds(self) -> list[_Round]:
        """Events are in the round of their time."""
        rng = np.random.default_rng(_SEED)
        count = self.rounds * self.exposures
        ids = np.arange(count)
        at = np.repeat(np.arange(self.rounds), self.exposures) * _ROUND_MILLIS
        at = at + rng.integers(0, _ROUND_MILLIS, count)
        rounds = []
        events = {}
        for name, share in (("clicks", 0.1), ("buys", 0.01)):
            chosen = rng.random(count) < share
            late = rng.integers(0, _WAIT_MILLIS + _ROUND_MILLIS, count)
            events[name] = ids[chosen], (at + late)[chosen]
        values = {f"f{number}": rng.random(count) for number in range(_FEATURES)}
        for number in range(self.rounds + _LAST_ROUNDS):
            end = (number + 1) * _ROUND_MILLIS
            own = slice(number * self.exposures, (number + 1) * self.exposures)
            columns = {"id": ids[own], "at": _times(at[own])}
            columns |= {name: each[own] for name, each in values.items()}
            parts = [pa.table(columns)]
            for name, column in (("clicks", "clicked_at"), ("buys", "bought_at")):
                keys, moments = events[name]
                is_now = (moments >= end - _ROUND_MILLIS) & (moments < end)
                rows = {"id": keys[is_now], column: _times(moments[is_now])}
                parts.append(pa.table(rows))
            rounds.append(_Round(parts[0], parts[1], parts[2], end))
        return rounds

    def expected(self) -> pa.Table:
        """The samples, by the rule: id, clicked, bought."""
        rounds = self.all_rounds()
        exposures = pa.concat_tables([each.exposures for each in rounds])
        at = exposures.column("at").cast(pa.int64()).to_numpy()
        labels = {"id": exposures.column("id")}
        for name, column, label in (
            ("clicks", "clicked_at", "clicked"),
            ("buys", "bought_at", "bought"),
        ):
            events = pa.concat_tables([getattr(each, name) for each in rounds])
            moments = np.full(len(at), -1)
            moments[events.column("id").to_numpy()] = (
                events.column(column).cast(pa.int64()).to_numpy()
            )
            labels[label] = pa.array((moments >= at) & (moments <= at + _WAIT_MILLIS))
        return pa.table(labels)


def _times(millis: np.ndarray) -> pa.Array:
    return pa.array(millis, pa.int64()).cast(pa.timestamp("ms"))


SHAPES = {
    Size.FULL: _SampleShape(20, 50_000),
    Size.SHORT: _SampleShape(10, 10_000),
    Size.TINY: _SampleShape(3, 200),
}


def run(size: Size = Size.FULL) -> list[Row]:
    spark = session()
    try:
        with scratch("samples") as work:
            return measured(spark, work, SHAPES[size])
    finally:
        spark.stop()


def measured(spark: SparkSession, work: Path, shape: _SampleShape) -> list[Row]:
    """The row, in a session. The sides take turns, round by round."""
    ours, theirs = _TableSamples(work), _StreamSamples(spark, work / "theirs", shape)
    spent = [0.0, 0.0]
    try:
        for number, each in enumerate(shape.all_rounds()):
            for place, play in enumerate((ours.round, theirs.round)):
                began = time.perf_counter()
                play(number, each)
                spent[place] += time.perf_counter() - began
    finally:
        theirs.query.stop()
    expected = shape.expected()
    wrong = [_differing(side.samples(), expected) for side in (ours, theirs)]
    assert wrong[0] == 0, f"{wrong[0]} samples are wrong"
    count = expected.num_rows
    return [
        Row(
            f"{count:,} samples of three streams, {shape.rounds} rounds",
            f"{spent[0]:.1f} s, {ours.most_bytes / 1e6:.1f} MB wait, {wrong[0]} wrong",
            f"{spent[1]:.1f} s, {theirs.most_bytes / 1e6:.1f} MB of state, {wrong[1]} wrong",
            spent[1] / spent[0],
        )
    ]


def _differing(samples: pa.Table, expected: pa.Table) -> int:
    """Count the samples that are missing, there twice, or have another label."""
    rows = samples.select(expected.column_names)
    both = [set(zip(*each.to_pydict().values(), strict=True)) for each in (rows, expected)]
    return len(both[0] ^ both[1]) + int(rows.num_rows) - len(both[0])


class _TableSamples:
    """most_bytes: of the files of those who wait."""

    def __init__(self, work: Path) -> None:
        columns = {"id": "BIGINT", "at": "TIMESTAMP(3)"}
        columns |= {f"f{number}": "DOUBLE" for number in range(_FEATURES)}
        columns |= {"clicked_at": "TIMESTAMP(3)", "bought_at": "TIMESTAMP(3)"}
        options = {"merge-engine": "partial-update", "bucket": "2"}
        self._catalog = wt.Catalog(str(work / "wh"))
        self._table = self._catalog.create_table(
            "b.t", columns, primary_key=["id"], options=options
        )
        self._waiting = work / "wh/b.db/t_samples_waiting"
        self.most_bytes = 0
        self._follow()

    def round(self, number: int, rows: _Round) -> None:
        for writer in ("exposures", "clicks", "buys"):
            events = getattr(rows, writer)
            self._table.write(events, writer, number, watermark=rows.until_millis)
        self._follow()
        live = sum(path.stat().st_size for path in self._waiting.glob("bucket-*/*"))
        self.most_bytes = max(self.most_bytes, live)

    def _follow(self) -> None:
        minutes = "30 min"
        labels = {
            "clicked": wt.label("clicked_at", within=minutes),
            "bought": wt.label("bought_at", within=minutes),
        }
        with self._table.follow_samples(
            "bench", ["at"], on="at", labels=labels, timeout=0
        ) as samples:
            for _ in samples:
                pass

    def samples(self) -> pa.Table:
        return self._catalog.table("b.t_samples").scan().to_arrow()


class _StreamSamples:
    """most_bytes: of the state in the checkpoint."""

    def __init__(self, spark: SparkSession, work: Path, shape: _SampleShape) -> None:
        self._work, self.most_bytes = work, 0
        spark.conf.set("spark.sql.streaming.stateStore.providerClass", _PROVIDER)
        spark.conf.set(
            "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled", "true"
        )
        first = shape.all_rounds()[0]
        exposures = self._stream(spark, "exposures", first.exposures, "at")
        clicks = self._stream(spark, "clicks", first.clicks, "clicked_at")
        buys = self._stream(spark, "buys", first.buys, "bought_at")
        joined = _within(
            _within(exposures, clicks, "clicked_at", "clicked"), buys, "bought_at", "bought"
        )
        writer = joined.writeStream.format("parquet").option("path", str(work / "out"))
        self.query = writer.option("checkpointLocation", str(work / "checkpoint")).start()

    def _stream(self, spark: SparkSession, name: str, rows: pa.Table, column: str) -> DataFrame:
        (self._work / name).mkdir(parents=True)
        schema = spark.createDataFrame(_flushed(rows.slice(0, 1), column, 0)).schema
        stream = spark.readStream.schema(schema).parquet(str(self._work / name))
        return stream.withWatermark(column, "0 seconds")

    def round(self, number: int, rows: _Round) -> None:
        named = (("exposures", "at"), ("clicks", "clicked_at"), ("buys", "bought_at"))
        for name, column in named:
            # A row of no sample says how far the stream is, as a watermark does on our side.
            events = _flushed(getattr(rows, name), column, rows.until_millis)
            hidden = self._work / f".{name}-{number}"
            pq.write_table(events, hidden)
            hidden.rename(self._work / name / f"{number:03}.parquet")
        self.query.processAllAvailable()
        state = (self._work / "checkpoint/state").rglob("*")
        bytes = sum(path.stat().st_size for path in state if path.is_file())
        self.most_bytes = max(self.most_bytes, bytes)

    def samples(self) -> pa.Table:
        rows = pq.read_table(self._work / "out")
        return rows.filter(pc.greater_equal(rows.column("id"), 0))


def _flushed(rows: pa.Table, column: str, millis: int) -> pa.Table:
    """Return the rows with one of the id -1 at a time."""
    moment = pa.scalar(millis, pa.int64()).cast(pa.timestamp("ms"))
    values = {"id": pa.array([-1]), column: pa.array([moment.as_py()], pa.timestamp("ms"))}
    last = [
        values.get(name, pa.nulls(1, rows.schema.field(name).type)) for name in rows.column_names
    ]
    flushed = pa.concat_tables([rows, pa.Table.from_arrays(last, schema=rows.schema)])
    # Spark reads microseconds.
    place = rows.column_names.index(column)
    return flushed.set_column(place, column, flushed.column(column).cast(pa.timestamp("us", "UTC")))


def _within(exposures: DataFrame, events: DataFrame, column: str, label: str) -> DataFrame:
    """Join the event of an exposure that came within 30 minutes, if any."""
    other = events.withColumnRenamed("id", f"id_{column}")
    minutes = sf.expr("INTERVAL 30 MINUTES")
    is_match = (
        (exposures["id"] == other[f"id_{column}"])
        & (other[column] >= exposures["at"])
        & (other[column] <= exposures["at"] + minutes)
    )
    joined = exposures.join(other, is_match, "leftOuter")
    # A second column with a watermark would keep the result from the next join.
    return joined.withColumn(label, other[column].isNotNull()).drop(f"id_{column}", column)
