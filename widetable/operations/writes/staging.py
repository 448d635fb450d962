"""The note of a staged commit, which a writer leaves before it publishes if the table has `widetable.barrier-stage`
(`staged_commit`).

In: the commit. Out: a context in which it is made; if the commit fails, the note is removed before its files. Raises
what reading the newest snapshot and writing a note raise; a note that cannot be removed is named in the log.

    data files ─► note ─► publish              a session at `ReadCommitted` shows the files from the note on
                    ▲ killed here: the note is valid until the writer returns, as another run, or leaves the table
                    ▲ the publish fails: the note is deleted, then the files; the session may fall back

After the publish nothing is deleted: the note is void, because the writer's barrier in the snapshot has reached it. A
note is deleted before its files, so that no session reads a note whose files are gone.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator, Sequence
from typing import Final

from widetable.commit.barriers.barrier_state import state_at
from widetable.commit.barriers.barrier_step import Act, BarrierStep, completed_by
from widetable.commit.barriers.barrier_table import interval_of
from widetable.commit.barriers.staged_commit import StagedCommit, stage, unstage
from widetable.commit.snapshots.committed_columns import union
from widetable.commit.transaction.commit_identity import Identity
from widetable.errors import StorageError
from widetable.format.manifest_entry import ADD, ManifestEntry
from widetable.messages.warning_code import WarningCode, warn
from widetable.operations.handle.open_table import OpenTable
from widetable.schema.barrier_options import BARRIER_STAGE
from widetable.write.commit_message import CommitMessage

# After these steps of a writer, a note of an earlier process is void.
_ENDING: Final = frozenset({Act.JOIN, Act.LEAVE})
_log = logging.getLogger("widetable")


@contextlib.contextmanager
def staging(
    table: OpenTable, messages: Sequence[CommitMessage], by: Identity, step: BarrierStep | None
) -> Iterator[None]:
    """Stage the commit while it is made. A commit that completes no barrier, or is a replay, leaves no note.

    An error that leaves open whether the commit happened removes the note, too: if it happened, the snapshot shows it.
    """
    if step is None or not table.schema.typed_options.get(BARRIER_STAGE):
        yield
        return
    staged = _staged(table, messages, by, step)
    try:
        if staged is not None:
            stage(table._file_io, table._paths, staged)
        yield
    except BaseException:
        _remove_note(table, step.writer)
        raise
    if step.act in _ENDING:
        _remove_note(table, step.writer)


def _staged(
    table: OpenTable, messages: Sequence[CommitMessage], by: Identity, step: BarrierStep
) -> StagedCommit | None:
    """Return the note; None if the commit completes no barrier, or is a replay, whose rows would be shown twice. The
    rules of the commit itself (`barrier_step`) give the barrier, after the newest snapshot.
    """
    committer = table._committer
    head = committer.refresh()
    if step.act is not Act.WRITE_ALL or committer.replay_of(by, head) is not None:
        return None
    interval = interval_of(table.schema, table.path)
    state = state_at(head.latest, committer.last_commits.load, interval)
    barrier = completed_by(state, step)
    if barrier is None:
        return None
    entries = (
        ManifestEntry(ADD, one.partition, one.bucket, one.total_buckets, file)
        for one in messages
        for file in one.new_files
    )
    columns = union(one.columns for one in messages if one.new_files)
    return StagedCommit(step.writer, step.run, state.revision, barrier, tuple(entries), columns)


def _remove_note(table: OpenTable, writer: str) -> None:
    """Remove the note, or warn: a note that stays may name deleted files. The writer's next note replaces it."""
    try:
        unstage(table._file_io, table._paths, writer)
    except StorageError as error:
        warn(
            _log,
            WarningCode.STAGED_NOTE_NOT_REMOVED,
            "%s: the note of the commit that %s staged could not be removed: %s",
            table.path,
            writer,
            error,
        )
