"""`maintain`: a streaming query that keeps a table compacted, with its changelog, on the executors of a Spark session.

A clock ticks; at each tick the driver does one round of `Table.maintainer`: it looks at the newest snapshot, plans what
is due, commits what the tasks wrote, and expires snapshots. The query waits while another maintainer has the lease. It
fails only with an error that the user must correct; other errors are logged, and the work is retried.

The tasks compact whole buckets, or bring the postponed rows of a partition into buckets. A bucket always goes to the
same partition of a persisted RDD, and Spark runs a persisted partition where it is stored (spark.md section 7): the
lookup caches of a bucket's files stay on one host. So tasks fetch their files themselves; nothing is shuffled.

    slot      partition of the RDD, of 1,024; of a bucket: (crc32 of its partition bytes + bucket) mod 1,024
    outcome   what a task sends back per bucket: a message to commit, or the error that its compaction met

Only the place of this work differs from maintenance in one process (`compaction_job.py`): what is planned, what is
committed, and how a bucket's error is handled are the same; the rules of the maintainer decide (`maintenance_rule.py`).

    tick (driver)     Maintainer.round: newest snapshot -> works, one per bucket that is due
    _run              works by slot -> one job of Spark over these partitions of the RDD
    task of a slot    its works one after the other: fetch files, merge, write level >= 1; a message each
    driver            commits the messages in groups, plans again what lost, expires

So as many buckets are compacted at once as there are slots with work and cores. Files of a task that is lost are left
to orphan cleaning; only the driver publishes. The query has the ticks as its only rows: its checkpoint holds nothing of
the table, and may be deleted.
"""

from __future__ import annotations

import logging
import os
import shutil
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Final

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from widetable import StorageError, Table, WidetableError
from widetable.connector import (
    CompactionTask,
    Maintainer,
    Upkeep,
    arguments,
    compaction_by,
)
from widetable_spark.queries.ticking_query import (
    driver_context,
    temporary_checkpoint,
    ticking_query,
)
from widetable_spark.startup.spark_session import session_of
from widetable_spark.startup.worker_heap import settle

if TYPE_CHECKING:
    from pyspark import RDD, SparkContext

# Partitions of the persisted RDD, however many buckets the table has: slots without work are not run, and buckets share
# slots.
_SLOTS: Final = 1024
_log = logging.getLogger("widetable.spark")


def maintain(
    spark: SparkSession,
    path: str | os.PathLike[str],
    *,
    checkpoint: str | None = None,
    trigger_millis: int = 1000,
    full_compaction_interval_millis: int | None = None,
    expire: bool = True,
    orphans_older_than_millis: int | None = None,
    name: str | None = None,
    storage_options: Mapping[str, str] | None = None,
) -> StreamingQuery:
    """Start a streaming query that maintains a table until the query is stopped.

    Parameters
    ----------
    spark : SparkSession
        The session of a driver.
    path : str or os.PathLike
        The path or URL of the table.
    checkpoint : str, default None
        The directory of the query's progress. None: a temporary one; nothing is lost with it.
    trigger_millis : int, default 1000
        Milliseconds between two checks of the table.
    full_compaction_interval_millis, expire, orphans_older_than_millis
        As in `Table.maintain`.
    name : str, default None
        The name of the query. None: it has none.
    storage_options : dict of str to str, default None
        Options of an object store, as in `widetable.Catalog`. None: the environment says them.

    Returns
    -------
    StreamingQuery
        The running query.

    Raises
    ------
    NotFoundError
        There is no such table.
    InvalidError
        An argument is invalid.
    UnsupportedError
        The session is one of Spark Connect.
    StorageError
        There is no directory for the temporary checkpoint.

    Examples
    --------
    >>> users = wt.Catalog("warehouse").create_table("shop.users", {"id": "BIGINT"}, primary_key=["id"])
    >>> query = widetable_spark.maintain(spark, users.path)
    >>> query.stop()
    """
    trigger_millis = arguments.whole_number(
        trigger_millis, "trigger_millis", least=0, most=arguments.LONGEST_MILLIS
    )
    upkeep = Upkeep(
        trigger_millis, full_compaction_interval_millis, expire, orphans_older_than_millis
    )
    return _maintained(spark, path, storage_options, upkeep, checkpoint, name)


