"""Roll a table back to the rows of an older snapshot, by a new commit.

    now   a b c d          then   a x c          the OVERWRITE deletes b and d, adds x' (the bytes of x), keeps a and c

History stays: the snapshots in between can be read, tagged and rolled back to. The identifiers of commit users stay as
well, so a batch that is undone does not return when its stream repeats it. Restored files get new names (links to the
same bytes, if the storage has links), because an expiry of the snapshots in between deletes replaced files by name.
Raises NotFoundError for a snapshot that does not exist, InvalidError, DamagedError when files of
it are gone, ConflictError when other commits were faster several times, UnsupportedError, StorageError.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any, Final

from widetable.acceptance.acceptance import Use, accept
from widetable.acceptance.derived_rules import check_rolled_back
from widetable.arguments import flag
from widetable.commit.transaction.commit_result import CommitResult
from widetable.commit.transaction.committer import Committer
from widetable.errors import ConflictError, NotFoundError
from widetable.format.manifest_entry import ManifestEntry
from widetable.format.snapshot import COMMIT_KIND_COMPACT, Snapshot
from widetable.operations.handle.compaction_threads import wait_for_compactions
from widetable.operations.handle.file_origins import WritingCommit
from widetable.operations.handle.newest_snapshot import held, held_newest
from widetable.operations.handle.open_table import OpenTable
from widetable.operations.handle.snapshot_choice import named_snapshot
from widetable.operations.health.restored_files import check_whole, committed_links, has_other_rows
from widetable.read.expired import files_of
from widetable.runtime.moment import Moment
from widetable.write.commit_message import CommitMessage
from widetable.write.table_state import TableState

_ROUNDS: Final = 5
_log = logging.getLogger("widetable")


@dataclass(frozen=True)
class RollbackResult:
    """What `Table.rollback` did, or would do in a dry run.

    Attributes
    ----------
    path : str
        The directory of the table.
    target_id : int
        The snapshot whose rows are back.
    latest_id : int
        The newest snapshot before the rollback.
    snapshot_id : int or None
        The snapshot of the rollback. None: nothing was committed, in a dry run or because the rows were the same.
    restored_files, removed_files, kept_files : int
        How many files came back, were removed and stayed.
    undone : tuple of WritingCommit
        Commits after the target whose rows are gone, as far as they are kept.
    """

    __module__ = "widetable"

    path: str
    target_id: int
    latest_id: int
    snapshot_id: int | None
    restored_files: int
    removed_files: int
    kept_files: int
    undone: tuple[WritingCommit, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as values that JSON has.

        Returns
        -------
        dict of str to any
            The fields, by name; nested results are dicts.
        """
        return asdict(self)


@dataclass(frozen=True)
class _RollbackPlan:
    """Says which files a rollback changes. Files are identified by bucket, level and name.

    restored: live then, not now. kept: live then and now, as they were then. removed: how many are live now and were
    not then. marked: whether files that are kept had other rows deleted then.
    """

    target: Snapshot
    restored: tuple[ManifestEntry, ...]
    kept: tuple[ManifestEntry, ...]
    removed: int
    marked: bool


