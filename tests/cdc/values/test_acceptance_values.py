"""The sheet's cases 13 and 15: values as they must arrive, from the log and as copies, and one row in a table."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import widetable as wt
from tests.cdc.values.read_values import read_values
from tests.support.databases.postgres_server import PostgresServer, postgres_server

# SQL type -> literal, type of the target, value.
CASE_13: dict[str, tuple[str, str, Any]] = {
    "numeric(10, 2)": ("12.30", "DECIMAL(10, 2)", Decimal("12.30")),
    "numeric": ("1e30", "STRING", "1000000000000000000000000000000"),
    "timestamptz": (
        "2026-01-02 03:04:05.678901+02",
        "TIMESTAMP_LTZ(6)",
        datetime(2026, 1, 2, 1, 4, 5, 678901, timezone.utc),
    ),
    "timestamp(3)": (
        "2026-01-02 03:04:05.6789",
        "TIMESTAMP(3)",
        datetime(2026, 1, 2, 3, 4, 5, 679000),
    ),
    "bytea": ("\\x00ff", "BYTES", b"\x00\xff"),
    "int[]": ("{1,2,null}", "ARRAY<INT>", [1, 2, None]),
    "mood": ("ok", "STRING", "ok"),
    "jsonb": ('{"a": 1}', "STRING", '{"a": 1}'),
    "bool": ("false", "BOOLEAN", False),
    "bpchar(5)": ("ab", "STRING", "ab"),
}


@pytest.fixture(scope="module")
def database() -> Iterator[PostgresServer]:
    with postgres_server() as server:
        server.execute("create type mood as enum ('sad', 'ok')")
        yield server


def test_case_13(database: PostgresServer, tmp_path: Path) -> None:
    """Each value by both ways, and the row in a table whose columns have these types."""
    logged: dict[str, pa.Array] = {}
    copied: dict[str, pa.Array] = {}
    columns = {"id": "INT"}
    for number, (sql_type, (literal, target, _)) in enumerate(CASE_13.items()):
        read = read_values(database, sql_type, [literal])
        assert read.type.target == target
        columns[f"c{number}"] = target
        logged[f"c{number}"], copied[f"c{number}"] = read.logged.values, read.copied.values
    expected = {f"c{number}": value for number, (_, _, value) in enumerate(CASE_13.values())}
    table = wt.Catalog(tmp_path).create_table("db.t", columns, primary_key=["id"])
    for key, values in enumerate((logged, copied)):
        table.write(pa.table({"id": pa.array([key], pa.int32()), **values}))
    rows = table.scan().to_arrow().sort_by("id").to_pylist()
    assert rows == [{"id": key, **expected} for key in (0, 1)]


def test_case_15_nan_is_a_bad_value_and_the_next_one_is_good(database: PostgresServer) -> None:
    read = read_values(database, "numeric(10, 2)", ["NaN", "12.30", None])
    for cast in (read.logged, read.copied):
        assert cast.bad.tolist() == [True, False, False]
        assert cast.values.to_pylist() == [None, Decimal("12.30"), None]
        assert cast.reason == "NaN, infinity, or a number that DECIMAL(10, 2) does not hold"
