"""Nanoseconds as int96: the bytes against their definition, the footer against Arrow's own reader."""

from __future__ import annotations

import random
import struct
from decimal import Decimal
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from widetable.format.int96 import marked_tail, stored_column, stored_field
from widetable.format.thrift_compact import read_struct

NANOS = pa.timestamp("ns")
LTZ = pa.timestamp("ns", tz="UTC")
NESTED = pa.list_(pa.struct([("t", NANOS), ("m", pa.map_(pa.string(), LTZ))]))


def test_a_value_is_nanoseconds_of_the_day_and_a_julian_day(rng: random.Random) -> None:
    drawn = [rng.randrange(-(2**63), 2**63) for _ in range(200)]
    values = [0, -1, 2**63 - 1, -(2**63), *drawn]
    stored = stored_column(pa.chunked_array([pa.array([7, *values], NANOS).slice(1)]))
    for value, found in zip(values, stored.to_pylist(), strict=True):
        nanos, day = struct.unpack("<qi", found)
        assert 0 <= nanos < 86_400 * 10**9
        assert (day - 2_440_588) * 86_400 * 10**9 + nanos == value


def random_column(rng: random.Random, kind: pa.DataType, rows: int) -> pa.Array:
    times = pa.array([rng.choice([None, rng.randrange(-(2**63), 2**63)]) for _ in range(4 * rows)])
    if kind in (NANOS, LTZ):
        return times.cast(kind).slice(3, rows)
    if kind == pa.list_(NANOS):
        lengths = [rng.choice([None, 0, 1, 3]) for _ in range(rows + 2)]
        ends = np.cumsum([0, *(n or 0 for n in lengths)])
        offsets = pa.array(
            [*ends], pa.int32(), mask=np.array([n is None for n in lengths] + [False])
        )
        return pa.ListArray.from_arrays(offsets, times.cast(NANOS)).slice(2)
    assert kind == NESTED
    values = [
        [{"t": 5, "m": [("a", 2**62), ("b", None)]}, None],
        None,
        [],
        [{"t": None, "m": None}],
    ]
    return pa.array([rng.choice(values) for _ in range(rows + 2)], kind).slice(2)


@pytest.mark.parametrize("kind", [NANOS, LTZ, pa.list_(NANOS), NESTED], ids=str)
@pytest.mark.parametrize("groups", [1, 3])
def test_arrow_reads_the_marked_file_back(
    rng: random.Random, tmp_path: Path, kind: pa.DataType, groups: int
) -> None:
    """Beside columns that look alike: decimals of 12 bytes, texts of 12 bytes, other timestamps."""
    rows = 50
    columns = {
        "d": pa.array([Decimal(rng.randrange(10**20)) for _ in range(rows)], pa.decimal128(27, 3)),
        "t": random_column(rng, kind, rows),
        "s": pa.array(["twelve bytes"] * rows),
        "u": pa.array(range(rows), pa.timestamp("us")),
    }
    table = pa.table(columns)
    schema = pa.schema([stored_field(field) for field in table.schema])
    stored = pa.Table.from_arrays([stored_column(c) for c in table.columns], schema=schema)
    path = tmp_path / "x.parquet"
    pq.write_table(stored, path, row_group_size=-(-rows // groups), store_schema=False)
    whole = path.read_bytes()
    size = int.from_bytes(whole[-8:-4], "little")
    path.write_bytes(whole[: -8 - size] + marked_tail(whole[-8 - size :]))
    found = pq.ParquetFile(path)
    assert found.metadata.num_row_groups == groups
    marked = {c.path for c in map(found.schema.column, range(len(found.metadata.schema)))
              if c.physical_type == "INT96"}  # fmt: skip
    assert {path.partition(".")[0] for path in marked} == {"t"}
    back = found.read()
    assert back.column("t").combine_chunks().cast(kind).equals(columns["t"])
    assert back.drop(["t"]).equals(table.drop(["t"]))


def test_only_nanoseconds_are_stored_as_int96() -> None:
    stored = [pa.field("f", kind) for kind in (NANOS, LTZ, NESTED)]
    assert all(stored_field(field) != field for field in stored)
    kinds = (pa.timestamp("us"), pa.timestamp("ms", "UTC"), pa.binary(12), pa.list_(pa.int32()))
    others = [pa.field("f", kind) for kind in kinds]
    assert all(stored_field(field) == field for field in others)


def test_bytes_that_are_no_footer_are_refused(rng: random.Random) -> None:
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table({"a": [1], "b": ["x"]}), sink)
    whole = sink.getvalue().to_pybytes()
    size = int.from_bytes(whole[-8:-4], "little")
    footer = whole[-8 - size : -8]
    assert read_struct(footer)[1].value == 2  # FileMetaData.version
    for length in (0, 1, size // 2, size - 1):
        with pytest.raises(ValueError, match=r"Thrift|without an end"):
            read_struct(footer[:length])
