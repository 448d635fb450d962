"""Makes the tags that are due by `tag_rule`, and lets those go that are too many.

In: a table as it is now. Out: which snapshot still waits for its tag, because the storage took none. By maintainers and
by each expiry before it removes snapshots; a snapshot that expired before is passed over for the next one, as in Paimon
(`TagAutoCreation`), whose writers go on where this ends. Several at once do no harm: who comes second finds the tag. A
full disk keeps no snapshot from expiry but those from the one on that waits. Raises what reading snapshots and tags
raises.

Of a table with daily tags, without a delay, whose newest automatic tag is that of the 3rd:

    snapshot    40             41             42             43
    time        4th, 23:50     5th, 00:10     5th, 09:00     7th, 01:00
    tag         -              20260104       -              20260106      (completing: 20260105)

A period is over when the first snapshot after it comes, and that snapshot is its tag: it has all
that the period has brought, and a little more. With `widetable.tag-snapshot` = `last-before` the
tag is of the one before, the last of the period itself. Of the table above that is 40 for 20260104,
and once 43 is there 42 for 20260105 (completing: 42 for 20260106, too).
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from datetime import datetime

from widetable.commit.holds.tag_store import TagStore
from widetable.commit.notes.skipped_files import if_there
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
    """Tag what is due, if the table has automatic tags. Out: the first snapshot that is due and could not be tagged."""
    rule = tag_rule(state.options)
    return None if rule is None else _AutomaticTags(state, rule).run()


class _AutomaticTags:
    """Of one table, once."""

    def __init__(self, state: TableState, rule: TagRule) -> None:
        self._rule = rule
        self._root = state.paths.root
        self._snapshots = SnapshotStore(state.file_io, state.paths)
        self._tags = TagStore(state.file_io, state.paths)
        self._now_millis = now_millis()
        self._kept_millis = state.options.get(TAG_DEFAULT_TIME_RETAINED)

    def run(self) -> int | None:
        """In order of the snapshots."""
        there = self._there()
        # By period, not by snapshot: the tag of the latest period says how far the tags have come.
        newest, after_id = max(there, default=(None, 0))
        if not self._has_reached(newest, after_id):
            return None
        self._newest = newest
        due = self._last_before if self._rule.is_last_before else self._first_after
        for snapshot, start in due(after_id):
            try:
                if self._keep(self._rule.name(start), snapshot):
                    self._newest = start
            except StorageError as refusal:
                # No later one either: tags come in the order of snapshots, or `newest` would
                # pass this one over for good.
                warn(
                    _log,
                    WarningCode.TAG_LATE,
                    "%s: snapshot %d has yet no tag: %s",
                    self._root,
                    snapshot.id,
                    refusal,
                )
                return snapshot.id
        self._let_go()
        return None

    def _first_after(self, after_id: int) -> Iterator[tuple[Snapshot, datetime]]:
        """What is due: a snapshot, and the start of the period whose tag it is."""
        for snapshot in self._later(after_id):
            time = self._time_of(snapshot)
            start = None if time is None else self._rule.due(self._newest, time)
            if start is not None:
                yield snapshot, start

    def _last_before(self, after_id: int) -> Iterator[tuple[Snapshot, datetime]]:
        """The same, where a snapshot is the tag of its own period once the next one is of a later period."""
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
        """None for a time of commit that is ahead of our clock, as it says nothing (0017): tags would be named by it,
        and none be made until then.
        """
        if not self._rule.is_by_watermark and is_ahead(snapshot.time_millis, self._now_millis):
            return None
        return self._rule.time_of(snapshot.time_millis, snapshot.watermark)

    def _there(self) -> list[tuple[datetime, int]]:
        """Automatic tags: their period, and the snapshot that they keep."""
        starts = ((self._rule.start(name), name) for name in self._tags.names())
        known = {name: start for start, name in starts if start is not None}
        kept = self._tags.all() if known else {}
        return [(start, kept[name].id) for name, start in known.items() if name in kept]

    def _has_reached(self, newest: datetime | None, after_id: int) -> bool:
        """Whether any snapshot may be due: by the newest one that has a time, so that a round with nothing to do reads
        no other. Snapshots of some clients have no watermark.
        """
        snapshot = self._snapshots.latest()
        while snapshot is not None and snapshot.id > after_id:
            time = self._time_of(snapshot)
            if time is not None:
                if self._rule.is_last_before:
                    return self._has_passed(newest, after_id, time)
                return self._rule.due(newest, time) is not None
            snapshot = if_there(self._snapshots.load, snapshot.id - 1)
        return False

    def _has_passed(self, newest: datetime | None, after_id: int, last: datetime) -> bool:
        """The same for tags of the last snapshot before: by the oldest one behind the newest tag, too."""
        times = (self._time_of(snapshot) for snapshot in self._later(after_id))
        first = next((time for time in times if time is not None), last)
        return self._rule.may_have_ended(newest, first, last)

    def _later(self, after_id: int) -> Iterator[Snapshot]:
        """Those that are kept, oldest first."""
        for id in self._snapshots.ids():
            if id > after_id:
                try:
                    yield self._snapshots.load(id)
                except NotFoundError:
                    continue  # expired meanwhile

    def _keep(self, name: str, snapshot: Snapshot) -> bool:
        """Whether there is such a tag now; not, when the snapshot has expired meanwhile."""
        try:
            is_new = self._tags.keep(name, Tag.of(snapshot, self._kept_millis, now_millis()))
        except NotFoundError:
            return False
        if is_new:
            _log.info("%s: snapshot %d is tagged %r", self._root, snapshot.id, name)
        return True

    def _let_go(self) -> None:
        """Automatic tags only, those of the oldest periods; what only they kept is left to expiry and orphans."""
        most = self._rule.most
        if most is None:
            return
        for start, _ in sorted(self._there())[:-most]:
            name = self._rule.name(start)
            if self._tags.discard(name):
                _log.info("%s: tag %r is one too many", self._root, name)
