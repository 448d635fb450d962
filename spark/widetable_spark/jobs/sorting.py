"""Sorts an append table on the executors of a session: a task for each partition of the table.

    driver    plans the partitions ─► waves of tasks (`task_waves`) ─► commits the outcomes of each wave

A task reads, sorts and writes the files of its partition in its own process, within `write-buffer-size`. Files of a
task that is lost are left to orphan cleaning. Raises what `Table.sort_compact` and waves raise.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from pyspark.sql import SparkSession

from widetable import CommitResult, Table
from widetable.connector import SortTask, counted, sort_by_tasks
from widetable_spark.jobs.task_waves import TaskWaves
from widetable_spark.queries.ticking_query import driver_context
from widetable_spark.startup.spark_session import session_of
from widetable_spark.startup.worker_heap import settle


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

    Each partition of the table is a task. As many run at once as the session has cores; then they are committed.

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

    def described(tasks: Sequence[SortTask]) -> str:
        return f"{counted(len(tasks), 'sort')} of {table.path}"

    waves = TaskWaves(context, _sorted, described)
    return sort_by_tasks(table, by, order, waves, partitions=partitions)


def _sorted(task: SortTask) -> object:
    """Sort a partition in a worker."""
    settle()
    return task.run()
