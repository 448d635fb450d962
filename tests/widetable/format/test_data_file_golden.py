"""Data files of Paimon's Java and pypaimon: their rows, and their metas recomputed from the rows."""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from tests.support.models.row_values import plain_value
from tests.support.tables.fixture_tables import JAVA_TABLES, TABLES, FixtureTable
from widetable.format.binary_row import encode_rows, with_arity
from widetable.format.column_stats import KeyStats
from widetable.format.data_file_meta import DataFileMeta
from widetable.format.data_file_reader import DataFile, open_data_file
from widetable.schema.row_kind import is_retraction
from widetable.storage.local import LocalFileIO


def opened(table: FixtureTable) -> Iterator[tuple[DataFileMeta, DataFile]]:
    for path, meta in table.data_files():
        stored = table.schemas[meta.schema_id]
        with open_data_file(LocalFileIO(), str(path), meta, table.schema, stored) as file:
            yield meta, file


def whole(file: DataFile) -> pa.Table:
    return pa.Table.from_batches(file.batches(), file.schema)


@pytest.mark.parametrize("table", TABLES, ids=lambda t: t.id)
def test_meta_agrees_with_the_rows(table: FixtureTable) -> None:
    types = [table.schema.field(name).type for name in table.schema.trimmed_primary_key]
    checked = 0
    for meta, file in opened(table):
        rows = whole(file).combine_chunks()
        keys = [rows.column(name).combine_chunks() for name in table.schema.trimmed_primary_key]
        numbers = rows.column("_SEQUENCE_NUMBER").to_numpy()
        encoded = encode_rows(keys, types)
        assert rows.num_rows == meta.row_count
        assert (numbers.min(), numbers.max()) == (
            meta.min_sequence_number,
            meta.max_sequence_number,
        )
        assert with_arity(encoded.row(0), len(types)) == meta.min_key
        assert with_arity(encoded.row(len(encoded) - 1), len(types)) == meta.max_key
        stats = KeyStats(types)
        stats.add(keys)
        assert stats.build() == meta.key_stats
        checked += 1
    assert checked


@pytest.mark.parametrize("table", JAVA_TABLES, ids=lambda t: t.id)
def test_delete_count_of_java_is_the_number_of_retractions(table: FixtureTable) -> None:
    for meta, file in opened(table):
        kinds = whole(file).column("_VALUE_KIND").to_numpy()
        assert np.count_nonzero(is_retraction(kinds)) == meta.delete_row_count


@pytest.mark.parametrize("table", TABLES, ids=lambda t: t.id)
def test_key_ranges_bound_the_keys(table: FixtureTable) -> None:
    names = table.schema.trimmed_primary_key
    for meta, file in opened(table):
        ranges = file.row_group_key_ranges()
        assert sum(r.rows for r in ranges) == meta.row_count
        for index, group in enumerate(ranges):
            rows = pa.Table.from_batches(file.batches(row_groups=[index]), file.schema)
            for name, low, high in zip(names, group.minima, group.maxima, strict=True):
                kind = table.schema.field(name).type
                values: list[Any] = [plain_value(v, kind) for v in rows.column(name).to_pylist()]
                assert (low, high) == (min(values), max(values))


def as_json(value: Any) -> Any:
    """The value as the fixtures' JSON has it."""
    if isinstance(value, datetime.date | datetime.time):
        return value.isoformat()
    if isinstance(value, Decimal):
        return str(value)
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, dict):
        return {k: as_json(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [as_json(v) for v in value]
    return value


@pytest.mark.parametrize("warehouse", ["wh", "wh_java"])
def test_every_type_of_other_writers_is_read(warehouse: str) -> None:
    (table,) = (t for t in TABLES if t.id == f"{warehouse}.all_types")
    (rows,) = (whole(file) for _, file in opened(table))
    values = rows.drop_columns(["_SEQUENCE_NUMBER", "_VALUE_KIND"]).to_pylist()
    assert [as_json(row) for row in values] == table.rows_as_read()
    assert len(table.schema.names) > 24


@pytest.mark.parametrize("warehouse", ["wh", "wh_java"])
def test_evolved_table_is_read_by_field_id(warehouse: str) -> None:
    (table,) = (t for t in TABLES if t.id == f"{warehouse}.evolved")
    rows: dict[int, dict[str, Any]] = {}
    numbered = []
    for _, file in opened(table):
        numbered += whole(file).to_pylist()
    for row in sorted(numbered, key=lambda r: int(r["_SEQUENCE_NUMBER"])):
        value = dict.fromkeys(table.schema.names) | row
        rows[row["k"]] = {name: as_json(value[name]) for name in table.schema.names}
    assert [rows[k] for k in sorted(rows)] == table.rows_as_read()


def test_thin_files_of_every_table_have_no_need_of_key_columns() -> None:
    """The reader asks for table columns only, so a file without `_KEY_` columns is as good."""
    for table in TABLES:
        for _, file in opened(table):
            assert not [n for n in file.schema.names if re.match("_KEY_", n)]
