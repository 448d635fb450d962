"""A footer with any wrong bit is refused before Arrow sees it; files of others have no seal."""

from __future__ import annotations

import random
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.widetable.format.data_files import (
    IO,
    SIMPLE,
    batch_of,
    read,
    rewrite,
    simple_rows,
    table_schema,
    write,
)
from widetable.errors import DamagedError
from widetable.format.data_file_meta import DataFileMeta
from widetable.format.data_file_reader import open_data_file
from widetable.format.footer_seal import UNSEALED, Seal, sealed
from widetable.format.parquet_layout import GROUP_BYTES


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "data-0.parquet"


def written(path: Path) -> DataFileMeta:
    return write(path, SIMPLE, [batch_of(SIMPLE, simple_rows(*range(20)))])


def footer_of(whole: bytes) -> range:
    """Where it stands, with its length and the magic bytes."""
    return range(len(whole) - 8 - int.from_bytes(whole[-8:-4], "little"), len(whole))


def is_refused(path: Path, meta: DataFileMeta) -> bool:
    try:
        open_data_file(IO, str(path), meta, SIMPLE, SIMPLE).close()
    except DamagedError as error:
        return str(path) in error.subject
    return False


def test_each_wrong_bit_of_a_footer_is_refused(path: Path) -> None:
    meta = written(path)
    whole, rows = path.read_bytes(), read(path, meta, SIMPLE)
    for at in footer_of(whole):
        for bit in range(8):
            spoiled = bytearray(whole)
            spoiled[at] ^= 1 << bit
            path.write_bytes(spoiled)
            assert is_refused(path, meta), (at, bit)
    path.write_bytes(whole)
    assert read(path, meta, SIMPLE) == rows


def test_any_garbage_in_a_footer_is_refused(path: Path, rng: random.Random) -> None:
    """Unless it hits both notes, so that nothing says whose file it is."""
    meta = written(path)
    whole = path.read_bytes()
    place = footer_of(whole)
    notes = [name.encode() for name in (GROUP_BYTES, *UNSEALED)]
    tried = 0
    while tried < 500:
        spoiled = bytearray(whole)
        first = rng.choice(place)
        last = min(len(whole), first + rng.choice((2, 64, 512)))
        spoiled[first:last] = rng.choice((rng.randbytes(last - first), bytes(last - first)))
        if spoiled == whole or not any(note in spoiled for note in notes):
            continue
        tried += 1
        path.write_bytes(spoiled)
        assert is_refused(path, meta), (first, last)


def test_what_a_text_of_a_column_looks_like_is_not_taken_for_the_seal(path: Path) -> None:
    """Statistics and names stand before it in the footer."""
    ((name, zeros),) = UNSEALED.items()
    texts = [f"{name}\x18\x08{zeros}{number}" for number in range(3)]
    meta = write(path, SIMPLE, [batch_of(SIMPLE, {**simple_rows(1, 2, 3), "v": texts})])
    with open_data_file(IO, str(path), meta, SIMPLE, SIMPLE) as data:
        assert data.seal is Seal.WHOLE
    assert pq.read_table(path)["v"].to_pylist() == texts


@pytest.mark.parametrize("text", ["v", *UNSEALED, GROUP_BYTES])
def test_files_of_other_clients_have_no_seal(path: Path, text: str) -> None:
    """Whatever their statistics say, or their columns are called."""
    schema = table_schema({"k": "STRING", text: "STRING"})
    rows = {"k": ["aaaaaaaa", text], text: ["aaaaaaaa", text]}
    meta = write(path, schema, [batch_of(schema, rows)])
    for version in ("1.0", "2.6"):
        rewrite(pq.read_table(path), path, version=version)
        meta = meta._replace(file_size=path.stat().st_size)
        with open_data_file(IO, str(path), meta, schema, schema) as data:
            assert data.seal is Seal.NONE


def test_a_file_that_has_lost_its_seal_but_not_its_other_note_is_broken(path: Path) -> None:
    meta = written(path)
    noted = pq.read_table(path).replace_schema_metadata({GROUP_BYTES: "1"})
    pq.write_table(noted, path)
    meta = meta._replace(file_size=path.stat().st_size)
    assert is_refused(path, meta)


def test_a_sealed_file_differs_in_its_digits_only(tmp_path: Path) -> None:
    table = pa.table({"a": [1]})
    with pq.ParquetWriter(tmp_path / "x", table.schema) as writer:
        writer.write_table(table)
        writer.add_key_value_metadata(UNSEALED)
    whole = (tmp_path / "x").read_bytes()
    place = footer_of(whole)
    tail = sealed(whole[place.start :])
    assert len(tail) == len(place)
    assert tail != whole[place.start :]
    ((name, zeros),) = UNSEALED.items()
    at = tail.index(name.encode()) + len(name) + 2
    assert tail[:at] + zeros.encode() + tail[at + 8 :] == whole[place.start :]
    assert sum(a != b for a, b in zip(tail, whole[place.start :], strict=True)) <= len(zeros)
