"""Measures of a table that are cheap to read: its backlog, consumers, size, and compaction lease.

In: the newest snapshot with its manifests, consumers, the compaction lease, snapshots back to the last compaction. Out:
one value, which `inspect` shows together with listings, and which a service reports to Prometheus. No directory of data
files is listed and no data file opened. Raises what reading these raises.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from widetable.commit.notes.lease import noted_lease
from widetable.commit.notes.lease_term import LeaseState, NotedLease
from widetable.commit.snapshots.committed import commit_millis
from widetable.format.bucket_id import BucketId, by_bucket
from widetable.format.data_file_meta import DataFileMeta
from widetable.format.manifest_entry import ManifestEntry
from widetable.format.snapshot import Snapshot
from widetable.lsm.levels import levels_of
from widetable.operations.compaction.backlog import (
    Backlog,
    ConsumerLag,
    SinceCompaction,
    backlog_of,
    commits_without_changelog,
    consumer_lags,
    since_compaction,
)
from widetable.operations.handle.held_lease import LEASE_MILLIS
from widetable.operations.handle.newest_snapshot import newest_files
from widetable.operations.handle.open_table import OpenTable
from widetable.operations.history.named_files import NamedFiles
from widetable.runtime.machine_clock import now_millis
from widetable.schema.table_schema import TableSchema

# How many commits monitoring looks back for the last compaction; a table that nobody compacts has any number.
LOOKS_BACK: Final = 100


@dataclass(frozen=True)
class TableMeasures:
    """Holds the measures of one table.

    snapshots: how many are kept. commits_without_changelog: how many wait for the compaction that makes their
    changelog. sorted_runs: how many a read of the worst bucket merges at most. snapshot_bytes: of the data files of the
    newest snapshot. silent_millis: since the last renewal of the compaction lease by its last holder, None if no lease
    is noted. commit_millis: how long the newest commit took, including lost races, None if another client made it.
    """

    snapshots: int
    backlog: Backlog
    commits_without_changelog: int
    sorted_runs: int
    consumers: Mapping[str, ConsumerLag]
    snapshot_bytes: int
    silent_millis: int | None
    commit_millis: int | None


class MeasuredTable(NamedTuple):
    """Holds the measures with the data that they come from.

    Attributes
    ----------
    measures : TableMeasures
        The measures.
    latest : Snapshot or None
        The newest snapshot. None: the table has none.
    earliest_id : int or None
        The id of the oldest snapshot that is kept.
    entries : list of ManifestEntry
        The live files of `latest`.
    since : SinceCompaction
        The commits since the last compaction.
    lease : NotedLease or None
        The compaction lease, if one is noted.
    """

    measures: TableMeasures
    latest: Snapshot | None
    earliest_id: int | None
    entries: Sequence[ManifestEntry]
    since: SinceCompaction
    lease: NotedLease | None

    @property
    def is_leased(self) -> bool:
        """Whether somebody has the compaction lease."""
        return self.lease is not None and self.lease.lease_state is LeaseState.ACTIVE


def measured(table: OpenTable, looks_back: int | None = None) -> MeasuredTable:
    """Measure a table.

    Parameters
    ----------
    table : OpenTable
        The table.
    looks_back : int, default None
        How many commits to search for the last compaction; older waiting commits are not counted. None: all that are
        kept.

    Returns
    -------
    MeasuredTable
        The measures.
    """
    state, committer = table._state(), table._committer
    latest, entries = newest_files(committer)
    earliest_id = None if latest is None else committer.snapshots.earliest_id()
    latest_id = 0 if latest is None else latest.id
    first_id = 1 if earliest_id is None else earliest_id
    if looks_back is not None:
        first_id = max(first_id, latest_id - looks_back + 1)
    since = since_compaction(committer, latest, None if earliest_id is None else first_id)
    lease = noted_lease(state.file_io, state.paths)
    measures = TableMeasures(
        snapshots=0 if earliest_id is None else latest_id - earliest_id + 1,
        # Nobody compacts level 0 of an append table.
        backlog=backlog_of(entries if state.schema.primary_keys else (), since.began_millis),
        commits_without_changelog=commits_without_changelog(table, first_id - 1, latest_id),
        sorted_runs=_most_runs(state.schema, entries),
        consumers=consumer_lags(state, latest),
        snapshot_bytes=sum(entry.file.file_size for entry in entries),
        silent_millis=None if lease is None else _silent_millis(lease),
        commit_millis=None if latest is None else commit_millis(latest),
    )
    return MeasuredTable(measures, latest, earliest_id, entries, since, lease)


def named_bytes(table: OpenTable) -> int:
    """Count the bytes of all files that snapshots, tags, branches and changelogs name.

    It reads the metadata of all snapshots that are kept; files whose sizes that does not record do not count.

    Parameters
    ----------
    table : OpenTable
        The table.

    Returns
    -------
    int
        Bytes, without orphans.
    """
    state, committer = table._state(), table._committer
    named = NamedFiles(state.file_io, state.paths, committer.live_files, strict=False)
    return sum(named.steady(named.of_table).values())


def sorted_runs(schema: TableSchema, bucket: BucketId, files: Sequence[DataFileMeta]) -> int | None:
    """Return how many sorted runs a read of the bucket merges at most; None if nothing is merged: in append tables, and
    for rows that wait for a bucket.
    """
    if not schema.primary_keys or bucket.number < 0:
        return None
    return len(levels_of(files, schema.typed_options).sorted_runs())


def _most_runs(schema: TableSchema, entries: Sequence[ManifestEntry]) -> int:
    runs = (
        sorted_runs(schema, bucket, [each.file for each in members])
        for bucket, members in by_bucket(entries).items()
    )
    return max((each for each in runs if each is not None), default=0)


def _silent_millis(lease: NotedLease) -> int | None:
    """Return the time since the last renewal; None for a lease whose time is not credible."""
    silent_millis = now_millis() - (lease.expires_millis - LEASE_MILLIS)
    return None if silent_millis < -LEASE_MILLIS else max(silent_millis, 0)
