"""Reads the partitions that a caller names: rows of the partition columns, or words on a command line,
`day=2026-01-31`. Raises InvalidError for a table without partitions, and for rows that are not partitions.
"""

from __future__ import annotations

from datetime import date
from typing import Any

from widetable.errors import InvalidError
from widetable.format.binary_row import decode_row
from widetable.format.plain_value import plain_column
from widetable.operations.handle.open_table import OpenTable
from widetable.operations.queries.lookup_keys import rows_of
from widetable.schema.table_schema import TableSchema
from widetable.write.partition_rows import partition_of


def request_partitions(table: OpenTable, partitions: Any, instead: str) -> frozenset[bytes]:
    """Return the requested partitions as BinaryRow bytes, each once.

    partitions: in any form in which `lookup` takes keys. instead: what the error suggests for a table without
    partitions. Whether the table has a partition is not checked: a missing one is the same as an empty one.
    """
    schema = table.schema
    if not schema.partition_keys:
        raise InvalidError(
            f"table {table.path}",
            found="no partitions",
            expected="a table with partitions",
            action=instead,
        )
    names = schema.partition_keys
    rows = rows_of(partitions, schema, names, lambda given: names)
    return frozenset(partition_of(rows, row, schema) for row in range(rows.num_rows))


def partition_words(partition: bytes, schema: TableSchema) -> list[str] | None:
    """Return a partition as the command line takes it, or None for values that cannot be written so.

        a DATE, a BOOLEAN            --partition d=2026-01-31 --partition b=true    (four words)
        a TIMESTAMP                  --partition "d=2026-01-31 01:02:03"            (two)
        a DECIMAL, a TIME, a null    None

    `cli.key_words` reads them back as the same value.
    """
    types = [schema.field(name).type for name in schema.partition_keys]
    words: list[str] = []
    for name, kind, plain in zip(
        schema.partition_keys, types, decode_row(partition, types), strict=True
    ):
        value = plain_column([plain], kind)[0].as_py()
        if not isinstance(value, bool | int | str | date):
            return None
        text = str(value).lower() if isinstance(value, bool) else str(value)
        words += ["--partition", f"{name}={text}"]
    return words
