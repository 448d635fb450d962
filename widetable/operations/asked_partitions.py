"""Partitions that a caller names: rows of the partition columns. Raises InvalidError for a table without, and for rows
that are none.
"""

from __future__ import annotations

from typing import Any

from widetable.errors import InvalidError
from widetable.operations.lookup_keys import rows_of
from widetable.operations.open_table import OpenTable
from widetable.write.partition_rows import partition_of


def asked_partitions(table: OpenTable, partitions: Any, instead: str) -> frozenset[bytes]:
    """As BinaryRow bytes. partitions: in any form that `lookup` takes keys in. instead: of it, for tables without."""
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
