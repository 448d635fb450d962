"""Finds the buckets in which a commit was overtaken: records that are committed later must sort later. Pure.

    writer A begins, numbers from 100
    writer B begins, numbers from 130;  B is published
    A commits: in the buckets where its rows meet B's, A needs numbers above B's

A bucket is overtaken if a published file has a number that is not below all of the commit's there, both may have a key
in common, and the rows depend on which of the two is later (`merge/order_dependence`). The records of other buckets
keep their numbers, as that changes no row.

Raises DamagedError for keys of a manifest that do not decode.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from widetable.commit.snapshots.published_files import PublishedFile
from widetable.format.bucket_id import BucketId
from widetable.format.data_file_meta import DataFileMeta
from widetable.lsm.sorted_run import sort_key
from widetable.merge.order_dependence import Values, depends_on_order
from widetable.schema.types import DataType
from widetable.storage.paths import POSTPONED
from widetable.write.commit_message import CommitMessage


def first_number(messages: Iterable[CommitMessage]) -> int | None:
    """Return the lowest sequence number of the new files; None without files."""
    return min((f.min_sequence_number for m in messages for f in m.new_files), default=None)


def may_be_overtaken(
    messages: Iterable[CommitMessage], published: Values, ordered: frozenset[int] | None
) -> bool:
    """Return whether any file of the commit depends on its order to the published files. ordered: see `ordered_ids`.
    Postponed rows get their numbers when they get their bucket, in the order of commits.
    """
    return any(
        depends_on_order(_values(message, file), published, ordered)
        for message in messages
        if message.bucket != POSTPONED
        for file in message.new_files
    )


def overtaken_buckets(
    messages: Sequence[CommitMessage],
    published: Iterable[PublishedFile],
    ordered: frozenset[int] | None,
    key_types: Sequence[DataType],
) -> frozenset[BucketId]:
    """Return the buckets in which the commit's files need numbers above the published ones.

    ordered: columns whose values depend on the order (`ordered_ids`). key_types: of the trimmed primary key.
    """
    by_bucket: dict[BucketId, list[PublishedFile]] = {}
    for each in published:
        by_bucket.setdefault(each.bucket, []).append(each)
    return frozenset(
        message.bucket_id
        for message in messages
        if message.bucket != POSTPONED
        for file in message.new_files
        for other in by_bucket.get(message.bucket_id, ())
        if other.file.max_sequence_number >= file.min_sequence_number
        and depends_on_order(_values(message, file), other.values, ordered)
        and _meet(file, other.file, key_types)
    )


def _values(message: CommitMessage, file: DataFileMeta) -> Values:
    return Values(message.columns, file.delete_row_count != 0)


def _meet(one: DataFileMeta, other: DataFileMeta, types: Sequence[DataType]) -> bool:
    """Return whether the key ranges of two files overlap."""
    is_below = sort_key(one.max_key, types) < sort_key(other.min_key, types)
    return not is_below and sort_key(other.max_key, types) >= sort_key(one.min_key, types)
