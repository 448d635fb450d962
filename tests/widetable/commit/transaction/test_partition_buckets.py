"""A row has one bucket for everybody: the writer that places it, a lookup, the filter of a scan and an audit."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import widetable as wt
from widetable.commit.transaction.partition_buckets import places_of
from widetable.format.bucket_id import BucketId
from widetable.write.bucket_split import bucket_numbers, bucket_of, split_by_bucket

ROWS = pa.record_batch({"p": [1, 1, 1, 2, 2, 2], "k": [1, 2, 3, 4, 5, 6], "v": [0] * 6})
MOD = {"bucket": "4", "bucket-function.type": "mod", "bucket-key": "k"}
# How the buckets are determined -> options, and the numbers of buckets that files record: 2 is the partition that
# `Table.rescale` gets.
WAYS = {
    "fixed": ({"bucket": "4"}, {4}),
    "modulo": (MOD, {4}),
    "rescaled": ({"bucket": "4"}, {4, 7}),
    "rescaled modulo": (MOD, {4, 7}),
    "dynamic": ({"bucket": "-1", "dynamic-bucket.target-row-num": "2"}, {-1}),
}


@pytest.mark.parametrize("way", WAYS)
def test_a_row_has_one_bucket(tmp_path: Path, way: str) -> None:
    options, counts = WAYS[way]
    table = wt.Catalog(tmp_path).create_table(
        "db.t",
        {"p": "INT", "k": "INT", "v": "BIGINT"},
        primary_key=["p", "k"],
        partition_by=["p"],
        options=options | {"widetable.fsync": "false"},
    )
    table.write(ROWS)
    if 7 in counts:
        table.rescale(7, [{"p": 2}])
    committer, state, schema = table._committer, table._state(), table.schema
    entries = committer.live_files.live_entries(committer.snapshots.latest())
    assert {entry.total_buckets for entry in entries} == counts
    stored = {entry.bucket_id for entry in entries}

    rows = ROWS.cast(schema.arrow_schema(schema.names))
    places = places_of(
        state,
        committer.live_files,
        committer.indexes.hashes,
        committer.snapshots.latest,
        committer.schemas.is_rescaled,
    )
    assert {bucket for bucket, _ in split_by_bucket(rows, schema, places)} == stored
    numbers = bucket_numbers(rows, schema, places.find if places else None)
    buckets: set[BucketId] = {bucket_of(rows, row, numbers, schema) for row in range(len(rows))}
    assert buckets == stored

    assert table.lookup(ROWS.select(["p", "k"]))["v"].to_pylist() == [0] * len(rows)
    assert table.lookup({"p": [1, 3], "k": [99, 1]})["v"].to_pylist() == [None, None]
    for row in ROWS.to_pylist():
        assert table.scan(filter=f"p = {row['p']} and k = {row['k']}").count() == 1
    report = table.audit()
    assert report.findings == ()
    assert ("row-bucket" in report.checks) == (way != "dynamic")
