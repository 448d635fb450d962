"""The snapshot files of a table: which is the newest, the oldest, the one of a time or a tag.

Source: Paimon `SnapshotManager`, `TagManager`; format.md sections 1, 3 and 12. Ids are consecutive from the
oldest to the newest. The hint files are only hints: each may be missing, behind or garbage. But nobody writes one
before its snapshot: one that is ahead of all that is there says that the newest ones are lost. Raises NotFoundError
for what is not there, DamagedError for bytes that are no snapshot, and where snapshots are lost.
"""

from __future__ import annotations

import time
from bisect import bisect_right
from collections.abc import Sequence
from functools import cache, partial
from typing import Final

from widetable.commit.notes.skipped_files import if_there, pass_over, readable
from widetable.commit.snapshots.lost_snapshots import no_snapshot, trace_of_snapshots
from widetable.commit.snapshots.snapshot_times import Times, newest_at
from widetable.commit.snapshots.watermarks import carried_watermark, first_at_watermark
from widetable.errors import DamagedError, NotFoundError
from widetable.format.human_units import exact_time_text
from widetable.format.snapshot import Snapshot, snapshot_from_json, tag_from_json
from widetable.storage.file_io import FileIO
from widetable.storage.paths import TablePaths, snapshot_id

# How often `latest` looks again when the snapshot that it found has been expired before it was read, and
# `latest_id` when what it found contradicts itself.
_LOOKS: Final = 10
_PAUSE_SECONDS: Final = 0.01


