"""Make automatic tags, expire partitions and snapshots, and remove orphans for a maintainer, each when it is due.
Raises what these raise.

    snapshots     10 s after the last check if there is a new one, else after 5 minutes; at once while
                  there are more than one expiry takes
    tags          with each of these expiries; alone if snapshots do not expire
    partitions    before them, every `partition.expiration-check-interval`
    orphans       at the first round, then once a day

Intervals begin when a step was last tried, by a clock that does not jump. So a step that raises is due again after its
interval.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from datetime import datetime
from functools import partial
from typing import Final

from widetable.commit.notes.clock import Clock
from widetable.commit.transaction.committer import Committer
from widetable.errors import InvalidError, UnsupportedError
from widetable.format.human_units import size_text
from widetable.messages.counted import counted
from widetable.messages.warning_code import WarningCode, warn
from widetable.operations.history.automatic_tags import create_due_tags
from widetable.operations.history.expiry import expire
from widetable.operations.history.expiry_choice import retention_of
from widetable.operations.history.orphans import remove_orphans
from widetable.operations.maintenance.maintenance_result import MaintenanceResult
from widetable.operations.maintenance.partition_expiry import expire_old
from widetable.schema.retention_options import PARTITION_EXPIRATION_CHECK_INTERVAL
from widetable.write.table_state import TableState

# A check reads some directories, and there may be many commits a second.
_EXPIRY_MILLIS: Final = 10_000
# Snapshots become too old even if there are no new ones.
_IDLE_EXPIRY_MILLIS: Final = 300_000
_ORPHANS_MILLIS: Final = 86_400_000
_log = logging.getLogger("widetable")


class Cleaner:
    """Runs the cleaning steps that are due.

    expires: whether snapshots expire. older_than_millis: once a day, orphans are removed that are so old; None: never.
    """

    def __init__(
        self, committer: Committer, clock: Clock, *, expires: bool, older_than_millis: int | None
    ) -> None:
        self._committer = committer
        self._clock = clock
        self._expires = expires
        # The schema with which this version may not expire snapshots; another schema may allow it.
        self._refused_schema_id: int | None = None
        self._older_than_millis = older_than_millis
        self._seen_id: int | None = None
        self._looked_at_millis: float | None = None
        self._cleaned_at_millis: float | None = None
        self._partitions_at_millis: float | None = None

    def is_due(self, latest_id: int | None) -> bool:
        """Whether a step is due. latest_id: the newest snapshot."""
        return self._look_is_due(latest_id) or self._orphans_are_due()

    def clean(
        self, state: TableState, latest_id: int | None, *, at_once: bool
    ) -> MaintenanceResult:
        """Run the steps that are due, or all of them at once. After an error the other steps still run, because they
        may make room; the first error is raised in the end.
        """
        done, first = MaintenanceResult(), None
        for step in self._due(latest_id, at_once=at_once):
            try:
                done = done.plus(step(state))
            except Exception as error:  # noqa: BLE001
                if first is not None:
                    warn(
                        _log,
                        WarningCode.CLEANUP_FAILED,
                        "%s was not cleaned of everything: %s",
                        state.paths.root,
                        error,
                    )
                first = first or error
        if first is not None:
            raise first
        return done

    def _due(
        self, latest_id: int | None, *, at_once: bool
    ) -> Iterator[Callable[[TableState], MaintenanceResult]]:
        """Yield the due steps in order: partitions before snapshots, which keep their files for a while."""
        if at_once or self._look_is_due(latest_id):
            self._seen_id = latest_id
            self._looked_at_millis = self._clock.monotonic_millis()
            if self._expires:
                yield partial(self._expire_partitions, at_once=at_once)
            yield self._expire if self._expires else self._tag
        if self._older_than_millis is not None and (at_once or self._orphans_are_due()):
            yield partial(self._remove_orphans, older_than_millis=self._older_than_millis)

    def _look_is_due(self, latest_id: int | None) -> bool:
        if latest_id is None:
            return False
        often = _EXPIRY_MILLIS if latest_id != self._seen_id else _IDLE_EXPIRY_MILLIS
        return self._has_passed(self._looked_at_millis, often)

    def _orphans_are_due(self) -> bool:
        is_enabled = self._older_than_millis is not None
        return is_enabled and self._has_passed(self._cleaned_at_millis, _ORPHANS_MILLIS)

    def _has_passed(self, since_millis: float | None, millis: int) -> bool:
        return since_millis is None or self._clock.monotonic_millis() - since_millis >= millis

    def _tag(self, state: TableState) -> MaintenanceResult:
        create_due_tags(state)
        return MaintenanceResult()

    def _expire(self, state: TableState) -> MaintenanceResult:
        """Make the tags that are due, then expire snapshots. If options of the table forbid it, this is logged once."""
        if state.schema.id == self._refused_schema_id:
            return self._tag(state)
        try:
            gone = expire(state, self._committer, retention_of(state.options))
        except UnsupportedError as error:
            warn(
                _log,
                WarningCode.SNAPSHOTS_NOT_EXPIRED,
                "snapshots of %s do not expire: %s",
                state.paths.root,
                error,
            )
            self._refused_schema_id = state.schema.id
            return self._tag(state)
        if gone.ids:  # more may be due beyond the limit of one expiry
            self._looked_at_millis = None
        _log_freed(state, f"{counted(len(gone.ids), 'snapshot')} expired", gone.files, gone.bytes)
        return MaintenanceResult(
            expired_snapshots=len(gone.ids), freed_files=gone.files, freed_bytes=gone.bytes
        )

    def _expire_partitions(self, state: TableState, *, at_once: bool) -> MaintenanceResult:
        often = state.options.get(PARTITION_EXPIRATION_CHECK_INTERVAL)
        if at_once or self._has_passed(self._partitions_at_millis, often):
            self._partitions_at_millis = self._clock.monotonic_millis()
            now = datetime.fromtimestamp(self._clock.now_nanos() / 1e9)
            try:
                expire_old(state, self._committer, now)
            except (
                InvalidError,
                UnsupportedError,
            ) as error:  # the options are those of another client
                warn(
                    _log,
                    WarningCode.PARTITION_NOT_EXPIRED,
                    "partitions of %s do not expire: %s",
                    state.paths.root,
                    error,
                )
        return MaintenanceResult()

    def _remove_orphans(self, state: TableState, older_than_millis: int) -> MaintenanceResult:
        self._cleaned_at_millis = (
            self._clock.monotonic_millis()
        )  # a removal that fails waits as long
        orphans = remove_orphans(state, self._committer, older_than_millis, dry_run=False)
        files = len(orphans.paths)
        _log_freed(state, f"{counted(files, 'orphan')} removed", files, orphans.bytes)
        return MaintenanceResult(orphan_files=files, freed_files=files, freed_bytes=orphans.bytes)


def _log_freed(state: TableState, what: str, files: int, size_bytes: int) -> None:
    if files:
        size = size_text(size_bytes)
        freed = counted(files, "file")
        _log.info("%s, %s: %s of %s freed", state.paths.root, what, freed, size)
