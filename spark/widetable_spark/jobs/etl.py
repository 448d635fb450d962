"""`etl`: a job of Spark that makes tables under barriers from others, or from data of another system.

    etl = widetable_spark.etl(spark, warehouse, job="amounts")
    changes = etl.changes("shop.shopping")
    query = (changes.groupBy("user").agg(widetable_spark.signed_sum("amount").alias("amount"))
             .writeStream.outputMode("update").foreachBatch(etl.sink("shop.amounts")).option(..).start())

One micro-batch of a derived job holds what its sources got between two barriers, the same two for all of them; its
rows belong to the later barrier in the tables that it writes. A job without `changes` is a root: its rows belong to the
barrier that the clock is in. Rules R4 to R10 of docs/consistency.md; `aligned_source` reads,
`widetable.operations.barriers.job_writer` commits.

    etl(..)          the name; no table is looked at
    .changes(..)     each source, before the sink: a job that has none when the sink is made is a root
    .sink(..)        registers the job, for ten minutes
    .start()         Spark asks the sources for offsets (`barrier_streams`), which need the registration
    first batch      the job runs from here on (`etl_sink`): its tables wait for it, its process renews it

Two sources that Spark shows as one DataFrame (a union, a join) are asked one by one and end at the same barrier. The
job notes only the sources that `changes` was called for: a stream of another kind among them is detected by its offsets
in the first batch, and refused (`query_offsets`).

A job that ends for good (`drop_when_stopped`): tables wait for a job whose query has ended, as the query may be started
again. With the option the job is dropped (`Topology.drop`) when its query is stopped or, with the trigger availableNow,
has done all: tables no longer wait for it, and it may be registered again. A job is not dropped if an exception ended
it, if it was registered again meanwhile, or if some of its tables lack a batch that others have. When a job cannot be
dropped, the log says why and what to do. The drop happens a moment after `awaitTermination` and `stop`: a driver that
ends there calls `spark.stop()` first, which waits for it. A query without a batch in this run is not known to be the
job's: see `EtlSink.follow`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sf

from widetable import Catalog, InvalidError, UnsupportedError
from widetable.connector import CHANGE_FORMS, ROW_KIND_COLUMN, arguments, interval_of, job_name
from widetable_spark.frames.declared_options import BARRIER_JOB, PATH, READ_CHANGELOG
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
    """Open a job of Spark that reads and writes tables under barriers.

    Parameters
    ----------
    spark : SparkSession
        The session of a driver.
    warehouse : str or os.PathLike
        The path or URL of the warehouse.
    job : str
        The name of the job, the same in each life of its program.
    drop_when_stopped : bool, default False
        Whether the job ends for good, as a backfill does. It is then dropped when its query is stopped or, with the
        trigger availableNow, has done all. False: its tables wait for it.
    storage_options : dict of str to str, default None
        Options of an object store, as in `widetable.Catalog`. None: the environment says them.

    Returns
    -------
    Etl
        The job. No table is read yet.

    Raises
    ------
    UnsupportedError
        The session is one of Spark Connect.
    InvalidError
        An argument has a wrong type, or a job cannot have that name.

    Examples
    --------
    >>> import widetable_spark
    >>> job = widetable_spark.etl(spark, "warehouse", "amounts")
    """
    arguments.flag(drop_when_stopped, "drop_when_stopped")
    _check_driver(spark)
    return Etl(
        spark, warehouse, job_name(job, "job"), storage_options, drop_when_stopped=drop_when_stopped
    )


def _check_driver(spark: SparkSession) -> None:
    """Raise UnsupportedError for a session of Spark Connect."""
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


def _source_name(table: str, number: int) -> str:
    """Name a source by ASCII letters, digits and underscores.

    Two sources differ by their numbers, which count up from 0: other letters are replaced, so two tables may look
    alike.
    """
    plain = "".join(letter if letter.isascii() and letter.isalnum() else "_" for letter in table)
    return f"{plain}_{number}"


class Etl:
    """A job of one streaming query.

    `etl` makes it. Call `changes` for each source, then `sink`, once. It is not thread-safe.

    Examples
    --------
    The examples of the methods go on from here.

    >>> import widetable as wt
    >>> import widetable_spark
    >>> options = {"widetable.barrier-interval": "1 s"}
    >>> columns = {"user": "BIGINT", "amount": "BIGINT"}
    >>> catalog = wt.Catalog("warehouse")
    >>> for name in ("shop.sales", "shop.amounts"):
    ...     _ = catalog.create_table(name, columns, primary_key=["user"], options=options)
    >>> sales = catalog.writer("shop.sales", "crm")
    >>> sales.write([{"user": 1, "amount": 5}], complete=True).rows
    1
    >>> etl = widetable_spark.etl(spark, "warehouse", "amounts")
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
        """Stream the changes of a table under barriers, in step with the other sources of the job.

        The stream begins with the rows of the table. Its columns stay those that the table has now. With the changelog
        producer `lookup` an updated key comes as its -U and its +U, so `signed_sum` and `signed_count` keep correct
        aggregates; without a producer records come as they were written.

        Parameters
        ----------
        table : str
            The table, as `db.name`.
        columns : list of str, default None
            The columns, in the order wanted. None: all.

        Returns
        -------
        DataFrame
            A streaming DataFrame of the columns and `_row_kind` (+I, -U, +U, -D), which comes last.

        Raises
        ------
        InvalidError
            The table is under no barriers.
        NotFoundError
            There is no such table or column.

        Examples
        --------
        >>> etl.changes("shop.sales").columns
        ['user', 'amount', '_row_kind']
        """
        opened = self._catalog.table(table)
        schema = opened.schema
        interval_of(schema, opened.path)
        chosen = schema.chosen(None if columns is None else arguments.names(columns, "columns"))
        shape = spark_schema(CHANGE_FORMS["kind"].schema(schema, chosen))
        reader = self._spark.readStream.format("widetable")
        if self._spark.conf.get(_SOURCE_EVOLUTION, "false") == "true":
            # Spark then requires a name of each source, which only the code that loads it can give.
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
        """Register the job, and return the function that commits its batches.

        Call it after `changes`, for one query alone. Each table gets a batch once, however often Spark runs it.

        Parameters
        ----------
        tables : str or dict of str to function
            The table `db.name`, or several, each with the function that makes its rows from those of the batch (None:
            they are these). The first table is committed first.
        columns : list of str, or dict of str to list of str, default None
            The columns that the job writes besides the key, in one table or by table. None: all.
        row_columns : str, or dict of str to str, default None
            The ARRAY<STRING> column that names the columns that each row carries, in all tables or by table; the others
            of a row are not written, whatever they hold (option `row-columns` in docs/spark-options.md). None: each row
            carries all columns.

        Returns
        -------
        EtlSink
            The function for `foreachBatch`. A column `_row_kind` in the rows gives their kinds.

        Raises
        ------
        InvalidError
            Tables are under different barriers or none, a setting of Spark makes batches that belong to no barrier, or
            the registration of the job is invalid.
        ConflictError
            Another job writes the same columns, or the jobs would form a cycle.
        NotFoundError
            There is no such table.

        Examples
        --------
        >>> spark.conf.set("spark.sql.streaming.noDataMicroBatches.enabled", "false")
        >>> sink = etl.sink("shop.amounts")
        >>> "amounts" in {job.name for job in catalog.topology().jobs()}
        True
        """
        made = {tables: None} if isinstance(tables, str) else arguments.mapping(tables, "tables")
        for rows in made.values():
            if rows is not None:
                arguments.called(rows, "tables")
        return self._registered(made, _owned(made, columns), _naming_columns(made, row_columns))

    def _registered(
        self,
        made: Mapping[str, Rows | None],
        sinks: Mapping[str, tuple[str, ...] | None],
        naming: Mapping[str, str | None],
    ) -> EtlSink:
        """Register the job, and return its sink. Each mapping has the tables in their order."""
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
    """Return the columns of each table; None: all.

    One list of columns applies to each of the tables; a mapping may leave tables out, of which the job writes all
    columns.
    """
    by_table = _by_table(made, columns, "columns")
    return {
        name: None if by_table.get(name) is None else arguments.names(by_table[name], "columns")
        for name in made
    }


