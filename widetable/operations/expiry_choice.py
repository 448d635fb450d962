"""What expiry takes: which snapshots may go, and which data files then have no reader left. Pure.

Source: Paimon `ExpireSnapshotsImpl`, `SnapshotDeletion`; format.md section 12. In: ids, times, entries of manifests.
Out: a range of ids, names. Raises InvalidError for numbers of snapshots that exclude each other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Set
from dataclasses import dataclass

from widetable import options as opt
from widetable.format.manifest_entry import DELETE, ManifestEntry
from widetable.options import TableOptions

TimeOf = Callable[[int], int | None]


@dataclass(frozen=True)
class Retention:
    """num_min, num_max: snapshots that stay at least and at most. time_millis: how long one stays after
    the next one has come. limit: how many go at once.
    """

    num_min: int
    num_max: int
    time_millis: int
    limit: int

    def __post_init__(self) -> None:
        opt.check_retained(self.num_min, self.num_max)


def retention_of(
    options: TableOptions,
    *,
    num_min: int | None = None,
    num_max: int | None = None,
    time_millis: int | None = None,
    limit: int | None = None,
) -> Retention:
    """The table's options, or what is given instead of each."""
    return Retention(
        num_min=options.get(opt.SNAPSHOT_NUM_RETAINED_MIN) if num_min is None else num_min,
        num_max=options.get(opt.SNAPSHOT_NUM_RETAINED_MAX) if num_max is None else num_max,
        time_millis=options.get(opt.SNAPSHOT_TIME_RETAINED) if time_millis is None else time_millis,
        limit=options.get(opt.SNAPSHOT_EXPIRE_LIMIT) if limit is None else limit,
    )


@dataclass(frozen=True)
class ExpiryChoice:
    """The snapshots `begin` up to and without `end` may go."""

    begin: int
    end: int

    @property
    def ids(self) -> range:
        return range(self.begin, self.end)


def choose_snapshots(
    earliest: int,
    latest: int,
    retention: Retention,
    needed: Iterable[int],
    now_millis: int,
    time_of: TimeOf,
) -> ExpiryChoice:
    """The oldest snapshots that nobody needs.

    earliest, latest: ids of the table. needed: the first snapshots that consumers and leases still need; they and all
    later ones stay. time_of: when a snapshot was committed, None when it is not there any more. A snapshot is as old
    as the one that came after it, and goes when that is as old as `time_millis`, or when more than num_max would stay.
    """
    end = min([latest - retention.num_min + 1, earliest + retention.limit, *needed])
    at = max(earliest, min(end, latest - retention.num_max + 1))
    while at < end:
        next_millis = time_of(at + 1)
        if next_millis is None or now_millis - next_millis < retention.time_millis:
            break
        at += 1
    return ExpiryChoice(earliest, at)


def unread_files(
    deltas: Iterable[ManifestEntry], changelogs: Iterable[ManifestEntry], kept: Set[str]
) -> list[ManifestEntry]:
    """The files that go with expired snapshots, each once.

    deltas: what these and the snapshot after them changed: a file that one deleted is gone, unless it was only moved
    to another level, or a tag has it; then its name is in `kept`. changelogs: the changelog files of the expired
    snapshots. kept: names of files that are needed by others.
    """
    deleted = [entry for entry in deltas if entry.kind == DELETE]
    found = {
        (entry.partition, entry.bucket, entry.file.file_name): entry
        for entry in (*deleted, *changelogs)
        if entry.file.file_name not in kept
    }
    return list(found.values())
