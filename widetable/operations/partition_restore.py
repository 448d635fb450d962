"""Gives partitions the rows that they had at an older snapshot, and leaves all others as they are.

    snapshot            3: day=1 a, day=2 b    4: day=1 goes    5: day=2 c
    restore day=1 of 3                                                        6: day=1 a, day=2 c

In: an open table, partitions, which snapshot. Out: what came back. One commit, an overwrite that goes forward: files of
then come back at their levels, under new names (`restored_files`), and files that the partitions had got since go. Rows
that are appended meanwhile stay. Raises DamagedError where files of the snapshot are gone, UnsupportedError for files
that cannot come back, ConflictError where compactions were faster, time after time.
"""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Any, Final

from widetable.arguments import flag
from widetable.commit.barrier_table import check_rows_stay
from widetable.commit.committer import Committer
from widetable.errors import ConflictError, DamagedError, InvalidError, NotFoundError
from widetable.format.manifest_entry import ManifestEntry
from widetable.format.snapshot import Snapshot
from widetable.moment import Moment
from widetable.operations.asked_partitions import asked_partitions
from widetable.operations.compaction_threads import wait_for_compactions
from widetable.operations.file_damage import damaged_files
from widetable.operations.newest_snapshot import held, held_newest
from widetable.operations.open_table import OpenTable
from widetable.operations.restored_files import (
    check_restorable,
    has_other_rows,
    linked,
    removing,
)
from widetable.operations.snapshot_audit import partition_text
from widetable.operations.snapshot_choice import choose_snapshot
from widetable.operations.supported import check_given_rows, check_writable
from widetable.read.expired import files_of
from widetable.write.discard import discard
from widetable.write.table_state import TableState

_ROUNDS: Final = 5


@dataclass(frozen=True)
class PartitionRestoreResult:
    """partitions: that were named, as they are shown. from_id: the snapshot whose rows they have. restored_files,
    removed_files: that came back, and went. rows: of the files that came back. snapshot_id: of the commit; None for a
    dry run, and where nothing had changed.
    """

    __module__ = "widetable"

    partitions: tuple[str, ...]
    from_id: int
    restored_files: int
    removed_files: int
    rows: int
    snapshot_id: int | None = None


@dataclass(frozen=True)
class _Plan:
    """restored: files to come back. removed: files to go."""

    restored: tuple[ManifestEntry, ...]
    removed: tuple[ManifestEntry, ...]


def restore_partitions(
    table: OpenTable,
    partitions: Any,
    snapshot_id: int | None = None,
    timestamp: Moment | None = None,
    tag: str | None = None,
    *,
    dry_run: bool = False,
) -> PartitionRestoreResult:
    """Give partitions the rows of an older snapshot: one of snapshot_id, timestamp and tag, as in `scan`. Other
    partitions keep what was committed since. partitions: rows of the partition columns, in any form that `lookup` takes
    keys in. One that the snapshot lacks has no rows afterwards. Readers of changes get nothing. dry_run: only say.
    """
    if snapshot_id is None and timestamp is None and tag is None:
        raise InvalidError(
            "snapshot_id, timestamp and tag",
            found="none of them",
            expected="one of them",
            action="Say which snapshot has the rows.",
        )
    is_dry = flag(dry_run, "dry_run")
    scope = asked_partitions(table, partitions, "Use rollback.")
    state, committer = table._state(), table._committer
    check_given_rows(state.schema)
    check_writable(state.schema)
    check_rows_stay(state.schema, state.paths.root)
    target = choose_snapshot(committer.snapshots, table._tags, snapshot_id, timestamp, tag)
    assert target is not None
    wait_for_compactions(state.paths.root)
    with contextlib.ExitStack() as stack:
        # Files of one that has expired are kept by its tag.
        with contextlib.suppress(NotFoundError):
            stack.enter_context(held(state, target.id))
        return _restored(state, committer, target, scope, dry_run=is_dry)


def _restored(
    state: TableState,
    committer: Committer,
    target: Snapshot,
    scope: Collection[bytes],
    *,
    dry_run: bool,
) -> PartitionRestoreResult:
    for _ in range(_ROUNDS):
        with held_newest(state, committer) as latest:
            assert latest is not None
            plan = _planned(state, committer, target, latest, scope)
        snapshot_id = None
        if (plan.restored or plan.removed) and not dry_run:
            snapshot_id = _committed(state, committer, target, plan)
            if snapshot_id is None:
                continue
        return PartitionRestoreResult(
            tuple(sorted(partition_text(one, state.schema) for one in scope)),
            target.id,
            len(plan.restored),
            len(plan.removed),
            sum(entry.file.row_count for entry in plan.restored),
            snapshot_id,
        )
    raise ConflictError(
        state.paths.root,
        found=f"{_ROUNDS} attempts that lost against other commits",
        expected="to be first once",
        action="Try again, or stop what compacts the partitions.",
    )


def _planned(
    state: TableState,
    committer: Committer,
    target: Snapshot,
    latest: Snapshot,
    scope: Collection[bytes],
) -> _Plan:
    """A file that is there, and of which other rows were deleted then, goes and comes back."""

    def live(snapshot: Snapshot) -> Iterable[ManifestEntry]:
        entries = committer.live_files.live_entries(snapshot)
        return (entry for entry in entries if entry.partition in scope)

    then = {entry.identity: entry for entry in live(target)}
    now = {entry.identity: entry for entry in live(latest)}
    is_rescaled = committer.schemas.is_rescaled()
    for entry in then.values():
        check_restorable(state, entry, is_rescaled=is_rescaled)
    damage = [found.file for found in damaged_files(state, then.values(), target.id)]
    if damage:
        raise DamagedError(
            damage[0].path,
            found=f"{damage[0].found}, and {len(damage) - 1} more files of snapshot {target.id} damaged",
            expected="all files of the partitions that are to come back",
            action="Restore the files, or take another snapshot or tag.",
        )
    with files_of(state, target.id):
        kept = {
            identity
            for identity in then.keys() & now.keys()
            if not has_other_rows(state.file_io, then[identity].file, now[identity].file)
        }
    return _Plan(
        tuple(entry for identity, entry in then.items() if identity not in kept),
        tuple(entry for identity, entry in now.items() if identity not in kept),
    )


def _committed(
    state: TableState, committer: Committer, target: Snapshot, plan: _Plan
) -> int | None:
    """The id of the commit; None when it lost."""
    with files_of(state, target.id):
        messages = linked(state, plan.restored)
    try:
        return committer.restore([*messages, *removing(plan.removed)], None).snapshot_id
    except ConflictError:
        discard(state, messages)
        return None
    except InvalidError:
        discard(state, messages)
        raise
