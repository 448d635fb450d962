"""Rows as JSON-like values, as pypaimon's check script prints them: one form for rows of any reader.

Decimals are strings, dates and times ISO 8601, bytes hex, maps lists of pairs, NaN and infinities their
text; timestamps with local time zone end in +00:00.
"""

from __future__ import annotations

import datetime as dt
import json
import math
from collections.abc import Iterable
from decimal import Decimal
from typing import Any

import pyarrow as pa


def plain(value: Any) -> Any:
    """One value."""
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else repr(value)
    if isinstance(value, Decimal):
        return format(value, "f")
    if isinstance(value, dt.datetime | dt.date | dt.time):
        return value.isoformat()
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    raise TypeError(f"{value!r}")


def python_values(column: pa.Array | pa.ChunkedArray) -> list[Any]:
    """As `to_pylist`, but dates and timestamps as numbers of their unit: Python's types do not hold all of them."""
    if pa.types.is_date32(column.type):
        column = column.cast(pa.int32())
    elif pa.types.is_timestamp(column.type):
        column = column.cast(pa.int64())
    found: list[Any] = column.to_pylist()
    return found


def python_rows(table: pa.Table | pa.RecordBatch) -> list[dict[str, Any]]:
    """The rows of a table, with `python_values`."""
    names = table.schema.names
    columns = [python_values(table.column(name)) for name in names]
    return [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]


def row_texts(rows: Iterable[Any]) -> list[str]:
    """Rows in any order as sorted JSON texts."""
    return sorted(json.dumps(plain(row), ensure_ascii=False) for row in rows)
