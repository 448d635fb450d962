"""Restore partitions to the rows that they had at an older snapshot, and leave all other partitions unchanged.

    snapshot            3: day=1 a, day=2 b    4: day=1 dropped    5: day=2 c
    restore day=1 of 3                                                           6: day=1 a, day=2 c

In: an open table, partitions, which snapshot. Out: what was restored. The restore is one new commit, an overwrite: it
adds the files of the snapshot at their levels, under new names (`restored_files`), and deletes all other files that the
partitions have when it commits, including rows that were appended meanwhile. Raises DamagedError if files of the
snapshot are gone, UnsupportedError for files that cannot be restored, ConflictError if compactions were faster in each
of several tries.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from widetable.acceptance.acceptance import Use, accept
from widetable.arguments import flag
from widetable.commit.transaction.commit_result import CommitResult
from widetable.commit.transaction.committer import Committer
from widetable.errors import ConflictError, NotFoundError
from widetable.format.deletion_vector import DeletedRows
from widetable.format.manifest_entry import Identity as FileIdentity
from widetable.format.manifest_entry import ManifestEntry
from widetable.format.snapshot import Snapshot
from widetable.operations.handle.compaction_threads import wait_for_compactions
from widetable.operations.handle.newest_snapshot import held, held_newest
from widetable.operations.handle.open_table import OpenTable
from widetable.operations.handle.snapshot_choice import named_snapshot
from widetable.operations.health.restored_files import (
    check_whole,
    committed_links,
    has_other_rows,
    removing,
)
from widetable.operations.health.snapshot_audit import partition_text
from widetable.operations.queries.requested_partitions import request_partitions
from widetable.read.expired import files_of
from widetable.runtime.moment import Moment
from widetable.write.commit_message import CommitMessage
from widetable.write.table_state import TableState

_ROUNDS: Final = 5


@dataclass(frozen=True)
class PartitionRestoreResult:
    """What `Table.restore_partitions` brought back.

    Attributes
    ----------
    partitions : tuple of str
        The named partitions, as text.
    from_id : int
        The snapshot whose rows they have now.
    restored_files, removed_files : int
        How many files came back, and how many were removed.
    rows : int
        How many rows the restored files have.
    snapshot_id : int or None
        The snapshot of the commit. None: a dry run, or nothing had changed.
    """

    __module__ = "widetable"

    partitions: tuple[str, ...]
    from_id: int
    restored_files: int
    removed_files: int
    rows: int
    snapshot_id: int | None = None


@dataclass
class _Plan:
    """Says which files a restore changes.

    restored: files to add again. kept: live files that stay unchanged. removed: files to delete, first those of the
    newest snapshot, then those of the snapshot that the commit follows.
    """

    live: Callable[[Snapshot | None], list[ManifestEntry]]
    restored: tuple[ManifestEntry, ...]
    kept: Mapping[FileIdentity, DeletedRows | None]
    removed: list[ManifestEntry]

    def behind(
        self, messages: Sequence[CommitMessage], latest: Snapshot | None
    ) -> list[CommitMessage]:
        """Return the messages to commit after a snapshot. messages: of the restored files. Raises ConflictError if a
        kept file is gone, or has lost rows.
        """
        now = self.live(latest)
        deleted = {entry.identity: entry.file.deleted for entry in now}
        changed = [
            one for one, rows in self.kept.items() if one not in deleted or deleted[one] != rows
        ]
        if changed:
            raise ConflictError(
                f"data file {changed[0][3]!r}",
                found="a file that others compacted, or deleted rows of, meanwhile",
                expected="an unchanged file",
                action="Try again.",
            )
        self.removed = [entry for entry in now if entry.identity not in self.kept]
        return [*messages, *removing(self.removed)]


def restore_partitions(
    table: OpenTable,
    partitions: Any,
    snapshot_id: int | None = None,
    timestamp: Moment | None = None,
    tag: str | None = None,
    *,
    dry_run: bool = False,
) -> PartitionRestoreResult:
    """Give partitions the rows of an older snapshot.

    Other partitions keep what was committed since. Rows that others write to these partitions before the
    commit are removed. A partition that the snapshot lacks has no rows afterwards. Readers of changes get
    nothing. Name the snapshot by one of `snapshot_id`, `timestamp` and `tag`.

    Parameters
    ----------
    partitions : Arrow data, frame, dict, list of dicts or list
        Rows of the partition columns, in any form in which `lookup` takes keys.
    snapshot_id : int, default None
        The snapshot.
    timestamp : int, datetime or str, default None
        The newest snapshot that is not newer than this: epoch milliseconds, a datetime or an ISO text.
    tag : str, default None
        The tag that keeps the snapshot.
    dry_run : bool, default False
        Only say what would be done.

    Returns
    -------
    PartitionRestoreResult
        Which files and rows came back or went; its `snapshot_id` is None when nothing was committed.

    Raises
    ------
    InvalidError
        The table has no partitions, or not exactly one snapshot is named.
    NotFoundError
        There is no such snapshot or tag.
    DamagedError
        Files of the snapshot are gone.
    UnsupportedError
        The table is under barriers, or has an option that this version does not honour.
    ConflictError
        Other commits were faster several times.
    """
    is_dry = flag(dry_run, "dry_run")
    scope = request_partitions(table, partitions, "Use rollback.")
    state, committer = table._state(), table._committer
    uses = Use.TAKE_ROWS, Use.MAINTAIN, Use.REPLACE
    accept(state.schema, *uses, path=state.paths.root)
    missing = "Say which snapshot has the rows."
    target = named_snapshot(committer.snapshots, table._tags, snapshot_id, timestamp, tag, missing)
    wait_for_compactions(state.paths.root)
    with contextlib.ExitStack() as stack:
        # A tag keeps the files of an expired snapshot.
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
        expected="one attempt that commits before the others",
        action="Try again, or stop what compacts the partitions.",
    )


def _planned(
    state: TableState,
    committer: Committer,
    target: Snapshot,
    latest: Snapshot,
    scope: Collection[bytes],
) -> _Plan:
    """Plan the restore. A live file of which other rows were deleted then is deleted and added again."""

    def live(snapshot: Snapshot | None) -> list[ManifestEntry]:
        return list(committer.live_files.live_entries(snapshot, frozenset(scope)))

    then = {entry.identity: entry for entry in live(target)}
    now = {entry.identity: entry for entry in live(latest)}
    what = "the partitions to restore"
    is_rescaled = committer.schemas.is_rescaled()
    check_whole(state, then.values(), target.id, what, is_rescaled=is_rescaled)
    with files_of(state, target.id):
        kept = {
            identity: now[identity].file.deleted
            for identity in then.keys() & now.keys()
            if not has_other_rows(state.file_io, then[identity].file, now[identity].file)
        }
    return _Plan(
        live,
        tuple(entry for identity, entry in then.items() if identity not in kept),
        kept,
        [entry for identity, entry in now.items() if identity not in kept],
    )


def _committed(
    state: TableState, committer: Committer, target: Snapshot, plan: _Plan
) -> int | None:
    """Commit the plan, and return the snapshot id, or None if another commit was faster."""

    def commit(messages: list[CommitMessage]) -> CommitResult:
        return committer.rewrite(partial(plan.behind, messages))

    return committed_links(state, plan.restored, target.id, commit)
