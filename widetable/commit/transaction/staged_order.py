"""Which staged commits will be published with the numbers that they are noted with.

    note of A, numbers from 100
    B is published, numbers from 130: the same keys, the same columns
    A is published with numbers above 130 (`ordered_append`)

A session that reads what A noted would show B's rows as the later ones, and A's once A is published. So it passes such
a note over, as if A had not noted it yet. The same holds where B is noted, too, for it may be published first.
Raises what `published_files` raises.
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
    """Those that nobody overtook. staged: in force. published: the live files with a number from that one on."""
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
