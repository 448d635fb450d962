"""`lookup_join`: rows of a DataFrame, streaming or not, each with the row of a table that has its key.

It is one narrow mapInArrow: nothing is shuffled or collected, the session keeps no state, and the result is a DataFrame
like any other. Every task looks up its rows' keys itself, in one snapshot of the table (`pinned_join.py`).
Where the tasks run decides which snapshot that is:

    in a micro-batch      that of the batch's pin, which the first of its tasks makes (`lookup_pin.py`): a new
                          batch sees what was committed before it began, a replay joins what it joined before
    elsewhere             the newest one when `lookup_join` was called

A task knows its batch by local properties that Spark gives to all jobs of a micro-batch, also to those that are started
in foreachBatch (spark.md section 3).

    driver    lookup_join     checks, a plan, and what is sent to tasks: `LookupTasks`, pickled with the function
    task      pin or chosen   a small file read per task of a stream; the first task of a batch publishes it
              kept            files that the last join in this worker had open; a new pin takes over what is the same
              joined          batch by batch, in the order of the partition; a task holds what `PinnedJoin` gathers

Keys. Leading columns of the key are enough if they contain its bucket key, and so are the columns of an index (option
`index.<columns>`): a row of df then comes out once for each match, in key order. To tell several matches apart, name
dim's primary key in `columns` as well. Types are taken as writes take them; a key with a null has no match.

Partitions. "max_pt()" reads the newest partition of dim only, "max_two_pt()" the two newest, "dt=1;dt=2" these. `on` is
then the primary key without the partition columns; of a key that is in two partitions the row of the newer one counts.
Retractions. A df with a column `_row_kind` is refused; "key-only" passes its -U and -D on, with nulls in dim's columns.

Waiting rows. With `retry_batches`, rows of a stream without a match wait in a table at the path `pending`, which is
created if it is missing. They are retried in the next so many batches that have rows, and then are misses; each comes
out once. `pending_key` is a column that tells the rows of df apart, with the same values in a replay. A union or
coalesce then needs a shuffle between it and the join, or the query fails. Rows with a null in `on` do not wait. They
wait under `name`, which is then required: of two joins of a query with one name each would give out the rows of both.

Pins. In a stream every micro-batch joins one snapshot, the newest when its first task begins; by an index the one that
the newest of the index fits. It is pinned in the directory of dim, and kept from expiry for
`widetable.lookup-pin-retention`: a batch that fails and is run again, also after a restart, joins the same rows.
Where they no longer exist the query fails with NotFoundError, and never takes newer ones: when the pinned snapshot has
expired or was rolled back, and when the pin is missing but a later batch has one. A pin that somebody removed while no
later one existed is not noticed. Give a `name` where a query that goes on from a checkpoint may get other joins before
this one. A DataFrame that is no stream has no pins: the snapshot is chosen by the call and kept for an hour, where the
storage takes a lease; a job that begins later may fail with NotFoundError. A stream needs write access to dim.

In tasks there is no driver to ask: the snapshot, the query and the batch are all known from the pin and the local
properties. Raises InvalidError and NotFoundError in the driver, which checks all arguments; in tasks also what lookups
raise, and InvalidError for a stream whose tasks do not know their batch, as with continuous triggers.
"""

from __future__ import annotations

import os
import uuid
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

import pyarrow as pa
from pyspark import TaskContext
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from widetable import InvalidError, NotFoundError, Table
from widetable.connector import (
    JoinArguments,
    LookupPin,
    LookupTasks,
    PinnedBatch,
    arguments,
    check_join,
    plan_lookup_join,
)
from widetable_spark.frames.exact_names import plainly_named
from widetable_spark.frames.spark_types import (
    arrow_schema,
    cast_batch,
    check_collations,
    checked_arrow_schema,
    spark_schema,
    with_nullable_voids,
)
from widetable_spark.joining.late_parts import Part, check_waiting, numbered, take_part
from widetable_spark.startup.spark_session import session_of
from widetable_spark.startup.worker_heap import settle
from widetable_spark.writing.task_writer import QUERY_ID_PROPERTY

