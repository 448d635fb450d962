"""Streaming reads in Spark: rows and changes, restarts at any batch, limits, consumers, watermarks, expired data."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

import widetable as wt
from tests.support.faults.patience import PATIENCE_SECONDS, wait_for

COLUMNS = pa.schema(
    [
        pa.field("k", pa.int64(), nullable=False),
        pa.field("a", pa.int64()),
        pa.field("b", pa.string()),
    ]
)
LOOKUP = {
    "widetable.fsync": "false",
    "bucket": "2",
    "merge-engine": "partial-update",
    "changelog-producer": "lookup",
}
Change = tuple[Any, ...]


class Batches:
    """What foreachBatch gave: rows by batch id. A batch that is replayed must be the same again."""

    def __init__(self, fail_at: int | None = None) -> None:
        self.rows: dict[int, list[Change]] = {}
        self.fail_at = fail_at

    def __call__(self, frame: DataFrame, number: int) -> None:
        found = [tuple(row) for row in frame.collect()]
        assert self.rows.get(number, found) == found
        self.rows[number] = found
        if number == self.fail_at:
            raise RuntimeError("the query is killed here")

    @property
    def all(self) -> list[Change]:
        return [row for number in sorted(self.rows) for row in self.rows[number]]


def start(
    spark: SparkSession,
    table: wt.Table,
    checkpoint: Path,
    each: Callable[[DataFrame, int], None],
    options: Mapping[str, str] | None = None,
    *,
    available_now: bool = True,
) -> StreamingQuery:
    frame = spark.readStream.format("widetable").options(**(options or {})).load(table.path)
    writer = frame.writeStream.foreachBatch(each).option("checkpointLocation", str(checkpoint))
    if available_now:
        writer = writer.trigger(availableNow=True)
    return writer.start()


def run(*args: Any, **how: Any) -> StreamingQuery:
    query = start(*args, **how)
    query.awaitTermination()
    return query


def fold(changes: Iterable[Change]) -> dict[int, Change]:
    """The rows that changes add up to; each -U and -D must name the row that is there."""
    rows: dict[int, Change] = {}
    for *row, kind in changes:
        if kind in ("-U", "-D"):
            assert rows.pop(row[0]) == tuple(row)
        else:
            assert row[0] not in rows
            rows[row[0]] = tuple(row)
    return rows


def emitted(table: wt.Table, first: int, last: int) -> list[Change]:
    """Changes of a range, sorted."""
    columns = table.changes(first, last).to_pydict().values()
    return in_any_order(zip(*columns, strict=True))


def in_any_order(changes: Iterable[Change]) -> list[Change]:
    return sorted(changes, key=repr)


def rows_of(table: wt.Table) -> dict[int, Change]:
    return {row["k"]: tuple(row.values()) for row in table.scan().to_arrow().to_pylist()}


@pytest.fixture
def source(tmp_path: Path) -> wt.Table:
    """A lookup table of five commits over the same keys: 10 snapshots, 5 of them with a changelog."""
    table = wt.Catalog(str(tmp_path / "wh")).create_table(
        "db.source", COLUMNS, primary_key=["k"], options=LOOKUP
    )
    for commit in range(5):
        keys = list(range(commit, 20, commit + 1))
        name, value = ("a", commit) if commit % 2 else ("b", str(commit))
        table.write(pa.table({"k": pa.array(keys, pa.int64()), name: [value] * len(keys)}))
    return table


CHANGES = {"read.changelog": "true", "scan.mode": "from-snapshot", "scan.snapshot-id": "1"}
STEPWISE = {**CHANGES, "read.stream.maxSnapshotsPerTrigger": "1"}


def test_the_rows_of_now_come_first_by_default(
    spark: SparkSession, source: wt.Table, tmp_path: Path
) -> None:
    batches = Batches()
    run(spark, source, tmp_path / "cp", batches, {"read.changelog": "true"})
    assert list(batches.rows) == [0]
    assert {row[-1] for row in batches.all} == {"+I"}
    assert fold(batches.all) == rows_of(source)


def test_without_the_changelog_new_values_come(spark: SparkSession, tmp_path: Path) -> None:
    table = wt.Catalog(str(tmp_path / "wh")).create_table(
        "db.t",
        COLUMNS,
        primary_key=["k"],
        options={**LOOKUP, "merge-engine": "deduplicate"},
    )
    table.write(pa.table({"k": [1, 2], "a": [1, 2], "b": ["x", "y"]}))
    table.write(pa.table({"k": [1, 2], "a": [3, 2], "b": ["z", "y"], "_row_kind": ["+U", "-D"]}))
    batches = Batches()
    run(
        spark,
        table,
        tmp_path / "cp",
        batches,
        {"scan.mode": "from-snapshot", "scan.snapshot-id": "1"},
    )
    assert sorted(batches.all) == [(1, 1, "x"), (1, 3, "z"), (2, 2, "y")]


# Restarts


def cut_back(checkpoint: Path, batch: int) -> None:
    """What a checkpoint holds when the query is killed between the offset and the commit of that batch."""
    for folder, first in (("offsets", batch + 1), ("commits", batch)):
        for file in (checkpoint / folder).iterdir():
            name = file.name.removeprefix(".").removesuffix(".crc")
            if name.isdigit() and int(name) >= first:
                file.unlink()


def test_a_query_that_failed_goes_on_by_its_checkpoint_or_by_its_consumer(
    spark: SparkSession, source: wt.Table, tmp_path: Path
) -> None:
    options = {**STEPWISE, "consumer-id": "reader"}
    first = Batches(fail_at=3)
    query = start(spark, source, tmp_path / "cp", first, options)
    with pytest.raises(Exception, match="killed here"):
        query.awaitTermination()
    assert sorted(first.rows) == [0, 1, 2, 3]
    # Another checkpoint: the consumer knows of what was done with, but for the last such batch at most.
    progress = source.consumers()["reader"]
    assert progress in (6, 8)
    other = Batches()
    run(spark, source, tmp_path / "other", other, options)
    assert in_any_order(other.all) == emitted(source, progress - 1, 10)
    # The same checkpoint: the failed batch comes again, the same, and then what is left, whatever the consumer says.
    first.fail_at = None
    run(spark, source, tmp_path / "cp", first, options)
    assert sorted(first.rows) == [0, 1, 2, 3, 4]
    assert in_any_order(first.all) == emitted(source, 0, 10)


# Into other tables


def test_a_stream_from_table_to_table_is_exactly_once(
    spark: SparkSession, source: wt.Table, tmp_path: Path
) -> None:
    target = wt.Catalog(str(tmp_path / "wh")).create_table(
        "db.target", COLUMNS, primary_key=["k"], options={"bucket": "3"}
    )

    def copy() -> None:
        frame = spark.readStream.format("widetable").options(**STEPWISE).load(source.path)
        writer = frame.writeStream.format("widetable").option("path", target.path)
        writer.option("checkpointLocation", str(tmp_path / "cp")).trigger(
            availableNow=True
        ).start().awaitTermination()

    copy()
    assert rows_of(target) == rows_of(source)
    appends = [s.id for s in target.snapshots() if s.commit_kind == "APPEND"]
    assert len(appends) == 5
    cut_back(tmp_path / "cp", 4)
    source.write(pa.table({"k": [0, 1], "a": [-1, -1]}))
    copy()
    assert rows_of(target) == rows_of(source)
    assert len([s for s in target.snapshots() if s.commit_kind == "APPEND"]) == 6


# Limits


def test_a_batch_holds_no_more_than_asked_for(
    spark: SparkSession, source: wt.Table, tmp_path: Path
) -> None:
    batches = Batches()
    options = {**CHANGES, "read.stream.maxRowsPerTrigger": "15"}
    query = run(spark, source, tmp_path / "cp", batches, options)
    sizes = [len(rows) for rows in batches.rows.values()]
    files = {
        entry.file.row_count
        for snapshot in source.snapshots()
        for entry in source._committer.live_files.changelog_entries(snapshot)
    }
    assert len(sizes) > 5  # some snapshots are cut
    assert all(size <= 15 or size in files for size in sizes)
    assert query.lastProgress is not None
    assert query.lastProgress["numInputRows"] == sizes[-1]
    assert in_any_order(batches.all) == emitted(source, 0, 10)
    assert fold(batches.all) == rows_of(source)


def test_a_trigger_for_all_that_is_there_knows_no_limit_and_a_schema_names_the_columns(
    spark: SparkSession, source: wt.Table, tmp_path: Path
) -> None:
    batches = Batches()
    reader = spark.readStream.format("widetable").schema("_row_kind string, k long")
    frame = reader.options(**STEPWISE).load(source.path)
    writer = frame.writeStream.foreachBatch(batches).option("checkpointLocation", str(tmp_path))
    writer.trigger(once=True).start().awaitTermination()
    assert len(batches.rows) == 1
    assert in_any_order(batches.all) == in_any_order(
        (kind, k) for k, *_, kind in emitted(source, 0, 10)
    )


# A query that goes on


def eventually(query: StreamingQuery, holds: Callable[[], bool]) -> None:
    """Wait for what the query does; its error ends the wait."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not holds():
        assert query.exception() is None, query.exception()
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_an_empty_table_is_waited_for_and_followed(spark: SparkSession, tmp_path: Path) -> None:
    table = wt.Catalog(str(tmp_path / "wh")).create_table(
        "db.t", COLUMNS, primary_key=["k"], options=LOOKUP
    )
    batches = Batches()
    options = {"read.changelog": "true", "consumer-id": "c"}
    query = start(spark, table, tmp_path / "cp", batches, options, available_now=False)
    try:
        for number in range(3):
            table.write(pa.table({"k": [number, 9], "a": [number, number]}))
            rows = rows_of(table)
            eventually(query, lambda rows=rows: fold(batches.all) == rows)  # type: ignore[misc]
        # The batch before the last is done with, so expiry may take what it read.
        eventually(query, lambda: table.consumers() == {"c": 5})
    finally:
        query.stop()
    assert sorted(batches.rows) == [0, 1, 2]
    assert list(Path(table.path, "service").glob("widetable-read-lease-*")) == []


