"""The name of a bucket, and what belongs to buckets (manifest entries, commit messages) by bucket."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple, Protocol, TypeVar

# What Paimon's writers can count.
MOST_DYNAMIC_BUCKETS: Final = 2**15 - 1


class BucketId(NamedTuple):
    """partition: BinaryRow, arity in front. number: of the bucket in its partition.

    Buckets of all partitions are told apart by it, and sort by partition bytes, then number. A
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
    """The buckets in the order of their first members, the members of each in theirs."""
    # Plain tuples while it counts: of 100 000 entries each named tuple costs as much as all the rest.
    found: dict[tuple[bytes, int], list[_Member]] = {}
    for member in members:
        found.setdefault((member.partition, member.bucket), []).append(member)
    return {BucketId(*bucket): held for bucket, held in found.items()}
