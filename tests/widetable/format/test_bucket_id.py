"""Grouping by bucket: every member once, in its order, under the bucket that it names itself."""

from __future__ import annotations

import random

from tests.widetable.commit.transaction.fake_table import added, data_file, written
from widetable.format.bucket_id import BucketId, by_bucket


def test_members_are_under_their_own_bucket_in_their_order(rng: random.Random) -> None:
    places = [(bytes([rng.randrange(3)]), rng.randrange(3)) for _ in range(100)]
    entries = [added(data_file(f"f{n}"), b, p) for n, (p, b) in enumerate(places)]
    found = by_bucket(entries)
    assert list(found) == list(dict.fromkeys(BucketId(*place) for place in places))
    for bucket, held in found.items():
        assert bucket == (bucket.partition, bucket.number)
        assert held == [entry for entry in entries if entry.bucket_id == bucket]
    assert sum(map(len, found.values())) == len(entries)


def test_messages_have_the_same_buckets_as_their_files() -> None:
    message = written(data_file("a"), bucket=3, partition=b"p")
    (bucket,) = by_bucket([message])
    assert bucket == message.bucket_id == added(data_file("a"), 3, b"p").bucket_id
