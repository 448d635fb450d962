"""Commits of files that writers made, what follows them, and what becomes of files that are not committed.

    outcome                              files of the messages             what follows
    committed                            the snapshot's                    compaction, unless `write-only`
    in already (same user, identifier)   the caller's: `discard`, unless   the changelog that its writer may not have
                                         they are those of the first time  come to
    ConflictError, InvalidError          the caller's: certainly not in    nothing
    StorageError that leaves it open     nobody may delete them            commit again, same user and identifier

Raises ConflictError, InvalidError, DamagedError and StorageError of the commit; what compacts behind it raises nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import partial

from widetable.arguments import flag, items
from widetable.commit.barriers.barrier_step import BarrierStep
from widetable.commit.transaction.commit_identity import Identity
from widetable.commit.transaction.commit_result import CommitResult
from widetable.operations.compaction.compaction_after_commit import compact_after_commit
from widetable.operations.compaction.unattended import warn_unattended
from widetable.operations.handle import compaction_threads
from widetable.operations.handle.open_table import OpenTable
from widetable.operations.handle.supported import check_given_rows, check_writable
from widetable.operations.writes.rebucketed_commit import committed_where_they_belong
from widetable.operations.writes.staging import staging
from widetable.schema import options as opt
from widetable.schema.table_schema import TableSchema
from widetable.write.commit_message import CommitMessage
from widetable.write.discard import discard as discard_all
from widetable.write.discard import discard_files


def commit_append(
    table: OpenTable,
    messages: Iterable[CommitMessage],
    commit_user: str | None = None,
    commit_identifier: int | None = None,
    properties: Mapping[str, str] | None = None,
    watermark: int | None = None,
    *,
    digest: str | None = None,
    replay: bool = False,
    read_snapshot: int | None = None,
) -> CommitResult:
    """Commit the files of writers in one snapshot, then compact as `write` does.

    Files of messages that were committed already stay; nobody names them.

    Parameters
    ----------
    messages : iterable of CommitMessage
        What the writers of all tasks gave.
    commit_user, commit_identifier
        As in `write`.
    properties : dict of str to str, default None
        Texts to note in the snapshot. None: nothing is noted.
    watermark : int, default None
        Epoch milliseconds before which the writer expects no more rows; snapshots keep the highest. None:
        the writer does not say.
    digest, replay
        As in `write`.
    read_snapshot : int, default None
        The snapshot that the rows were made from: the commit is refused when a later one wrote a key that
        is among them. None: nothing is compared.

    Returns
    -------
    CommitResult
        What was committed; `committed` is False when nothing was.

    Raises
    ------
    InvalidError
        A message is none, an identifier is not the repeated commit, as in `write`, or the table is under
        barriers.
    ConflictError
        A key was written after `read_snapshot`, or other commits were first until `commit.timeout` was
        over; with dynamic buckets, another writer was first with new keys.
    """
    by = Identity.of(commit_user, commit_identifier, digest, replay)
    return append_messages(
        table,
        messages,
        by,
        watermark=watermark,
        properties=properties,
        read_snapshot_id=read_snapshot,
    )


def append_messages(
    table: OpenTable,
    messages: Iterable[CommitMessage],
    by: Identity,
    *,
    watermark: int | None = None,
    properties: Mapping[str, str] | None = None,
    read_snapshot_id: int | None = None,
    barrier: BarrierStep | None = None,
) -> CommitResult:
    """Commit the files of writers in one snapshot, and compact the buckets where that is due. barrier: what it does to
    the barriers of the table.
    """
    messages = items(messages, CommitMessage, "messages")
    commit = partial(
        table._committer.append,
        by=by,
        watermark=watermark,
        properties=properties,
        read_snapshot_id=read_snapshot_id,
        barrier=barrier,
    )
    with staging(table, messages, by, barrier):
        result, messages = committed_where_they_belong(table, messages, commit)
    if not messages and barrier is None:
        return result
    # A commit without files may complete a barrier, and so let files go up that others brought: it is followed, too.
    schema = table._committer.schemas.known()  # nothing that follows the commit may fail it
    if not result.committed:
        finish_replayed(table, schema)
        return result
    state = table._state(schema)
    if schema.typed_options.get(opt.WRITE_ONLY):
        warn_unattended(state, table._committer, result.files)
    else:
        compact_after_commit(state, table._committer, messages)
    return result


def finish_replayed(table: OpenTable, schema: TableSchema) -> None:
    """What a writer that was killed after its commit did not come to.
    With the producer `lookup` all that is due in the table, with others nothing; also what a
    rescaling left to be done. Raises nothing.
    """
    if not schema.typed_options.get(opt.WRITE_ONLY):
        compact_after_commit(table._state(schema), table._committer, None)


def commit_overwrite(
    table: OpenTable,
    messages: Iterable[CommitMessage],
    commit_user: str | None = None,
    commit_identifier: int | None = None,
    whole_table: bool = False,
    watermark: int | None = None,
    *,
    digest: str | None = None,
    replay: bool = False,
) -> CommitResult:
    """Commit the files of writers in place of the rows that are live.

    They replace the rows of their partitions, or of the whole table, as `overwrite` does. Changelog files
    of the messages are deleted first, committed or not: no reader of changes sees an overwrite.

    Parameters
    ----------
    messages : iterable of CommitMessage
        What the writers of all tasks gave.
    commit_user, commit_identifier
        As in `write`.
    whole_table : bool, default False
        Replace the rows of all partitions, not only of those that the messages have.
    watermark
        As in `commit_append`.
    digest, replay
        As in `write`.

    Returns
    -------
    CommitResult
        What was committed; `committed` is False when nothing was.

    Raises
    ------
    InvalidError
        A message is none, or an identifier is not the repeated commit, as in `write`.
    UnsupportedError
        The table is under barriers, or has an option that this version does not honour.
    ConflictError
        Other commits were first until `commit.timeout` was over, or more than `commit.max-retries` times.
    """
    whole_table = flag(whole_table, "whole_table")
    check_given_rows(table.schema)
    by = Identity.of(commit_user, commit_identifier, digest, replay)  # before any file goes
    return overwrite_by(table, messages, by, whole_table=whole_table, watermark=watermark)


def overwrite_by(
    table: OpenTable,
    messages: Iterable[CommitMessage],
    by: Identity,
    *,
    whole_table: bool,
    watermark: int | None = None,
    properties: Mapping[str, str] | None = None,
) -> CommitResult:
    """Commit the files of writers in place of what is live in their partitions, or in the whole table."""
    messages = items(messages, CommitMessage, "messages")
    schema = table.schema
    check_writable(schema)
    messages = _without_changelog(table, schema, messages)
    dynamic = bool(schema.partition_keys) and schema.typed_options.get(
        opt.DYNAMIC_PARTITION_OVERWRITE
    )
    # What is live there when it commits goes, not what was live when the rows were made: None is
    # the whole table. No messages, and so no partitions, replace nothing.
    scope = None if whole_table or not dynamic else {message.partition for message in messages}
    commit = partial(
        table._committer.overwrite, scope, by=by, watermark=watermark, properties=properties
    )
    return committed_where_they_belong(table, messages, commit)[0]


def _without_changelog(
    table: OpenTable, schema: TableSchema, messages: Iterable[CommitMessage]
) -> list[CommitMessage]:
    """Readers of changes pass overwrites by, as in Paimon: their changelog files go."""
    kept = []
    for message in messages:
        discard_files(table._state(schema), message.bucket_id, message.changelog_files)
        kept.append(replace(message, changelog_files=()))
    return kept


def discard(table: OpenTable, messages: Iterable[CommitMessage]) -> None:
    """Delete the files of messages that no commit has.

    Such messages were never given to a commit, or it turned them away. A file that cannot be deleted is
    named in the log, and left to `remove_orphan_files`.

    Parameters
    ----------
    messages : iterable of CommitMessage
        The messages.

    Raises
    ------
    InvalidError
        One of them is no message.
    """
    # Not table.schema: also when another table is there by now.
    state = table._state(table._committer.schemas.latest())
    discard_all(state, items(messages, CommitMessage, "messages"))


def wait_for_compactions(table: OpenTable) -> None:
    """Wait until this process has done what it compacts behind its commits.

    That is large picks among older levels and, with `lookup-wait=false`, changelogs. Call it before you end the
    process by force, or to read what the compactions leave. It raises nothing: what fails there is in the log, and
    due again with the next commit.
    """
    compaction_threads.wait_for_compactions(table.path)
