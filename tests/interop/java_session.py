"""What the tests with Paimon's Java share: when they run, the other client of a random table, and how rows compare."""

from __future__ import annotations

import os
from collections.abc import Collection
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pytest

import widetable as wt
from tests.aggregates import function_of
from tests.interop.java_process import JavaProcess, JavaRefused, JavaTable
from tests.interop.random_histories import OtherClient
from tests.plain_rows import plain, python_rows, row_texts

NEEDS_JAVA: Final = pytest.mark.skipif(
    not os.environ.get("WIDETABLE_INTEROP_JAVA"), reason="needs Paimon's jar: make interop-java"
)
# The buffers of random tables are smaller than Java's pages.
_BUFFERS: Final = {"write-buffer-size": "1 mb", "page-size": "4 kb"}


def client_of(java: JavaProcess, *, alters: bool = True) -> OtherClient:
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
        alter=alter if alters else None,
        takes_kinds=True,
    )


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
