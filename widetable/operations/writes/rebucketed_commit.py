"""Commits of files whose partition got another number of buckets since they were written.

The commit refuses them (`conflicts`, kind buckets). Their rows, which nobody else may hold any more, are moved to the
buckets that the partition has now, with their kinds and sequence numbers, and the commit is made again: a writer does
not fail because somebody rescaled (decision 0039).

    given      {a: 4 buckets} {b: 4}     partition b has 8 by now: the commit is refused
    placed     {a: 4} {b: 8, new files}  committed; then the given files of b go, which nobody names

If the commit fails in a way that leaves open whether it is in, no file goes, neither given nor
moved. In: messages, and how they are committed. Out: the result; the files of messages that were
moved are deleted once the others are in. Raises what the commit and moving rows raise; then the
given messages are as they were, and no others are left.
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

# Somebody rescales the same partition again and again.
_MOST_MOVES: Final = 10
_log = logging.getLogger("widetable")


def committed_where_they_belong(
    table: OpenTable,
    messages: Sequence[CommitMessage],
    commit: Callable[[Sequence[CommitMessage]], CommitResult],
) -> tuple[CommitResult, Sequence[CommitMessage]]:
    """The result of the commit, and the messages that it was made of in the end.
    commit: makes it of messages; called up to `_MOST_MOVES` times, under the same identity, so
    that it counts once.

    Messages are moved from those that were given each time, never from moved ones: so a partition
    that is rescaled twice costs its rows one move more, and a number that came back costs
    nothing. Raises InvalidError for files whose schema is not the table's any more.
    """
    _check_schemas(table, messages)
    placed: Sequence[CommitMessage] = messages
    is_asked_again = False
    for tries_left in reversed(range(_MOST_MOVES)):
        try:
            result = commit(placed)
        except (ConflictError, InvalidError) as error:
            # Certainly not in, whoever made them.
            _discard_moved(table, placed, messages)
            again = _placed_anew(table, messages) if isinstance(error, ConflictError) else None
            # Once, until something had to be moved again: a conflict of another kind would go round here.
            if _may_be_back(table, error, again) and not is_asked_again and tries_left:
                placed, is_asked_again = messages, True
                continue
            if again is None or not tries_left:
                if again is not None:
                    _discard_moved(table, again, messages)
                raise
            _log.info("rows of a commit to %s go to other buckets: %s", table.path, error)
            placed, is_asked_again = again, False
            continue
        # When a commit of the same identifier was in first, it may have been of the given files.
        unused = (messages, placed) if result.committed else (placed, messages)
        _discard_moved(table, *unused)
        return result, placed
    raise AssertionError("the last try returns or raises")


def _check_schemas(table: OpenTable, messages: Sequence[CommitMessage]) -> None:
    """A fast-forward may have put another schema, or none, in place of the one that files were written with: their
    columns would be taken for others.
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
            found=f"files that were written with a schema {id} which the table has no more",
            expected="files of this table's schemas: it went forward to a branch since they were written",
            action="Open the table anew, and write the rows again.",
        )


def _may_be_back(
    table: OpenTable, error: ConflictError | InvalidError, again: list[CommitMessage] | None
) -> bool:
    """Whether the partitions may have the messages' buckets again since the commit was refused: somebody rescales."""
    is_conflict = isinstance(error, ConflictError) and again is None
    return is_conflict and table._committer.schemas.is_rescaled()


def _placed_anew(table: OpenTable, messages: Sequence[CommitMessage]) -> list[CommitMessage] | None:
    """The messages, those with another number of buckets than their partition moved; None when all have it."""
    by_partition: dict[bytes, list[CommitMessage]] = defaultdict(list)
    for message in messages:
        by_partition[message.partition].append(message)
    committer = table._committer
    latest, state = committer.snapshots.latest(), table._state(committer.schemas.latest())
    if state.schema.num_buckets < 1:  # dynamic buckets are never rescaled
        return None
    found: list[CommitMessage] = []
    has_moved = False
    try:
        for partition, members in by_partition.items():
            # Without files it has the number of the table, as the next writer says.
            count = committer.live_files.bucket_count(latest, partition) or state.schema.num_buckets
            old = [message for message in members if message.total_buckets != count]
            has_moved = has_moved or bool(old)
            found += (message for message in members if message.total_buckets == count)
            files = [(m.bucket_id, file) for m in old for file in m.new_files]
            emitted = [(m.bucket_id, file) for m in old for file in m.changelog_files]
            found += moved(state, count, files, emitted)
    except BaseException:
        _discard_moved(table, found, messages)
        raise
    return found if has_moved else None


def _discard_moved(
    table: OpenTable, placed: Sequence[CommitMessage], kept: Sequence[CommitMessage]
) -> None:
    """Delete the files of messages that are not among others.
    Told apart as objects: what was not moved is the same message in both.
    """
    if placed is kept:
        return
    others = {id(message) for message in kept}
    state = table._state(table._committer.schemas.latest())
    discard(state, [message for message in placed if id(message) not in others])
