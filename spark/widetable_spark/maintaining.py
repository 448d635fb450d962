"""`maintain`: a streaming query that keeps a table compacted, with its changelog, on the executors of a Spark session.

A clock ticks; at each tick the driver does one round of `Table.maintainer`: it looks at the newest snapshot, plans what
is due, commits what the tasks wrote, expires. The tasks compact whole buckets. A bucket always goes to the same
partition of a persisted RDD, and Spark runs a persisted partition where it is (spark.md section 7): the lookup caches
of a bucket's files stay on one host. So tasks fetch their files themselves; nothing is shuffled.

    slot      partition of the RDD; of a bucket: (crc32 of its partition bytes + bucket) mod slots
    outcome   what a task sends back per bucket: a message to commit, or the error that its compaction met

One bucket's error costs the others nothing: what can be committed is, then the error is raised on the driver, where the
rules of the maintainer decide (`operations/maintenance_rule.py`). A bucket with a damaged file is passed by,
which these rules report as well (`lsm/sick_buckets.py`).
"""

from __future__ import annotations

import logging
import os
import shutil
import tempfile
import threading
import time
import zlib
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from widetable import (
    CommitMessage,
    CommitResult,
    ConflictError,
    DamagedError,
    NotFoundError,
    StorageError,
    Table,
    UnsupportedError,
    WidetableError,
)
from widetable.arguments import LONGEST_MILLIS, text, whole_number
from widetable.arguments import path as checked_path
from widetable.format.bucket_id import BucketId, by_bucket
from widetable.format.damaged_file import missing_file
from widetable.format.snapshot import COMMIT_KIND_COMPACT
from widetable.lsm.compaction import compact_bucket, plan_bucket
from widetable.lsm.sick_buckets import SICK_BUCKETS, is_of_bucket
from widetable.lsm.universal_compaction import Choice
from widetable.operations.compaction import Compacted
from widetable.operations.lookup_caches import caches_of
from widetable.operations.maintenance import Maintainer, Upkeep
from widetable.write.discard import discard
from widetable.write.table_state import TableState
from widetable_spark.spark_session import session_of

if TYPE_CHECKING:
    from pyspark import RDD, SparkContext

    from widetable.commit.committer import Committer

_MAX_SLOTS: Final = 1024
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
) -> StreamingQuery:
    """Keep the table at `path` in order until the query is stopped.

    checkpoint: a directory for the query's progress; None: a temporary one, nothing is lost with it. trigger_millis:
    between two looks at the table. full_compaction_interval_millis, expire, orphans_older_than_millis: as in
    `Table.maintain`. name: of the query. The query fails only with what the user must mend; other errors are logged
    and tried again. It waits while another maintainer has the lease. Raises NotFoundError when there is no table,
    InvalidError, UnsupportedError for Spark Connect.
    """
    session_of(spark)
    trigger_millis = whole_number(trigger_millis, "trigger_millis", least=0, most=LONGEST_MILLIS)
    checkpoint = None if checkpoint is None else checked_path(checkpoint, "checkpoint")
    name = None if name is None else text(name, "name")
    table = Table.open(path)
    executors = _Executors(_context(spark), table.schema.num_buckets)
    upkeep = Upkeep(
        trigger_millis, full_compaction_interval_millis, expire, orphans_older_than_millis
    )
    maintainer = table.maintainer(upkeep, executors.compact)
    temporary = None if checkpoint else tempfile.mkdtemp(prefix="widetable-maintain-")
    try:
        folder = checkpoint or temporary or ""
        query = _start(spark, folder, trigger_millis, name, _round(maintainer))
    except BaseException:
        _end(maintainer, executors, temporary)
        raise
    watcher = threading.Thread(
        target=_end_with,
        args=(query, maintainer, executors, temporary),
        name="widetable-maintain",
        daemon=True,
    )
    watcher.start()
    return query


def _context(spark: SparkSession) -> SparkContext:
    try:
        return spark.sparkContext
    except PySparkException as error:
        raise UnsupportedError(
            "Spark session",
            found="a session without executors of its own (Spark Connect)",
            expected="a session of the driver",
            action="Run `widetable maintain`, or call this in the driver.",
        ) from error


def _start(
    spark: SparkSession,
    checkpoint: str,
    trigger_millis: int,
    name: str | None,
    on_tick: Callable[[DataFrame, int], None],
) -> StreamingQuery:
    ticks = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 1).load()
    writer = ticks.writeStream.foreachBatch(on_tick).option("checkpointLocation", checkpoint)
    if name is not None:
        writer = writer.queryName(name)
    return writer.trigger(processingTime=f"{trigger_millis} milliseconds").start()


def _round(maintainer: Maintainer) -> Callable[[DataFrame, int], None]:
    not_before = 0.0

    def on_tick(ticks: DataFrame, batch_id: int) -> None:
        """The tick itself is not read. After an error some are let pass."""
        nonlocal not_before
        if time.monotonic() < not_before:
            return
        done = maintainer.round()
        if done.failures:
            not_before = time.monotonic() + maintainer.wait_millis / 1000

    return on_tick


def _end_with(
    query: StreamingQuery, maintainer: Maintainer, executors: _Executors, temporary: str | None
) -> None:
    try:
        query.awaitTermination()
    except (PySparkException, Py4JError, OSError):  # whoever waits for the query sees it
        _log.debug("maintenance ended", exc_info=True)
    finally:
        _end(maintainer, executors, temporary)


def _end(maintainer: Maintainer, executors: _Executors, temporary: str | None) -> None:
    try:
        maintainer.close()
    except WidetableError as error:
        _log.info("the lease runs out by itself: %s", error)
    executors.close()
    if temporary is not None:
        shutil.rmtree(temporary, ignore_errors=True)


