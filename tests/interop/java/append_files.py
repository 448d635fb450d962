"""What Java knows of the files of an append table, checked against the rows that it reads from each (AppendFiles.java).

A file says in which bucket it lies, of how many, which numbers its rows have, and for some columns of its schema the
least and the greatest value and how many nulls there are. Whoever wrote it, none of this may be wrong: Java leaves
files out by it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tests.interop.java.java_process import JavaTable
from tests.interop.java.java_values import arrow_rows
from tests.support.models.plain_rows import python_rows
from widetable.schema.types import DataField


@dataclass(frozen=True)
class JavaFile:
    """The answer of AppendFiles.java: minima, maxima: rows with their kind in front, None if there are none."""

    bucket: int
    total_buckets: int
    name: str
    row_count: int
    first_number: int
    last_number: int
    level: int
    deleted: int | None
    schema_id: int
    columns: list[str]
    minima: list[Any] | None
    maxima: list[Any] | None
    null_counts: list[int | None]
    rows: list[list[Any]]


def java_files(table: JavaTable) -> list[JavaFile]:
    return [JavaFile(*answer) for answer in table.ask("files")]


def check_file(table: JavaTable, file: JavaFile, buckets: int) -> None:
    """buckets: of the table, -1 if rows have none."""
    assert file.total_buckets == buckets, file
    assert file.bucket in range(max(buckets, 1)), file
    assert file.level == 0, file
    assert len(file.rows) == file.row_count - (file.deleted or 0), file
    assert file.first_number <= file.last_number, file
    stored = {field.name: field for field in table.fields_of(file.schema_id)}
    today = {field.id: field for field in table.fields()}
    rows = python_rows(arrow_rows(file.rows, table.fields()))
    for at, name in enumerate(file.columns):
        field = stored[name]
        same = today.get(field.id)
        if same is not None and same.type == field.type:
            check_column(file, at, field, [row[same.name] for row in rows])


def check_column(file: JavaFile, at: int, field: DataField, values: Sequence[Any]) -> None:
    """The stats of one column of a file. at: its place among them; values: of all rows that are not deleted."""
    nulls = sum(value is None for value in values)
    count = file.null_counts[at] if file.null_counts else None
    assert count is None or count == nulls or (file.deleted and count > nulls), (field, file)
    least, greatest = (_bound(bounds, at, field) for bounds in (file.minima, file.maxima))
    for value in values:
        # Java's own bounds pass over NaN.
        if value is not None and value == value:
            assert least is None or _place(least) <= _place(value), (field, value, file)
            assert greatest is None or _place(value) <= _place(greatest), (field, value, file)


def _bound(bounds: list[Any] | None, at: int, field: DataField) -> Any:
    if bounds is None:
        return None
    (row,) = python_rows(arrow_rows([["+I", bounds[at + 1]]], [field]))
    return row[field.name]


def _place(value: Any) -> Any:
    """What orders values in Java: -0.0 below 0.0, NaN above all numbers, bytes as signed numbers."""
    if isinstance(value, float):
        return math.isnan(value), value, math.copysign(1, value)
    if isinstance(value, bytes):
        return [byte - 256 if byte > 127 else byte for byte in value]
    return value.encode("utf-8", "surrogatepass") if isinstance(value, str) else value
