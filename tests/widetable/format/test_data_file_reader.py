"""Damaged, foreign and dotted data files: each is read right or refused by name."""

from __future__ import annotations

import random
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.support.faults.damage import damaged_copies, refused_subject
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
from widetable.errors import DamagedError, InvalidError, UnsupportedError
from widetable.format import data_file_writer
from widetable.format.data_file_meta import DataFileMeta
from widetable.format.data_file_reader import open_data_file
from widetable.schema.new_schema import new_schema
from widetable.schema.table_schema import TableSchema


@pytest.fixture
def written(path: Path) -> DataFileMeta:
    return write(path, SIMPLE, [batch_of(SIMPLE, simple_rows(*range(500)))])


def refused(path: Path, meta: DataFileMeta, schema: TableSchema = SIMPLE) -> DamagedError:
    with pytest.raises(DamagedError) as caught:
        read(path, meta, schema)
    return caught.value


def test_size_that_the_meta_does_not_say_is_damage(path: Path, written: DataFileMeta) -> None:
    error = refused(path, written._replace(file_size=written.file_size - 1))
    assert error.subject == str(path)
    assert str(written.file_size) in error.found
    assert str(written.file_size - 1) in error.expected


def test_row_count_that_the_meta_does_not_say_is_damage(path: Path, written: DataFileMeta) -> None:
    assert "500 rows" in refused(path, written._replace(row_count=499)).found


@pytest.mark.parametrize("keep", [0, 3, 8, 100, -1])
def test_truncated_file_is_damage(path: Path, written: DataFileMeta, keep: int) -> None:
    data = path.read_bytes()[:keep]
    path.write_bytes(data)
    assert refused(path, written).subject == str(path)
    assert refused(path, written._replace(file_size=len(data))).subject == str(path)


def test_file_of_another_format_is_reported(path: Path, written: DataFileMeta) -> None:
    path.write_bytes(b"ORC" + bytes(500))
    assert refused(path, written._replace(file_size=503)).subject == str(path)
    with pytest.raises(UnsupportedError, match="lance"):
        read(path, written._replace(file_name="data-1.lance"), SIMPLE)


def test_a_column_whose_name_has_a_wrong_bit_is_damage(path: Path) -> None:
    """It would be taken for one that the file does not have, and older values would show."""
    schema = table_schema({"k": "INT", "a_column": "BIGINT"})
    meta = write(path, schema, [batch_of(schema, {"k": [1], "a_column": [2]})])
    whole = path.read_bytes()
    at = whole.index(b"a_column", len(whole) - 8 - int.from_bytes(whole[-8:-4], "little"))
    for byte in range(at, at + len(b"a_column")):
        for bit in range(8):
            spoiled = bytearray(whole)
            spoiled[byte] ^= 1 << bit
            path.write_bytes(spoiled)
            if spoiled[at : at + 1] != b"_":
                refused(path, meta, schema)


def test_missing_not_null_column_is_damage(path: Path, written: DataFileMeta) -> None:
    schema = table_schema(
        {"k": "INT", "v": "STRING", "n": "BIGINT", "w": "DOUBLE", "z": "INT NOT NULL"}
    )
    error = refused(path, written, schema)
    assert "'z'" in error.subject
    assert str(path) in error.subject


def test_column_of_another_type_than_its_schema_is_damage(
    path: Path, written: DataFileMeta
) -> None:
    schema = table_schema({"k": "INT", "v": "DATE", "n": "BIGINT NOT NULL", "w": "DOUBLE"})
    error = refused(path, written, schema)
    assert "'v'" in error.subject
    assert "string" in error.found


def test_nulls_where_the_schema_has_none_are_damage(path: Path) -> None:
    loose = table_schema({"k": "INT", "n": "BIGINT"})
    meta = write(path, loose, [batch_of(loose, {"k": [1], "n": [None]})])
    assert "'n'" in refused(path, meta, table_schema({"k": "INT", "n": "BIGINT NOT NULL"})).subject


@pytest.mark.parametrize("column", ["_SEQUENCE_NUMBER", "_VALUE_KIND"])
def test_missing_system_column_is_damage(path: Path, written: DataFileMeta, column: str) -> None:
    rewrite(pq.read_table(path).drop_columns([column]), path)
    error = refused(path, written._replace(file_size=path.stat().st_size))
    assert column in error.subject


