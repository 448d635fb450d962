"""Columns of ROW<.. NOT NULL>, themselves nullable: null rows are written, merged, looked up and given to others."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import widetable as wt

VALUES = {
    "ROW<a INT NOT NULL>": {"a": 1},
    "ROW<a INT NOT NULL, b STRING>": {"a": 1, "b": None},
    "ROW<r ROW<s STRING NOT NULL> NOT NULL, d DECIMAL(20, 2) NOT NULL>": {"r": {"s": "x"}, "d": 1},
    "ARRAY<ROW<a BOOLEAN NOT NULL>>": [{"a": True}, None],
    "ROW<l ARRAY<INT NOT NULL> NOT NULL>": {"l": [1, 2]},
}


@pytest.mark.parametrize("engine", ["deduplicate", "partial-update", "first-row"])
@pytest.mark.parametrize("kind", VALUES)
@pytest.mark.parametrize("form", ["dicts", "arrow"])
def test_null_rows_go_through_everything(tmp_path: Path, engine: str, kind: str, form: str) -> None:
    options = {"bucket": "1", "merge-engine": engine, "changelog-producer": "lookup"}
    columns = {"k": "BIGINT", "v": kind, "w": "INT"}
    table = wt.Catalog(tmp_path).create_table("db.t", columns, primary_key=["k"], options=options)
    arrow = table.scan().to_arrow().schema
    expected: dict[int, Any] = {}
    for first in range(3):
        rows = [{"k": k, "v": None if k % 3 == 0 else VALUES[kind]} for k in range(first, 12, 2)]
        part = pa.schema([arrow.field("k"), arrow.field("v")])
        table.write(rows if form == "dicts" else pa.Table.from_pylist(rows, part))
        expected |= {k: None if k % 3 == 0 else VALUES[kind] for k in range(first, 12, 2)}
    table.write([{"k": 50, "w": 1}])  # without the column
    expected[50] = None
    table.compact(full=True)
    shown = pa.array([*expected.values()], arrow.field("v").type).to_pylist()
    for found in (
        table.scan().to_arrow().sort_by("k"),
        table.lookup([*sorted(expected), 99]),
        table.changes(0, table.snapshots()[-1].id),
    ):
        assert found.select(["v"]).cast(pa.schema([arrow.field("v")])).num_rows
        by_key = dict(zip(found["k"].to_pylist(), found["v"].to_pylist(), strict=True))
        by_key.pop(None, None)
        assert by_key == dict(zip(expected, shown, strict=True))
