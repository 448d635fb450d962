"""Commit files even if their partition got another number of buckets since they were written.

The commit refuses such files (`conflicts`, kind buckets). Their rows are then moved to the buckets that the partition
has now, with their kinds and sequence numbers, and the commit is retried: a writer does not fail because of a
concurrent rescale (decision 0039). The rows may exist nowhere else by then.

    messages    {a: 4 buckets} {b: 4}     partition b has 8 by now: the commit is refused
    rebucketed  {a: 4} {b: 8, new files}  committed; then the old files of b, which nothing names, are deleted

If an error leaves open whether the commit happened, no file is deleted, neither original nor moved. In: messages, and
the function that commits them. Out: the result; the old files of moved messages are deleted after the commit. Raises
what the commit and moving rows raise; then the original files are unchanged, and moved files are deleted.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final

from widetable.commit.transaction.commit_result import CommitResult
from widetable.errors import ConflictError, InvalidError, NotFoundError
from widetable.lsm.moved_rows import moved
from widetable.operations.handle.open_table import OpenTable
from widetable.write.commit_message import CommitMessage
from widetable.write.discard import discard

# The limit of retries while the same partition is rescaled several times.
_MAX_MOVES: Final = 10
_log = logging.getLogger("widetable")


def commit_with_rebucketing(
    table: OpenTable,
    messages: Sequence[CommitMessage],
    commit: Callable[[Sequence[CommitMessage]], CommitResult],
) -> tuple[CommitResult, Sequence[CommitMessage]]:
    """Commit messages, and return the result with the messages that were committed in the end.

    commit: commits messages; called up to `_MAX_MOVES` times, under the same identity, so that it counts once.

    Rows are always moved from the original messages, never from moved ones. So a partition that is rescaled twice
    costs one more move, and a return to the original number costs nothing. Raises InvalidError for files whose
    schema the table no longer has.
    """
    _check_schemas(table, messages)
    current: Sequence[CommitMessage] = messages
    is_retry = False
    for tries_left in reversed(range(_MAX_MOVES)):
        try:
            result = commit(current)
        except (ConflictError, InvalidError) as error:
            # The commit certainly did not happen.
            _discard_moved(table, current, messages)
            rebucketed = _rebucketed(table, messages) if isinstance(error, ConflictError) else None
            # Retry the original messages once between two moves: a conflict of another kind would repeat forever.
            if _may_fit_again(table, error, rebucketed) and not is_retry and tries_left:
                current, is_retry = messages, True
                continue
            if rebucketed is None or not tries_left:
                if rebucketed is not None:
                    _discard_moved(table, rebucketed, messages)
                raise
            _log.info("rows of a commit to %s are moved to other buckets: %s", table.path, error)
            current, is_retry = rebucketed, False
            continue
        # If this was a replay, the first commit may have had the original files, so these stay.
        unused = (messages, current) if result.committed else (current, messages)
        _discard_moved(table, *unused)
        return result, current
    raise AssertionError("the last try returns or raises")


def _check_schemas(table: OpenTable, messages: Sequence[CommitMessage]) -> None:
    """Raise InvalidError if the table no longer has the schema of a file. A fast-forward may have replaced or removed
    it, so that the file's columns would be taken for others.
    """
    schemas = table._committer.schemas
    written_with = {
        (file.schema_id, message.schema_digest)
        for message in messages
        if message.schema_digest is not None
        for file in message.new_files
    }
    for id, digest in sorted(written_with):
        with suppress(NotFoundError):
            if schemas.load(id).digest == digest:
                continue
        raise InvalidError(
            table.path,
            found=f"files that were written with a schema {id} which the table no longer has",
            expected="files of this table's schemas: a fast-forward to a branch has replaced them meanwhile",
            action="Open the table again, and write the rows again.",
        )


def _may_fit_again(
    table: OpenTable, error: ConflictError | InvalidError, rebucketed: list[CommitMessage] | None
) -> bool:
    """Whether a rescale since the refused commit may have given the partitions the messages' buckets again."""
    is_conflict = isinstance(error, ConflictError) and rebucketed is None
    return is_conflict and table._committer.schemas.is_rescaled()


def _rebucketed(table: OpenTable, messages: Sequence[CommitMessage]) -> list[CommitMessage] | None:
    """Return the messages, with rows moved if their partition has another number of buckets; None if all fit."""
    by_partition: dict[bytes, list[CommitMessage]] = defaultdict(list)
    for message in messages:
        by_partition[message.partition].append(message)
    committer = table._committer
    latest, state = committer.snapshots.latest(), table._state(committer.schemas.latest())
    if state.schema.num_buckets < 1:  # dynamic buckets are never rescaled
        return None
    rebucketed: list[CommitMessage] = []
    has_moved = False
    try:
        for partition, members in by_partition.items():
            # A partition without files has the table's number, as for the next writer.
            count = committer.live_files.bucket_count(latest, partition) or state.schema.num_buckets
            old = [message for message in members if message.total_buckets != count]
            has_moved = has_moved or bool(old)
            rebucketed += (message for message in members if message.total_buckets == count)
            files = [(m.bucket_id, file) for m in old for file in m.new_files]
            emitted = [(m.bucket_id, file) for m in old for file in m.changelog_files]
            rebucketed += moved(state, count, files, emitted)
    except BaseException:
        _discard_moved(table, rebucketed, messages)
        raise
    return rebucketed if has_moved else None


def _discard_moved(
    table: OpenTable, unused: Sequence[CommitMessage], kept: Sequence[CommitMessage]
) -> None:
    """Delete the files of unused messages that are not among the kept ones. A message that was not moved is the same
    object in both.
    """
    if unused is kept:
        return
    others = {id(message) for message in kept}
    state = table._state(table._committer.schemas.latest())
    discard(state, [message for message in unused if id(message) not in others])