def rollback(
    table: OpenTable,
    snapshot_id: int | None = None,
    timestamp: Moment | None = None,
    tag: str | None = None,
    *,
    dry_run: bool = False,
) -> RollbackResult:
    """Give the table the rows of an older snapshot.

    Name it by one of `snapshot_id`, `timestamp` and `tag`. The call makes one new commit, an
    overwrite: the snapshots in between stay until they expire, and the newest columns stay.

    Streams that repeat their batches do not write again what is undone; write it under another commit user.
    Followers and streams end before this commit with an error that says how to continue. A range of changes that
    includes this commit is refused, except in the modes `diff` and `delta`.

    For a table that has lost its newest snapshots see `accept_lost_snapshots`.

    Parameters
    ----------
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
    RollbackResult
        Which files came back or went, and which commits are undone; its `snapshot_id` is None when nothing
        was committed.

    Raises
    ------
    InvalidError
        Not exactly one snapshot is named.
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
    store = table._committer.snapshots
    state = table._state()
    missing = "Say to which snapshot the table is to go back."
    target = named_snapshot(store, table._tags, snapshot_id, timestamp, tag, missing)
    return _rollback(state, table._committer, target, dry_run=is_dry)


def _rollback(
    table: TableState, committer: Committer, target: Snapshot, *, dry_run: bool
) -> RollbackResult:
    """Give the table the rows of `target`.

    A lease keeps the target for the whole call, and the newest snapshot while a plan is made; a file that is missing
    then is damaged, and not expired. After a conflict, a new plan starts from the newest snapshot.
    """
    accept(table.schema, Use.MAINTAIN, Use.REPLACE, path=table.paths.root)
    check_rolled_back(table.schema)
    wait_for_compactions(table.paths.root)
    with contextlib.ExitStack() as stack:
        with contextlib.suppress(NotFoundError):  # a tag keeps the files of an expired snapshot
            stack.enter_context(held(table, target.id))
        for _ in range(_ROUNDS):
            with held_newest(table, committer) as latest:
                assert latest is not None
                plan = _planned(table, committer, target, latest)
            snapshot_id = None
            is_due = plan.restored or plan.removed or plan.marked
            if is_due and not dry_run:
                snapshot_id = _committed(table, committer, plan)
                if snapshot_id is None:
                    continue
            # Commits since the plan was made are undone as well, because all files go that the plan does not keep.
            before_id = latest.id if snapshot_id is None else snapshot_id - 1
            return RollbackResult(
                table.paths.root,
                target.id,
                before_id,
                snapshot_id,
                len(plan.restored),
                plan.removed,
                len(plan.kept),
                tuple(_undone(committer, target.id, before_id)) if is_due else (),
            )
    raise ConflictError(
        table.paths.root,
        found=f"{_ROUNDS} rollbacks that lost against other commits",
        expected="one rollback that commits before the others",
        action="Roll back again, or stop what writes to the table.",
    )


def _planned(
    table: TableState, committer: Committer, target: Snapshot, latest: Snapshot
) -> _RollbackPlan:
    """Compare the files of both snapshots. Raises what `check_whole` raises."""
    then = {entry.identity: entry for entry in committer.live_files.live_entries(target)}
    now = {entry.identity: entry for entry in committer.live_files.live_entries(latest)}
    is_rescaled = committer.schemas.is_rescaled()
    check_whole(
        table, then.values(), target.id, "the snapshot to go back to", is_rescaled=is_rescaled
    )
    restored = tuple(entry for identity, entry in then.items() if identity not in now)
    kept = tuple(entry for identity, entry in then.items() if identity in now)
    with files_of(table, target.id):
        marked = any(
            has_other_rows(table.file_io, entry.file, now[entry.identity].file) for entry in kept
        )
    return _RollbackPlan(target, restored, kept, len(now.keys() - then.keys()), marked)


def _committed(table: TableState, committer: Committer, plan: _RollbackPlan) -> int | None:
    """Commit the plan, and return the snapshot id, or None if another commit was faster."""

    def commit(messages: list[CommitMessage]) -> CommitResult:
        keeps = (entry.identity for entry in plan.kept)
        return committer.restore(messages, keeps, plan.target)

    return committed_links(table, plan.restored, plan.target.id, commit)


def _undone(committer: Committer, target_id: int, latest_id: int) -> Iterator[WritingCommit]:
    """Yield the commits of rows after the target whose snapshots are kept. A compaction writes no new rows."""
    for id in range(target_id + 1, latest_id + 1):
        with contextlib.suppress(NotFoundError):
            one = committer.snapshots.load(id)
            if one.commit_kind != COMMIT_KIND_COMPACT:
                yield WritingCommit.of(one)
