"""Give a table another number of buckets: set the option for new partitions, and move the files of existing ones to new
buckets.

    per partition of another number   rows of the newest snapshot ─► files in new buckets ┐
                                      rows committed meanwhile    ─► files in new buckets ┴─► one OVERWRITE snapshot

    killed                            the table then
    after the option was set          new partitions get the new number, existing ones keep theirs
    before it was set back            as above, although only some partitions were requested, for the first time
    while rows are moved              as before, and some files that nothing names
    between two partitions            some have the new number, some the old one; readers look at each

Each partition is rescaled by its own commit, which replaces only the files that were read (`partition_move`). Writers
are not stopped: rows that they commit meanwhile are moved, too, and a later commit with files of the old buckets moves
them itself (`rebucketed_commit`). Compactions skip the partition meanwhile (`locked_partition`). Until its turn a
partition keeps its number, for readers and writers (`write/places.py`). Rows are moved unmerged, level by level
(`lsm/moved_rows`), so readers of changes see no difference, now or later. Source: Paimon's
rescale by INSERT OVERWRITE (its page "Rescale Bucket"), which writes merged rows. Raises UnsupportedError for dynamic
buckets and keys without the partition, InvalidError for invalid partitions, ConflictError if others overwrite in each
of several tries.
"""

from __future__ import annotations

import logging
import math
import time
from typing import Any, Final

from widetable.acceptance.acceptance import Use, accept
from widetable.arguments import whole_number
from widetable.commit.transaction.commit_result import CommitResult
from widetable.commit.transaction.committer import Committer
from widetable.errors import ConflictError, UnsupportedError
from widetable.format.snapshot import Snapshot
from widetable.messages.counted import counted
from widetable.operations.compaction.locked_partition import partition_lock
from widetable.operations.ddl.alteration import rescaled
from widetable.operations.handle.compaction_threads import wait_for_compactions
from widetable.operations.handle.newest_snapshot import held_newest, newest_files
from widetable.operations.handle.open_table import OpenTable
from widetable.operations.maintenance.partition_move import PartitionMove
from widetable.operations.queries.requested_partitions import request_partitions
from widetable.operations.writes.table_commit import finish_replayed

_MAX_TRIES: Final = 10
# Rounds after the bulk, each of which moves what was committed during the one before. The commit itself, for which
# others wait, takes about as long as the last round; so the rounds end when one is short, or no longer gets shorter.
_MAX_CATCH_UPS: Final = 8
_SHORT_SECONDS: Final = 0.1
_SHRINKING: Final = 0.8
_INSTEAD: Final = "Leave the partitions out, to rescale the whole table."
_log = logging.getLogger("widetable")


def rescale(table: OpenTable, buckets: int, partitions: Any = None) -> list[CommitResult]:
    """Give the table another number of buckets, and every partition that has another one.

    Reads and writes continue meanwhile, and none is refused. Readers of changes see no change. After a kill,
    call it again. The first call that names partitions sets the number of the table and sets it back, to record that
    partitions differ. A kill between the two leaves new partitions with the new number.

    Parameters
    ----------
    buckets : int
        The number of buckets, 1 or more.
    partitions : Arrow data, frame, dict, list of dicts or list, default None
        Only these partitions get the number; new ones get the table's. Rows of the partition
        columns, in any form in which `lookup` takes keys. None: the table, and all its partitions.

    Returns
    -------
    list of CommitResult
        The commits, one for each partition that had another number; empty if all have it.

    Raises
    ------
    InvalidError
        `buckets` is below 1, or partitions are named for a table without partitions.
    UnsupportedError
        The table is under barriers, its number of buckets is not fixed, or it has an option that this
        version does not honour.
    ConflictError
        Others compacted or overwrote partitions in each of several tries.
    """
    count = whole_number(buckets, "buckets", least=1)
    schema = table.schema
    accept(schema, Use.WRITE, Use.REPLACE, Use.RESCALE, path=table.path)
    only = None if partitions is None else request_partitions(table, partitions, _INSTEAD)
    schemas = table._committer.schemas
    if only is None or not schemas.is_rescaled():
        rescaled(schemas, count, table.path)
        # Setting the number back records that partitions differ: writers read the number of each from now on.
        if only is not None:
            rescaled(schemas, schema.num_buckets, table.path)
    wait_for_compactions(table.path)
    done: list[CommitResult] = []
    for _ in range(_MAX_TRIES):
        due = _due(table, count, only)
        for partition in due:
            result = _attempt(table, count, partition, is_whole=only is None)
            if result is not None and result.committed:
                done.append(result)
        if not due:
            return done
    raise ConflictError(
        table.path,
        found=f"partitions that others compacted or overwrote in each of {_MAX_TRIES} tries",
        expected="one try that commits before the others",
        action="Rescale again, or stop what rewrites the table.",
    )


def _due(table: OpenTable, count: int, only: frozenset[bytes] | None) -> list[bytes]:
    """Return the partitions of the newest snapshot with another number of buckets.

    The check is repeated after each round, because writers that began before the option was set may have made
    partitions of the old number since.
    """
    _, entries = newest_files(table._committer, only)
    return sorted({entry.partition for entry in entries if entry.total_buckets != count})


def _attempt(
    table: OpenTable, count: int, partition: bytes, *, is_whole: bool
) -> CommitResult | None:
    """Move a partition with all rows committed until then; return None if others rewrote it meanwhile."""
    committer, state = table._committer, table._state()
    move = PartitionMove(table, partition, count)
    with partition_lock(state, partition), held_newest(state, committer) as latest:
        if is_whole:
            _check_not_superseded(table, count)
        try:
            _catch_up(move, committer, latest)
        except BaseException as error:
            # Nothing was committed yet, whatever the error, so all new files may be deleted.
            move.discard()
            if not isinstance(error, ConflictError):
                raise
            _log_retry(table, error)
            return None
        try:
            result = committer.rewrite(move.messages, rescaled=count)
        except (ConflictError, UnsupportedError) as error:
            move.discard()
            if not isinstance(error, ConflictError):
                raise
            _log_retry(table, error)
            return None
    # Rows that were committed meanwhile may wait for their changelog.
    finish_replayed(table, table.schema)
    return result


def _catch_up(move: PartitionMove, committer: Committer, latest: Snapshot | None) -> None:
    """Move all rows of a snapshot, then those that were committed meanwhile.

    The rounds end when one is short, is not shorter than the one before, or is the last. Rounds of 40 s, 4 s, 0.5 s,
    0.06 s: four. Rounds of 40 s, 4 s, 3.9 s: three, because the writers are as fast as the move, and no further round
    would leave less to the commit.
    """
    last_seconds = math.inf
    for _ in range(1 + _MAX_CATCH_UPS):
        began = time.monotonic()
        move.follow(latest)
        took_seconds = time.monotonic() - began
        if took_seconds < _SHORT_SECONDS or took_seconds > _SHRINKING * last_seconds:
            return
        last_seconds, latest = took_seconds, committer.snapshots.latest()


def _log_retry(table: OpenTable, error: ConflictError) -> None:
    _log.info("retrying to rescale a partition of %s: %s", table.path, error)


def _check_not_superseded(table: OpenTable, count: int) -> None:
    """Raise ConflictError after a newer rescaling of the table, which also rescales the partitions of this one."""
    number = table._committer.schemas.latest().num_buckets
    if number != count:
        raise ConflictError(
            table.path,
            found=f"another rescaling, to {counted(number, 'bucket')}, that began after this one to {count}",
            expected="one rescaling at a time",
            action=f"Rescale again if the table is to have {counted(count, 'bucket')} after all.",
        )
