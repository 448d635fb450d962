"""Which task gives out the rows that waited for a match: one evaluation of one joined partition per run of a plan.

It is the evaluation of partition 0, which every run has, with however many partitions; Spark evaluates empty ones too.
But a task knows only its own number, which is that of the partition unless a plan puts partitions together in one stage
after the join. So the partition's number comes with its rows:

    union(other, joined)   task 5 evaluates partition 0        another number than the task's: refused
    joined.coalesce(1)     task 0 evaluates partitions 0, 1    likewise; for an empty partition a second claim: refused

A claim is a file that counts for one attempt of one task (`LookupTasks.claim`). After a shuffle all is allowed, since
the stage of the join ends there. Raises InvalidError.

    partitions    0: rows    1: rows    2: none        a join of 3 partitions, one task each
    numbers       0          1          - (no row)
    elected       yes        no         no             task 0 gives the waiting rows out, after its own

A union puts the partitions of its second side after those of the first, so the join's partition 0 is in task 5, has the
number 0 and is refused. Where a coalesce puts an empty partition into task 0, no row has its number; there the claim
decides: of two evaluations with one attempt the second finds the claim of the first. A task that is retried has another
attempt, and may claim again (0028).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from itertools import chain
from typing import Final, NamedTuple

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from widetable import InvalidError
from widetable.connector import LookupPin, LookupTasks, PinnedBatch

_PARTITION: Final = "_widetable_partition"


class Part(NamedTuple):
    """The work of one evaluation. rows: of the partition, as they were before `numbered`; only the first batch with
    rows has been read. is_elected: this evaluation gives out the rows that wait.
    """

    rows: Iterator[pa.RecordBatch]
    is_elected: bool


def check_waiting(df: DataFrame, name: str | None) -> None:
    """Refuse a DataFrame without later batches in which rows could be retried, and a join without a name for waiting
    rows.
    """
    if not df.isStreaming:
        raise InvalidError(
            "retry_batches",
            found="a DataFrame that is no stream",
            expected="a stream, whose later batches retry rows",
            action="Leave it out, or join the stream itself, not the DataFrame of foreachBatch.",
        )
    if _PARTITION in df.columns:
        raise InvalidError(
            f"column {_PARTITION!r}",
            found="a column of that name in the DataFrame",
            expected="another name",
            action="Rename the column.",
        )
    if name is None:
        raise InvalidError(
            "name",
            found="none, of a join whose rows wait",
            expected="the name under which they wait, the same whenever the query is started",
            action="Give name=, a different one for each join of the query.",
        )


def numbered(df: DataFrame) -> DataFrame:
    """Add the number of its partition to each row, which is that of the plan, not of the task."""
    return df.withColumn(_PARTITION, sf.spark_partition_id())


def take_part(
    batches: Iterator[pa.RecordBatch],
    join: LookupTasks,
    batch: PinnedBatch,
    pin: LookupPin,
    run: str,
) -> Part:
    """Return the work of this evaluation, and make a claim, a small file, in task 0.

    run: of this process of the driver, as attempts are counted from 0 in each.
    """
    context = TaskContext.get()
    assert context is not None
    first = next((each for each in batches if each.num_rows), None)
    rows = batches if first is None else chain([first], batches)
    number = None if first is None else first.column(_PARTITION)[0].as_py()
    if number not in (None, context.partitionId()):
        raise _refused(batch, f"partition {number} of the join in task {context.partitionId()}")
    is_elected = context.partitionId() == 0
    if is_elected:
        attempt = f"{run}-{context.taskAttemptId()}"
        if not join.claim(batch, pin, hashlib.sha256(attempt.encode()).hexdigest()[:32]):
            raise _refused(batch, "several partitions of the join in one task")
    return Part((each.drop_columns([_PARTITION]) for each in rows), is_elected)


def _refused(batch: PinnedBatch, evaluation: str) -> InvalidError:
    return InvalidError(
        f"{batch}, with retry_batches",
        found=evaluation,
        expected="each partition in the task of its number: no union or coalesce between the join and a shuffle",
        action="Put .repartition(..) after the join, or pass its rows to the sink unchanged.",
    )
