"""Lookup joins in Spark whose rows wait for a match: acceptance case 9, and plans that are refused."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

import widetable as wt
from tests.spark.joining.joined_query import Query, Rows, drop, put
from widetable_spark import lookup_join

CASE_9: list[Rows] = [
    [(32, 1, "Ann")],
    [],
    [(30, 5, "Eve"), (31, 6, None)],
    [(40, 2, "Bob")],
]


def retried(dim: wt.Table, path: Path, how: str = "left", **named: Any) -> Callable[..., DataFrame]:
    waits: dict[str, Any] = {"retry_batches": 2, "pending": path, "pending_key": "id", "name": "n"}
    return lambda left: lookup_join(left, dim, ["k"], ["name"], how=how, **(waits | named))


def waiting(path: Path) -> int:
    return int(wt.Table.open(path).scan(["id"]).to_arrow().num_rows)


@pytest.mark.parametrize(
    ("how", "fails"), [("left", False), ("inner", False), ("left", True), ("inner", True)]
)
def test_case_9_rows_wait_for_two_batches(
    spark: SparkSession, dim: wt.Table, tmp_path: Path, how: str, fails: bool
) -> None:
    """fails: each batch is killed when the sink has its rows, the dim moves on, and the batch comes again in other
    partitions; and the sink asks for the rows twice.
    """
    late = tmp_path / "wh/db.db/late"
    partitions = [1]
    joins = retried(dim, late, how)

    def join(left: DataFrame) -> DataFrame:
        return joins(left.repartition(partitions[0], "id") if fails else left)

    query = Query(spark, tmp_path, join)
    failed: list[int] = []

    def fail(batch_id: int) -> None:
        if fails and batch_id not in failed:
            failed.append(batch_id)
            raise OSError("the sink is full")

    query.fails = fail
    first: list[tuple[int, int | None]] = [(30, 5), (31, 6), (32, 1)]
    batches: list[list[tuple[int, int | None]]] = [first, [(39, None)], [(38, None)], [(40, 2)]]
    for number, rows in enumerate(batches):
        if number == 2:
            put(dim, (5, "Eve", "Pisa"))
        drop(query.source, number, *rows)
        if fails:
            with pytest.raises(StreamingQueryException, match="the sink is full"):
                query.run()
            if number == 2:
                put(dim, (6, "Kim", "Nice"))
            partitions[0] += 1
        query.run()
    nulls = {1: (39, None, None), 2: (38, None, None)}
    for number, expected in enumerate(CASE_9):
        known = [row for row in expected if how == "left" or row[2]]
        extra = [nulls[number]] if how == "left" and number in nulls else []
        runs = [rows for batch_id, rows in query.got if batch_id == number]
        assert runs == [sorted(known + extra)] * (2 if fails else 1)
    assert waiting(late) == 0


def test_rows_are_tried_again_where_partition_0_is_empty_and_wait_where_no_row_comes(
    spark: SparkSession, dim: wt.Table, tmp_path: Path
) -> None:
    """A batch without a row behind the shuffle has no task of the join; in Spark 4.0 it has, and they come with it."""
    number = sf.expr("pmod(hash(id), 3)")
    later = spark.range(50, 99).where(number == 1).first()
    assert later is not None
    late = tmp_path / "wh/db.db/late"
    joins = retried(dim, late)
    query = Query(spark, tmp_path, lambda left: joins(left.where("id > 20").repartition(3, "id")))
    drop(query.source, 0, (30, 5))
    query.run()
    put(dim, (5, "Eve", "Pisa"))
    drop(query.source, 1, (10, 1))
    query.run()
    drop(query.source, 2, (later.id, 1))
    query.run()
    waited: Rows = [(30, 5, "Eve")]
    first, then = (waited, []) if spark.version.startswith("4.0") else ([], waited)
    assert query.got == [(0, []), (1, first), (2, [*then, (later.id, 1, "Ann")])]


def test_a_sink_may_ask_for_the_rows_of_a_batch_more_than_once(
    spark: SparkSession, dim: wt.Table, tmp_path: Path
) -> None:
    late = tmp_path / "wh/db.db/late"
    query = Query(spark, tmp_path, retried(dim, late))
    counts: list[tuple[int, int]] = []

    def sink(rows: DataFrame, batch_id: int) -> None:
        counts.append((rows.count(), len(rows.repartition(2).collect())))

    query._sink = sink  # type: ignore[method-assign]
    drop(query.source, 0, (30, 5), (32, 1))
    query.run()
    put(dim, (5, "Eve", "Pisa"))
    drop(query.source, 1, (33, 1))
    query.run()
    assert counts == [(1, 1), (2, 2)]


@pytest.mark.parametrize("plan", ["union", "union of itself", "coalesce", "coalesce of empty ones"])
def test_plans_that_put_partitions_together_are_refused_but_behind_a_shuffle(
    spark: SparkSession, dim: wt.Table, tmp_path: Path, plan: str
) -> None:
    late = tmp_path / "wh/db.db/late"
    joins = retried(dim, late)

    def join(left: DataFrame, *, shuffled: bool) -> DataFrame:
        wide = left.repartition(3)
        wide = wide.where("id = 32") if plan == "coalesce of empty ones" else wide
        joined = joins(wide)
        joined = joined.repartition(2) if shuffled else joined
        if plan.startswith("coalesce"):
            return joined.coalesce(1)
        other = left.select("id", "k", sf.lit("x").alias("name"))
        return (joined if plan == "union of itself" else other).union(joined)

    query = Query(spark, tmp_path, lambda left: join(left, shuffled=False))
    drop(query.source, 0, (32, 1), (33, 1), (34, 1), (35, 1))
    with pytest.raises(StreamingQueryException, match=r"with retry_batches.*repartition"):
        query.run()
    query = Query(spark, tmp_path, lambda left: join(left, shuffled=True))
    query.checkpoint = tmp_path / "another"
    query.run()
    assert {row[0] for _, rows in query.got for row in rows} >= {32}


def test_what_cannot_be_tried_again_is_refused_at_the_call(
    spark: SparkSession, dim: wt.Table, tmp_path: Path
) -> None:
    late = tmp_path / "wh/db.db/late"
    left = spark.createDataFrame([(1, 1)], "id long, k long")
    with pytest.raises(wt.InvalidError, match=r"retry_batches.*no stream"):
        retried(dim, late)(left)
    with pytest.raises(wt.InvalidError, match=r"pending: found no value"):
        lookup_join(left, dim, ["k"], retry_batches=1)
    assert not late.exists()
    stream = spark.readStream.schema("id long, k long").parquet(str(tmp_path))
    for named in ({"pending_key": "x"}, {"pending": None}, {"retry_batches": 0}):
        with pytest.raises(wt.WidetableError, match=next(iter(named)) + "|'x'"):
            retried(dim, late, **named)(stream)
    with pytest.raises(wt.InvalidError, match="name: found none, of a join whose rows wait"):
        retried(dim, late, name=None)(stream)
    assert not late.exists()
    kinds = stream.withColumn("_row_kind", sf.lit("+I"))
    with pytest.raises(wt.InvalidError, match="retractions"):
        retried(dim, late, retractions="key-only")(kinds)


@pytest.mark.parametrize("paths", [("a", "a"), ("a", "b")], ids=["one table", "two tables"])
def test_two_branches_of_a_stream_give_out_what_waited_once(
    spark: SparkSession, dim: wt.Table, tmp_path: Path, paths: tuple[str, str]
) -> None:
    """Each waits under a name of its own; of one name each gave out the rows of both."""

    def join(left: DataFrame) -> DataFrame:
        even, odd = (
            retried(dim, tmp_path / path, name=f"{remainder}")(
                left.where(sf.col("id") % 2 == remainder)
            ).repartition(2)
            for remainder, path in enumerate(paths)
        )
        return even.union(odd)

    query = Query(spark, tmp_path, join)
    drop(query.source, 0, (30, 5), (31, 7), (32, 1))
    query.run()
    put(dim, (5, "Eve", "Pisa"))
    for number in (1, 2):
        drop(query.source, number, (32 + 2 * number, 1), (33 + 2 * number, 1))
        query.run()
    ids = [row[0] for _, rows in query.got for row in rows]
    assert sorted(ids) == [30, 31, 32, 34, 35, 36, 37]
