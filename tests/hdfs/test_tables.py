"""Tables on HDFS are as on a disk: merge rules, operations, many writers, kills, copies, Spark."""

from __future__ import annotations

import contextlib
import random
import signal
import time
import uuid
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import widetable as wt
import widetable_spark
from tests.conformance import PASSED, load_cases, run_case
from tests.hdfs.hdfs_server import NEEDS_HDFS
from tests.object_stores.test_tables import VECTORS, create, run_of_operations, writers
from widetable.cli.app import main

pytestmark = NEEDS_HDFS


def test_operations_give_what_they_give_on_a_disk(place: str, tmp_path: Path) -> None:
    assert run_of_operations(create(place)) == run_of_operations(create(str(tmp_path)))
    assert wt.Catalog(place).list_tables() == ["db.t"]
    wt.Catalog(place).drop_table("db.t")
    assert wt.Catalog(place).list_tables() == []


@pytest.mark.parametrize(
    "case", load_cases(VECTORS)[::60], ids=lambda case: f"{case['area']}-{case['id']}"
)
def test_conformance(place: str, case: dict[str, Any]) -> None:
    """Some of the cases; all of them run on a disk."""

    def warehouses() -> AbstractContextManager[str]:
        return contextlib.nullcontext(f"{place}/{uuid.uuid4().hex}")

    outcome = run_case(case, warehouses)
    assert outcome.verdict == PASSED, outcome.detail


def test_no_commit_of_many_writers_is_lost_or_doubled(place: str) -> None:
    table = create(place)
    with writers(table.path, 6, 4, {}) as started:
        ends = [each.communicate() for each in started]
        assert [each.returncode for each in started] == [0] * 4, ends
    found = {row["k"]: row["a"] for row in table.scan(columns=["k", "a"]).to_arrow().to_pylist()}
    expected = {user * 1000 + number: number for user in range(1, 5) for number in range(6)}
    assert {key: value for key, value in found.items() if key} == expected
    appends = [one for one in table.snapshots() if one.commit_kind == "APPEND"]
    commits = [(one.commit_user, one.commit_identifier) for one in appends]
    assert sorted(commits) == sorted((f"user-{u}", n) for u in range(1, 5) for n in range(6))
    assert table.audit().findings == ()


def test_what_killed_writers_said_is_there(place: str, rng: random.Random) -> None:
    table = create(place)
    said: dict[int, int] = {}
    with writers(table.path, 100, 3, {}) as started:
        for user, each in enumerate(started, 1):
            for _ in range(rng.randrange(1, 4)):
                said[user] = int(each.stdout.readline())
            time.sleep(rng.random() / 2)
            each.send_signal(signal.SIGKILL)
    found = set(table.scan(columns=["k"]).to_arrow()["k"].to_pylist())
    for user, last in said.items():
        assert found >= {user * 1000 + number for number in range(last + 1)}
    table.maintain(once=True)
    assert table.audit().findings == ()
    table.write({"k": [5], "a": [5], "a_at": [5]})
    assert table.lookup([5], columns=["a"]).to_pylist() == [{"a": 5}]


def test_a_copy_is_a_table_of_its_own(place: str) -> None:
    table = create(place)
    table.write({"k": [1], "a": [7], "a_at": [1]})
    catalog = wt.Catalog(place)
    catalog.copy_table("db.t", "db.copy")
    table.write({"k": [1], "a": [8], "a_at": [2]})
    assert catalog.table("db.copy").lookup([1], columns=["a"]).to_pylist() == [{"a": 7}]
    assert catalog.table("db.copy").audit().findings == ()


def test_a_tag_whose_name_hdfs_cannot_have_is_refused(place: str) -> None:
    table = create(place)
    table.write({"k": [1], "a": [7], "a_at": [1]})
    with pytest.raises(wt.InvalidError, match="a path that HDFS does not support"):
        table.create_tag("2026-01-01T00:00")
    assert table.tags() == {}


def test_the_command_line_takes_urls(place: str, capsys: pytest.CaptureFixture[str]) -> None:
    table = create(place)
    table.write({"k": [1], "a": [7], "a_at": [1]})
    for arguments in (["ls", place], ["inspect", table.path], ["audit", table.path]):
        assert main(arguments) == 0, capsys.readouterr()
    assert main(["read", table.path, "--format", "json"]) == 0
    assert '"a":7' in capsys.readouterr().out.replace(" ", "")


def test_spark_writes_joins_and_reads_and_scans_by_itself_what_needs_no_merge(
    place: str, tmp_path: Path, java_home: str
) -> None:
    table = create(place, {"changelog-producer": "none"})
    spark = (
        SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
    )
    try:
        rows = spark.createDataFrame([(n, n, 1) for n in range(20)], "k bigint, a int, a_at bigint")
        rows.write.format("widetable").mode("append").save(table.path)
        rows.write.parquet(str(tmp_path / "in"))
        source = spark.readStream.schema(rows.schema).parquet(str(tmp_path / "in"))
        joined = widetable_spark.lookup_join(source, table, ["k"], ["a"], prefix="old_")
        stream = joined.selectExpr("k + 10 AS k", "a + old_a AS a", "2L AS a_at").writeStream
        stream = stream.format("widetable").option("path", table.path)
        stream = stream.option("checkpointLocation", str(tmp_path / "checkpoint"))
        stream.trigger(availableNow=True).start().awaitTermination()
        expected = sorted((k, 2 * (k - 10) if k >= 10 else k) for k in range(30))
        merged = widetable_spark.read(spark, table.path).select("k", "a")
        assert sorted(map(tuple, merged.collect())) == expected
        table.compact(full=True)
        scanned = widetable_spark.read(spark, table.path).select("k", "a")
        assert "FileScan parquet" in scanned._jdf.queryExecution().toString()
        assert sorted(map(tuple, scanned.collect())) == expected
    finally:
        spark.stop()