def test_the_watermark_of_writers_reaches_readers(spark: SparkSession, tmp_path: Path) -> None:
    schema = COLUMNS.append(pa.field("at", pa.timestamp("us")))
    table = wt.Catalog(str(tmp_path / "wh")).create_table("db.t", schema, primary_key=["k"])
    folder = tmp_path / "in"
    spark.sql(
        "SELECT 1L AS k, 1L AS a, TIMESTAMP_NTZ'2024-01-01 00:00:10' AS at "
        "UNION ALL SELECT 2L, 2L, TIMESTAMP_NTZ'2024-01-01 00:00:30'"
    ).write.parquet(str(folder))
    stream = spark.readStream.schema("k long, a long, at timestamp_ntz").parquet(str(folder))
    stream.writeStream.format("widetable").options(
        **{"path": table.path, "watermark-column": "at", "watermark-delay": "5 s"}
    ).option("checkpointLocation", str(tmp_path / "cp")).trigger(
        availableNow=True
    ).start().awaitTermination()
    millis = 1_704_067_225_000
    assert table.snapshots()[-1].watermark == millis
    query = run(spark, table, tmp_path / "cp2", Batches())
    assert query.lastProgress is not None
    (progress,) = query.lastProgress["sources"]
    assert f'"watermark":{millis}' in str(progress["endOffset"]).replace(" ", "").replace("'", '"')
    assert progress["endOffset"] == progress["latestOffset"]


