"""Directory texts of partition values, as Paimon writes them."""

from __future__ import annotations

import datetime
import decimal
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from tests.support.models.row_values import row_of
from tests.support.tables.fixture_tables import TABLES
from widetable.errors import UnsupportedError
from widetable.format.partition_value import partition_texts
from widetable.schema.new_schema import new_schema
from widetable.schema.table_schema import TableSchema
from widetable.schema.types import DataField, parse_type
from widetable.storage.paths import TablePaths


def schema_of(kind: str, options: dict[str, str] | None = None) -> TableSchema:
    arrow = pa.schema([("p", pa.int32()), ("k", pa.int32())])
    schema = new_schema(arrow, primary_key=["p", "k"], partition_by=["p"], options=options or {})
    return replace(schema, fields=(DataField(0, "p", parse_type(kind)), schema.fields[1]))


def text(kind: str, value: Any, options: dict[str, str] | None = None) -> str:
    schema = schema_of(kind, options)
    ((name, found),) = partition_texts(row_of([value], [schema.field("p").type]), schema)
    assert name == "p"
    return found


_SECOND = 1_709_202_605_000  # 2024-02-29T10:30:05Z in milliseconds


@pytest.mark.parametrize(
    ("kind", "value", "legacy", "cast"),
    [
        ("INT", -5, "-5", "-5"),
        ("BIGINT", 2**40, "1099511627776", "1099511627776"),
        ("BOOLEAN", True, "true", "true"),
        ("DECIMAL(10, 2)", decimal.Decimal("1.5"), "1.50", "1.50"),
        ("DECIMAL(10, 2)", decimal.Decimal("0"), "0.00", "0.00"),
        ("STRING", "a=b/ä", "a=b/ä", "a=b/ä"),
        ("STRING", "\u00a0", "\u00a0", "\u00a0"),
        ("DATE", datetime.date(2024, 2, 29), "19782", "2024-02-29"),
        ("DATE", datetime.date(1969, 12, 31), "-1", "1969-12-31"),
        ("TIMESTAMP(3)", _SECOND, "2024-02-29T10:30:05", "2024-02-29 10:30:05.000"),
        ("TIMESTAMP(3)", _SECOND - 5000, "2024-02-29T10:30", "2024-02-29 10:30:00.000"),
        ("TIMESTAMP(0)", _SECOND, "2024-02-29T10:30:05", "2024-02-29 10:30:05"),
        ("TIMESTAMP(6)", 1_500, "1970-01-01T00:00:00.001500", "1970-01-01 00:00:00.001500"),
        ("TIMESTAMP(9)", -1, "1969-12-31T23:59:59.999999999", "1969-12-31 23:59:59.999999999"),
    ],
)
def test_text_of_a_value(kind: str, value: Any, legacy: str, cast: str) -> None:
    assert text(kind, value) == legacy
    assert text(kind, value, {"partition.legacy-name": "false"}) == cast


@pytest.mark.parametrize("value", [None, "", " ", "\t\n", "\u3000"])
def test_null_and_blank_share_the_default_directory(value: str | None) -> None:
    assert text("STRING", value) == "__DEFAULT_PARTITION__"
    assert text("STRING", value, {"partition.default-name": "none"}) == "none"


@pytest.mark.parametrize(
    ("kind", "value", "legacy"),
    [
        ("DOUBLE", 1.5, "true"),
        ("BYTES", b"a", "true"),
        ("TIME(3)", 5, "false"),
        ("TIMESTAMP(3) WITH LOCAL TIME ZONE", 5, "false"),
    ],
)
def test_texts_that_depend_on_java_or_the_session_are_refused(
    kind: str, value: Any, legacy: str
) -> None:
    with pytest.raises(UnsupportedError, match="'p'"):
        text(kind, value, {"partition.legacy-name": legacy})


def test_an_unpartitioned_table_has_no_directories() -> None:
    schema = new_schema(pa.schema([("k", pa.int32()), ("v", pa.int32())]), primary_key=["k"])
    assert partition_texts(bytes(12), schema) == ()


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.id)
def test_data_files_of_other_clients_are_where_we_look(table: Any) -> None:
    """Every live file of the fixtures lies at the path that its entry gives."""
    paths, looked_at = TablePaths(str(table.path)), 0
    on_disk = {p.name: str(p) for p in table.path.rglob("*.parquet")}
    for entry in table.entries():
        name = entry.file.file_name
        if name in on_disk:
            texts = partition_texts(entry.partition, table.schema)
            assert paths.data_file(texts, entry.bucket, name) == on_disk[name]
            looked_at += 1
    assert looked_at