class SnapshotStore:
    """Every call looks at the storage; what is remembered of the newest snapshot is only where to look first."""

    def __init__(self, file_io: FileIO, paths: TablePaths) -> None:
        self._file_io = file_io
        self._paths = paths
        self._newest_id: int | None = None

    def latest(self) -> Snapshot | None:
        """The newest snapshot, None for a table without one.

        A few small operations, however many snapshots there are: two when nobody has committed since the last call.
        """
        id = self._climbed()
        for look in range(_LOOKS):
            id = self.latest_id() if id is None else id
            if id is None:
                return None
            try:
                found = self.load(id)
            except NotFoundError:
                if look == _LOOKS - 1:
                    raise
                id = self._newest_id = None
            else:
                self._newest_id = id
                return found
        raise AssertionError("the last look returns or raises")

    def look_first_at(self, id: int) -> None:
        """What the caller knows to have been the newest."""
        self._newest_id = id

    def has_successor(self, id: int) -> bool:
        """Whether the snapshot of the next id is there: then that of `id` is not the newest one."""
        return self._exists(id + 1)

    def latest_id(self) -> int | None:
        """The id of the newest snapshot."""
        known = self._newest_id
        if known is not None and not self.has_successor(known) and self._exists(known):
            return known
        for look in range(_LOOKS):
            hint = self.hinted_latest_id()
            found = None if hint is None else self._climb(hint)
            if found is not None and self._exists(found):
                return found
            ids = self.ids()
            lost = self._lost(hint, ids)
            if lost is None:
                return ids[-1] if ids else None
            if look == _LOOKS - 1:
                raise lost
            # A commit, an expiry or a rollback that went on between the two looks is over soon.
            time.sleep(_PAUSE_SECONDS)
        raise AssertionError("the last look returns or raises")

    def _lost(self, hint: int | None, ids: Sequence[int]) -> DamagedError | None:
        """What contradicts that these are all snapshots: a newer hint, or traces where there is none."""
        if ids and (hint is None or hint <= ids[-1]):
            return None
        if ids and hint is not None:
            return DamagedError(
                self._paths.snapshot(hint),
                found=f"no such file, though {self._paths.latest_hint} names it; the newest one is {ids[-1]}",
                expected="the newest snapshot",
                action="Restore the file and those between the two. If they are lost, "
                "Table.accept_lost_snapshots() goes on from the one that is there.",
            )
        trace = trace_of_snapshots(self._file_io, self._paths)
        return None if trace is None else no_snapshot(self._paths, trace)

    def hinted_latest_id(self) -> int | None:
        """What the hint LATEST says, right or wrong; None when it says no number."""
        return self._hint(self._paths.latest_hint)

    def earliest(self) -> Snapshot | None:
        """The oldest snapshot that is left, None for a table without one."""
        id = self.earliest_id()
        return None if id is None else self.load(id)

    def earliest_id(self) -> int | None:
        hint = self._hint(self._paths.earliest_hint)
        if hint is not None and self._exists(hint) and not self._exists(hint - 1):
            return hint
        ids = self.ids()
        return ids[0] if ids else None

    def load(self, id: int) -> Snapshot:
        """The snapshot of that id. Raises NotFoundError when it was never made or has expired."""
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
        """The newest snapshot that was committed at `time_millis` or before.

        Raises NotFoundError when all left are younger, DamagedError for a time at which one may have been the newest
        that is lost: nobody knows then which rows the table had.
        """
        first, last = self.earliest_id() or 1, self.latest_id() or 0
        times = Times(self.time_of)
        ids: Sequence[int] = range(first, last + 1)
        found = newest_at(ids, time_millis, times.of)
        if times.has_missed:
            times, ids = Times(self.time_of), self.ids()
            found = newest_at(ids, time_millis, times.of)
        if found is None:
            raise self._none_as_old(time_millis)
        behind = next((id for id in ids[bisect_right(ids, found) :]), found + 1)
        found_millis = times.of(found)
        if behind > found + 1 and found_millis is not None and time_millis > found_millis:
            from_behind = exact_time_text(times.of(behind) or time_millis)
            raise DamagedError(
                self._paths.snapshot(found + 1),
                found=f"no such file, and snapshots {found + 1} to {behind - 1} may be of "
                f"{exact_time_text(time_millis)}",
                expected=f"a time up to {exact_time_text(found_millis)}, of snapshot {found}, or from "
                f"{from_behind} on, of snapshot {behind}",
                action="Use such a time, or restore the files.",
            )
        return self.load(found)

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
        )

    def by_watermark(self, watermark: int) -> Snapshot:
        """The oldest snapshot whose watermark has come to `watermark` (epoch milliseconds): what is older in event time
        is in it. Source: Paimon `SnapshotManager.laterOrEqualWatermark`; `watermarks` says what snapshots without one
        have come to.

        Raises NotFoundError when the newest one has not.
        """
        first, last = self.earliest_id() or 1, self.latest_id() or 0
        found = first_at_watermark(first, last, watermark, cache(partial(if_there, self.load)))
        if found is None:
            raise NotFoundError(
                self._paths.root,
                found=f"no snapshot with a watermark of {exact_time_text(watermark)} or later",
                expected="a watermark that a writer has committed",
                action="Use an earlier watermark, or wait for the writers.",
            )
        return self.load(found)

    def watermark_behind(self, latest: Snapshot | None, writer: str) -> int | None:
        """What the snapshot behind the newest one begins with: `carried_watermark`."""
        return carried_watermark(latest, writer, partial(if_there, self.load))

    def time_of(self, id: int) -> int | None:
        """When a snapshot was committed; None when it is not there any more."""
        found = if_there(self.load, id)
        return None if found is None else found.time_millis

    def by_tag(self, name: str) -> Snapshot:
        """The snapshot that a tag keeps; it need not have a snapshot file any more."""
        path = self._paths.tag(name)
        return tag_from_json(self._file_io.read(path), path).snapshot

    def ids(self) -> list[int]:
        """All ids, ascending. Lists the directory: O(snapshots)."""
        found = (snapshot_id(entry.name) for entry in self._file_io.list(self._paths.snapshot_dir))
        return sorted(id for id in found if id is not None)

    def _climbed(self) -> int | None:
        """What may be the newest id, by what is remembered, or by the hint; None: look at all."""
        known = self._newest_id
        if known is not None and not self.has_successor(known):
            return known
        hint = self.hinted_latest_id()
        return None if hint is None else self._climb(hint)

    def _climb(self, start: int) -> int:
        """The newest id at or above `start`, by doubling steps, if the snapshot of that id is there.

        start 10, newest 20: looks for 11, 13, 17, 25, then 21, 19, 20. A right hint costs one look.

        Whether it is the caller looks last: the id found must have been there *after* its successor was not. Expiry
        removes ids in ascending order, so the successor has never been. Without it a stale hint could end below a gap
        that expiry is making.
        """
        found, step = start, 1
        while self._exists(found + step):
            found, step = found + step, step * 2
        missing = found + step
        while missing - found > 1:
            middle = (found + missing) // 2
            if self._exists(middle):
                found = middle
            else:
                missing = middle
        return found

    def _exists(self, id: int) -> bool:
        return id > 0 and self._file_io.exists(self._paths.snapshot(id))

    def damaged_hints(self) -> list[DamagedError]:
        """Hints that cannot be read."""
        return readable((self._paths.latest_hint, self._paths.earliest_hint), self._read_hint)[1]

    def _hint(self, path: str) -> int | None:
        try:
            return if_there(self._read_hint, path)
        except DamagedError as damage:
            pass_over(damage)
            return None

    def _read_hint(self, path: str) -> int:
        text = self._file_io.read(path)
        if text.isdigit() and len(text) < 19:
            return int(text)
        raise DamagedError(
            path,
            found="no snapshot id",
            expected="the id of a snapshot",
            action="Nothing: reads are slower until the next commit or expiry writes it anew, or delete it.",
        )
