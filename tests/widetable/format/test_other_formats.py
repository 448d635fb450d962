"""ORC and Avro files against a Parquet file of the same rows: cell by cell, of any type and any bits."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from tests.support.models.bit_patterns import cells, draw_column, draw_type
from tests.widetable.format.data_files import IO, batch_of, read, table_schema, write
from tests.widetable.format.foreign_files import write_avro, write_orc
from widetable.errors import UnsupportedError
from widetable.format.data_file_meta import DataFileMeta
from widetable.format.data_file_reader import open_data_file
from widetable.format.row_batch import row_batch_schema
from widetable.schema.table_schema import TableSchema
from widetable.schema.types import DataField, DataType, assign_field_ids
from widetable.schema.types_from_arrow import type_from_arrow

SYSTEM = {
    "_SEQUENCE_NUMBER": DataType("BIGINT", nullable=False),
    "_VALUE_KIND": DataType("TINYINT", nullable=False),
}


def has_nanos(kind: pa.DataType) -> bool:
    if pa.types.is_nested(kind):
        return any(has_nanos(kind.field(i).type) for i in range(kind.num_fields))
    return bool(pa.types.is_timestamp(kind) and kind.unit == "ns")


def tamed(array: pa.Array, most_seconds: int = 1 << 43) -> pa.Array:
    """Times that microseconds hold, and within others nanoseconds: what ORC's reader gives."""
    kind = array.type
    if pa.types.is_timestamp(kind) and kind.unit != "ns":
        per_second = {"ms": 10**3, "us": 10**6}[kind.unit]
        most = most_seconds * per_second
        shrink = (1 << 63) // most + 1
        return pc.divide(array.view(pa.int64()), shrink).view(kind)
    if pa.types.is_struct(kind):
        parts = [tamed(array.field(i), 1 << 33) for i in range(kind.num_fields)]
        return pa.StructArray.from_arrays(parts, fields=list(kind), mask=array.is_null())
    if not pa.types.is_nested(kind):
        return array
    if pa.types.is_list(kind):
        child = tamed(array.values, 1 << 33)
    else:
        child = pa.StructArray.from_arrays(
            [tamed(array.keys, 1 << 33), tamed(array.items, 1 << 33)],
            fields=[kind.key_field, kind.item_field],
        )
    return pa.Array.from_buffers(kind, len(array), array.buffers()[:2], children=[child])


class Drawn:
    """A table with columns of drawn types, its rows, and a Parquet file of them."""

    def __init__(self, rng: random.Random, folder: Path, kinds: list[pa.DataType]) -> None:
        count = rng.randint(1, 300)
        fields, next_id = [DataField(0, "k", DataType("INT", nullable=False))], 1
        for number, kind in enumerate(kinds):
            own, next_id = next_id, next_id + 1
            numbered, next_id = assign_field_ids(type_from_arrow(kind), next_id)
            fields.append(DataField(own, f"v{number}", numbered))
        self.schema = TableSchema(0, tuple(fields), next_id, (), ("k",), {})
        target = row_batch_schema(self.schema, self.schema.names)
        columns = [tamed(draw_column(rng, kind, count)) for kind in kinds]
        kinds_of_rows = pa.array([rng.randrange(4) for _ in range(count)], pa.int8())
        numbers = [
            pa.array(range(count), pa.int64()),
            kinds_of_rows,
            pa.array(range(count), pa.int32()),
        ]
        casts = [c.cast(f.type) for c, f in zip(columns, list(target)[3:], strict=True)]
        self.rows = pa.record_batch([*numbers, *casts], target)
        self.table = pa.Table.from_batches([self.rows])
        self.path = folder / "data.parquet"
        self.meta = write(self.path, self.schema, [self.rows])
        self.types = {**SYSTEM, **{f.name: f.type for f in fields}}

    def read(self, path: Path, meta: DataFileMeta, **how: Any) -> pa.Table:
        with open_data_file(IO, str(path), meta, self.schema, self.schema, **how) as file:
            return pa.Table.from_batches(file.batches(5_000), file.schema)

    def check(self, found: pa.Table) -> None:
        expected = self.read(self.path, self.meta, columns=found.column_names[2:])
        assert found.schema == expected.schema
        for name in expected.column_names:
            left = cells(found.column(name).combine_chunks())
            assert left == cells(expected.column(name).combine_chunks()), name


def has_row_in_row(kind: pa.DataType) -> bool:
    """What Arrow's writer of ORC writes wrong where the inner row has nulls: Spark reads the same wrong cells."""
    children = [kind.field(at).type for at in range(kind.num_fields)]
    is_row_in_row = pa.types.is_struct(kind) and any(map(pa.types.is_struct, children))
    return is_row_in_row or any(map(has_row_in_row, children))


