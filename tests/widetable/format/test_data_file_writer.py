"""What a data file holds, what its meta says, and which rows are refused."""

from __future__ import annotations

import os
import random
import re
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.support.models.row_values import row_of
from tests.support.tables.fixture_tables import TABLES
from tests.widetable.format.data_files import (
    IO,
    SIMPLE,
    batch_of,
    read,
    simple_rows,
    table_schema,
    write,
)
from widetable.errors import InvalidError, StorageError
from widetable.format.column_stats import EMPTY_STATS, unknown_stats
from widetable.format.data_file_meta import FILE_SOURCE_COMPACT
from widetable.format.data_file_reader import open_data_file
from widetable.format.data_file_writer import DataFileWriter
from widetable.format.parquet_layout import ROW_GROUP_BYTES, ROW_GROUP_ROWS
from widetable.schema.types import parse_type
from widetable.storage.local import LocalFileIO


def test_meta_counts_what_was_written(path: Path) -> None:
    first = batch_of(SIMPLE, simple_rows(1, 2), kinds=[0, 1])
    second = batch_of(SIMPLE, simple_rows(3, 5), kinds=[3, 2])
    writer = DataFileWriter(IO, str(path), SIMPLE, SIMPLE.names, SIMPLE.typed_options)
    writer.write(first)
    writer.write(second)
    meta = writer.close(4, FILE_SOURCE_COMPACT)
    key = [parse_type("INT NOT NULL")]
    assert meta.file_name == "data-1.parquet"
    assert meta.file_size == path.stat().st_size
    assert (meta.row_count, meta.delete_row_count) == (4, 2)
    assert (meta.min_key, meta.max_key) == (row_of((1,), key), row_of((5,), key))
    assert (meta.min_sequence_number, meta.max_sequence_number) == (100, 101)
    assert (meta.level, meta.file_source, meta.schema_id) == (4, FILE_SOURCE_COMPACT, 0)
    assert (meta.value_stats, meta.value_stats_cols) == (unknown_stats(4), None)
    assert (meta.extra_files, meta.embedded_index, meta.external_path) == ((), None, None)
    assert (meta.first_row_id, meta.write_cols, meta.write_cols_sequences) == (None, None, None)


