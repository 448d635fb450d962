"""Selects the staged commits that will be published with the sequence numbers that they have now.

    A is staged, numbers from 100
    B is published, numbers from 130: the same keys, the same columns
    A is published with numbers above 130 (`ordered_append`)

A session that reads the staged commit of A would show B's rows as the later ones, and A's rows once A is published. So
it skips such a commit as if A had not staged it yet. It does so also if B is only staged, as B may be published first.
Raises the errors of `published_files`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from widetable.commit.barriers.staged_commit import StagedCommit
from widetable.commit.snapshots.published_files import PublishedFile
from widetable.commit.transaction.commit_order import first_number, overtaken_buckets
from widetable.lsm.sorted_run import key_types
from widetable.merge.order_dependence import Values, ordered_ids
from widetable.schema.table_schema import TableSchema
from widetable.write.commit_message import CommitMessage


def in_order(
    staged: Sequence[StagedCommit],
    published: Callable[[int], Iterable[PublishedFile]],
    schema: TableSchema,
) -> list[StagedCommit]:
    """Return the staged commits that no other one overtakes. staged: in force. published: returns the live files with
    at least this sequence number.
    """
    return [
        one
        for one in staged
        if not overtaken_buckets(
            _messages(one),
            [*published(_first_number(one)), *_noted(other for other in staged if other != one)],
            ordered_ids(schema),
            key_types(schema),
        )
    ]


def _first_number(one: StagedCommit) -> int:
    return first_number(_messages(one)) or 0


def _messages(one: StagedCommit) -> list[CommitMessage]:
    return [
        CommitMessage(e.partition, e.bucket, e.total_buckets, (e.file,), columns=one.columns)
        for e in one.entries
    ]


def _noted(staged: Iterable[StagedCommit]) -> Iterable[PublishedFile]:
    for one in staged:
        for entry in one.entries:
            values = Values(one.columns, entry.file.delete_row_count != 0)
            yield PublishedFile(entry.bucket_id, entry.file, values)
