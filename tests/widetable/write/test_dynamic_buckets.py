"""Dynamic buckets against dicts: a key stays where it is, full buckets get no more, what is new is said."""

from __future__ import annotations

import tracemalloc

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from widetable.errors import InvalidError
from widetable.format import bucket_id
from widetable.schema.options import TableOptions
from widetable.write import dynamic_buckets
from widetable.write.dynamic_buckets import PartitionBuckets

HASHES = st.lists(st.integers(-8, 8) | st.sampled_from([-(2**31), 2**31 - 1]), max_size=12)


def array(values: list[int]) -> npt.NDArray[np.int32]:
    return np.array(values, np.int32)


def partition(
    known: dict[int, list[int]], missing: dict[int, list[int]], **options: int
) -> PartitionBuckets:
    texts = {
        f"dynamic-bucket.{key.replace('_', '-')}": str(value) for key, value in options.items()
    }
    return PartitionBuckets(
        {bucket: array(sorted(hashes)) for bucket, hashes in known.items()},
        {bucket: array(hashes) for bucket, hashes in missing.items()},
        TableOptions(texts),
    )


@given(
    st.lists(HASHES, min_size=1, max_size=4),
    st.dictionaries(st.integers(0, 5), st.sets(st.integers(-8, 8), max_size=4), max_size=3),
    st.integers(1, 4),
    st.sampled_from([-1, 2, 30]),
)
def test_assignment(
    batches: list[list[int]], drawn: dict[int, set[int]], target: int, most: int
) -> None:
    known: dict[int, list[int]] = {}
    for bucket, hashes in drawn.items():
        taken = {each for held in known.values() for each in held}
        known[bucket] = sorted(hashes - taken)
    buckets = partition(known, {}, target_row_num=target, max_buckets=most)
    held = {hash: bucket for bucket, hashes in known.items() for hash in hashes}
    rows = {bucket: len(hashes) for bucket, hashes in known.items()}
    new: dict[int, set[int]] = {}
    for batch in batches:
        found = buckets.assign(array(batch)).tolist()
        for hash, bucket in zip(batch, found, strict=True):
            if hash in held:
                assert bucket == held[hash]
                continue
            held[hash] = bucket
            rows[bucket] = rows.get(bucket, 0) + 1
            new.setdefault(bucket, set()).add(hash)
            assert (
                0 <= bucket < (most if most > 0 else bucket_id.MAX_DYNAMIC_BUCKETS)
                or bucket in known
            )
            has_room = rows[bucket] <= target
            all_full = most > 0 and all(rows.get(each, 0) >= target for each in range(most))
            assert has_room or all_full
    assert {bucket: set(h.tolist()) for bucket, h in buckets.new_hashes().items()} == new
    kept = partition(known, {}).find(array([-9, *(h for hashes in known.values() for h in hashes)]))
    assert kept.tolist() == [-1, *(bucket for bucket, hashes in known.items() for _ in hashes)]


def test_new_keys_fill_buckets_in_their_order() -> None:
    buckets = partition({0: [1, 2]}, {}, target_row_num=3)
    assert buckets.assign(array([9, 1, 8, 7, 9, 6, 5])).tolist() == [0, 0, 1, 1, 0, 1, 2]
    assert buckets.assign(array([4, 2])).tolist() == [2, 0]


@pytest.mark.parametrize("sizes", [[105], [5, 100], [20, 85], [25, *[1] * 80]])
def test_keys_that_no_bucket_has_room_for_are_dealt_out_evenly(sizes: list[int]) -> None:
    buckets = partition({}, {}, target_row_num=10, max_buckets=3)
    calls = np.split(np.arange(105, dtype=np.int32), np.cumsum(sizes)[:-1])
    found = np.concatenate([buckets.assign(hashes) for hashes in calls])
    assert np.bincount(found).tolist() == [35, 35, 35]


def test_keys_without_room_go_to_buckets_above_the_most_too() -> None:
    buckets = partition({0: [1], 7: [2]}, {}, target_row_num=1, max_buckets=2)
    found = buckets.assign(array(list(range(10, 17))))
    assert np.bincount(found).tolist() == [2, 3, 0, 0, 0, 0, 0, 2]


def test_known_keys_are_found_without_a_look_at_all_buckets_that_could_be() -> None:
    buckets = partition({0: [1, 2]}, {})
    buckets.assign(array([1]))
    tracemalloc.start()
    try:
        buckets.assign(array([1, 2]))
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak_bytes < bucket_id.MAX_DYNAMIC_BUCKETS


def test_what_no_index_file_has_is_new() -> None:
    buckets = partition({0: [1, 2], 1: [3]}, {1: [3]})
    assert {bucket: h.tolist() for bucket, h in buckets.new_hashes().items()} == {1: [3]}


def test_too_many_keys_for_all_buckets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dynamic_buckets, "MAX_DYNAMIC_BUCKETS", 3)
    buckets = partition({}, {}, target_row_num=2)
    with pytest.raises(InvalidError, match=r"dynamic-bucket\.target-row-num"):
        buckets.assign(array(list(range(7))))