@dataclass(frozen=True)
class _Work:
    """A bucket to compact."""

    bucket: BucketId
    total_buckets: int
    choice: Choice

    def slot(self, slots: int) -> int:
        return (zlib.crc32(self.bucket.partition) + self.bucket.number) % slots


@dataclass(frozen=True)
class _Outcome:
    """Of one bucket: a message, None when there was nothing to do, or an error."""

    bucket: BucketId
    message: CommitMessage | None
    error: Exception | None = None


class _Executors:
    """Compacts tables by tasks that stay where they are."""

    def __init__(self, context: SparkContext, buckets: int) -> None:
        self._context = context
        self._slots = min(buckets, _MAX_SLOTS)
        self._missing: set[str] = set()
        self._pinned: RDD[int] = context.parallelize(range(self._slots), self._slots).persist()

    def compact(self, state: TableState, committer: Committer, full: bool) -> Compacted:
        """Plan, run, commit; what did not fit any more raises ConflictError after the rest is in."""
        started = time.monotonic()
        works, damage = _planned(state, committer, full=full)
        outcomes = self._run(state, works)
        messages = [o.message for o in outcomes if o.message is not None and not o.message.is_empty]
        commits, lost = _committed(state, committer, messages)
        errors = []
        choices = {work.bucket: work.choice for work in works}
        for outcome in outcomes:
            error = self._judged(state, outcome.error)
            if isinstance(error, DamagedError) and is_of_bucket(state, error):
                choice = choices[outcome.bucket]
                damage.append(SICK_BUCKETS.note(state, outcome.bucket, choice, error).error)
            elif error is not None:
                errors.append(error)
        for error in errors[1:]:
            _log.warning("another bucket of %s failed: %s", state.paths.root, error)
        if errors:
            raise errors[0]
        if lost is not None:
            raise lost
        result = CommitResult(
            committed=bool(commits),
            snapshot_id=commits[-1].snapshot_id if commits else None,
            kind=COMMIT_KIND_COMPACT,
            rows=sum(each.rows for each in commits),
            files=sum(each.files for each in commits),
            retries=sum(each.retries for each in commits),
            duration_millis=int((time.monotonic() - started) * 1000),
        )
        return Compacted(result, tuple(damage))

    def _judged(self, state: TableState, error: Exception | None) -> Exception | None:
        """A file that is missing once was compacted and expired by others since it was planned."""
        if not isinstance(error, NotFoundError):
            return error
        if error.subject in self._missing:
            return missing_file(state.paths, error.subject, "the newest snapshot")
        self._missing.add(error.subject)
        lost = ConflictError(
            error.subject, found=error.found, expected="a live file", action="Compact again."
        )
        lost.__cause__ = error
        return lost

    def close(self) -> None:
        try:
            self._pinned.unpersist()
        except (PySparkException, Py4JError, OSError):  # the session is gone
            _log.debug("nothing to unpersist", exc_info=True)

    def _run(self, state: TableState, works: Sequence[_Work]) -> list[_Outcome]:
        of_slot: dict[int, list[_Work]] = defaultdict(list)
        for work in works:
            of_slot[work.slot(self._slots)].append(work)
        if not of_slot:
            return []
        sent = self._context.broadcast((state, dict(of_slot)))

        def compact_slots(slots: Iterable[int]) -> Iterator[_Outcome]:
            table, works = sent.value
            for slot in slots:
                for work in works[slot]:
                    yield _outcome(table, work)

        try:
            return list(self._context.runJob(self._pinned, compact_slots, sorted(of_slot)))
        except (PySparkException, Py4JError) as error:
            raise StorageError(
                f"Spark job that compacts {state.paths.root}",
                found=str(error).partition("\n")[0],
                expected="tasks that end",
                action="See the logs of the executors; it is tried again.",
            ) from error
        finally:
            sent.destroy()


def _planned(
    state: TableState, committer: Committer, *, full: bool
) -> tuple[list[_Work], list[DamagedError]]:
    """What is due, and the damage of buckets that are known to be sick."""
    entries = committer.live_files.live_entries(committer.snapshots.latest())
    works, damage = [], []
    for bucket, members in by_bucket(entries).items():
        choice = plan_bucket(state, [entry.file for entry in members], full=full)
        if choice is None:
            continue
        sick = SICK_BUCKETS.known(state, bucket, choice)
        if sick is None:
            works.append(_Work(bucket, members[0].total_buckets, choice))
        else:
            damage.append(sick.error)
    return works, damage


def _outcome(state: TableState, work: _Work) -> _Outcome:
    """Runs in a task. Errors travel as values: as a task's failure they would lose their kind, and others' work."""
    try:
        message = compact_bucket(
            state, work.bucket, work.total_buckets, work.choice, caches_of(state)
        )
    except Exception as error:  # noqa: BLE001
        if not isinstance(error, WidetableError):
            _log.exception(
                "bucket %d of %s was not compacted", work.bucket.number, state.paths.root
            )
        return _Outcome(work.bucket, None, error)
    return _Outcome(work.bucket, message)


def _committed(
    state: TableState, committer: Committer, messages: Sequence[CommitMessage]
) -> tuple[list[CommitResult], ConflictError | None]:
    """All in one snapshot; when that does not fit, bucket by bucket what does. The last conflict."""
    if not messages:
        return [], None
    try:
        return [committer.compact(messages)], None
    except ConflictError as lost:
        if len(messages) == 1:
            discard(state, messages)
            return [], lost
    commits: list[CommitResult] = []
    conflict: ConflictError | None = None
    for message in messages:
        found, lost_too = _committed(state, committer, [message])
        commits += found
        conflict = lost_too or conflict
    return commits, conflict
