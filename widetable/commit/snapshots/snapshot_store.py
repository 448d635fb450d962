"""The snapshot files of a table: finds the newest, the oldest, and the one of a time or a tag.

Source: Paimon `SnapshotManager`, `TagManager`; format.md sections 1, 3 and 12. Ids are consecutive from the oldest to
the newest. The hint files are only hints: each may be missing, outdated or unreadable. But every client writes a hint
after its snapshot: a hint above all existing snapshots shows that the newest ones are lost. Raises NotFoundError for a
missing snapshot, DamagedError for bytes that are no snapshot, and if snapshots are lost.
"""

from __future__ import annotations

import time
from bisect import bisect_right
from collections.abc import Sequence
from functools import cache, partial
from typing import Final

from widetable.commit.notes.skipped_files import log_skipped, or_none, readable
from widetable.commit.snapshots.lost_snapshots import no_snapshot, trace_of_snapshots
from widetable.commit.snapshots.snapshot_times import Times, newest_at
from widetable.commit.snapshots.watermarks import carried_watermark, first_at_watermark
from widetable.errors import DamagedError, NotFoundError
from widetable.format.human_units import exact_time_text
from widetable.format.snapshot import Snapshot, snapshot_from_json, tag_from_json
from widetable.messages.error_code import ErrorCode
from widetable.storage.file_io import FileIO
from widetable.storage.paths import TablePaths, snapshot_id

# How often `latest` tries again when its snapshot expired before it was read, and `latest_id` when the files that it
# saw contradict each other.
_ATTEMPTS: Final = 10
_PAUSE_SECONDS: Final = 0.01


