"""Which sizes of buckets are worth a word, and what is advised then."""

from __future__ import annotations

import pytest

from widetable.format.bucket_id import BucketId
from widetable.operations.health.bucket_advice import Advice, BucketSize, bucket_advice

KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30


def advice(*partitions: list[int], rows: dict[int, int] | None = None) -> Advice | None:
    """Of partitions with these bytes in each bucket. rows: of buckets of the first; others have one per MiB."""
    sizes = {
        BucketId(bytes([number]), at): BucketSize(size, (rows or {}).get(at, size // MIB))
        for number, members in enumerate(partitions)
        for at, size in enumerate(members)
        if size
    }
    return bucket_advice(sizes, {bytes([n]): len(each) for n, each in enumerate(partitions)})


@pytest.mark.parametrize(
    "partitions",
    [
        [],
        [[KIB]],
        [[KIB] * 255],
        [[0] * 9999 + [KIB]],
        [[2 * MIB] * 10_000],
        [[GIB] * 4],
        [[2 * GIB] * 4],
        [[KIB]] * 200,
        [[100 * MIB, MIB, MIB, MIB]],
        [[300 * MIB, 40 * MIB, 40 * MIB]],
        [[300 * MIB, MIB]],
    ],
)
def test_what_is_usual_is_no_finding(partitions: list[list[int]]) -> None:
    assert advice(*partitions) is None


@pytest.mark.parametrize(
    ("partitions", "buckets", "partition"),
    [
        ([[3 * GIB]], 3, None),
        ([[4 * GIB, 3 * GIB + 1]], 8, None),
        ([[KIB], [5 * GIB], [KIB]], 5, bytes([1])),
        ([[KIB], [5 * GIB], [4 * GIB]], 5, None),
        ([[KIB] * 256], 1, None),
        ([[900 * KIB] * 10_000], 9, None),
        ([[KIB] * 128, [10 * KIB] * 128], 1, None),
    ],
)
def test_another_number_is_advised(
    partitions: list[list[int]], buckets: int, partition: bytes | None
) -> None:
    found = advice(*partitions)
    assert found is not None
    assert (found.buckets, found.partition) == (buckets, partition)


@pytest.mark.parametrize(
    ("rows", "reason"), [({0: 9000}, "bucket-key"), ({0: 40}, "largest values")]
)
def test_one_bucket_among_small_ones_is_no_matter_of_their_number(
    rows: dict[int, int], reason: str
) -> None:
    found = advice([900 * MIB, *[50 * MIB] * 7], rows=rows)
    assert found is not None
    assert found.buckets is None
    assert reason in found.action


def test_buckets_without_files_count_as_empty_ones() -> None:
    found = advice([900 * MIB, 0, 0, 0])
    assert found is not None
    assert "the median one has 0" in found.found