def _naming_columns(
    made: Mapping[str, object], row_columns: str | Mapping[str, str | None] | None
) -> dict[str, str | None]:
    """Return the column of each table's rows that names what a row carries; None: each row carries all."""
    by_table = _by_table(made, row_columns, "row_columns")
    return {
        name: None if by_table.get(name) is None else arguments.text(by_table[name], "row_columns")
        for name in made
    }


def _by_table(made: Mapping[str, object], given: Any, argument: str) -> Mapping[str, Any]:
    """Return an argument by table, whether it was given by table or once for all of them."""
    by_table = given if isinstance(given, Mapping) else dict.fromkeys(made, given)
    for name in by_table:
        if name not in made:
            raise arguments.refused(name, argument, f"some of the sink's tables: {', '.join(made)}")
    return by_table


def signed_sum(column: Column | str) -> Column:
    """Sum a column over changes: +I and +U add their values, -U and -D subtract theirs.

    Nulls count nothing. A sum whose rows are all deleted is 0; a sum of nulls alone is null, as in Spark. The smallest
    value of an integer type has no negative: to subtract it is an ArithmeticException or SparkRuntimeException of
    Spark, so cast such a column to a wider type.

        +I 5, -U 5, +U 7, -D 7      5 - 5 + 7 - 7 = 0
        +I null, +I 3               3

    Parameters
    ----------
    column : Column or str
        A name, or an expression of the changes' columns. The DataFrame that is aggregated must still have `_row_kind`.

    Returns
    -------
    Column
        The aggregate, for `GroupedData.agg`.

    Raises
    ------
    InvalidError
        The argument is neither.

    Examples
    --------
    >>> import widetable_spark
    >>> changes = spark.createDataFrame([("-U", 5), ("+U", 7)], "_row_kind STRING, amount BIGINT")
    >>> changes.agg(widetable_spark.signed_sum("amount").alias("amount")).first().amount
    2
    """
    value = (
        sf.col(column) if isinstance(column, str) else arguments.instance(column, Column, "column")
    )
    # The smallest value is its own negative, as 0 is; without spark.sql.ansi.enabled Spark would use it.
    has_negative = (value != -value) | (value == 0) | sf.isnan(value)
    overflow = sf.raise_error(
        sf.lit("signed_sum: the smallest value has no negative; cast the column")
    )
    return sf.sum(sf.when(_is_new(), value).when(~has_negative, overflow).otherwise(-value))


def signed_count() -> Column:
    """Count the rows that changes leave: +I and +U count 1, -U and -D count -1.

    A key whose rows are all deleted comes out as a row with 0, not as a delete: an aggregate of Spark has none.

    Returns
    -------
    Column
        The aggregate, for `GroupedData.agg`. The DataFrame must still have `_row_kind`.

    Examples
    --------
    >>> import widetable_spark
    >>> changes = spark.createDataFrame([("+I", 5), ("-D", 5)], "_row_kind STRING, amount BIGINT")
    >>> changes.agg(widetable_spark.signed_count().alias("rows")).first().rows
    0
    """
    return sf.sum(sf.when(_is_new(), sf.lit(1)).otherwise(sf.lit(-1)))


def _is_new() -> Any:
    return sf.col(ROW_KIND_COLUMN).startswith("+")
