"""The identity of a bucket, and grouping of manifest entries or commit messages by bucket."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple, Protocol, TypeVar

# The limit of Paimon's writers.
MAX_DYNAMIC_BUCKETS: Final = 2**15 - 1


class BucketId(NamedTuple):
    """A bucket of a table. partition: BinaryRow with its arity. number: of the bucket in its partition.

    It is unique among all partitions, and sorts by partition bytes, then number. A
    plain tuple of the two equals it.
    """

    partition: bytes
    number: int


class _OfBucket(Protocol):
    @property
    def partition(self) -> bytes: ...

    @property
    def bucket(self) -> int: ...


_Member = TypeVar("_Member", bound=_OfBucket)


def by_bucket(members: Iterable[_Member]) -> dict[BucketId, list[_Member]]:
    """Return the members of each bucket in their order; buckets are in the order of their first members."""
    # Plain tuples first: with 100 000 entries named tuples would double the time.
    members_of: dict[tuple[bytes, int], list[_Member]] = {}
    for member in members:
        members_of.setdefault((member.partition, member.bucket), []).append(member)
    return {BucketId(*bucket): bucket_members for bucket, bucket_members in members_of.items()}
