"""Chooses the snapshots that may expire, and the data files that then have no reader left. Pure.

Source: Paimon `ExpireSnapshotsImpl`, `SnapshotDeletion`; format.md section 12. In: ids, times, entries of manifests.
Out: a range of ids, names.

    ids 1 .. 6, made at 100, 200 .. 600, now 1000; 1 min, 100 max by default

    time_millis 550    1 2 3: 4 was the newest until 500, which is 500 ago
    max 3              1 2 3, however young
    min 4, time 0      1 2
    needed 3, time 0   1 2
    needed 3, max 2    1 2: a need takes precedence over the maximum
    limit 2, time 0    1 2

Raises InvalidError for numbers of snapshots that exclude each other.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from widetable.arguments import whole_number
from widetable.commit.snapshots.snapshot_times import TimeOf, following, is_ahead
from widetable.format.manifest_entry import DELETE, ManifestEntry
from widetable.schema import retention_options as retention
from widetable.schema.option import Option
from widetable.schema.option_checks import check_retained
from widetable.schema.options import TableOptions


@dataclass(frozen=True)
class Retention:
    """How long snapshots are kept.

    num_min, num_max: how many stay at least and at most. time_millis: how long one stays after the next one was made.
    limit: how many are removed at once.
    """

    num_min: int
    num_max: int
    time_millis: int
    limit: int

    def __post_init__(self) -> None:
        check_retained(self.num_min, self.num_max)


def retention_of(
    options: TableOptions,
    *,
    num_min: int | None = None,
    num_max: int | None = None,
    time_millis: int | None = None,
    limit: int | None = None,
) -> Retention:
    """Return the retention by the table's options, or by the given values instead.

    If only one of minimum and maximum is given, it moves the option of the other: a maximum of 5 overrides the
    default minimum of 10.
    """

    def given(value: Any, name: str, option: Option[int]) -> int:
        return options.get(option) if value is None else whole_number(value, name, least=0)

    least = given(num_min, "num_retained_min", retention.SNAPSHOT_NUM_RETAINED_MIN)
    most = given(num_max, "num_retained_max", retention.SNAPSHOT_NUM_RETAINED_MAX)
    if (num_min is None) != (num_max is None):
        least, most = (min(least, most), most) if num_min is None else (least, max(least, most))
    return Retention(
        num_min=least,
        num_max=most,
        time_millis=given(time_millis, "time_retained_millis", retention.SNAPSHOT_TIME_RETAINED),
        limit=given(limit, "limit", retention.SNAPSHOT_EXPIRE_LIMIT),
    )


def choose_snapshots(
    ids: Sequence[int],
    retention: Retention,
    needed: Iterable[int],
    now_millis: int,
    time_of: TimeOf,
) -> Sequence[int]:
    """Return the oldest snapshots that may be removed.

    ids: the existing ones, ascending; some in between may be lost. needed: the first snapshots that consumers and
    leases still need; they and all later ones stay. time_of: the time of a snapshot's commit, None when it no longer
    exists. A snapshot's age counts from the commit of the next one. It is removed at the age `time_millis`, or when
    more than num_max would stay. A time ahead of now is from a wrong clock and is ignored.
    """
    end = min(
        len(ids) - retention.num_min, retention.limit, *(bisect_left(ids, id) for id in needed)
    )
    at = max(0, min(end, len(ids) - retention.num_max))
    while at < end:
        ended_millis = _ended_millis(at, ids, now_millis, time_of)
        if ended_millis is None or now_millis - ended_millis < retention.time_millis:
            break
        at += 1
    return ids[:at]


def _ended_millis(at: int, ids: Sequence[int], now_millis: int, time_of: TimeOf) -> int | None:
    """Return the latest time at which a snapshot ceased to be the newest one; None when that is unknown.

    The first later one with a plausible time decides; but no snapshot ends before it was made.

        ids 1 2 3 4, made at 10, 900000, 12, 13; now 20000    ended at 12, 12, 13, None
    """
    made_millis = time_of(ids[at])
    for later in following(at, len(ids) - 1):
        millis = time_of(ids[later])
        if made_millis is None or millis is None:
            return None
        if not is_ahead(millis, now_millis):
            return millis if is_ahead(made_millis, now_millis) else max(made_millis, millis)
    return None


def unread_files(
    deltas: Iterable[ManifestEntry], changelogs: Iterable[ManifestEntry], needed: Container[str]
) -> list[ManifestEntry]:
    """Return the files to delete with expired snapshots, each once.

    deltas: the changes of these snapshots and the one after them. A file that a delta deletes is no longer read,
    unless it was only moved to another level or a tag has it; then its name is in `needed`. changelogs: the changelog
    files of the expired snapshots. needed: names of files that others need.
    """
    deleted = [entry for entry in deltas if entry.kind == DELETE]
    unread = {
        (entry.bucket_id, entry.file.file_name): entry
        for entry in (*deleted, *changelogs)
        if entry.file.file_name not in needed
    }
    return list(unread.values())