# What cannot be


def test_what_has_expired_ends_the_query_with_what_to_do(
    spark: SparkSession, tmp_path: Path
) -> None:
    table = wt.Catalog(str(tmp_path / "wh")).create_table(
        "db.t",
        COLUMNS,
        primary_key=["k"],
        options={"snapshot.num-retained.min": "1", "snapshot.time-retained": "1 ms"},
    )
    for number in range(3):
        table.write(pa.table({"k": [number], "a": [number], "b": ["x"]}))
    time.sleep(0.005)
    table.expire_snapshots()
    query = start(spark, table, tmp_path / "cp", Batches(), {**CHANGES, "scan.snapshot-id": "2"})
    with pytest.raises(Exception, match=r"snapshot 2 of .*expired(.|\n)*3 to 3(.|\n)*consumer-id"):
        query.awaitTermination()


def test_options_of_another_use_are_refused(spark: SparkSession, source: wt.Table) -> None:
    with pytest.raises(Exception, match=r"read\.changelog"):
        spark.read.format("widetable").option("read.changelog", "true").load(source.path).collect()
    frame = spark.createDataFrame([(1, 1)], "k long, a long").write.format("widetable")
    with pytest.raises(Exception, match="'consumer-id'"):
        frame.mode("append").option("consumer-id", "c").save(source.path)


