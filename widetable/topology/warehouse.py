"""The part of a catalog that a topology uses. Raises what the catalog raises."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol

import pyarrow as pa

from widetable.operations.handle.open_table import OpenTable
from widetable.schema.barrier_options import BARRIER_INTERVAL


class Warehouse(Protocol):
    """Opens, lists and makes tables by name."""

    def list_tables(self, database: str | None = None) -> list[str]:
        """List all tables, or those of a database."""
        ...

    def table(self, name: str) -> OpenTable:
        """Open a table."""
        ...

    def create_table(
        self,
        name: str,
        schema: Mapping[str, pa.DataType | str],
        *,
        primary_key: Sequence[str],
        options: Mapping[str, str] | None = None,
        if_not_exists: bool = False,
    ) -> OpenTable:
        """Make a table; with `if_not_exists`, open an existing one."""
        ...


def tables_under_barriers(warehouse: Warehouse) -> Iterator[tuple[str, OpenTable]]:
    """Open the tables under barriers, one by one, and yield them with their names.

    Other tables are opened, too, because only the schema tells. A table that is dropped in between raises
    NotFoundError (`retrying_reads`).
    """
    for name in warehouse.list_tables():
        table = warehouse.table(name)
        if table.schema.typed_options.get(BARRIER_INTERVAL) is not None:
            yield name, table
