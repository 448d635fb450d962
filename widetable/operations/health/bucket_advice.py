"""Advice about the number of buckets that the data of a table needs. Pure.

In: bytes and rows of every bucket that has files, and how many buckets each partition has. Out: at most one Advice,
about the worst problem that another number, or another `bucket-key`, would solve. Paimon advises 200 MB to 1 GB a
bucket (its page "Data Distribution":
https://paimon.apache.org/docs/master/primary-key-table/data-distribution/). The bounds below lie well outside of that,
and there is no advice between them, so that a new table is no finding. Raises nothing.

    large     one task compacts and merges a bucket, and a lookup cache holds the whole bucket
    skewed    one bucket among small ones is large: a hot key, or a `bucket-key` of few values
    small     many small buckets are many small files in every commit, and a manifest entry for each

    buckets of one partition                      advice
    3 GiB, 1 GiB                                  large: 4 buckets
    3 GiB, 100 B, 100 B, 100 B                    skewed: 4 would be enough for all of it
    300 MiB and 100 rows, 3 of 10 MiB and 10      skewed: few values of the bucket key
    300 of 1,000 B                                small: 1 bucket

The rules are tried in this order, and the first that applies decides. Sizes are those of live files, compressed,
including rows that a compaction would drop.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from statistics import median
from typing import Final, NamedTuple

from widetable.format.bucket_id import BucketId
from widetable.format.human_units import size_text
from widetable.messages.counted import counted

# LARGE_BYTES is twice Paimon's upper bound; the advice aims at WANTED_BYTES.
LARGE_BYTES: Final = 2 << 30
WANTED_BYTES: Final = 1 << 30
MANY_BUCKETS: Final = 256
SMALL_BYTES: Final = 1 << 20
# A bucket is skewed if it is at least this many times as large as the median of its partition, and not small by itself.
SKEWED_TIMES: Final = 8
SKEWED_BYTES: Final = 256 << 20


class BucketSize(NamedTuple):
    """Gives bytes and rows of the files of one bucket."""

    bytes: int
    rows: int


@dataclass(frozen=True)
class Advice:
    """Advice about the buckets of one table.

    buckets: the number to take, None if another number would not help. partition: the only one that needs it, None for
    all. The texts are those of a finding.
    """

    buckets: int | None
    partition: bytes | None
    found: str
    expected: str
    concerned: str
    action: str


def bucket_advice(
    sizes: Mapping[BucketId, BucketSize], counts: Mapping[bytes, int]
) -> Advice | None:
    """Return the first advice that applies, or None if none does, as for an empty table.

    sizes: of the buckets that have files; other buckets are empty. counts: the number of buckets of each partition; it
    has all partitions of sizes.
    """
    partitions: dict[bytes, list[BucketSize]] = defaultdict(list)
    for bucket, size in sizes.items():
        partitions[bucket.partition].append(size)
    if not partitions:
        return None
    return _large(partitions, counts) or _skewed(partitions, counts) or _small(partitions, counts)


def _large(
    partitions: Mapping[bytes, list[BucketSize]], counts: Mapping[bytes, int]
) -> Advice | None:
    # This covers partitions that more buckets would help. A large bucket of a partition that has enough buckets for
    # its bytes is skewed.
    wanted = {
        partition: _wanted(members)
        for partition, members in partitions.items()
        if max(size.bytes for size in members) > LARGE_BYTES
        and _wanted(members) > counts[partition]
    }
    if not wanted:
        return None
    worst = max(wanted, key=lambda partition: wanted[partition])
    largest = max(size.bytes for size in partitions[worst])
    # If most partitions need more buckets, new partitions will, too.
    is_all = 2 * len(wanted) > len(partitions)
    return Advice(
        wanted[worst],
        None if is_all else worst,
        f"a bucket of {size_text(largest)}, {counts[worst]} in its partition",
        _expected(),
        "compactions, which rewrite a bucket at once, and lookup caches, which hold it whole",
        "Give it more buckets; writers can continue meanwhile.",
    )


def _skewed(
    partitions: Mapping[bytes, list[BucketSize]], counts: Mapping[bytes, int]
) -> Advice | None:
    skewed: list[tuple[float, bytes, BucketSize, BucketSize]] = []
    for partition, members in partitions.items():
        # A bucket without files is an empty one.
        empty = max(counts[partition] - len(members), 0)
        every = [*members, *(BucketSize(0, 0) for _ in range(empty))]
        largest = max(every)
        usual = BucketSize(*(int(median(column)) for column in zip(*every, strict=True)))
        # Tuples compare by bytes first. The median is taken by column, so its two numbers may come from two buckets.
        times = largest.bytes / max(usual.bytes, 1)
        if len(every) > 2 and largest.bytes >= SKEWED_BYTES and times >= SKEWED_TIMES:
            skewed.append((times, partition, largest, usual))
    if not skewed:
        return None
    _, partition, largest, usual = max(skewed)
    # If it is skewed by rows, too, its rows have few values of the bucket key. If it is skewed by bytes alone, its rows
    # are large.
    has_many_rows = largest.rows >= SKEWED_TIMES * max(usual.rows, 1)
    return Advice(
        None,
        partition,
        f"a bucket of {size_text(largest.bytes)} and {counted(largest.rows, 'row')}, where the median one has "
        f"{size_text(usual.bytes)} and {counted(usual.rows, 'row')}",
        f"buckets of one size, none {SKEWED_TIMES} times the median",
        "the one task that compacts and merges it, while the others wait",
        "More buckets do not help, because its rows have few values of the bucket-key: copy the table into one with "
        "another bucket-key."
        if has_many_rows
        else "More buckets do not help, because its rows are larger than others: look at its largest values.",
    )


def _small(
    partitions: Mapping[bytes, list[BucketSize]], counts: Mapping[bytes, int]
) -> Advice | None:
    number = sum(map(len, partitions.values()))
    total = sum(size.bytes for members in partitions.values() for size in members)
    wanted = max(map(_wanted, partitions.values()))
    if number < MANY_BUCKETS or total >= SMALL_BYTES * number or wanted >= max(counts.values()):
        return None
    return Advice(
        wanted,
        None,
        f"{counted(number, 'bucket')} with {size_text(total)} together, {max(counts.values())} in a partition",
        _expected(),
        "commits, which write a file for each bucket",
        "Give the table fewer buckets; writers can continue meanwhile.",
    )


def _wanted(members: list[BucketSize]) -> int:
    """Return how many buckets of WANTED_BYTES a partition fills, rounded up, at least one."""
    return max(1, -(-sum(size.bytes for size in members) // WANTED_BYTES))


def _expected() -> str:
    return f"up to {size_text(WANTED_BYTES)} in a bucket, and not many more buckets than that needs"
