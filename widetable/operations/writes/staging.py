"""What a writer notes before it publishes, where the table has `widetable.barrier-stage` (`staged_commit`).

In: the commit. Out: a context in which it is made; a commit that fails takes the note back before its files go. Raises
what reading the newest snapshot and writing a note raise; a note that cannot be taken back is named in the log.

    data files ─► note ─► publish              a session at `ReadCommitted` shows the files from the note on
                    ▲ killed here: the note holds until the writer comes back, as another run, or is let go
                    ▲ the publish fails: the note goes, then the files; the session may fall back

After the publish nothing is deleted: the note is void because the snapshot says that the writer
is as far as it. A note goes before its files: else a session that reads it then would look for
files that are not there.
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

# Of a writer that begins or ends: what a process before it noted is void.
_ENDING: Final = frozenset({Act.JOIN, Act.LEAVE})
_log = logging.getLogger("widetable")


@contextlib.contextmanager
def staging(
    table: OpenTable, messages: Sequence[CommitMessage], by: Identity, asked: BarrierStep | None
) -> Iterator[None]:
    """For the time of the commit. Nothing is noted of one that completes no barrier, or is in already.

    Also an error that leaves open whether the commit is in takes the note back: if it is in, the snapshot shows it.
    """
    if asked is None or not table.schema.typed_options.get(BARRIER_STAGE):
        yield
        return
    staged = _staged(table, messages, by, asked)
    try:
        if staged is not None:
            stage(table._file_io, table._paths, staged)
        yield
    except BaseException:
        _take_back(table, asked.writer)
        raise
    if asked.act in _ENDING:
        _take_back(table, asked.writer)


def _staged(
    table: OpenTable, messages: Sequence[CommitMessage], by: Identity, asked: BarrierStep
) -> StagedCommit | None:
    """What to note; None for nothing: the commit completes no barrier, or is in already, and
    would be shown twice. The barrier is worked out by the rules of the commit itself
    (`barrier_step`), behind the newest snapshot.
    """
    committer = table._committer
    head = committer.refresh()
    if asked.act is not Act.WRITE_ALL or committer.replay_of(by, head) is not None:
        return None
    interval = interval_of(table.schema, table.path)
    state = state_at(head.latest, committer.last_commits.load, interval)
    barrier = completed_by(state, asked)
    if barrier is None:
        return None
    entries = (
        ManifestEntry(ADD, one.partition, one.bucket, one.total_buckets, file)
        for one in messages
        for file in one.new_files
    )
    columns = union(one.columns for one in messages if one.new_files)
    return StagedCommit(asked.writer, asked.run, state.revision, barrier, tuple(entries), columns)


def _take_back(table: OpenTable, writer: str) -> None:
    """A note that stays shows files that may be gone by then; the writer's next note takes its place."""
    try:
        unstage(table._file_io, table._paths, writer)
    except StorageError as error:
        warn(
            _log,
            WarningCode.STAGED_NOTE_STAYS,
            "%s: what %s staged is still noted: %s",
            table.path,
            writer,
            error,
        )