def test_creation_time_is_local_wall_clock(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    time.tzset()
    try:
        meta = write(path, SIMPLE, [batch_of(SIMPLE, simple_rows(1))])
    finally:
        monkeypatch.undo()
        time.tzset()
    assert meta.creation_time_millis is not None
    ahead = meta.creation_time_millis / 1000 - time.time()
    assert abs(ahead - 9 * 3600) < 60


def test_wide_table_says_nothing_in_no_space(path: Path) -> None:
    schema = table_schema({"k": "INT", **{f"c{i}": "INT" for i in range(300)}})
    meta = write(path, schema, [batch_of(schema, {"k": [1], "c7": [2]})], ["k", "c7"])
    assert (meta.value_stats, meta.value_stats_cols) == (EMPTY_STATS, ())


def leaves(path: Path) -> list[tuple[str, str, int]]:
    schema = pq.ParquetFile(path).schema
    columns = [schema.column(i) for i in range(len(schema.names))]
    return [(c.path, c.physical_type, c.max_definition_level) for c in columns]


def test_narrow_file_holds_key_not_null_and_chosen_columns(path: Path) -> None:
    meta = write(path, SIMPLE, [batch_of(SIMPLE, {"k": [1], "n": [2], "w": [0.5]})], ["w"])
    assert leaves(path) == [
        ("_SEQUENCE_NUMBER", "INT64", 0),
        ("_VALUE_KIND", "INT32", 0),
        ("k", "INT32", 0),
        ("n", "INT64", 0),
        ("w", "DOUBLE", 1),
    ]
    back = read(path, meta, SIMPLE)
    assert back.column_names == ["_SEQUENCE_NUMBER", "_VALUE_KIND", "k", "n", "w"]
    assert read(path, meta, SIMPLE, ["v", "w"]).column_names[2:] == ["k", "w"]


def test_key_columns_are_written_for_old_readers(path: Path) -> None:
    meta = write(path, SIMPLE, [batch_of(SIMPLE, simple_rows(1, 2))], key_columns=True)
    assert [name for name, _, _ in leaves(path)][:3] == [
        "_KEY_k",
        "_SEQUENCE_NUMBER",
        "_VALUE_KIND",
    ]
    assert pq.read_table(path).column("_KEY_k").to_pylist() == [1, 2]
    assert read(path, meta, SIMPLE).column_names[2:] == list(SIMPLE.names)


def test_field_ids_are_those_of_paimon(path: Path) -> None:
    # The columns and ids of the Java fixture all_types.
    nested: dict[str, Any] = {f"c{i}": "INT" for i in range(1, 25)}
    nested["c_arr"] = {"type": "ARRAY", "element": "INT"}
    nested["c_map"] = {"type": "MAP", "key": "STRING NOT NULL", "value": "INT"}
    nested["c_row"] = {
        "type": "ROW",
        "fields": [
            {"id": 0, "name": "x", "type": "INT"},
            {"id": 0, "name": "y", "type": {"type": "ARRAY NOT NULL", "element": "STRING"}},
        ],
    }
    schema = table_schema({"k": "INT", **nested})
    write(path, schema, [batch_of(schema, {"k": [1]})], key_columns=True)
    theirs = next(Path(__file__).parents[2].glob("fixtures/wh_java/fx.db/all_types/bucket-0/*"))
    ours, java = str(pq.ParquetFile(path).schema), str(pq.ParquetFile(theirs).schema)
    for name in (
        "_KEY_k",
        "_SEQUENCE_NUMBER",
        "_VALUE_KIND",
        "c_arr",
        "c_map",
        "c_row",
        "element",
        "key",
        "value",
        "x",
        "y",
    ):
        assert ids_of(ours, name) == ids_of(java, name), name


def test_columns_lie_in_parquet_as_java_s_do(path: Path) -> None:
    (table,) = (t for t in TABLES if t.id == "wh_java.all_types")
    ((theirs, _),) = table.data_files()
    write(path, table.schema, [batch_of(table.schema, {"k": [1]})], key_columns=True)
    ours, java = (
        [line for line in str(pq.ParquetFile(p).schema).splitlines()[2:] if "key_value" not in line]
        for p in (path, theirs)
    )
    assert [line for line in ours if line not in java] == []


def ids_of(parquet_schema: str, name: str) -> list[str]:
    return re.findall(rf"field_id=(-?\d+) {name}\b", parquet_schema)


def test_statistics_of_wide_files_are_the_key_s(path: Path) -> None:
    schema = table_schema({"k": "INT", **{f"c{i}": "INT" for i in range(250)}})
    write(path, schema, [batch_of(schema, {"k": [1]})])
    group = pq.ParquetFile(path).metadata.row_group(0)
    with_statistics = [
        group.column(i).path_in_schema
        for i in range(group.num_columns)
        if group.column(i).is_stats_set
    ]
    assert with_statistics == ["k"]


def test_only_strings_of_few_values_get_a_dictionary(path: Path) -> None:
    schema = table_schema(
        {"k": "INT", "few": "STRING", "some": "STRING", "most": "STRING", "n": "INT"}
        | {"nulls": "STRING", "many": "STRING", "thin": "STRING"}
    )
    draws = random.Random(7)
    rows = {
        "k": list(range(50_000)),
        "few": ["x", "y"] * 25_000,
        "some": [f"s{draws.randrange(3000)}" for _ in range(50_000)],
        "most": [f"m{draws.randrange(20_000)}" for _ in range(50_000)],
        "n": [1] * 50_000,
        "nulls": [None] * 50_000,
        "many": [f"m{i}" for i in range(50_000)],
        "thin": [None if i % 10 else f"t{i}" for i in range(50_000)],
    }
    write(path, schema, [batch_of(schema, rows)])
    group = pq.ParquetFile(path).metadata.row_group(0)
    names = {
        group.column(i).path_in_schema
        for i in range(group.num_columns)
        if group.column(i).has_dictionary_page
    }
    assert names == {"few", "some", "nulls"}


def test_codec_is_the_option_s(path: Path) -> None:
    schema = table_schema({"k": "INT"}, **{"file.compression": "lz4"})
    write(path, schema, [batch_of(schema, {"k": [1]})])
    assert pq.ParquetFile(path).metadata.row_group(0).column(0).compression == "LZ4"


def test_row_groups_are_bounded_by_rows_and_bytes(path: Path) -> None:
    schema = table_schema({"k": "INT", "v": "STRING"})
    count = ROW_GROUP_ROWS + 1000
    rows = {"k": list(range(count)), "v": [None] * count}
    meta = write(path, schema, [batch_of(schema, rows)])
    with open_data_file(IO, str(path), meta, schema, schema) as file:
        assert [r.rows for r in file.row_group_key_ranges()] == [ROW_GROUP_ROWS, 1000]
        assert [r.minima for r in file.row_group_key_ranges()] == [(0,), (ROW_GROUP_ROWS,)]
    big = "x" * (1 << 20)
    rows = {"k": list(range(40)), "v": [big] * 40}
    wide = path.with_name("data-2.parquet")
    meta = write(wide, schema, [batch_of(schema, rows)])
    with open_data_file(IO, str(wide), meta, schema, schema) as file:
        groups = [r.rows for r in file.row_group_key_ranges()]
        assert max(groups) << 20 <= ROW_GROUP_BYTES
        assert len(groups) == 3
        some = list(file.batches((5 << 20) + 1000, row_groups=[2]))
        assert [b.num_rows for b in some] == [5, 5]
        assert some[0].column("k")[0].as_py() == 30


def test_size_is_about_what_the_file_will_have(path: Path, rng: random.Random) -> None:
    schema = table_schema({"k": "BIGINT", "v": "BYTES"})
    writer = DataFileWriter(IO, str(path), schema, schema.names, schema.typed_options)
    assert writer.size_bytes == 0
    for start in range(0, 60_000, 20_000):
        rows = {
            "k": list(range(start, start + 20_000)),
            "v": [rng.randbytes(300) for _ in range(20_000)],
        }
        writer.write(batch_of(schema, rows))
        assert writer.rows == start + 20_000
    claimed = writer.size_bytes
    assert 0.9 < claimed / writer.close(0, 0).file_size < 1.1


def test_column_that_the_batches_lack_is_null(path: Path) -> None:
    meta = write(
        path, SIMPLE, [batch_of(SIMPLE, {"k": [1], "n": [1]}), batch_of(SIMPLE, simple_rows(2))]
    )
    assert read(path, meta, SIMPLE).column("v").to_pylist() == [None, "v2"]


# Rules


@pytest.mark.parametrize("keys", [(1, 1), (2, 1), (1, 3, 3)])
def test_rows_out_of_key_order_are_refused(path: Path, keys: tuple[int, ...]) -> None:
    with pytest.raises(InvalidError, match="does not come after"):
        write(path, SIMPLE, [batch_of(SIMPLE, simple_rows(*keys))])


@pytest.mark.parametrize("key", [3, 2])
def test_batch_that_does_not_come_after_the_one_before_is_refused(path: Path, key: int) -> None:
    with pytest.raises(InvalidError, match="does not come after"):
        write(
            path,
            SIMPLE,
            [batch_of(SIMPLE, simple_rows(1, 3)), batch_of(SIMPLE, simple_rows(key, 9))],
        )


def test_null_in_a_not_null_column_is_refused_by_name(path: Path) -> None:
    with pytest.raises(InvalidError, match="'n'"):
        write(path, SIMPLE, [batch_of(SIMPLE, {"k": [1], "n": [None]})])
    with pytest.raises(InvalidError, match="'n'"):
        write(path, SIMPLE, [batch_of(SIMPLE, {"k": [1]})])


def test_values_of_another_type_are_refused_by_name(path: Path) -> None:
    batch = batch_of(SIMPLE, simple_rows(1)).set_column(3, "v", pa.array([7]))
    with pytest.raises(InvalidError, match="'v'"):
        write(path, SIMPLE, [batch])


def test_file_without_rows_is_not_made(path: Path) -> None:
    with pytest.raises(InvalidError, match="no row"):
        write(path, SIMPLE, [batch_of(SIMPLE, simple_rows(1)).slice(0, 0)])
    assert not path.exists()


def test_abort_leaves_no_file(path: Path) -> None:
    schema = table_schema({"k": "INT", "v": "STRING"})
    writer = DataFileWriter(IO, str(path), schema, schema.names, schema.typed_options)
    writer.abort()
    writer.write(batch_of(schema, {"k": list(range(20)), "v": ["x" * (1 << 20)] * 20}))
    assert path.exists()
    writer.abort()
    assert not path.exists()
    writer.abort()


def test_abort_after_close_deletes_the_file(path: Path) -> None:
    writer = DataFileWriter(IO, str(path), SIMPLE, SIMPLE.names, SIMPLE.typed_options)
    writer.write(batch_of(SIMPLE, simple_rows(1)))
    writer.close(0, 0)
    writer.abort()
    assert not path.exists()


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no device that is always full")
def test_full_disk_is_a_storage_error(path: Path) -> None:
    class FullDisk(LocalFileIO):
        def open_output(self, path: str) -> pa.NativeFile:
            return pa.OSFile("/dev/full", "wb")

    writer = DataFileWriter(
        FullDisk(fsync=False), str(path), SIMPLE, SIMPLE.names, SIMPLE.typed_options
    )
    writer.write(batch_of(SIMPLE, simple_rows(1)))
    with pytest.raises(StorageError, match=r"data-1\.parquet"):
        writer.close(0, 0)
    writer.abort()
