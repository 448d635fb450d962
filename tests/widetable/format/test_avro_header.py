"""The head of an Avro data file: as long as it may be, and no more of a damaged file is read than of a whole one."""

from __future__ import annotations

import random
from contextlib import closing
from pathlib import Path

import pyarrow as pa
import pytest

from tests.widetable.format.data_files import batch_of, read, table_schema, write
from tests.widetable.format.foreign_files import write_avro
from tests.widetable.format.test_other_formats import SYSTEM
from widetable.errors import DamagedError, UnsupportedError
from widetable.format.avro_data_file import AvroDataFile
from widetable.format.data_file_meta import DataFileMeta
from widetable.format.stored_file import FileToOpen
from widetable.schema.table_schema import TableSchema


def made(folder: Path, columns: int, value_bytes: int) -> tuple[Path, DataFileMeta, TableSchema]:
    names = [f"a_column_with_a_rather_long_name_{number}" for number in range(columns)]
    schema = table_schema({"k": "INT", **dict.fromkeys(names, "BYTES")})
    values = {name: [random.Random(1).randbytes(value_bytes)] for name in names}
    batch = batch_of(schema, {"k": [1], **values})
    meta = write(folder / "data.parquet", schema, [batch])
    types = {**SYSTEM, **{field.name: field.type for field in schema.fields}}
    path = folder / "data.avro"
    rows = pa.Table.from_batches([batch])
    return path, write_avro(path, rows, types, meta, codec="null"), schema


def bytes_read(path: Path, meta: DataFileMeta, schema: TableSchema) -> tuple[int, bool]:
    """(bytes that were read to open it, whether it was refused)"""
    with closing(Counted(path)) as counted:
        file = FileToOpen(pa.PythonFile(counted, "r"), str(path), meta, schema.fields, schema)
        try:
            AvroDataFile(file)
        except (DamagedError, UnsupportedError):
            return counted.count, True
        return counted.count, False


class Counted:
    """A file that counts what is read of it."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("rb")
        self.closed = False
        self.count = 0

    def read(self, size: int = -1) -> bytes:
        data = self._file.read(size)
        self.count += len(data)
        return data

    def seek(self, offset: int, whence: int = 0) -> int:
        return self._file.seek(offset, whence)

    def tell(self) -> int:
        return self._file.tell()

    def close(self) -> None:
        self._file.close()
        self.closed = True


@pytest.mark.parametrize("columns", [1, 900, 6_000])
def test_a_header_of_any_length_is_read(tmp_path: Path, columns: int) -> None:
    """Of 500 bytes, of more than the first piece, of more than the second."""
    path, meta, schema = made(tmp_path, columns, 3)
    assert read(path, meta, schema, schema.names[-1:]).num_rows == 1


@pytest.mark.parametrize("columns", [1, 900])
def test_damage_in_the_head_reads_little(tmp_path: Path, rng: random.Random, columns: int) -> None:
    path, meta, schema = made(tmp_path, columns, 24_000_000 // columns)
    whole = path.read_bytes()
    head = whole.index(b"a_column_with") + 100
    whole_read, is_refused = bytes_read(path, meta, schema)
    assert (whole_read < 1 << 20, is_refused) == (True, False)
    refused = 0
    for bit in range(8 * 4 + 40):  # each bit of the mark, and others
        at = bit // 8 if bit < 32 else rng.randrange(4, head)
        with path.open("r+b") as file:
            file.seek(at)
            file.write(bytes([whole[at] ^ 1 << bit % 8]))
        found, is_refused = bytes_read(path, meta, schema)
        refused += is_refused
        assert found <= (whole_read if bit < 32 else 6 << 20)
        with path.open("r+b") as file:
            file.seek(at)
            file.write(whole[at : at + 1])
    assert refused > 32


def test_a_head_without_an_end_reads_little(tmp_path: Path) -> None:
    path, meta, schema = made(tmp_path, 1, 24_000_000)
    with path.open("r+b") as file:  # a first key of 2 ** 33 bytes
        file.seek(5)
        file.write(bytes([0x80, 0x80, 0x80, 0x80, 0x40]))
    found, is_refused = bytes_read(path, meta, schema)
    assert (found < 6 << 20, is_refused) == (True, True)