BATCH_ID_PROPERTY: Final = "streaming.sql.batchId"


def lookup_join(
    df: DataFrame,
    dim: Table | str | os.PathLike[str],
    on: Sequence[str] | Mapping[str, str],
    columns: Sequence[str] | None = None,
    *,
    how: str = "left",
    prefix: str = "",
    name: str | None = None,
    partitions: str | None = None,
    retractions: str = "refuse",
    retry_batches: int = 0,
    pending: str | os.PathLike[str] | None = None,
    pending_key: str | None = None,
) -> DataFrame:
    """Join the rows of a DataFrame with the rows of a table that have their keys.

    Parameters
    ----------
    df : DataFrame
        The left side, streaming or not.
    dim : Table, str or os.PathLike
        The right side, or its path or URL. Tasks get the options that it was opened with.
    on : list of str, or dict of str to str
        Columns of df that hold dim's primary key, leading columns of it, or an index; a dict where names differ.
    columns : list of str, default None
        Columns of dim. None: all but its primary key, or all but those in `on` where a row may have several matches.
    how : str, default "left"
        "left": rows without a match get nulls. "inner": they are left out.
    prefix : str, default ""
        A prefix of the names of dim's columns in the result.
    name : str, default None
        The name of this join in the pins of dim. None: its position among the joins of df with dim.
    partitions, retractions, retry_batches, pending, pending_key
        As in `widetable_spark.joining.joining`, whose module docstring describes them (also docs/enrich-a-stream.md).

    Returns
    -------
    DataFrame
        df's columns, then dim's as prefix + name, which may be null. Each partition keeps its order.

    Raises
    ------
    InvalidError
        An argument is invalid; in a task: the stream does not give it its batch.
    NotFoundError
        There is no such table or column; in a task: the snapshot that was chosen has expired.
    UnsupportedError
        A key has a collation.

    Examples
    --------
    >>> users = wt.Catalog("warehouse").create_table("shop.users", {"id": "INT", "city": "STRING"}, primary_key=["id"])
    >>> widetable_spark.lookup_join(spark.createDataFrame([(1,)], "id INT"), users, on=["id"]).collect()
    [Row(id=1, city=None)]
    """
    waits = retry_batches, pending, pending_key
    given = JoinArguments(on, columns, how, prefix, partitions, retractions, *waits)
    return _joined(df, dim, name, given)


def _joined(
    df: DataFrame,
    dim: Table | str | os.PathLike[str],
    name: str | None,
    given: JoinArguments,
) -> DataFrame:
    """Check the arguments in the driver, and return the joined DataFrame."""
    if not isinstance(df, DataFrame):
        raise arguments.refused(df, "df", "a DataFrame")
    session = session_of(df.sparkSession)
    table = dim if isinstance(dim, Table) else Table.open(dim)
    if given.pending is not None or given.pending_key is not None:
        check_waiting(df, name)
    join = _checked_join(df, session, table, given)
    partitions = given.partitions
    function = f"widetable_lookup_join_{zlib.crc32(table.path.encode()):08x}"
    series = _default_name(df, function, partitions) if name is None else check_join(name)
    has_batches = df.isStreaming or _in_micro_batch(session)
    return _mapped(df, join, series, function, None if has_batches else join.newest_pin())


def _checked_join(
    df: DataFrame, session: SparkSession, table: Table, given: JoinArguments
) -> LookupTasks:
    ignores_case = session.conf.get("spark.sql.caseSensitive") != "true"
    left = checked_arrow_schema(df.schema, "Cast or drop the column before the join.")
    join = plan_lookup_join(left, table, given, str.casefold if ignores_case else str)
    check_collations(field for field in df.schema if field.name in join.key_columns)
    return join


def _mapped(
    df: DataFrame, join: LookupTasks, series: str, function: str, chosen: LookupPin | None
) -> DataFrame:
    """Put the join into the plan of the DataFrame.

    The function in the plan has a name that is the same for all joins with one table: `_default_name` counts them by
    it.
    """
    added = spark_schema(join.added)
    # The metadata of df's columns are kept: they say which column has the watermark.
    target: StructType = with_nullable_voids(StructType([*df.schema.fields, *added.fields]))
    tasks = _tasks(join, series, chosen, target, df.columns)
    tasks.__name__ = function
    plain = plainly_named(df)
    left = numbered(plain) if join.has_waiting_rows else plain
    return left.mapInArrow(tasks, target)