def _maintained(
    spark: SparkSession,
    path: str | os.PathLike[str],
    storage_options: Mapping[str, str] | None,
    upkeep: Upkeep,
    checkpoint: str | None,
    name: str | None,
) -> StreamingQuery:
    """Start the query, and a thread that cleans up when it has ended."""
    session_of(spark)
    checkpoint = None if checkpoint is None else arguments.path(checkpoint, "checkpoint")
    name = None if name is None else arguments.text(name, "name")
    table = Table.open(path, storage_options=storage_options)
    executors = _Executors(driver_context(spark, "widetable maintain"), table.path)
    temporary = None if checkpoint else temporary_checkpoint("maintain")
    maintainer = table.maintainer(upkeep, compaction_by(executors.run))
    try:
        folder = checkpoint or temporary or ""
        query = ticking_query(spark, folder, upkeep.interval_millis, name, _round(maintainer))
    except BaseException:
        _end(maintainer, executors, temporary)
        raise
    watcher = threading.Thread(
        target=_end_after,
        args=(query, maintainer, executors, temporary),
        name="widetable-maintain",
        daemon=True,
    )
    watcher.start()
    return query


def _round(maintainer: Maintainer) -> Callable[[DataFrame, int], None]:
    """Return the function of a tick.

    An error that `Maintainer.round` raises, rather than counts, ends the query: the user must correct its cause.
    """
    not_before = 0.0

    def on_tick(ticks: DataFrame, batch_id: int) -> None:
        """Run one round. The row of the tick is not read. After an error some ticks are skipped."""
        nonlocal not_before
        if time.monotonic() < not_before:
            return
        done = maintainer.round()
        if done.failures:
            not_before = time.monotonic() + maintainer.wait_millis / 1000

    return on_tick


def _end_after(
    query: StreamingQuery, maintainer: Maintainer, executors: _Executors, temporary: str | None
) -> None:
    """Release everything when the query ends. A daemon thread runs it.

    Without it, a query that somebody stops would leave the lease and the pinned RDD. If the process ends first, the
    lease belongs to a process that has ended, so it protects nothing.
    """
    try:
        query.awaitTermination()
    except (PySparkException, Py4JError, OSError):  # the caller that waits for the query sees it
        _log.debug("maintenance ended", exc_info=True)
    finally:
        _end(maintainer, executors, temporary)


def _end(maintainer: Maintainer, executors: _Executors, temporary: str | None) -> None:
    try:
        maintainer.close()
    except WidetableError as error:
        _log.info("the lease expires by itself: %s", error)
    executors.close()
    if temporary is not None:
        shutil.rmtree(temporary, ignore_errors=True)


class _Executors:
    """Runs compactions of a table by tasks that stay on their hosts, however the buckets change. Close it."""

    def __init__(self, context: SparkContext, path: str) -> None:
        self._context = context
        self._path = path
        self._pinned: RDD[int] = context.parallelize(range(_SLOTS), _SLOTS).persist()

    def close(self) -> None:
        try:
            self._pinned.unpersist()
        except (PySparkException, Py4JError, OSError):  # the session is gone
            _log.debug("nothing to unpersist", exc_info=True)

    def run(self, tasks: Iterable[CompactionTask]) -> Iterable[tuple[CompactionTask, object]]:
        """Run the compactions as one job of Spark, and return their outcomes.

        All are planned before the first is sent: a job of Spark has its partitions from the start. The outcomes come
        back together, in the order of slots and tasks within a slot, so `strict` holds. If an executor is lost, Spark
        runs its slots again elsewhere; a job that fails all the same is a StorageError, as it may be retried.
        """
        of_slot: dict[int, list[CompactionTask]] = defaultdict(list)
        for task in tasks:
            of_slot[task.place % _SLOTS].append(task)
        if not of_slot:
            return []
        sent = self._context.broadcast(dict(of_slot))

        def compact_slots(slots: Iterable[int]) -> Iterator[object]:
            settle()
            return (task.run() for slot in slots for task in sent.value[slot])

        try:
            slots = sorted(of_slot)
            outcomes = self._context.runJob(self._pinned, compact_slots, slots)
            return list(zip((t for slot in slots for t in of_slot[slot]), outcomes, strict=True))
        except (PySparkException, Py4JError) as error:
            raise StorageError(
                f"Spark job that compacts {self._path}",
                found=str(error).partition("\n")[0],
                expected="tasks that end",
                action="See the logs of the executors; the compaction is retried.",
            ) from error
        finally:
            sent.destroy()
