"""`etl`: a job of Spark that makes tables under barriers of others, or of what comes from outside.

    etl = widetable_spark.etl(spark, warehouse, job="amounts")
    changes = etl.changes("shop.shopping")
    query = (changes.groupBy("user").agg(widetable_spark.signed_sum("amount").alias("amount"))
             .writeStream.outputMode("update").foreachBatch(etl.sink("shop.amounts")).option(..).start())

One micro-batch of a derived job is what came from one barrier of its sources to another, the same for all of them; its
rows belong to that barrier in the tables that it writes. A job without `changes` is a root: its rows belong to the
barrier that the clock is in. Rules R4 to R10 of docs/consistency.md; `aligned_source` reads,
`widetable.operations.barriers.job_writer` commits.

    etl(..)          the name; no table is looked at
    .changes(..)     each source, before the sink: what has none when the sink is made is a root
    .sink(..)        registers the job, for ten minutes
    .start()         Spark asks the sources for offsets (`barrier_position`), who need the registration
    first batch      the job runs from here on (`etl_sink`): its tables wait for it, its process renews it

Two sources that Spark shows as one DataFrame (a union, a join) are asked one by one and end at
the same barrier. What is noted here of sources is only what `changes` was called for: a stream
of another kind among them is found by its offsets in the first batch, and refused
(`query_offsets`).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sf

from widetable import Catalog, InvalidError, UnsupportedError
from widetable.connector import (
    KIND,
    ROW_KIND_COLUMN,
    called,
    change_schema,
    flag,
    instance,
    interval_of,
    job_name,
    mapping,
    names,
    refused,
    schema_of_form,
    text,
)
from widetable_spark.frames.source_options import BARRIER_JOB, PATH, READ_CHANGELOG
from widetable_spark.frames.spark_types import spark_schema
from widetable_spark.jobs.etl_job import EtlJob
from widetable_spark.jobs.etl_sink import EtlSink, SinkTable
from widetable_spark.startup.spark_session import session_of

_NO_DATA: Final = "spark.sql.streaming.noDataMicroBatches.enabled"
Rows = Callable[[DataFrame], DataFrame]

_SOURCE_EVOLUTION: Final = "spark.sql.streaming.queryEvolution.enableSourceEvolution"


def etl(
    spark: SparkSession,
    warehouse: str | os.PathLike[str],
    job: str,
    *,
    drop_when_stopped: bool = False,
    storage_options: Mapping[str, str] | None = None,
) -> Etl:
    """A job of that name; the name stays the same in each life of its program. storage_options: of an object store, as
    in `widetable.Catalog`. Raises UnsupportedError for Spark Connect.

    drop_when_stopped: of a job that ends for good, such as a backfill. Its tables wait for a job whose query has ended,
    as that may come back. With it the job is dropped (`Topology.drop`) when its query is stopped or, with the trigger
    availableNow, has done all: tables wait for it no more, and it may be registered again. One that an exception
    ended, that was registered anew meanwhile, or some of whose tables lack a batch that others have stays. Why one
    could not be dropped is logged, with what to do.

    It is done a moment behind `awaitTermination` and `stop`: a driver that ends there calls `spark.stop()` first,
    which waits for it. A query without a batch in this run is not known to be the job's: see `EtlSink.follow`.
    """
    flag(drop_when_stopped, "drop_when_stopped")
    session_of(spark)
    try:
        spark.sparkContext  # noqa: B018
    except PySparkException as error:
        raise UnsupportedError(
            "Spark session",
            found="a session of Spark Connect, which does not show what a batch is made of",
            expected="a session of the driver",
            action="Run the job in the driver.",
        ) from error
    return Etl(
        spark, warehouse, job_name(job, "job"), storage_options, drop_when_stopped=drop_when_stopped
    )


def _source_name(table: str, number: int) -> str:
    """Name a source by ASCII letters, digits and underscores. Two sources differ by their numbers, which count up from
    0: two tables may be the same when other letters are left out.
    """
    plain = "".join(letter if letter.isascii() and letter.isalnum() else "_" for letter in table)
    return f"{plain}_{number}"


class Etl:
    """Made by `etl`: one streaming query. `changes` for each source, then `sink`, once. Not
    thread-safe.
    """

    def __init__(
        self,
        spark: SparkSession,
        warehouse: str | os.PathLike[str],
        job: str,
        storage_options: Mapping[str, str] | None,
        *,
        drop_when_stopped: bool,
    ) -> None:
        self._spark = spark
        self._drop_when_stopped = drop_when_stopped
        self._catalog = Catalog(warehouse, storage_options=storage_options)
        self._storage = dict(storage_options or {})
        self._job = job
        self._sources: list[str] = []

    def changes(self, table: str, columns: Sequence[str] | None = None) -> DataFrame:
        """The changes of a table `db.name` under barriers, as a stream, in step with those of the job's other sources;
        at first its rows. columns: None for all. `_row_kind` (+I, -U, +U, -D) comes last.

        The columns are those that the table has now, and stay for the query. With the producer
        `lookup` a key that changes comes as its -U and its +U, so `signed_sum` and
        `signed_count` keep sums over changes right; without a producer records come as they were
        written. Raises InvalidError for a table that is under no barriers, NotFoundError for
        names that are not there.
        """
        opened = self._catalog.table(table)
        schema = opened.schema
        interval_of(schema, opened.path)
        chosen = schema.chosen(None if columns is None else names(columns, "columns"))
        shape = spark_schema(schema_of_form(change_schema(schema, chosen), KIND))
        reader = self._spark.readStream.format("widetable")
        if self._spark.conf.get(_SOURCE_EVOLUTION, "false") == "true":
            # Spark then wants a name of each source, which only whoever loads it can give.
            reader = reader.name(_source_name(table, len(self._sources)))
        self._sources.append(table)
        return (
            reader.schema(shape)
            .options(**self._storage)
            .option(PATH, opened.path)
            .option(READ_CHANGELOG, "true")
            .option(BARRIER_JOB, self._job)
            .load()
        )

    def sink(
        self,
        tables: str | Mapping[str, Rows | None],
        columns: Sequence[str] | Mapping[str, Sequence[str] | None] | None = None,
        *,
        row_columns: str | Mapping[str, str | None] | None = None,
    ) -> EtlSink:
        """What `foreachBatch` of the job's query takes. tables: `db.name`, or several, each with what makes its rows of
        those of the batch (None: they are these); the first is committed first. columns: that the job writes besides
        the key, in one table, or by table; None: all of them. row_columns: the ARRAY<STRING> column of the rows with
        the names of the columns that each row carries, of all tables, or by table; the others of a row are not
        written, whatever they hold (option `row-columns` in docs/spark-options.md).

        The job is registered with its sources and sinks: ConflictError where another one is in the way. A batch is
        committed once in each table, however often Spark runs it. A column `_row_kind` in the rows says what they are.

        Call it after `changes`, for one query alone. Raises InvalidError for tables under
        different barriers or none, for a setting of Spark by which batches belong to no barrier,
        and what `Topology.register` raises.
        """
        made = {tables: None} if isinstance(tables, str) else mapping(tables, "tables")
        for rows in made.values():
            if rows is not None:
                called(rows, "tables")
        sinks, naming = _owned(made, columns), _naming(made, row_columns)
        if self._sources and self._spark.conf.get(_NO_DATA) != "false":
            raise InvalidError(
                f"setting {_NO_DATA}",
                found="true: Spark runs batches that belong to no barrier",
                expected="false",
                action=f"spark.conf.set({_NO_DATA!r}, 'false')",
            )
        job = EtlJob(
            self._catalog.topology(),
            self._job,
            list(dict.fromkeys(self._sources)),
            sinks,
            drop_when_stopped=self._drop_when_stopped,
        )
        job.declare()
        parts = [
            SinkTable(self._catalog.table(name), rows, sinks[name], naming[name])
            for name, rows in made.items()
        ]
        return EtlSink(self._spark, job, parts, self._storage)


def _owned(
    made: Mapping[str, object], columns: Sequence[str] | Mapping[str, Sequence[str] | None] | None
) -> dict[str, tuple[str, ...] | None]:
    """The columns of each table; None: all. One list of columns counts for each of the tables; a
    mapping may leave tables out, of which the job writes all columns then.
    """
    owned = _by_table(made, columns, "columns")
    return {
        name: None if owned.get(name) is None else names(owned[name], "columns") for name in made
    }


def _naming(
    made: Mapping[str, object], row_columns: str | Mapping[str, str | None] | None
) -> dict[str, str | None]:
    """The column of each table's rows that names what a row carries; None: each row carries all."""
    found = _by_table(made, row_columns, "row_columns")
    return {
        name: None if found.get(name) is None else text(found[name], "row_columns") for name in made
    }


