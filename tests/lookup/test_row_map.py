"""Rows that are taken from a map are the rows that were written, and a damaged page is never read."""

from __future__ import annotations

import random
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import widetable as wt
from tests.lookup.mapped_rows import cut, map_rows, write_rows
from widetable_lookup import row_map
from widetable_lookup.cache_fault import CacheFault
from widetable_lookup.page_checks import PAGE_BYTES
from widetable_lookup.row_map import LAYOUT, PAGES, ROWS, RowMap

pytestmark = pytest.mark.usefixtures("tier")

_KINDS: list[tuple[pa.DataType, st.SearchStrategy[Any]]] = [
    (pa.bool_(), st.booleans()),
    (pa.int8(), st.integers(-128, 127)),
    (pa.int16(), st.integers(-(2**15), 2**15 - 1)),
    (pa.int32(), st.integers(-(2**31), 2**31 - 1)),
    (pa.int64(), st.integers(-(2**63), 2**63 - 1)),
    (pa.float32(), st.floats(width=32, allow_nan=False)),
    (pa.float64(), st.floats(allow_nan=False)),
    (pa.string(), st.text(st.characters(codec="utf-8"), max_size=20)),
    (pa.binary(), st.binary(max_size=20)),
    (pa.date32(), st.integers(-(2**31), 2**31 - 1)),
    (pa.time32("ms"), st.integers(0, 86_399_999)),
    (pa.timestamp("us", "UTC"), st.integers(-(2**60), 2**60)),
    (pa.decimal128(10, 2), st.decimals(-99999999, 99999999, places=2)),
    (pa.decimal128(30, 2), st.decimals(-(10**25), 10**25, places=2)),
    (pa.list_(pa.field("element", pa.string())), st.lists(st.none() | st.text(max_size=3))),
    (pa.map_(pa.string(), pa.int64()), st.lists(st.tuples(st.text(max_size=2), st.integers(0, 9)))),
    (
        pa.struct([("a", pa.list_(pa.int64())), ("b", pa.bool_())]),
        st.fixed_dictionaries({"a": st.none() | st.lists(st.integers(0, 9)), "b": st.booleans()}),
    ),
]


@given(data=st.data())
def test_taken_rows_are_those_written(data: st.DataObject) -> None:
    kinds = data.draw(st.lists(st.sampled_from(_KINDS), min_size=1, max_size=6))
    count = data.draw(st.integers(1, 30))
    columns = [
        pa.array(data.draw(st.lists(st.none() | values, min_size=count, max_size=count)), kind)
        for kind, values in kinds
    ]
    rows = pa.RecordBatch.from_arrays(columns, [f"c{i}" for i in range(len(columns))])
    ends = data.draw(st.lists(st.integers(0, count), max_size=4))
    chosen = data.draw(st.permutations(rows.schema.names))
    positions = np.array(sorted(data.draw(st.sets(st.integers(0, count - 1)))), np.int64)
    with TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(row_map, "_SCATTERED", data.draw(st.sampled_from([0, 3, 1000])))
        patch.setattr(row_map, "_BLOCK_ROWS", data.draw(st.sampled_from([1, 3, 64])))
        write_rows(Path(folder), cut(rows, ends))
        mapped = map_rows(Path(folder), rows.schema)
        taken = mapped.take(mapped.choose(chosen), positions)
        del mapped
    expected = rows.select(chosen).take(pa.array(positions))
    got = pa.RecordBatch.from_arrays(taken, schema=expected.schema)
    got.validate(full=True)
    assert got.equals(expected)


def test_nulls_in_one_batch_only(tmp_path: Path) -> None:
    values = [1, 2, 3, 4, 5, None, 7, None, 9, 10, 11, 12]
    columns = [pa.array(values, pa.int32()), pa.array([v and f"text {v}" for v in values])]
    rows = pa.RecordBatch.from_arrays(columns, ["i", "s"])
    write_rows(tmp_path, cut(rows, [4, 8]))
    mapped = map_rows(tmp_path, rows.schema)
    for positions in ([0, 1, 2, 3], [1, 5, 6, 9, 11], [8, 11], list(range(12)), []):
        taken = mapped.take(mapped.choose(rows.schema.names), np.array(positions, np.int64))
        expected = rows.take(pa.array(positions, pa.int64()))
        assert pa.RecordBatch.from_arrays(taken, schema=rows.schema) == expected


