"""Sorts an append table on the executors of a session: a task for each partition of the table.

    driver    plans the partitions ─► one job of Spark, a task for each ─► commits each outcome when it comes

A task reads, sorts and writes the files of its partition in its own process, within `write-buffer-size`; nothing is
shuffled. Files of a task that is lost are left to orphan cleaning. Raises what `Table.sort_compact` raises,
StorageError for a job that fails.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from widetable import CommitResult, StorageError, Table
from widetable.connector import SortTask, counted, sort_by_tasks
from widetable_spark.queries.ticking_query import driver_context
from widetable_spark.startup.spark_session import session_of
from widetable_spark.startup.worker_heap import settle

if TYPE_CHECKING:
    from pyspark import SparkContext


def sort_compact(
    spark: SparkSession,
    path: str | os.PathLike[str],
    by: Sequence[str],
    order: str = "zorder",
    *,
    partitions: Any = None,
    storage_options: Mapping[str, str] | None = None,
) -> CommitResult:
    """Sort the rows of an append table on the executors, as `Table.sort_compact` does in one process.

    Each partition of the table is a task, and is committed when it is sorted.

    Parameters
    ----------
    spark : SparkSession
        The session of a driver.
    path : str or os.PathLike
        The path or URL of the table.
    by, order, partitions
        As in `Table.sort_compact`.
    storage_options : dict of str to str, default None
        Options of an object store, as in `widetable.Catalog`, which tasks get as well. None: the environment says them.

    Returns
    -------
    CommitResult
        What was committed, of all partitions together; `committed` is False when all were sorted already.

    Raises
    ------
    NotFoundError
        There is no such table or column.
    InvalidError
        A column is nested or there twice, or the order is none of these.
    UnsupportedError
        The table has a primary key or buckets, or the session is one of Spark Connect.
    ConflictError
        Other commits changed the files of a partition in each of several tries.
    StorageError
        The job of Spark failed; partitions that were committed stay sorted.

    Examples
    --------
    >>> clicks = wt.Catalog("warehouse").create_table("shop.clicks", {"user": "BIGINT", "page": "STRING"})
    >>> clicks.write([{"user": 2, "page": "home"}, {"user": 1, "page": "cart"}]).rows
    2
    >>> widetable_spark.sort_compact(spark, clicks.path, ["user"], "linear").rows
    2
    """
    session_of(spark)
    context = driver_context(spark, "widetable sort_compact")
    table = Table.open(path, storage_options=storage_options)

    def run(tasks: Sequence[SortTask]) -> Iterator[tuple[SortTask, object]]:
        return _run(context, table.path, tasks)

    return sort_by_tasks(table, by, order, run, partitions=partitions)


def _run(
    context: SparkContext, path: str, tasks: Sequence[SortTask]
) -> Iterator[tuple[SortTask, object]]:
    """Run the tasks in one job, and yield the outcomes as partitions of it end, in the order of the tasks."""
    if not tasks:
        return
    sort = _sorted

    def carry_out(number: int, _: Iterable[int]) -> Iterator[object]:
        yield sort(tasks[number])

    slots = context.parallelize(range(len(tasks)), len(tasks)).mapPartitionsWithIndex(carry_out)
    try:
        yield from zip(tasks, slots.toLocalIterator(prefetchPartitions=True), strict=True)
    except (PySparkException, Py4JError) as error:
        raise StorageError(
            f"the Spark job of {counted(len(tasks), 'sort')} of {path}",
            found=str(error).partition("\n")[0],
            expected="tasks that end",
            action="See the logs of the executors; call it again, which goes on where it was.",
        ) from error


def _sorted(task: SortTask) -> object:
    """Sort a partition in a worker."""
    settle()
    return task.run()
