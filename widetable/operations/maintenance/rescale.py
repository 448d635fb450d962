"""Gives a table another number of buckets: the option for partitions to come, and files in new buckets for those that
are there.

    per partition of another number   rows of the newest snapshot ─► files in new buckets ┐
                                      rows that came meanwhile    ─► the same             ┴─► one OVERWRITE snapshot

    killed                            the table then
    after the option was set          new partitions get the new number, those that are there keep theirs
    before it was set back            the same, though only some partitions were asked for, for the first time
    while rows are moved              as before, and some files that nobody names
    between two partitions            some have the new number, some the old one; readers ask each

Each partition is a commit of its own, in place of just the files that were read (`partition_move`). Nothing stops
writers: what they commit meanwhile is taken along, and who comes later with files of the old buckets has them moved in
its commit (`placed_messages`). Compactions leave the partition alone meanwhile (`resting_partition`). Until its turn a
partition keeps its number, for readers and writers (`write/places.py`). Rows are moved as they are, level by level
(`lsm/moved_rows`), so readers of changes get nothing, now or later, that they would not have got. Source: Paimon's
rescale by INSERT OVERWRITE (its page "Rescale Bucket"), which takes merged rows. Raises UnsupportedError for dynamic
buckets and keys without the partition, InvalidError for partitions that are none, ConflictError where others overwrite
again and again.
"""

from __future__ import annotations

import logging
import math
import time
from typing import Any, Final

from widetable.arguments import whole_number
from widetable.commit.barriers.barrier_table import check_rows_stay
from widetable.commit.transaction.commit_result import CommitResult
from widetable.commit.transaction.committer import Committer
from widetable.errors import ConflictError, UnsupportedError
from widetable.format.snapshot import Snapshot
from widetable.messages.counted import counted
from widetable.operations.compaction.locked_partition import resting
from widetable.operations.ddl.alteration import rescaled
from widetable.operations.handle.compaction_threads import wait_for_compactions
from widetable.operations.handle.newest_snapshot import held_newest, newest_files
from widetable.operations.handle.open_table import OpenTable
from widetable.operations.handle.supported import check_takes_rows, check_writable
from widetable.operations.maintenance.partition_move import PartitionMove
from widetable.operations.queries.requested_partitions import asked_partitions
from widetable.operations.writes.table_commit import finish_replayed
from widetable.schema.schema_rules import check_fixed_buckets

_MOST_TRIES: Final = 10
# Rounds behind the bulk, each with what came in the one before. What is left to the commit's own turn, in which others
# wait, takes about as long as the last round: it is short, or does not get shorter.
_MOST_CATCH_UPS: Final = 8
_SHORT_SECONDS: Final = 0.1
_SHRINKING: Final = 0.8
_INSTEAD: Final = "Leave the partitions out: then all of the table is meant."
_log = logging.getLogger("widetable")