def test_a_table_with_a_column_of_that_name_has_no_changelog_in_spark(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Another client made it: here the name is refused."""
    table = wt.Catalog(str(tmp_path / "wh")).create_table(
        "db.t", COLUMNS.append(pa.field("kinds", pa.string())), primary_key=["k"]
    )
    schema = Path(table.path, "schema/schema-0")
    schema.write_text(schema.read_text().replace('"kinds"', '"_row_kind"'))
    with pytest.raises(Exception, match="_row_kind"):
        spark.readStream.format("widetable").option("read.changelog", "true").load(table.path)


def test_a_checkpoint_of_a_table_that_was_made_again_ends_the_query(
    spark: SparkSession, tmp_path: Path, source: wt.Table
) -> None:
    batches, checkpoint = Batches(), tmp_path / "cp"
    run(spark, source, checkpoint, batches)
    read = dict(batches.rows)
    catalog = wt.Catalog(str(tmp_path / "wh"))
    catalog.drop_table("db.source")
    again = catalog.create_table("db.source", COLUMNS, primary_key=["k"], options=LOOKUP)
    for commit in range(6):  # more snapshots than the query had read
        again.write(pa.table({"k": [commit], "a": [100]}))
    with pytest.raises(
        Exception,
        match=r"dropped and made again.*Start again from the beginning, with a new checkpoint",
    ):
        run(spark, source, checkpoint, batches)
    assert batches.rows == read
    fresh = Batches()
    run(spark, again, tmp_path / "new", fresh)
    assert sorted(row[0] for row in fresh.all) == list(range(6))


@pytest.mark.parametrize("is_running", [False, True], ids=["started again", "running"])
def test_a_rollback_ends_the_query_with_a_way_on(
    spark: SparkSession, tmp_path: Path, source: wt.Table, is_running: bool
) -> None:
    """What was committed before is given out; what went is in no changes."""
    batches, checkpoint = Batches(), tmp_path / "cp"
    query = start(spark, source, checkpoint, batches, STEPWISE, available_now=not is_running)
    if is_running:
        wait_for(lambda: len(batches.all) == len(emitted(source, 0, 10)))
    else:
        query.awaitTermination()
    done = source.rollback(8)
    assert done.snapshot_id == 11
    message = r"stream at snapshot 11 of (.|\n)*rollback to snapshot 8(.|\n)*new checkpoint(.|\n)*latest-full(.|\n)*12"
    if not is_running:
        query = start(spark, source, checkpoint, batches, STEPWISE)
    with pytest.raises(StreamingQueryException, match=message):
        query.awaitTermination(120)
    assert in_any_order(batches.all) == emitted(source, 0, 10)
    fresh = Batches()
    run(spark, source, tmp_path / "new", fresh, {"read.changelog": "true"})
    assert fold(fresh.all) == rows_of(source)