def _default_name(df: DataFrame, function: str, partitions: str | None) -> str:
    """Return the number of joins with the same table in the plan of df.

    Joins of several branches may share a pin, unless they read other partitions.

        b = lookup_join(a, dim, ..)      "0"
        c = lookup_join(b, dim, ..)      "1": the plan of b has one
        d = lookup_join(a, dim, ..)      "0" again: it shares the pins of b, which is the same moment

    The plan is read as text, so the name is the same each time that a program makes the same plan. It is a part of the
    name of a file, hence short.
    """
    plan = getattr(df, "_jdf", None)
    if plan is None:
        raise InvalidError(
            "name",
            found="none, in a session of Spark Connect, which does not show plans",
            expected="a name for this join",
            action="Give name=, a different one for each join of the query.",
        )
    position = str(plan.queryExecution().analyzed().toString()).count(f" {function}(")
    return (
        f"{position}" if partitions is None else f"{position}-{zlib.crc32(partitions.encode()):08x}"
    )


def _in_micro_batch(session: SparkSession) -> bool:
    """Tell whether this is foreachBatch: its jobs have the pin of their batch, and leases would block expiry."""
    try:
        context = session.sparkContext
    except PySparkException:  # Spark Connect
        return False
    return context.getLocalProperty(BATCH_ID_PROPERTY) is not None


def _tasks(
    join: LookupTasks,
    series: str,
    chosen: LookupPin | None,
    target: StructType,
    names: Sequence[str],
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Return the function of each task. chosen: the pin outside of micro-batches. names: the original names of the
    columns.

    A function of a batch may run where no batch is known and the other way round: lookup_join in foreachBatch is called
    without `chosen`, and fails where its rows are used outside of the batch.
    """
    expected = arrow_schema(target)
    # Identifies this call in this driver: each driver counts attempts of tasks from 0.
    run = uuid.uuid4().hex

    def join_rows(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        settle()
        batch = _batch(series)
        pin = chosen if batch is None else join.pin(batch)
        if pin is None:
            raise InvalidError(
                "streaming query",
                found="a task without the ids of its query and batch",
                expected="a task of the stream, or of the foreachBatch in which lookup_join was called",
                action="Start the query with a trigger of micro-batches, and use the joined rows within foreachBatch.",
            )
        part = Part(batches, is_elected=False)
        if batch is not None and join.has_waiting_rows:
            part = take_part(batches, join, batch, pin, run)
        left = (each.rename_columns(names) for each in part.rows)
        joined = join.joined(left, pin, batch, is_elected=part.is_elected)
        try:
            for rows in joined:
                yield cast_batch(rows, expected)
        except NotFoundError as error:
            raise _expired(error, batch, pin) from error

    return join_rows


def _batch(series: str) -> PinnedBatch | None:
    """Return the micro-batch in which this task runs; None in a job that belongs to none."""
    context = TaskContext.get()
    if context is None:
        return None
    query_id = context.getLocalProperty(QUERY_ID_PROPERTY)
    batch_id = context.getLocalProperty(BATCH_ID_PROPERTY)
    return PinnedBatch(query_id, series, int(batch_id)) if query_id and batch_id else None


def _expired(error: NotFoundError, batch: PinnedBatch | None, pin: LookupPin) -> NotFoundError:
    """Return the error that says which join lost its snapshot: it expired while it was joined, or before."""
    return NotFoundError(
        f"snapshot {pin.snapshot_id} of {error.subject}, joined by {batch or 'a DataFrame'}",
        found=error.found,
        expected="that snapshot, which was the newest one when it was chosen",
        action="Call lookup_join again, for the newest snapshot."
        if batch is None
        else "Set a larger widetable.lookup-pin-retention, and start the query with a new checkpoint.",
        code=error.code,
    )
