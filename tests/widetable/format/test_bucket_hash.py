"""Buckets of rows by schema: default hash in the bucket key's own order, and mod."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest

from tests.support.tables.fixture_tables import TABLES, FixtureTable
from tests.widetable.format.test_binary_row import python_value
from widetable.format.bucket_hash import bucket_ids
from widetable.format.data_file_reader import open_data_file
from widetable.schema.new_schema import new_schema
from widetable.schema.types import DataField, arrow_field, arrow_type, parse_type
from widetable.storage.local import LocalFileIO

FILE = Path(__file__).parents[2] / "vectors" / "bucket_vectors.jsonl"
VECTORS = [json.loads(line) for line in FILE.read_text("utf-8").splitlines()]


@pytest.mark.parametrize("buckets", [1, 2, 3, 4, 5, 7, 8, 10, 16, 64, 128])
def test_bucket_of_every_vector(buckets: int) -> None:
    for vector in VECTORS:
        types = [parse_type(text) for text in vector["types"]]
        if any(kind.nullable for kind in types):
            continue  # a null is no key
        names = [f"k{i}" for i in range(len(types))]
        arrays = [
            pa.array([python_value(kind, value)], arrow_type(kind))
            for kind, value in zip(types, vector["values"], strict=True)
        ]
        fields = [
            arrow_field(DataField(i, n, t))
            for i, (n, t) in enumerate(zip(names, types, strict=True))
        ]
        schema = new_schema(pa.schema(fields), primary_key=names, options={"bucket": str(buckets)})
        batch = pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields))
        assert bucket_ids(batch, schema).tolist() == [vector["bucket"][str(buckets)]], vector


def test_bucket_key_option_is_hashed_in_its_own_order() -> None:
    columns = pa.schema([("a", pa.int32()), ("b", pa.string()), ("c", pa.int32())])
    batch = pa.record_batch({"a": pa.array([7], pa.int32()), "b": ["us"], "c": [0]})
    schema = new_schema(
        columns, primary_key=["a", "b", "c"], options={"bucket": "128", "bucket-key": "b,a"}
    )
    assert bucket_ids(batch, schema).tolist() == [114]  # the vector (STRING "us", INT 7)


def test_mod_is_the_remainder_that_is_not_negative() -> None:
    schema = new_schema(
        pa.schema([("k", pa.int32())]),
        primary_key=["k"],
        options={"bucket": "5", "bucket-function.type": "mod"},
    )
    batch = pa.record_batch({"k": pa.array([0, 1, 7, -1, -2147483648], pa.int32())})
    assert bucket_ids(batch, schema).tolist() == [0, 1, 2, 4, 2]


@pytest.mark.parametrize("table", TABLES, ids=lambda t: t.id)
def test_rows_of_other_writers_lie_in_their_bucket(table: FixtureTable) -> None:
    checked = 0
    for path, meta in table.data_files():
        file_schema = table.schemas[meta.schema_id]
        with open_data_file(LocalFileIO(), str(path), meta, table.schema, file_schema) as file:
            for batch in file.batches():
                bucket = int(path.parent.name.removeprefix("bucket-"))
                assert set(bucket_ids(batch, table.schema).tolist()) == {bucket}
                checked += batch.num_rows
    assert checked
