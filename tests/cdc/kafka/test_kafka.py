"""Debezium's records in a real Kafka topic: the table is the source, whoever is killed while it is filled."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import widetable as wt
from tests.cdc.debezium.test_debezium_histories import Row, Source
from tests.cdc.debezium.written_records import T
from tests.cdc.kafka.applying_job import TABLE, apply, session
from tests.cdc.kafka.kafka_server import NEEDS_KAFKA, KafkaServer, kafka_server
from tests.support.faults.patience import wait_for

pytestmark = [NEEDS_KAFKA, pytest.mark.slow]

KILLS = 3


class TopicSource(Source):
    """A source that truncates nothing: of several partitions, nobody knows what came before a truncate."""

    def other(self) -> None:
        self.records.append((None, '{"op":"m","message":{"prefix":"p","content":"AA=="}}'))


@pytest.fixture(scope="module")
def server() -> Iterator[KafkaServer]:
    with kafka_server() as started:
        yield started


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    made = session()
    yield made
    made.stop()


def send(
    spark: SparkSession,
    server: KafkaServer,
    topic: str,
    records: Sequence[tuple[str | None, str | None]],
    partition: int | None = None,
) -> None:
    """Send records in their order. partition: of all of them; None: Kafka chooses by their keys."""
    rows = [(key, value, partition) for key, value in records]
    shape = "key STRING, value STRING, partition INT"
    frame = spark.createDataFrame(rows, shape).coalesce(1)
    columns = frame if partition is not None else frame.drop("partition")
    columns.write.format("kafka").option("kafka.bootstrap.servers", server.address).option(
        "topic", topic
    ).save()


def rows_of(folder: Path) -> dict[int, Row]:
    table = wt.Catalog(str(folder / "wh")).table(TABLE)
    report = table.audit()
    assert report.ok, report
    return {row["id"]: row for row in table.scan().to_arrow().to_pylist()}


def drawn(rng: random.Random, changes: int, *, is_full: bool) -> TopicSource:
    source = TopicSource(rng, T, is_full=is_full)
    for _ in range(changes):
        source.change()
    return source


def test_case_20_a_topic_of_three_partitions_gives_the_rows_of_the_source(
    spark: SparkSession, server: KafkaServer, tmp_path: Path, rng: random.Random
) -> None:
    """Tombstones, changed keys, big values; the topic grows between two runs of the query."""
    source = drawn(rng, 300, is_full=True)
    send(spark, server, "three", source.records)
    apply(spark, server.address, "three", tmp_path, "once")
    assert rows_of(tmp_path) == source.rows
    before = len(source.records)
    for _ in range(100):
        source.change()
    send(spark, server, "three", source.records[before:])
    apply(spark, server.address, "three", tmp_path, "once")
    assert rows_of(tmp_path) == source.rows


def test_values_that_records_do_not_carry_stay_what_they_were(
    spark: SparkSession, server: KafkaServer, tmp_path: Path, rng: random.Random
) -> None:
    source = drawn(rng, 300, is_full=False)
    send(spark, server, "placeholders", source.records, partition=0)
    apply(spark, server.address, "placeholders", tmp_path, "once")
    assert rows_of(tmp_path) == source.rows


def test_a_killed_query_goes_on_and_applies_each_batch_once(
    spark: SparkSession, server: KafkaServer, tmp_path: Path, rng: random.Random
) -> None:
    source = drawn(rng, 300, is_full=True)
    send(spark, server, "killed", source.records)
    for kill in range(1, KILLS + 1):
        job = started(server, tmp_path, "always")
        try:
            wait_for(lambda: commits(tmp_path) >= kill)  # noqa: B023
        finally:
            os.killpg(job.pid, signal.SIGKILL)
            job.wait()
        before = len(source.records)
        for _ in range(100):
            source.change()
        send(spark, server, "killed", source.records[before:])
    job = started(server, tmp_path, "once")
    assert job.wait() == 0
    assert rows_of(tmp_path) == source.rows
    table = wt.Catalog(str(tmp_path / "wh")).table(TABLE)
    batches = [each for each in table.snapshots() if each.commit_kind == "APPEND"]
    numbers = [batch.commit_identifier for batch in batches]
    assert numbers == sorted(set(numbers))
    with pytest.raises(wt.NotFoundError):
        wt.Catalog(str(tmp_path / "wh")).table("shop.__cdc_errors")


def started(server: KafkaServer, folder: Path, how: str) -> subprocess.Popen[bytes]:
    """The job in a process group of its own, with Spark's Java."""
    command = [sys.executable, "-m", "tests.cdc.kafka.applying_job"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    arguments = [server.address, "killed", str(folder), how]
    return subprocess.Popen([*command, *arguments], env=environment, start_new_session=True)


def commits(folder: Path) -> int:
    try:
        return len(wt.Catalog(str(folder / "wh")).table(TABLE).snapshots())
    except wt.NotFoundError:
        return 0
