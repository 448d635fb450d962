"""What a topology asks of its catalog; `Catalog` has more."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from widetable.barrier_options import BARRIER_INTERVAL
from widetable.operations.open_table import OpenTable


class Warehouse(Protocol):
    """Of tables by name."""

    def list_tables(self, database: str | None = None) -> list[str]:
        """All, or those of a database."""
        ...

    def table(self, name: str) -> OpenTable:
        """One of them."""
        ...


def tables_under_barriers(warehouse: Warehouse) -> Iterator[tuple[str, OpenTable]]:
    """All of them by name, opened."""
    for name in warehouse.list_tables():
        table = warehouse.table(name)
        if table.schema.typed_options.get(BARRIER_INTERVAL) is not None:
            yield name, table
