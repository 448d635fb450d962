"""Rows by key from a data file: those of a filter of the whole file, read from no more row groups than needed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import widetable as wt
from tests.support.models.key_batches import in_pieces, key_batch, key_texts
from tests.support.models.plain_rows import plain, python_rows, python_values
from tests.support.models.strategies import commits, keys_of, tables
from tests.support.tables.table_files import TableFiles
from tests.widetable.format.data_files import rewrite
from tests.widetable.lsm.test_compaction import directory, partitioned
from widetable.format.data_file_meta import DataFileMeta
from widetable.format.data_file_reader import DataFile
from widetable.lsm.parquet_rows import ParquetRows
from widetable.schema.new_schema import new_schema
from widetable.schema.table_schema import TableSchema

_GROUP_ROWS = "widetable.format.data_file_writer.ROW_GROUP_ROWS"
_BATCH_BYTES = "widetable.lsm.parquet_rows._BATCH_BYTES"


class Reads:
    """What is read of data files: (row group, columns but the key), in order."""

    def __init__(self, schema: TableSchema) -> None:
        self._key = schema.trimmed_primary_key
        self.done: list[tuple[int, tuple[str, ...]]] = []
        self.batches = 0

    @contextmanager
    def noted(self) -> Iterator[None]:
        original = DataFile.batches

        def noting(data: DataFile, *arguments: Any, **how: Any) -> Iterator[pa.RecordBatch]:
            (group,) = how["row_groups"] if "row_groups" in how else arguments[1]
            self.done.append((group, tuple(n for n in data.columns if n not in self._key)))
            for batch in original(data, *arguments, **how):
                self.batches += 1
                yield batch

        with mock.patch.object(DataFile, "batches", noting):
            yield

    def take(self) -> list[tuple[int, tuple[str, ...]]]:
        done, self.done = self.done, []
        return done


def rows_of(files: TableFiles, columns: list[str]) -> tuple[DataFileMeta, ParquetRows]:
    """The only file of the only bucket."""
    ((key, (file,)),) = files.buckets.items()
    return file, ParquetRows(files.state, key, file, columns)


def numbered(tmp_path: Path, rows: int, group_rows: int, kind: pa.DataType) -> TableFiles:
    """Keys 0, 2, 4, ... and two columns, in row groups of group_rows rows."""
    schema = new_schema(
        pa.schema([("k", kind), ("a", pa.int64()), ("b", pa.string())]),
        primary_key=["k"],
        options={"merge-engine": "deduplicate"},
    )
    files = TableFiles(tmp_path, schema)
    with mock.patch(_GROUP_ROWS, group_rows):
        files.write(
            schema.names,
            [
                ("+I" if i % 3 else "-D", {"k": text(kind, 2 * i), "a": i, "b": f"b{i}"})
                for i in range(rows)
            ],
            batch_rows=100_000,
        )
    return files


def text(kind: pa.DataType, number: int) -> Any:
    return f"key-{number:08}" if pa.types.is_string(kind) else number


def keys_at(files: TableFiles, numbers: list[int]) -> pa.RecordBatch:
    kind = files.schema.arrow_schema(["k"]).field(0).type
    return key_batch(files.schema, [{"k": text(kind, number)} for number in numbers])


@given(st.data())
def test_rows_are_those_of_a_filter_of_the_file(data: st.DataObject) -> None:
    schema = partitioned(data.draw(tables(), "table"))
    keys = data.draw(keys_of(schema), "keys")
    commit = data.draw(commits(schema, keys, max_records=12), "commit")
    columns = data.draw(st.lists(st.sampled_from(schema.names), unique=True), "columns")
    wanted = key_batch(schema, keys[: data.draw(st.integers(0, len(keys)))])
    with (
        directory() as folder,
        mock.patch(_GROUP_ROWS, data.draw(st.integers(1, 3))),
        mock.patch(_BATCH_BYTES, data.draw(st.sampled_from([1, 50, 100]))),
    ):
        files = TableFiles(folder, schema)
        files.write(commit.columns, commit.records)
        for key, metas in files.buckets.items():
            for file in metas:
                whole = pa.Table.from_batches(files.batches(key, file))
                rows = ParquetRows(files.state, key, file, columns)
                for piece in in_pieces(wanted, data.draw(st.integers(1, 5))):
                    check_found(rows, piece, whole, schema, columns)
                rows.close()
                rows.close()


def check_found(
    rows: ParquetRows,
    keys: pa.RecordBatch,
    whole: pa.Table,
    schema: TableSchema,
    columns: list[str],
) -> None:
    names = schema.trimmed_primary_key
    asked = key_texts(keys, names)
    present = key_texts(whole.combine_chunks().to_batches()[0], names)
    found = rows.find(keys)
    found.rows.validate(full=True)
    kept = [n for n in whole.column_names if n[0] == "_" or n in {*names, *columns}]
    assert found.rows.schema.names == kept
    assert [asked[hit] for hit in found.hits] == key_texts(found.rows, names)
    expected = whole.select(kept).filter(pa.array([key in asked for key in present]))
    assert found.rows.schema == expected.schema
    assert plain(python_rows(found.rows)) == plain(python_rows(expected))
    assert len(found.hits) == expected.num_rows


@pytest.mark.parametrize("kind", [pa.int64(), pa.string()])
def test_row_groups_that_cannot_hold_a_key_are_not_read(tmp_path: Path, kind: pa.DataType) -> None:
    files = numbered(tmp_path, 100, 10, kind)
    reads = Reads(files.schema)
    _, rows = rows_of(files, ["a"])
    with reads.noted():
        assert rows.find(keys_at(files, [])).rows.num_rows == 0
        assert rows.find(keys_at(files, [-5, 1000])).rows.num_rows == 0
        assert rows.find(keys_at(files, [19, 39])).rows.num_rows == 0  # between two groups
        assert reads.take() == []
        assert rows.find(keys_at(files, [21])).rows.num_rows == 0
        assert reads.take() == [(1, ())]  # the key only: it is not there
        found = rows.find(keys_at(files, [24, 25, 61, 80]))
        assert found.hits.tolist() == [0, 3]
        assert found.rows["a"].to_pylist() == [12, 40]
        assert reads.take() == [(1, ("a",)), (3, ()), (4, ()), (4, ("a",))]


def test_ascending_key_batches_read_each_row_group_once(tmp_path: Path) -> None:
    files = numbered(tmp_path, 100, 10, pa.int64())
    reads = Reads(files.schema)
    _, rows = rows_of(files, ["b"])
    with reads.noted(), mock.patch(_BATCH_BYTES, 160):
        found = [
            row
            for piece in in_pieces(keys_at(files, list(range(200))), 7)
            for row in python_values(rows.find(piece).rows["b"])
        ]
    assert found == [f"b{i}" for i in range(100)]
    assert reads.take() == [(i, columns) for i in range(10) for columns in ((), ("b",))]


def test_the_key_alone_is_read_once(tmp_path: Path) -> None:
    files = numbered(tmp_path, 20, 10, pa.int64())
    reads = Reads(files.schema)
    _, rows = rows_of(files, [])
    with reads.noted():
        found = rows.find(keys_at(files, [0, 2, 4]))
    assert found.rows["_VALUE_KIND"].to_pylist() == [3, 0, 0]
    assert reads.take() == [(0, ())]


def test_columns_are_read_no_further_than_rows_are_asked_for(tmp_path: Path) -> None:
    files = numbered(tmp_path, 100, 100, pa.int64())
    reads = Reads(files.schema)
    _, rows = rows_of(files, ["a"])
    with reads.noted(), mock.patch(_BATCH_BYTES, 320):
        rows.find(keys_at(files, [2, 30]))
    assert reads.batches == 1 + 2  # all keys, and the first two batches of the column


def test_keys_that_were_passed_are_found_again(tmp_path: Path) -> None:
    files = numbered(tmp_path, 100, 10, pa.int64())
    _, rows = rows_of(files, ["a"])
    with mock.patch(_BATCH_BYTES, 80):
        for number in (90, 2, 14, 4, 190):
            assert rows.find(keys_at(files, [number])).rows["a"].to_pylist() == [number // 2]


def test_a_file_out_of_key_order_is_damage(tmp_path: Path) -> None:
    files = numbered(tmp_path, 10, 10, pa.int64())
    file, rows = rows_of(files, ["a"])
    rows.close()
    path = next(tmp_path.rglob("*.parquet"))
    whole = pq.read_table(path)
    rewrite(whole.take([0, 1, 3, 2, 4, 5, 6, 7, 8, 9]), path)
    changed = resized(file, path)
    rows = ParquetRows(files.state, next(iter(files.buckets)), changed, ["a"])
    with pytest.raises(wt.DamagedError, match="smaller than the one before"):
        rows.find(keys_at(files, [4]))


def test_row_groups_out_of_key_order_are_damage(tmp_path: Path) -> None:
    files = numbered(tmp_path, 10, 10, pa.int64())
    file, rows = rows_of(files, ["a"])
    rows.close()
    path = next(tmp_path.rglob("*.parquet"))
    whole = pq.read_table(path)
    rewrite(whole.take([5, 6, 7, 8, 9, 0, 1, 2, 3, 4]), path, row_group_size=5)
    rows = ParquetRows(files.state, next(iter(files.buckets)), resized(file, path), ["a"])
    with pytest.raises(wt.DamagedError, match="smaller than the one before"):
        rows.find(keys_at(files, [4, 14]))


def test_a_key_that_a_file_repeats_gives_all_its_rows(tmp_path: Path) -> None:
    """Other writers may leave rows of one key side by side in a level-0 file."""
    files = numbered(tmp_path, 10, 10, pa.int64())
    file, rows = rows_of(files, ["a"])
    rows.close()
    path = next(tmp_path.rglob("*.parquet"))
    whole = pq.read_table(path)
    rewrite(whole.take([0, 1, 1, 2, 3, 3, 3, 4, 5, 6]), path)
    rows = ParquetRows(files.state, next(iter(files.buckets)), resized(file, path), ["a"])
    found = rows.find(keys_at(files, [2, 3, 6]))
    assert found.hits.tolist() == [0, 0, 2, 2, 2]
    assert found.rows["a"].to_pylist() == [1, 1, 3, 3, 3]


def resized(file: DataFileMeta, path: Path) -> DataFileMeta:
    return file._replace(file_size=path.stat().st_size)