def orc_type(rng: random.Random) -> pa.DataType:
    while has_row_in_row(kind := draw_type(rng)):
        pass
    return kind


@pytest.mark.parametrize("round_", range(25))
def test_orc_gives_the_cells_that_parquet_gives(
    tmp_path: Path, rng: random.Random, round_: int
) -> None:
    drawn = Drawn(rng, tmp_path, [orc_type(rng) for _ in range(rng.randint(1, 6))])
    path = tmp_path / "data.orc"
    codec = rng.choice(["uncompressed", "zstd", "zlib", "snappy", "lz4"])
    meta = write_orc(path, drawn.table, drawn.meta, compression=codec)
    drawn.check(drawn.read(path, meta))
    drawn.check(drawn.read(path, meta, columns=["v0"]))


@pytest.mark.parametrize("round_", range(25))
def test_avro_gives_the_cells_that_parquet_gives(
    tmp_path: Path, rng: random.Random, round_: int
) -> None:
    kinds = [draw_type(rng) for _ in range(rng.randint(1, 6))]
    kinds = [kind for kind in kinds if not has_nanos(kind)] or [pa.int64()]
    drawn = Drawn(rng, tmp_path, kinds)
    path = tmp_path / "data.avro"
    codec = rng.choice(["null", "deflate", "zstandard"])
    meta = write_avro(
        path, drawn.table, drawn.types, drawn.meta, codec=codec, block_bytes=rng.choice([50, 5000])
    )
    drawn.check(drawn.read(path, meta))
    drawn.check(drawn.read(path, meta, columns=["v0"]))


def test_blocks_and_stripes_are_read_in_small_batches(tmp_path: Path, rng: random.Random) -> None:
    drawn = Drawn(rng, tmp_path, [pa.string(), pa.list_(pa.int32())])
    rows = pa.concat_tables([drawn.table] * 40)
    count = rows.num_rows
    rows = rows.set_column(0, "_SEQUENCE_NUMBER", pa.array(range(count), pa.int64()))
    rows = rows.combine_chunks()
    meta = drawn.meta._replace(row_count=count)
    orc_meta = write_orc(tmp_path / "data.orc", rows, meta, stripe_size=20_000, batch_size=100)
    avro_meta = write_avro(tmp_path / "data.avro", rows, drawn.types, meta, block_bytes=3000)
    for name, found in (("data.orc", orc_meta), ("data.avro", avro_meta)):
        path = str(tmp_path / name)
        with open_data_file(IO, path, found, drawn.schema, drawn.schema) as file:
            groups = file.row_group_rows
            assert sum(groups) == count
            assert [each.rows for each in file.row_group_key_ranges()] == groups
            batches = list(file.batches(40_000))
            numbers = [n for batch in batches for n in batch.column(0).to_pylist()]
            assert numbers == list(range(count))
            assert max(batch.nbytes for batch in batches) < 200_000
            keys = file.narrowed(())
            last = list(keys.batches(row_groups=[len(groups) - 1]))
            assert sum(batch.num_rows for batch in last) == groups[-1]
            assert last[-1].column(0)[-1].as_py() == count - 1


def test_times_far_away_are_exact_in_orc(tmp_path: Path) -> None:
    """9999-12-31 23:59:59.999, 0001-01-01, and what lies between them and 1677 and 2262."""
    schema = table_schema({"k": "INT", "t": "TIMESTAMP(3)", "z": "TIMESTAMP(6)"})
    millis = [253_402_300_799_999, -62_135_596_800_000, 0, None, -1, 9_300_000_000_123]
    micros = [None if value is None else value * 1000 + 7 for value in millis]
    batch = batch_of(schema, {"k": list(range(6)), "t": millis, "z": micros})
    meta = write(tmp_path / "data.parquet", schema, [batch])
    path = tmp_path / "data.orc"
    meta = write_orc(path, pa.Table.from_batches([batch]), meta)
    found = read(path, meta, schema)
    assert found.column("t").cast(pa.int64()).to_pylist() == millis
    assert found.column("z").cast(pa.int64()).to_pylist() == micros


def test_times_far_away_within_a_nested_column_of_orc_are_refused_by_name(tmp_path: Path) -> None:
    """They are no damage, which a repair would take out."""
    schema = table_schema({"k": "INT", "l": {"type": "ARRAY", "element": "TIMESTAMP(3)"}})
    batch = batch_of(schema, {"k": [1, 2], "l": [[253402300799000], [0]]})
    meta = write(tmp_path / "data.parquet", schema, [batch])
    path = tmp_path / "data.orc"
    meta = write_orc(path, pa.Table.from_batches([batch]), meta)
    with pytest.raises(UnsupportedError, match="within a nested column"):
        read(path, meta, schema)
