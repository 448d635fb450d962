"""Commit files that writers made, compact after the commit, and discard files that are not committed.

    outcome                              files of the messages             what follows
    committed                            belong to the snapshot            compaction, unless `write-only`
    a replay (same user, identifier)     the caller calls `discard`,       the changelog that the first writer may
                                         unless they are those of the      not have finished
                                         first time
    ConflictError, InvalidError          the caller calls `discard`:       nothing
                                         certainly not committed
    StorageError that leaves it open     nobody may delete them            commit again, same user and identifier

Raises ConflictError, InvalidError, DamagedError and StorageError of the commit; the compaction after it raises nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import partial

from widetable.acceptance.acceptance import Use, accept
from widetable.arguments import flag, items
from widetable.commit.barriers.barrier_step import BarrierStep
from widetable.commit.transaction.commit_identity import Identity
from widetable.commit.transaction.commit_result import CommitResult
from widetable.operations.compaction.compaction_after_commit import compact_after_commit
from widetable.operations.compaction.unattended import warn_unattended
from widetable.operations.handle import compaction_threads
from widetable.operations.handle.open_table import OpenTable
from widetable.operations.writes.rebucketed_commit import commit_with_rebucketing
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

    If the commit is a replay, the files of the messages stay, and nothing names them.

    Parameters
    ----------
    messages : iterable of CommitMessage
        The messages of the writers of all tasks.
    commit_user, commit_identifier
        As in `write`.
    properties : dict of str to str, default None
        Texts to store in the snapshot. None: nothing is stored.
    watermark : int, default None
        Epoch milliseconds before which the writer expects no more rows. Snapshots keep the highest, and that of each
        commit user with identifiers. It is committed even without rows. None: no watermark.
    digest : str, default None
        A text that identifies the content of the commit, such as a hash, at most 128 bytes. None: unknown.
    replay : bool, default False
        Whether an identifier that is not above the last one is that of a commit in the table.
    read_snapshot : int, default None
        The snapshot that the rows were made from: the commit is refused if a later one wrote one of their
        keys, which an append table does not have. None: nothing is compared.

    Returns
    -------
    CommitResult
        What was committed; `committed` is False when nothing was.

    Raises
    ------
    InvalidError
        An item is no message, an identifier is not the repeated commit, as in `write`, or the table is under
        barriers.
    ConflictError
        A key was written after `read_snapshot`, or other commits were faster until `commit.timeout`;
        with dynamic buckets, another writer committed new keys first.
    """
    by = Identity.of(commit_user, commit_identifier, digest, replay)
    if read_snapshot is not None:
        accept(table.schema, Use.LOOK_UP)  # the rows of others are compared by their keys
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
    """Commit the files of writers in one snapshot, and compact the buckets that are due.

    barrier: how the commit changes the barriers of the table.
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
        result, messages = commit_with_rebucketing(table, messages, commit)
    if not messages and barrier is None:
        return result
    # A commit without files may complete a barrier, so that compactions may take files of others. So compact after it,
    # too. The cached schema is used, because nothing after the commit may fail the call.
    schema = table._committer.schemas.known()
    if not result.committed:
        finish_replayed(table, schema)
        return result
    state = table._state(schema)
    if schema.typed_options.get(opt.WRITE_ONLY) or schema.postpones_buckets:
        warn_unattended(state, table._committer, result.files)
    else:
        compact_after_commit(state, table._committer, messages)
    return result


def finish_replayed(table: OpenTable, schema: TableSchema) -> None:
    """Do what a writer that was killed after its commit left undone.

    With the producer `lookup` this compacts all that is due in the table, with others nothing; it also finishes what a
    rescaling left undone. Raises nothing.
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
    """Commit the files of writers in place of the live rows.

    They replace the rows of their partitions, or of the whole table, as `overwrite` does. Changelog files
    of the messages are deleted first, even if the commit fails: no reader of changes sees an overwrite.

    Parameters
    ----------
    messages : iterable of CommitMessage
        The messages of the writers of all tasks.
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
        An item is no message, or an identifier is not the repeated commit, as in `write`.
    UnsupportedError
        The table is under barriers, or has an option that this version does not honour.
    ConflictError
        Other commits were faster until `commit.timeout`, or more than `commit.max-retries` times.
    """
    whole_table = flag(whole_table, "whole_table")
    accept(table.schema, Use.TAKE_ROWS)
    by = Identity.of(
        commit_user, commit_identifier, digest, replay
    )  # raises before any file is deleted
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
    """Commit the files of writers in place of the live rows of their partitions, or of the whole table."""
    messages = items(messages, CommitMessage, "messages")
    schema = table.schema
    accept(schema, Use.MAINTAIN)
    messages = _without_changelog(table, schema, messages)
    dynamic = bool(schema.partition_keys) and schema.typed_options.get(
        opt.DYNAMIC_PARTITION_OVERWRITE
    )
    # The commit replaces the rows that are live when it commits, not those that were live when the rows were made. None
    # is the whole table. Without messages there are no partitions, and nothing is replaced.
    scope = None if whole_table or not dynamic else {message.partition for message in messages}
    commit = partial(
        table._committer.overwrite, scope, by=by, watermark=watermark, properties=properties
    )
    return commit_with_rebucketing(table, messages, commit)[0]


def _without_changelog(
    table: OpenTable, schema: TableSchema, messages: Iterable[CommitMessage]
) -> list[CommitMessage]:
    """Delete the changelog files of messages: readers of changes skip overwrites, as in Paimon."""
    kept = []
    for message in messages:
        discard_files(table._state(schema), message.bucket_id, message.changelog_files)
        kept.append(replace(message, changelog_files=()))
    return kept


def discard(table: OpenTable, messages: Iterable[CommitMessage]) -> None:
    """Delete the files of messages that no commit has.

    Such messages were never passed to a commit, or it refused them. A file that cannot be deleted is
    named in the log, and left to `remove_orphan_files`.

    Parameters
    ----------
    messages : iterable of CommitMessage
        The messages.

    Raises
    ------
    InvalidError
        An item is no message.
    """
    # This does not use table.schema, so that it works even if another table has replaced this one.
    state = table._state(table._committer.schemas.latest())
    discard_all(state, items(messages, CommitMessage, "messages"))


def wait_for_compactions(table: OpenTable) -> None:
    """Wait until this process has finished the compactions that run after its commits.

    These are large picks among older levels and, with `lookup-wait=false`, changelogs. Call it before you end the
    process by force, or to read the result of the compactions. It raises nothing: failures are in the log, and the
    compactions are due again with the next commit.
    """
    compaction_threads.wait_for_compactions(table.path)