def _wide_rows(rng: random.Random, rows: int = 5000) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict(
        {
            "i": pa.array([rng.getrandbits(60) for _ in range(rows)]),
            "n": pa.array([rng.choice([None, 1.5, 2.5]) for _ in range(rows)]),
            "s": pa.array([f"text {rng.getrandbits(40)}" for _ in range(rows)]),
            "l": pa.array([[rng.getrandbits(30)] for _ in range(rows)]),
        }
    )


def _taken_or_fault(
    mapped: RowMap, schema: pa.Schema, positions: npt.NDArray[np.int64]
) -> pa.RecordBatch | CacheFault:
    try:
        taken = mapped.take(mapped.choose(schema.names), positions)
    except CacheFault as fault:
        return fault
    return pa.RecordBatch.from_arrays(taken, schema=schema)


def test_a_flipped_byte_is_met_before_its_row_is_given(tmp_path: Path, rng: random.Random) -> None:
    rows = _wide_rows(rng)
    write_rows(tmp_path, cut(rows, [1000, 1001]))
    whole = (tmp_path / ROWS).read_bytes()
    met = 0
    for _ in range(60):
        at = rng.randrange(len(whole))
        damaged = bytearray(whole)
        damaged[at] ^= 1 << rng.randrange(8)
        (tmp_path / "other").write_bytes(damaged)
        (tmp_path / "other").replace(tmp_path / ROWS)
        mapped = map_rows(tmp_path, rows.schema)
        for start in range(0, rows.num_rows, 500):
            taken = _taken_or_fault(mapped, rows.schema, np.arange(start, start + 500))
            if isinstance(taken, CacheFault):
                assert str(tmp_path / ROWS) in str(taken)
                met += 1
            else:
                assert taken == rows.slice(start, 500)
    assert met > 50


def test_only_pages_of_the_asked_rows_and_columns_are_read(
    tmp_path: Path, rng: random.Random
) -> None:
    rows = _wide_rows(rng)
    write_rows(tmp_path, [rows])
    mapped = map_rows(tmp_path, rows.schema)
    offset = int(mapped.layout.offsets[mapped.first_buffer("i") + 1, 0])
    damaged = bytearray((tmp_path / ROWS).read_bytes())
    bad_row = 2 * PAGE_BYTES // 8
    damaged[offset + 8 * bad_row] ^= 4
    (tmp_path / ROWS).write_bytes(damaged)
    mapped = map_rows(tmp_path, rows.schema)
    assert mapped.take(mapped.choose(["i"]), np.array([0, 4999]))[0].to_pylist() == [
        rows["i"][0].as_py(),
        rows["i"][4999].as_py(),
    ]
    every = np.arange(rows.num_rows)
    mapped.take(mapped.choose(["n", "l"]), every)
    with pytest.raises(CacheFault):
        mapped.take(mapped.choose(["i"]), every)


@pytest.mark.parametrize("name", [ROWS, LAYOUT, PAGES])
@pytest.mark.parametrize("size", [0, 1, 100, -PAGE_BYTES])
def test_a_cut_file_is_damage(tmp_path: Path, rng: random.Random, name: str, size: int) -> None:
    rows = _wide_rows(rng)
    write_rows(tmp_path, [rows])
    (tmp_path / name).write_bytes((tmp_path / name).read_bytes()[:size])
    with pytest.raises(CacheFault):
        map_rows(tmp_path, rows.schema)


def test_more_bytes_than_a_column_can_hold_are_refused(
    tmp_path: Path, rng: random.Random, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = _wide_rows(rng)
    write_rows(tmp_path, [rows])
    mapped = map_rows(tmp_path, rows.schema)
    monkeypatch.setattr(row_map, "_MAX_COLUMN_BYTES", 100)
    with pytest.raises(wt.InvalidError, match="fewer keys"):
        mapped.take(mapped.choose(["s"]), np.arange(100))
