"""`cdc`: a streaming query that copies a database into tables and follows its log, with the copy on the executors.

    query = widetable_spark.cdc(spark, "shop.toml")          the job of `widetable cdc run shop.toml`

Chunks of the copy are tasks of Spark (`cdc_chunks.py`); the log is read, applied and confirmed by the driver
(`cdc_query.py`), exactly once, as by `widetable_cdc.Sync`. Both keep the same state in the same tables, so a job may be
stopped here and go on there. Raises what `cdc` says.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from widetable_cdc import Sync, SyncConfig
from widetable_cdc.jobs.engine_job import EngineJob
from widetable_cdc.running.sync_run import Goal, SyncRun, checked_goal
from widetable_spark.jobs.cdc_chunks import spark_chunks
from widetable_spark.jobs.cdc_query import CdcQuery, CdcTicks
from widetable_spark.queries.ticking_query import (
    driver_context,
    temporary_checkpoint,
    ticking_query,
)
from widetable_spark.startup.spark_session import session_of


def cdc(
    spark: SparkSession,
    config: SyncConfig | str | Path | Mapping[str, Any],
    *,
    until: str | int | None = None,
) -> StreamingQuery:
    """Start a streaming query that copies and follows a database, until it is stopped.

    `lastProgress.observedMetrics[name]` says what the job has done, and the state of its slot and of each table.
    `processAllAvailable` waits until the tables have all that the database has by then.

    Parameters
    ----------
    spark : SparkSession
        The session of a driver, whose executors reach the database and the warehouse.
    config : SyncConfig, str, Path or dict
        The job, as in `widetable_cdc.Sync`. Its name is that of the query.
    until : str or int, default None
        Where the query ends by itself, as in `widetable_cdc.Sync.run`. None: nowhere.

    Returns
    -------
    StreamingQuery
        The running query. It needs no checkpoint: what it must remember is in the tables of the job.

    Raises
    ------
    InvalidError
        An argument or the configuration is wrong, the server, the slot, or a table does not allow it, or another
        process has the slot.
    NotFoundError
        There is no such file.
    UnsupportedError
        The session is one of Spark Connect, or Debezium reads the database.
    StorageError
        The server or the warehouse does not answer.

    Examples
    --------
    >>> import widetable_spark
    >>> config = {
    ...     "name": "shop",
    ...     "tables": ["public.*"],
    ...     "source": {"dsn": "host=127.0.0.1 port=1 dbname=shop"},
    ...     "target": {"warehouse": "warehouse", "database": "shop"},
    ... }
    >>> try:
    ...     widetable_spark.cdc(spark, config)
    ... except wt.StorageError as error:
    ...     print(error.subject)
    the source, database shop on 127.0.0.1:1
    """
    session_of(spark)
    goal = checked_goal(until)
    checked = Sync(config).config
    if checked.engine is not None:
        raise EngineJob(checked, checked.engine).refused("cdc", "Run `widetable cdc run`.")
    context = driver_context(spark, "widetable cdc run")
    chunks = spark_chunks(context, checked.limits.chunks_at_once)
    return _started(spark, checked, goal, SyncRun(checked, chunks))


def _started(spark: SparkSession, config: SyncConfig, goal: Goal, run: SyncRun) -> CdcQuery:
    """Open the run, and start its query."""
    checkpoint = ""
    try:
        run.open()
        run.begin(goal)
        checkpoint = temporary_checkpoint("cdc")
        ticks = CdcTicks(run)
        query = CdcQuery(ticking_query(spark, checkpoint, 0, config.name, ticks), ticks, config)
    except BaseException:
        run.close()
        shutil.rmtree(checkpoint, ignore_errors=True)
        raise
    query.end_with(run, checkpoint)
    return query