class SnapshotStore:
    """The snapshots of one table. Every call reads the storage; a search begins at the cached newest id."""

    def __init__(self, file_io: FileIO, paths: TablePaths) -> None:
        self._file_io = file_io
        self._paths = paths
        self._newest_id: int | None = None

    def latest(self) -> Snapshot | None:
        """Return the newest snapshot, None for a table without one.

        It costs a few small requests, however many snapshots there are: two if there was no commit since the last call.
        """
        id = self._likely_newest_id()
        for attempt in range(_ATTEMPTS):
            id = self.latest_id() if id is None else id
            if id is None:
                return None
            try:
                snapshot = self.load(id)
            except NotFoundError:
                if attempt == _ATTEMPTS - 1:
                    raise
                id = self._newest_id = None
            else:
                self._newest_id = id
                return snapshot
        raise AssertionError("the last attempt returns or raises")

    def look_first_at(self, id: int) -> None:
        """Begin the next search at this id, which the caller has seen as the newest."""
        self._newest_id = id

    def has_successor(self, id: int) -> bool:
        """Return whether the snapshot of the next id exists: then `id` is not the newest one."""
        return self._exists(id + 1)

    def latest_id(self) -> int | None:
        """Return the id of the newest snapshot, None for a table without one."""
        cached_id = self._newest_id
        if cached_id is not None and not self.has_successor(cached_id) and self._exists(cached_id):
            return cached_id
        for attempt in range(_ATTEMPTS):
            hint = self.hinted_latest_id()
            newest_id = None if hint is None else self._search_upwards(hint)
            if newest_id is not None and self._exists(newest_id):
                return newest_id
            ids = self.ids()
            lost = self._lost_snapshots(hint, ids)
            if lost is None:
                return ids[-1] if ids else None
            if attempt == _ATTEMPTS - 1:
                raise lost
            # A commit, an expiry or a rollback that ran between the two requests is over soon.
            time.sleep(_PAUSE_SECONDS)
        raise AssertionError("the last attempt returns or raises")

    def _lost_snapshots(self, hint: int | None, ids: Sequence[int]) -> DamagedError | None:
        """Return the error if these ids cannot be all snapshots: a hint is newer, or a table without any has traces."""
        if ids and (hint is None or hint <= ids[-1]):
            return None
        if ids and hint is not None:
            return DamagedError(
                self._paths.snapshot(hint),
                found=f"no such file, though {self._paths.latest_hint} names it; the newest one is {ids[-1]}",
                expected="the newest snapshot",
                action="Restore the file and those between the two. If they are lost, "
                "Table.accept_lost_snapshots() continues from the newest one that exists.",
            )
        trace = trace_of_snapshots(self._file_io, self._paths)
        return None if trace is None else no_snapshot(self._paths, trace)

    def hinted_latest_id(self) -> int | None:
        """Return the id in the hint LATEST, right or wrong; None if it has no number."""
        return self._hint(self._paths.latest_hint)

    def earliest(self) -> Snapshot | None:
        """Return the oldest kept snapshot, None for a table without one."""
        id = self.earliest_id()
        return None if id is None else self.load(id)

    def earliest_id(self) -> int | None:
        hint = self._hint(self._paths.earliest_hint)
        if hint is not None and self._exists(hint) and not self._exists(hint - 1):
            return hint
        ids = self.ids()
        return ids[0] if ids else None

    def load(self, id: int) -> Snapshot:
        """Return the snapshot of that id. Raises NotFoundError if it never existed or has expired."""
        path = self._paths.snapshot(id)
        snapshot = snapshot_from_json(self._file_io.read(path), path)
        if snapshot.id != id:
            raise DamagedError(
                path,
                found=f"the snapshot id {snapshot.id}",
                expected=f"the id {id} of its name",
                action="Restore the file, or go back to an older snapshot.",
            )
        return snapshot

    def by_timestamp(self, time_millis: int) -> Snapshot:
        """Return the newest snapshot that was committed at `time_millis` or before.

        Raises NotFoundError if all kept snapshots are younger, DamagedError for a time at which a lost snapshot may
        have been the newest: then the rows of that time are not known.
        """
        first, last = self.earliest_id() or 1, self.latest_id() or 0
        times = Times(self.time_of)
        ids: Sequence[int] = range(first, last + 1)
        newest = newest_at(ids, time_millis, times.of)
        if times.has_missed:
            times, ids = Times(self.time_of), self.ids()
            newest = newest_at(ids, time_millis, times.of)
        if newest is None:
            raise self._none_as_old(time_millis)
        next_id = next((id for id in ids[bisect_right(ids, newest) :]), newest + 1)
        newest_millis = times.of(newest)
        if next_id > newest + 1 and newest_millis is not None and time_millis > newest_millis:
            next_time = exact_time_text(times.of(next_id) or time_millis)
            raise DamagedError(
                self._paths.snapshot(newest + 1),
                found=f"no such file, and snapshots {newest + 1} to {next_id - 1} may be of "
                f"{exact_time_text(time_millis)}",
                expected=f"a time up to {exact_time_text(newest_millis)}, of snapshot {newest}, or from "
                f"{next_time} on, of snapshot {next_id}",
                action="Use such a time, or restore the files.",
            )
        return self.load(newest)

    def _none_as_old(self, time_millis: int) -> NotFoundError:
        earliest = self.earliest()
        expected = "a table with snapshots; it has none yet"
        if earliest is not None:
            since = exact_time_text(earliest.time_millis)
            expected = f"a time from {since} on, of snapshot {earliest.id}"
        return NotFoundError(
            f"timestamp {exact_time_text(time_millis)}",
            found="no snapshot as old",
            expected=expected,
            action="Use a later time, or a tag.",
            code=ErrorCode.SNAPSHOT_NOT_FOUND,
        )

    def by_watermark(self, watermark: int) -> Snapshot:
        """Return the oldest snapshot that has reached `watermark` (epoch milliseconds): it has all rows up to that
        event time. Source: Paimon `SnapshotManager.laterOrEqualWatermark`; `watermarks` defines the watermark of a
        snapshot that records none.

        Raises NotFoundError if the newest snapshot has not reached it.
        """
        first, last = self.earliest_id() or 1, self.latest_id() or 0
        id = first_at_watermark(first, last, watermark, cache(partial(or_none, self.load)))
        if id is None:
            raise NotFoundError(
                self._paths.root,
                found=f"no snapshot with a watermark of {exact_time_text(watermark)} or later",
                expected="a watermark that a writer has committed",
                action="Use an earlier watermark, or wait for the writers.",
                code=ErrorCode.SNAPSHOT_NOT_FOUND,
            )
        return self.load(id)

    def watermark_behind(self, latest: Snapshot | None, writer: str) -> int | None:
        """Return the watermark with which the snapshot after the newest one begins: `carried_watermark`."""
        return carried_watermark(latest, writer, partial(or_none, self.load))

    def time_of(self, id: int) -> int | None:
        """Return when a snapshot was committed; None if it no longer exists."""
        snapshot = or_none(self.load, id)
        return None if snapshot is None else snapshot.time_millis

    def by_tag(self, name: str) -> Snapshot:
        """Return the snapshot that a tag keeps; its own snapshot file may have expired."""
        path = self._paths.tag(name)
        return tag_from_json(self._file_io.read(path), path).snapshot

    def ids(self) -> list[int]:
        """Return all ids, ascending. Lists the directory: O(snapshots)."""
        ids = (snapshot_id(entry.name) for entry in self._file_io.list(self._paths.snapshot_dir))
        return sorted(id for id in ids if id is not None)

    def _likely_newest_id(self) -> int | None:
        """Return the likely newest id by the cached id or the hint; None: the directory must be listed."""
        cached_id = self._newest_id
        if cached_id is not None and not self.has_successor(cached_id):
            return cached_id
        hint = self.hinted_latest_id()
        return None if hint is None else self._search_upwards(hint)

    def _search_upwards(self, start: int) -> int:
        """Return the newest id at or above `start`, found by doubling steps, if the snapshot of that id exists.

        start 10, newest 20: checks 11, 13, 17, 25, then 21, 19, 20. A right hint costs one check.

        The caller checks afterwards that the snapshot exists: it must exist *after* its successor did not. As expiry
        removes ids in ascending order, the successor then never existed. Without that check a stale hint could end
        below a gap that expiry is making.
        """
        present, step = start, 1
        while self._exists(present + step):
            present, step = present + step, step * 2
        missing = present + step
        while missing - present > 1:
            middle = (present + missing) // 2
            if self._exists(middle):
                present = middle
            else:
                missing = middle
        return present

    def _exists(self, id: int) -> bool:
        return id > 0 and self._file_io.exists(self._paths.snapshot(id))

    def damaged_hints(self) -> list[DamagedError]:
        """Return an error for each hint that cannot be read."""
        return readable((self._paths.latest_hint, self._paths.earliest_hint), self._read_hint)[1]

    def _hint(self, path: str) -> int | None:
        try:
            return or_none(self._read_hint, path)
        except DamagedError as damage:
            log_skipped(damage)
            return None

    def _read_hint(self, path: str) -> int:
        text = self._file_io.read(path)
        if text.isdigit() and len(text) < 19:
            return int(text)
        raise DamagedError(
            path,
            found="no snapshot id",
            expected="the id of a snapshot",
            action="Nothing: reads are slower until the next commit or expiry rewrites the file. Or delete it.",
        )
