"""What the tests with Paimon's Java share: when they run, the other client of a random table, and how rows compare."""

from __future__ import annotations

import os
from collections.abc import Collection
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pytest

import widetable as wt
from tests.interop.java.java_process import JavaProcess, JavaRefused, JavaTable
from tests.interop.random_histories import OtherClient, clamped
from tests.support.models.aggregates import function_of
from tests.support.models.model import Row
from tests.support.models.plain_rows import plain, python_rows, row_texts
from widetable.schema.table_schema import TableSchema

NEEDS_JAVA: Final = pytest.mark.skipif(
    not os.environ.get("WIDETABLE_INTEROP_JAVA"), reason="needs Paimon's jar: make interop-java"
)
_FIRST_TIME: Final = -(2**63 // 1000) * 1000
_NESTED: Final = ("nested_partial_update", "nested_update")
# The buffers of random tables are smaller than Java's pages.
_BUFFERS: Final = {"write-buffer-size": "1 mb", "page-size": "4 kb"}


def client_of(java: JavaProcess, *, keeps_columns: bool = False) -> OtherClient:
    """Java as the other master of a random table."""

    def table_of(table: wt.Table) -> JavaTable:
        return JavaTable(java, Path(table.path))

    def alter(table: wt.Table, change: dict[str, Any]) -> None:
        """Nothing where Java refuses to rename one of several fields of `sequence.field` (test_java_faults)."""
        try:
            table_of(table).alter(change)
        except JavaRefused as error:
            if "rename_columns" not in change or "Sequence field" not in str(error):
                raise

    return OtherClient(
        write=lambda table, rows: table_of(table).write(rows, options=_BUFFERS),
        compact=lambda table, full: table_of(table).compact(full=full, options=_BUFFERS),
        alter=alter,
        keeps_columns=keeps_columns,
        takes_kinds=True,
        served_rows=written_times,
        serves=is_row_served,
    )


def written_times(rows: pa.Table) -> pa.Table:
    """Without the 808 microseconds that it does not write (test_java_faults)."""
    columns = [
        clamped(column.combine_chunks(), pa.int64(), _FIRST_TIME, 2**63 - 1)
        if column.type == pa.timestamp("us")
        else column
        for column in rows.columns
    ]
    return pa.Table.from_arrays(columns, schema=rows.schema)


def is_row_served(schema: TableSchema, row: Row) -> bool:
    """No element that its function passes over, which Java keeps in the first value of a key, and no null among
    distinct rows, at which it fails (test_java_faults).
    """
    return not any(_has_no_element(schema, name, value) for name, value in row.items() if value)


def _has_no_element(schema: TableSchema, name: str, value: Any) -> bool:
    kind, function = schema.field(name).type, function_of(schema, name)
    if function == "merge_map_with_keytime":
        return any(entry["ts"] is None for _, entry in value)
    is_distinct = function == "collect" and schema.options.get(f"fields.{name}.distinct") == "true"
    of_rows = kind.element is not None and kind.element.root == "ROW"
    return of_rows and (is_distinct or function in _NESTED) and None in value


def texts_of(rows: pa.Table, unordered: Collection[str] = ()) -> list[str]:
    """Rows in any order, in the one form in which they are compared; in unordered columns also the elements."""
    found = [plain(row) for row in python_rows(rows)]
    for name in {*unordered} & {*rows.column_names}:
        for row in found:
            if row[name] is not None:
                row[name] = sorted(row[name], key=repr)
    return row_texts(found)


def our_rows(table: wt.Table, **choice: Any) -> list[str]:
    """The rows of a scan."""
    return texts_of(table.scan(**choice).to_arrow(), _hashed(table))


def java_rows(java: JavaProcess, table: wt.Table, **options: str) -> list[str]:
    """What Java reads; options of time travel without `scan.`."""
    dynamic = {f"scan.{name.replace('_', '-')}": value for name, value in options.items()}
    return texts_of(JavaTable(java, Path(table.path)).read(dynamic), _hashed(table))


def _hashed(table: wt.Table) -> list[str]:
    """The columns whose elements Java gives in the order of a HashMap."""
    schema = table.schema
    functions = {name: function_of(schema, name) or "" for name in schema.names}
    return [n for n, f in functions.items() if f.startswith(("nested_", "merge_map", "collect"))]