def rescale(table: OpenTable, buckets: int, partitions: Any = None) -> list[CommitResult]:
    """Give the table another number of buckets, and every partition that has another one.

    Reads and writes go on meanwhile, and nothing of theirs is refused. Readers of changes see no change. After a kill,
    call it again. The first call that names partitions sets the number of the table and sets it back, to note that
    partitions differ. A kill between the two leaves new partitions with the new number.

    Parameters
    ----------
    buckets : int
        The number of buckets, 1 or more.
    partitions : Arrow data, frame, dict, list of dicts or list, default None
        Only these partitions get the number, and those to come stay with the table's. Rows of the partition
        columns, in any form that `lookup` takes keys in. None: the table, and all its partitions.

    Returns
    -------
    list of CommitResult
        The commits, one for each partition that had another number; empty where all have it.

    Raises
    ------
    InvalidError
        `buckets` is below 1, or partitions are named in a table without.
    UnsupportedError
        The table is under barriers, its buckets are not of a fixed number, or it has an option that this
        version does not honour.
    ConflictError
        Others compacted or overwrote partitions in each of several tries.
    """
    count = whole_number(buckets, "buckets", least=1)
    schema = table.schema
    check_writable(schema)
    check_rows_stay(schema, table.path)
    check_fixed_buckets(schema)
    check_takes_rows(schema)
    only = None if partitions is None else asked_partitions(table, partitions, _INSTEAD)
    schemas = table._committer.schemas
    if only is None or not schemas.is_rescaled():
        rescaled(schemas, count, table.path)
        if (
            only is not None
        ):  # set back, which notes it: writers ask each partition for its number from now on
            rescaled(schemas, schema.num_buckets, table.path)
    wait_for_compactions(table.path)
    done: list[CommitResult] = []
    for _ in range(_MOST_TRIES):
        due = _due(table, count, only)
        for partition in due:
            result = _attempt(table, count, partition, is_whole=only is None)
            if result is not None and result.committed:
                done.append(result)
        if not due:
            return done
    raise ConflictError(
        table.path,
        found=f"partitions that others compacted or overwrote in each of {_MOST_TRIES} tries",
        expected="to be first once",
        action="Rescale again, or stop what rewrites the table.",
    )


def _due(table: OpenTable, count: int, only: frozenset[bytes] | None) -> list[bytes]:
    """Partitions with another number of buckets.
    In the newest snapshot. Looked at again after each round: writers that began before the option was
    set may have made partitions of the old number since.
    """
    _, entries = newest_files(table._committer, only)
    return sorted({entry.partition for entry in entries if entry.total_buckets != count})


def _attempt(
    table: OpenTable, count: int, partition: bytes, *, is_whole: bool
) -> CommitResult | None:
    """Move a partition as it is in the end; None when it was rewritten meanwhile."""
    committer, state = table._committer, table._state()
    move = PartitionMove(table, partition, count)
    with resting(state, partition), held_newest(state, committer) as latest:
        if is_whole:
            _check_still_asked(table, count)
        try:
            _follow_up(move, committer, latest)
        except BaseException as error:
            # Nothing was committed yet, whatever the error: all that was made may go.
            move.discard()
            if not isinstance(error, ConflictError):
                raise
            _say_lost(table, error)
            return None
        try:
            result = committer.rewrite(move.messages, rescaled=count)
        except (ConflictError, UnsupportedError) as error:
            move.discard()
            if not isinstance(error, ConflictError):
                raise
            _say_lost(table, error)
            return None
    # What came meanwhile and waits for its changelog.
    finish_replayed(table, table.schema)
    return result


def _follow_up(move: PartitionMove, committer: Committer, latest: Snapshot | None) -> None:
    """All of a snapshot, then what came meanwhile.
    Ends when a round is short, does not get shorter, or is the last.

    Rounds of 40 s, 4 s, 0.5 s, 0.06 s: four. Of 40 s, 4 s, 3.9 s: three, as the writers are as
    fast as the move, and no further round would leave less to the commit.
    """
    last_seconds = math.inf
    for _ in range(1 + _MOST_CATCH_UPS):
        began = time.monotonic()
        move.follow(latest)
        took_seconds = time.monotonic() - began
        if took_seconds < _SHORT_SECONDS or took_seconds > _SHRINKING * last_seconds:
            return
        last_seconds, latest = took_seconds, committer.snapshots.latest()


def _say_lost(table: OpenTable, error: ConflictError) -> None:
    _log.info("a partition of %s is rescaled again: %s", table.path, error)


def _check_still_asked(table: OpenTable, count: int) -> None:
    """Whoever gave the table its number last does all partitions, those that were done with another one too."""
    number = table._committer.schemas.latest().num_buckets
    if number != count:
        raise ConflictError(
            table.path,
            found=f"another rescaling, to {counted(number, 'bucket')}, that began after this one to {count}",
            expected="one at a time",
            action="Rescale again if the table shall have that number after all.",
        )