def _by_table(made: Mapping[str, object], given: Any, argument: str) -> Mapping[str, Any]:
    """What is said by table, or once for all of them."""
    said = given if isinstance(given, Mapping) else dict.fromkeys(made, given)
    for name in said:
        if name not in made:
            raise refused(name, argument, f"some of the sink's tables: {', '.join(made)}")
    return said


def signed_sum(column: Column | str) -> Column:
    """The sum of a column over changes: what is new counts, what is old is taken off. Nulls count nothing; a sum of
    which all is gone is 0. The smallest value of an integer type has no negative: Spark's ArithmeticException or
    SparkRuntimeException when it is taken off; cast such a column to a wider type.

        +I 5, -U 5, +U 7, -D 7      5 - 5 + 7 - 7 = 0
        +I null, +I 3               3

    column: a name, or an expression of the changes' columns. `_row_kind` must still be among the
    columns of the DataFrame that is aggregated. A sum of nulls alone is null, as Spark's.
    """
    value = sf.col(column) if isinstance(column, str) else instance(column, Column, "column")
    # Only there a number that is not 0 is its own negative; without spark.sql.ansi.enabled Spark goes on with it.
    has_negative = (value != -value) | (value == 0) | sf.isnan(value)
    told = sf.raise_error(sf.lit("signed_sum: the smallest value has no negative; cast the column"))
    return sf.sum(sf.when(_is_new(), value).when(~has_negative, told).otherwise(-value))


def signed_count() -> Column:
    """How many rows there are, of changes: 0 for a key that is gone. Such a key comes out as a
    row with 0, not as a delete: an aggregate of Spark has none.
    """
    return sf.sum(sf.when(_is_new(), sf.lit(1)).otherwise(sf.lit(-1)))


def _is_new() -> Any:
    return sf.col(ROW_KIND_COLUMN).startswith("+")
