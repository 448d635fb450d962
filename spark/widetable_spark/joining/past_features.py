"""`point_in_time`: the rows of a DataFrame, each with the features of its key as they were known at its time.

    driver        a plan of the read (`PastTasks`), pinned to the snapshots that are there now
    first tasks   each row gets the number of the task that answers it: the bucket of its key
    shuffle       once, of the rows alone; the table's history is not shuffled
    then          one task per bucket: `PastTasks.answered`

All tasks read what the table had when `point_in_time` was called: commits made since change no row of the result,
however often Spark runs a task. Leases of the driver keep it for an hour, where the storage takes them; a task that
begins later may fail with NotFoundError. Without a history they keep all snapshots of the table: a driver that makes
such a call every hour keeps them from expiry as long as it lives.

Spark 4.0 may give the rows of several buckets to one task. Raises InvalidError and NotFoundError in the driver, which
checks all arguments but the rows; in tasks what `Table.point_in_time` raises for rows. A number of a row in an error
counts within the rows that the task had at once, as a DataFrame has no order.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import timedelta
from typing import Final

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.types import IntegerType, StructField, StructType

from widetable import InvalidError, Table
from widetable.connector import PastArguments, PastTasks, arguments, plan_point_in_time
from widetable_spark.frames.exact_names import column_of, plainly_named
from widetable_spark.frames.spark_types import (
    arrow_schema,
    check_collations,
    checked_arrow_schema,
    spark_batches,
    spark_schema,
    with_nullable_voids,
)
from widetable_spark.startup.spark_session import session_of
from widetable_spark.startup.worker_heap import settle

_TASK: Final = "task"
_Function = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]


def point_in_time(
    df: DataFrame,
    path_or_table: Table | str | os.PathLike[str],
    at: str = "event_timestamp",
    columns: Sequence[str] | None = None,
    *,
    on: Sequence[str] | Mapping[str, str] | None = None,
    basis: str = "known",
    ttl: timedelta | str | int | None = None,
    event_times: Sequence[str] | Mapping[str, str | None] | None = None,
    prefix: str = "",
    as_known: bool = False,
) -> DataFrame:
    """Add to each row of a DataFrame the features of its key at its time, and nothing that came later.

    Parameters
    ----------
    df : DataFrame
        Rows with the primary key and a time, not streaming; other columns, such as labels, are kept.
    path_or_table : Table, str or os.PathLike
        The table of the features, or its path or URL. Tasks get the options that it was opened with.
    at : str, default "event_timestamp"
        The column of times: TIMESTAMP, TIMESTAMP_NTZ, which is in UTC, or DATE.
    columns, on, basis, ttl, event_times, prefix, as_known
        As in `Table.point_in_time`.

    Returns
    -------
    DataFrame
        One row per row of df, in no order: df's columns, then the features, which may be null. The metadata of each
        feature has what that of `Table.point_in_time` has.

    Raises
    ------
    InvalidError
        An argument does not fit, or df is streaming; in a task: a time is null.
    NotFoundError
        There is no such table or column; in a task: a time is before the oldest version that was kept.
    UnsupportedError
        A key has a collation, or a column has a type that Spark does not pass to Python.

    Examples
    --------
    >>> users = wt.Catalog("warehouse").create_table("shop.users", {"id": "INT", "city": "STRING"}, primary_key=["id"])
    >>> users.write([{"id": 1, "city": "Oslo"}]).snapshot_id
    1
    >>> labels = spark.sql("SELECT 1 AS id, DATE'2100-01-01' AS at UNION ALL SELECT 1, DATE'2020-01-01'")
    >>> sorted(row.city or "" for row in widetable_spark.point_in_time(labels, users, "at").collect())
    ['', 'Oslo']
    """
    given = PastArguments(at, columns, on, basis, ttl, event_times, prefix, as_known)
    return _with_features(df, path_or_table, given)


def _with_features(
    df: DataFrame, path_or_table: Table | str | os.PathLike[str], given: PastArguments
) -> DataFrame:
    """Check the arguments in the driver, and return the DataFrame with the features."""
    left = checked_rows(df, "point_in_time", "lookup_join for a stream")
    table = opened(path_or_table)
    return mapped(df, plan_point_in_time(left, table, given, name_rule(df), task_count(df)))


def opened(path_or_table: Table | str | os.PathLike[str]) -> Table:
    """Return the table itself, or that of a path."""
    return path_or_table if isinstance(path_or_table, Table) else Table.open(path_or_table)


def checked_rows(df: DataFrame, call: str, instead: str) -> pa.Schema:
    """Return the columns of a DataFrame that is not streaming. call, instead: for the error of a stream."""
    if not isinstance(df, DataFrame):
        raise arguments.refused(df, "df", "a DataFrame")
    if df.isStreaming:
        raise InvalidError(
            "df",
            found="a stream, whose later rows would get what is known now",
            expected="a DataFrame that is not streaming",
            action=f"Use {instead}, or call {call} in foreachBatch.",
        )
    return checked_arrow_schema(df.schema, "Cast or drop the column before the call.")


def name_rule(df: DataFrame) -> Callable[[str], str]:
    """Return what maps names that Spark takes for the same one to one text."""
    conf = session_of(df.sparkSession).conf
    return str.casefold if conf.get("spark.sql.caseSensitive") != "true" else str


def task_count(df: DataFrame) -> int:
    """Return how many tasks answer where buckets do not say."""
    return int(session_of(df.sparkSession).conf.get("spark.sql.shuffle.partitions") or 1)


def mapped(df: DataFrame, past: PastTasks) -> DataFrame:
    """Put a read into the plan of the DataFrame."""
    check_collations(field for field in df.schema if field.name in past.key_columns)
    plain = plainly_named(df)
    own = with_nullable_voids(plain.schema)
    sent = StructType([*own.fields, StructField(_TASK, IntegerType(), False)])
    rows = plain.mapInArrow(_numbering(past, df.columns, sent), sent)
    return _shuffled(rows, past.tasks).mapInArrow(*_answering(df, past))


def _shuffled(rows: DataFrame, tasks: int) -> DataFrame:
    """Bring the rows of a number to one task, and, where Spark can (4.1), of each number to a task of its own."""
    by_number = getattr(rows, "repartitionById", None)
    if by_number is None:
        return rows.repartition(tasks, column_of(_TASK))
    shuffled: DataFrame = by_number(tasks, column_of(_TASK))
    return shuffled


def _numbering(past: PastTasks, names: Sequence[str], sent: StructType) -> _Function:
    expected = arrow_schema(sent)

    def number_rows(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        settle()
        named = (batch.rename_columns(names) for batch in batches)
        for batch, numbers in past.numbered(named):
            columns = [*batch.columns, numbers]
            yield pa.RecordBatch.from_arrays(columns, expected.names).cast(expected)

    return number_rows


def _answering(df: DataFrame, past: PastTasks) -> tuple[_Function, StructType]:
    """Return the function of the tasks after the shuffle, and the columns of the result."""
    metadata = {key.decode(): value.decode() for key, value in past.added.metadata.items()}
    added = [
        StructField(field.name, field.dataType, True, metadata)
        for field in spark_schema(past.added)
    ]
    # The metadata of df's columns are kept.
    target: StructType = with_nullable_voids(StructType([*df.schema.fields, *added]))
    expected, names = arrow_schema(target), df.columns

    def answer_rows(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        settle()
        named = (batch.drop_columns([_TASK]).rename_columns(names) for batch in batches)
        for rows in past.answered(named):
            yield from spark_batches(rows, expected)

    return answer_rows, target
