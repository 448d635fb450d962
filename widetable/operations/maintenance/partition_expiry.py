"""Expire partitions that are older than `partition.expiration-time`, by their values or by their last file.

    strategy values-time   the time in the values (partition_time) is older
    strategy update-time   the newest file is older

    partition-by dt, expiration-time 7 d, at 2024-01-10 12:00: partitions from before 2024-01-03 12:00 expire
    values-time     dt=2024-01-03 (its midnight) expires, dt=2024-01-04 stays, dt=abc never expires
    update-time     a partition whose newest file was made on 2024-01-03 at 11:59 expires, whatever its values are

In: an open table, a clock's local time. Out: which partitions expired. The expiry is one commit, an overwrite that
deletes only the files that were seen, so rows that are written meanwhile stay. Source: Paimon `PartitionExpire`, its
two strategies. Raises InvalidError for options that are no pattern or formatter, ConflictError if compactions were
faster in each of several tries.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import Final

from widetable.acceptance.acceptance import Use, accept
from widetable.arguments import flag
from widetable.commit.transaction.committer import Committer
from widetable.errors import ConflictError, UnsupportedError
from widetable.format.manifest_entry import ManifestEntry
from widetable.format.partition_value import partition_texts, readable
from widetable.messages.counted import counted
from widetable.messages.warning_code import WarningCode, warn
from widetable.operations.handle.newest_snapshot import newest_files
from widetable.operations.handle.open_table import OpenTable
from widetable.operations.health.restored_files import removing
from widetable.operations.health.snapshot_audit import partition_text
from widetable.runtime.machine_clock import now_millis
from widetable.schema import retention_options as retention
from widetable.schema.partition_time import partition_time, time_form
from widetable.write.table_state import TableState

_ROUNDS: Final = 5
_log = logging.getLogger("widetable")


@dataclass(frozen=True)
class PartitionExpiryResult:
    """Partitions that were too old, dropped or, in a dry run, to be dropped.

    Attributes
    ----------
    partitions : tuple of str
        The partitions, as their directories are named, sorted.
    rows : int
        How many rows their files have.
    snapshot_id : int or None
        The snapshot of the commit. None: nothing was committed.
    """

    __module__ = "widetable"

    partitions: tuple[str, ...] = ()
    rows: int = 0
    snapshot_id: int | None = None


def expire_partitions(table: OpenTable, dry_run: bool = False) -> PartitionExpiryResult:
    """Expire the partitions that are older than `partition.expiration-time`.

    Without that option none expires. A maintainer does this every `partition.expiration-check-interval`. The oldest
    expire first, at most `partition.expiration-max-num` in one call. Readers of changes get nothing. Files stay on the
    storage until the snapshots that name them expire.

    Parameters
    ----------
    dry_run : bool, default False
        Only name the partitions.

    Returns
    -------
    PartitionExpiryResult
        The partitions that expired, or would, and how many rows their files have.

    Raises
    ------
    InvalidError
        The table holds a join, or is an index of another table.
    UnsupportedError
        The table has an option that this version does not honour.
    ConflictError
        Compactions of these partitions were faster several times.
    """
    is_dry = flag(dry_run, "dry_run")
    accept(table.schema, Use.TAKE_ROWS, Use.MAINTAIN)
    now = datetime.fromtimestamp(now_millis() / 1000)
    return expire_old(table._state(), table._committer, now, dry_run=is_dry)


def expire_old(
    state: TableState, committer: Committer, now: datetime, *, dry_run: bool = False
) -> PartitionExpiryResult:
    """Expire the partitions that are due. now: local time, as other clients compare it.

    After a conflict with a compaction of these partitions, a new plan starts from the newest files. Rows that were
    appended meanwhile are no conflict: only the files that were seen are deleted, so the partition keeps these rows.
    """
    kept_millis = state.options.get(retention.PARTITION_EXPIRATION_TIME)
    if kept_millis is None or not state.schema.partition_keys:
        return PartitionExpiryResult()
    accept(state.schema, Use.TAKE_ROWS)
    try:
        before = now - timedelta(milliseconds=kept_millis)
    except OverflowError:  # before the year 1: nothing is so old
        return PartitionExpiryResult()
    for tries_left in reversed(range(_ROUNDS)):
        _, entries = newest_files(committer)
        old = _old(state, entries, before)
        names = tuple(sorted(partition_text(one[0].partition, state.schema) for one in old))
        gone = [entry for one in old for entry in one]
        rows = sum(entry.file.row_count for entry in gone)
        if dry_run or not gone:
            return PartitionExpiryResult(names, rows)
        try:
            done = committer.overwrite((), removing(gone))
        except ConflictError:
            if not tries_left:
                raise
            continue
        _log.info("%s: %s expired", state.paths.root, counted(len(names), "partition"))
        return PartitionExpiryResult(names, rows, done.snapshot_id)
    raise AssertionError("the last try returns or raises")


def _old(
    state: TableState, entries: Sequence[ManifestEntry], before: datetime
) -> list[list[ManifestEntry]]:
    """Return the entries of each partition to expire: the oldest ones, up to the limit of one call."""
    members: dict[bytes, list[ManifestEntry]] = {}
    for entry in entries:
        members.setdefault(entry.partition, []).append(entry)
    by_values = state.options.get(retention.PARTITION_EXPIRATION_STRATEGY) == "values-time"
    times = _times_of_values(state, members) if by_values else _times_of_files(members)
    old = sorted((time, partition) for partition, time in times if time < before)
    most = state.options.get(retention.PARTITION_EXPIRATION_MAX_NUM)
    return [members[partition] for _, partition in old[:most]]


def _times_of_values(
    state: TableState, partitions: dict[bytes, list[ManifestEntry]]
) -> Iterator[tuple[bytes, datetime]]:
    """Yield the time of each partition whose values are a time. Values are converted to texts of today's form,
    whatever form the table's directories have: other clients take the time from the value, too.
    """
    schema = state.schema
    pattern = state.options.get(retention.PARTITION_TIMESTAMP_PATTERN)
    form = time_form(state.options.get(retention.PARTITION_TIMESTAMP_FORMATTER))
    for partition in partitions:
        try:
            texts = dict(partition_texts(partition, readable(schema)))
        except UnsupportedError as error:
            warn(
                _log,
                WarningCode.PARTITION_NOT_EXPIRED,
                "a partition of %s does not expire: %s",
                state.paths.root,
                error,
            )
            continue
        time = partition_time(texts, pattern, form)
        if time is not None:
            yield partition, time


def _times_of_files(
    partitions: dict[bytes, list[ManifestEntry]],
) -> Iterator[tuple[bytes, datetime]]:
    """Yield the creation time of the newest file of each partition, in local time. A partition stays if one of its
    files has no creation time.
    """
    for partition, entries in partitions.items():
        millis = [entry.file.creation_time_millis for entry in entries]
        recorded = [each for each in millis if each is not None]
        if len(recorded) == len(millis):
            newest = datetime.fromtimestamp(max(recorded) / 1000, timezone.utc)
            yield partition, newest.replace(tzinfo=None)
