"""Creates the tags that are due by `tag_rule`, and deletes those that are too many.

In: a table as it is now. Out: the snapshot that still waits for its tag because the storage refused it. Maintainers
call it, and each expiry before it removes snapshots; an expired snapshot is skipped for the next one, as in Paimon
(`TagAutoCreation`), whose writers continue where this ends. Several at once do no harm: the second one finds the tag.
On a full disk, expiry keeps only snapshots from the waiting one on. Raises what reading snapshots and tags raises.

A table with daily tags, without a delay, whose newest automatic tag is that of the 3rd:

    snapshot    40             41             42             43
    time        4th, 23:50     5th, 00:10     5th, 09:00     7th, 01:00
    tag         -              20260104       -              20260106      (completing: 20260105)

A period ends with the first snapshot after it, and that snapshot gets its tag: it has all
commits of the period, and a few more. With `widetable.tag-snapshot` = `last-before` the snapshot before
it gets the tag, the last one of the period itself. In the table above that is 40 for 20260104,
and once 43 exists, 42 for 20260105 (completing: 42 for 20260106, too).
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from datetime import datetime

from widetable.commit.holds.tag_store import TagStore
from widetable.commit.notes.skipped_files import or_none
from widetable.commit.snapshots.snapshot_store import SnapshotStore
from widetable.commit.snapshots.snapshot_times import is_ahead
from widetable.errors import NotFoundError, StorageError
from widetable.format.snapshot import Snapshot, Tag
from widetable.messages.warning_code import WarningCode, warn
from widetable.runtime.machine_clock import now_millis
from widetable.schema.tag_options import TAG_DEFAULT_TIME_RETAINED
from widetable.schema.tag_rule import TagRule, tag_rule
from widetable.write.table_state import TableState

_log = logging.getLogger("widetable")


def create_due_tags(state: TableState) -> int | None:
    """Tag what is due, if the table has automatic tags. Return the first due snapshot without a tag, or None."""
    rule = tag_rule(state.options)
    return None if rule is None else _AutomaticTags(state, rule).run()


class _AutomaticTags:
    """One round of automatic tags of one table."""

    def __init__(self, state: TableState, rule: TagRule) -> None:
        self._rule = rule
        self._root = state.paths.root
        self._snapshots = SnapshotStore(state.file_io, state.paths)
        self._tags = TagStore(state.file_io, state.paths)
        self._now_millis = now_millis()
        self._kept_millis = state.options.get(TAG_DEFAULT_TIME_RETAINED)

    def run(self) -> int | None:
        """Tag due snapshots in their order."""
        tagged = self._tagged_periods()
        # By period, not by snapshot: the tag of the latest period tells how far the tags go.
        newest, after_id = max(tagged, default=(None, 0))
        if not self._has_reached(newest, after_id):
            return None
        self._newest = newest
        due = self._last_before if self._rule.is_last_before else self._first_after
        for snapshot, start in due(after_id):
            try:
                if self._keep(self._rule.name(start), snapshot):
                    self._newest = start
            except StorageError as refusal:
                # Later ones are not tagged either: tags are made in the order of snapshots, else
                # `newest` would skip this one forever.
                warn(
                    _log,
                    WarningCode.TAG_NOT_CREATED,
                    "%s: snapshot %d has no tag yet: %s",
                    self._root,
                    snapshot.id,
                    refusal,
                )
                return snapshot.id
        self._delete_surplus()
        return None

    def _first_after(self, after_id: int) -> Iterator[tuple[Snapshot, datetime]]:
        """Yield due snapshots, each with the start of the period whose tag it gets."""
        for snapshot in self._later(after_id):
            time = self._time_of(snapshot)
            start = None if time is None else self._rule.due(self._newest, time)
            if start is not None:
                yield snapshot, start

    def _last_before(self, after_id: int) -> Iterator[tuple[Snapshot, datetime]]:
        """Yield due snapshots, each with its own period, once the next snapshot is of a later period."""
        previous: tuple[Snapshot, datetime] | None = None
        for snapshot in self._later(after_id - 1):
            time = self._time_of(snapshot)
            if time is None:
                continue
            if previous is not None:
                for start in self._rule.ended(self._newest, previous[1], time):
                    yield previous[0], start
            previous = snapshot, time

    def _time_of(self, snapshot: Snapshot) -> datetime | None:
        """Return the time of a snapshot, or None for a commit time ahead of our clock.

        Such a time is meaningless (0017): tags would be named by it, and none be made until then.
        """
        if not self._rule.is_by_watermark and is_ahead(snapshot.time_millis, self._now_millis):
            return None
        return self._rule.time_of(snapshot.time_millis, snapshot.watermark)

    def _tagged_periods(self) -> list[tuple[datetime, int]]:
        """Return the periods of the automatic tags, each with the snapshot that it keeps."""
        starts = ((self._rule.start(name), name) for name in self._tags.names())
        start_of = {name: start for start, name in starts if start is not None}
        snapshots = self._tags.all() if start_of else {}
        return [
            (start, snapshots[name].id) for name, start in start_of.items() if name in snapshots
        ]

    def _has_reached(self, newest: datetime | None, after_id: int) -> bool:
        """Whether any snapshot may be due, by the newest one that has a time, so that a round without work reads no
        other one.

        Snapshots of some clients have no watermark.
        """
        snapshot = self._snapshots.latest()
        while snapshot is not None and snapshot.id > after_id:
            time = self._time_of(snapshot)
            if time is not None:
                if self._rule.is_last_before:
                    return self._has_passed(newest, after_id, time)
                return self._rule.due(newest, time) is not None
            snapshot = or_none(self._snapshots.load, snapshot.id - 1)
        return False

    def _has_passed(self, newest: datetime | None, after_id: int, last: datetime) -> bool:
        """Whether a snapshot may be due as the last one before the end of its period.

        It also reads the oldest snapshot after the newest tag.
        """
        times = (self._time_of(snapshot) for snapshot in self._later(after_id))
        first = next((time for time in times if time is not None), last)
        return self._rule.may_have_ended(newest, first, last)

    def _later(self, after_id: int) -> Iterator[Snapshot]:
        """Yield the kept snapshots after an id, the oldest first."""
        for id in self._snapshots.ids():
            if id > after_id:
                try:
                    yield self._snapshots.load(id)
                except NotFoundError:
                    continue  # expired meanwhile

    def _keep(self, name: str, snapshot: Snapshot) -> bool:
        """Create the tag. Return whether it exists now, which it does not when the snapshot has expired meanwhile."""
        try:
            is_new = self._tags.keep(name, Tag.of(snapshot, self._kept_millis, now_millis()))
        except NotFoundError:
            return False
        if is_new:
            _log.info("%s: snapshot %d is tagged %r", self._root, snapshot.id, name)
        return True

    def _delete_surplus(self) -> None:
        """Delete the automatic tags of the oldest periods. Expiry and orphan cleaning remove their files."""
        most = self._rule.most
        if most is None:
            return
        for start, _ in sorted(self._tagged_periods())[:-most]:
            name = self._rule.name(start)
            if self._tags.discard(name):
                _log.info("%s: tag %r is one too many", self._root, name)
