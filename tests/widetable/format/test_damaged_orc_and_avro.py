"""Damaged ORC and Avro files: refused as damage that names the file, whatever bit is wrong; the process goes on.

ORC and Avro have no checksums, so a wrong bit in a value can be another value; where rows come out, they are as many.
"""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tests.widetable.format.data_files import batch_of, read, table_schema, write
from tests.widetable.format.foreign_files import write_avro, write_orc
from tests.widetable.format.test_other_formats import SYSTEM
from widetable.errors import DamagedError, UnsupportedError
from widetable.format.data_file_meta import DataFileMeta

SCHEMA = table_schema(
    {
        "k": "INT",
        "s": "STRING",
        "d": "DECIMAL(20, 2)",
        "t": "TIMESTAMP(6)",
        "far": "TIMESTAMP(3)",
        "l": {"type": "ARRAY", "element": "STRING"},
        "m": {"type": "MAP", "key": "INT NOT NULL", "value": "BYTES"},
    }
)
ROWS = 400
FORMATS = ["orc zstd", "orc uncompressed", "orc dictionary", "avro zstandard", "avro null"]


def made(rng: random.Random, folder: Path, how: str) -> tuple[Path, DataFileMeta]:
    values: dict[str, list[Any]] = {
        "k": list(range(ROWS)),
        "s": [f"v{rng.randrange(30)}" for _ in range(ROWS)],
        "d": [rng.randrange(1000) for _ in range(ROWS)],
        "t": [rng.randrange(10**15) for _ in range(ROWS)],
        "far": [rng.randrange(-(10**14), 10**15) for _ in range(ROWS)],
        "l": [rng.choice([None, [], ["a"], ["b", "ccc", None]]) for _ in range(ROWS)],
        "m": [[(1, b"x" * rng.randrange(9))] * rng.randrange(3) for _ in range(ROWS)],
    }
    batch = batch_of(SCHEMA, values)
    meta = write(folder / "data.parquet", SCHEMA, [batch])
    kind, codec = how.split()
    path, rows = folder / f"data.{kind}", pa.Table.from_batches([batch])
    if kind == "orc":
        dictionary = {"dictionary_key_size_threshold": 0.9} if codec == "dictionary" else {}
        codec = "zlib" if dictionary else codec
        return path, write_orc(path, rows, meta, compression=codec, **dictionary)
    types = {**SYSTEM, **{field.name: field.type for field in SCHEMA.fields}}
    return path, write_avro(path, rows, types, meta, codec=codec, block_bytes=4000)


@pytest.mark.parametrize("how", FORMATS)
def test_a_file_that_was_cut_off_is_damage(tmp_path: Path, rng: random.Random, how: str) -> None:
    path, meta = made(rng, tmp_path, how)
    whole = path.read_bytes()
    for size in [0, 3, len(whole) - 1, *(rng.randrange(len(whole)) for _ in range(8))]:
        path.write_bytes(whole[:size])
        for claimed in (meta.file_size, size):  # a meta that knows no better
            with pytest.raises(DamagedError) as raised:
                read(path, meta._replace(file_size=claimed), SCHEMA)
            assert str(path) in raised.value.subject


@pytest.mark.parametrize("how", FORMATS)
def test_a_wrong_bit_is_damage_or_another_value(
    tmp_path: Path, rng: random.Random, how: str
) -> None:
    path, meta = made(rng, tmp_path, how)
    whole = path.read_bytes()
    tail = max(len(whole) - 700, 0)
    refused = 0
    for number in range(40):
        flipped = bytearray(whole)
        at = rng.randrange(len(whole)) if number % 2 else rng.randrange(tail, len(whole))
        flipped[at] ^= 1 << rng.randrange(8)
        path.write_bytes(flipped)
        subject = refusal(path, meta)
        if subject is not None:
            assert str(path) in subject
            refused += 1
    assert refused


def refusal(path: Path, meta: DataFileMeta) -> str | None:
    """What was refused; None where as many rows came out."""
    try:
        assert read(path, meta, SCHEMA, batch_bytes=5_000).num_rows == ROWS
    except (DamagedError, UnsupportedError) as error:
        return error.subject
    return None


@pytest.mark.parametrize("how", ["orc zstd", "avro null"])
def test_a_file_of_other_rows_than_its_meta_counts_is_damage(
    tmp_path: Path, rng: random.Random, how: str
) -> None:
    path, meta = made(rng, tmp_path, how)
    for rows in (ROWS - 1, ROWS + 1):
        with pytest.raises(DamagedError):
            read(path, meta._replace(row_count=rows), SCHEMA)
