"""Whether a table has as many buckets as its data needs. Pure.

In: bytes and rows of every bucket that has files, and how many buckets each partition has. Out: at most one Advice: the
worst that another number, or another `bucket-key`, would mend. Paimon advises 200 MB to 1 GB a bucket (its page "Data
Distribution": https://paimon.apache.org/docs/master/primary-key-table/data-distribution/). Between the bounds below,
which lie well outside of that, nothing is said: a new table is no finding. Raises nothing.

    large     a bucket is compacted and merged by one task, and a lookup cache holds it whole
    skewed    the same of one bucket among small ones: a hot key, or a `bucket-key` of few values
    small     many small buckets are many small files in every commit, and a manifest entry for each

    buckets of one partition                      advice
    3 GiB, 1 GiB                                  large: 4 buckets
    3 GiB, 100 B, 100 B, 100 B                    skewed: 4 would be enough for all of it
    300 MiB and 100 rows, 3 of 10 MiB and 10      skewed: few values of the bucket key
    300 of 1,000 B                                small: 1 bucket

They are asked in this order, and the first one answers. Sizes are those of live files, compressed,
with rows that a compaction would drop.
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

# Twice what Paimon advises at most; and what is advised then.
LARGE_BYTES: Final = 2 << 30
WANTED_BYTES: Final = 1 << 30
MANY_BUCKETS: Final = 256
SMALL_BYTES: Final = 1 << 20
# A bucket so many times as large as the median one of its partition, if it is not small by itself.
SKEWED_TIMES: Final = 8
SKEWED_BYTES: Final = 256 << 20


class BucketSize(NamedTuple):
    """Of one bucket's files."""

    bytes: int
    rows: int


@dataclass(frozen=True)
class Advice:
    """buckets: the number to take, None where another one would not help. partition: the only one that needs it, None
    for all. The texts are those of a finding.
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
    """counts: the number of buckets of each partition.

    sizes: of buckets that have files; a bucket that is missing there is an empty one. counts has
    all partitions of sizes. None where nothing is to be said, as for an empty table.
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
    # Only where more would help: of a partition that has enough for its bytes one large bucket
    # is a skewed one.
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
    # Where most partitions are like that, those to come will be.
    is_all = 2 * len(wanted) > len(partitions)
    return Advice(
        wanted[worst],
        None if is_all else worst,
        f"a bucket of {size_text(largest)}, {counts[worst]} in its partition",
        _expected(),
        "compactions, which rewrite a bucket at once, and lookup caches, which hold it whole",
        "Give it more buckets; writers go on meanwhile.",
    )


def _skewed(
    partitions: Mapping[bytes, list[BucketSize]], counts: Mapping[bytes, int]
) -> Advice | None:
    found: list[tuple[float, bytes, BucketSize, BucketSize]] = []
    for partition, members in partitions.items():
        # A bucket without files is an empty one.
        empty = max(counts[partition] - len(members), 0)
        every = [*members, *(BucketSize(0, 0) for _ in range(empty))]
        largest = max(every)
        usual = BucketSize(*(int(median(column)) for column in zip(*every, strict=True)))
        # By bytes first, as tuples compare; the median by column, of two rows that need not be
        # one bucket's.
        times = largest.bytes / max(usual.bytes, 1)
        if len(every) > 2 and largest.bytes >= SKEWED_BYTES and times >= SKEWED_TIMES:
            found.append((times, partition, largest, usual))
    if not found:
        return None
    _, partition, largest, usual = max(found)
    # As skewed by rows: few keys of the bucket key have them. By bytes alone: its rows are large
    # ones.
    has_many_rows = largest.rows >= SKEWED_TIMES * max(usual.rows, 1)
    return Advice(
        None,
        partition,
        f"a bucket of {size_text(largest.bytes)} and {counted(largest.rows, 'row')}, where the median one has "
        f"{size_text(usual.bytes)} and {counted(usual.rows, 'row')}",
        f"buckets of one size, none {SKEWED_TIMES} times the median",
        "the one task that compacts and merges it, while the others wait",
        "More buckets do not help, its rows have few values of the bucket-key: copy the table into one with another "
        "bucket-key."
        if has_many_rows
        else "More buckets do not help, its rows are larger than others: look at its largest values.",
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
        "Give the table fewer buckets; writers go on meanwhile.",
    )


def _wanted(members: list[BucketSize]) -> int:
    """How many buckets of WANTED_BYTES a partition fills, rounded up, one at least."""
    return max(1, -(-sum(size.bytes for size in members) // WANTED_BYTES))


def _expected() -> str:
    return f"up to {size_text(WANTED_BYTES)} in a bucket, and not many more buckets than that needs"