def test_unknown_row_kind_is_damage(path: Path, written: DataFileMeta) -> None:
    table = pq.read_table(path)
    for kinds in ([4] + [0] * 499, [0] * 499 + [-1], [300] + [0] * 499):
        rewrite(table.set_column(1, "_VALUE_KIND", pa.array(kinds, pa.int32())), path)
        refused(path, written._replace(file_size=path.stat().st_size))


def test_row_kind_as_int32_is_read(path: Path, written: DataFileMeta) -> None:
    table = pq.read_table(path)
    kinds = table.column("_VALUE_KIND").cast(pa.int32())
    rewrite(table.set_column(1, "_VALUE_KIND", kinds), path)
    back = read(path, written._replace(file_size=path.stat().st_size), SIMPLE)
    assert back.schema.field("_VALUE_KIND").type == pa.int8()


def test_wrong_bytes_raise_nothing_else(
    path: Path, written: DataFileMeta, rng: random.Random
) -> None:
    data, reported = path.read_bytes(), 0
    for _ in range(60):
        for copy in damaged_copies(data, rng):
            path.write_bytes(copy)
            meta = written._replace(file_size=len(copy))
            subject = refused_subject(partial(read, path, meta, SIMPLE))
            assert subject is None or str(path) in subject
            reported += subject is not None
    assert reported > 100  # of 300: others change what nobody asked for


def test_wrong_byte_in_a_page_is_noticed(
    path: Path, written: DataFileMeta, rng: random.Random
) -> None:
    data = bytearray(path.read_bytes())
    chunk = pq.ParquetFile(path).metadata.row_group(0).column(3)
    at = chunk.data_page_offset + chunk.total_compressed_size - 1 - rng.randrange(100)
    data[at] ^= 1 << rng.randrange(8)
    path.write_bytes(data)
    assert refused(path, written).subject == str(path)


def test_closed_file_is_not_read(path: Path, written: DataFileMeta) -> None:
    file = open_data_file(IO, str(path), written, SIMPLE, SIMPLE)
    file.close()
    with pytest.raises(InvalidError, match="closed"):
        next(file.batches())


def test_wrong_schema_is_refused(path: Path, written: DataFileMeta) -> None:
    with pytest.raises(InvalidError, match="schema 3"):
        read(path, written._replace(schema_id=3), SIMPLE)


def test_dotted_names_are_columns_of_their_own(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(data_file_writer, "ROW_GROUP_ROWS", 1)
    columns: list[tuple[str, pa.DataType]] = [
        ("a.b", pa.int32()),
        ("a", pa.struct([("b", pa.int32())])),
        ("k", pa.int32()),
    ]
    schema = new_schema(pa.schema(columns), primary_key=["k", "a.b"])
    rows: dict[str, list[Any]] = {"k": [1, 2], "a.b": [2, 3], "a": [{"b": 3}, None]}
    meta = write(path, schema, [batch_of(schema, rows)])
    back = read(path, meta, schema)
    assert {name: back.column(name).to_pylist() for name in rows} == rows
    assert read(path, meta, schema, ["a.b"]).column_names[2:] == ["a.b", "k"]
    with open_data_file(IO, str(path), meta, schema, schema) as file:
        # Two Parquet columns have the path a.b: nothing is said of either.
        assert [g.minima for g in file.row_group_key_ranges()] == [(1, None), (2, None)]


def test_a_wrong_bit_gives_the_rows_or_damage(tmp_path: Path, rng: random.Random) -> None:
    """Headers of pages have no checksum: in some places a wrong bit made a reader take them for the end."""
    path = tmp_path / "data-0.parquet"
    meta = write(path, SIMPLE, [batch_of(SIMPLE, simple_rows(*range(20)))])
    whole, rows = path.read_bytes(), read(path, meta, SIMPLE)
    footer = len(whole) - 8 - int.from_bytes(whole[-8:-4], "little")
    for at in (*range(4, 40), *rng.sample(range(40, footer), 100)):
        spoiled = bytearray(whole)
        spoiled[at] ^= 1 << rng.randrange(8)
        path.write_bytes(spoiled)
        try:
            found = read(path, meta, SIMPLE)
        except (DamagedError, UnsupportedError):
            continue
        assert found == rows, (at, whole[at] ^ spoiled[at])
