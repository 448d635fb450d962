"""What a topology asks of its catalog; `Catalog` has more. Raises what the catalog raises."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol

import pyarrow as pa

from widetable.operations.handle.open_table import OpenTable
from widetable.schema.barrier_options import BARRIER_INTERVAL


class Warehouse(Protocol):
    """Of tables by name."""

    def list_tables(self, database: str | None = None) -> list[str]:
        """All, or those of a database."""
        ...

    def table(self, name: str) -> OpenTable:
        """One of them."""
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
        """Make one, or open it where it may be there."""
        ...


def tables_under_barriers(warehouse: Warehouse) -> Iterator[tuple[str, OpenTable]]:
    """All of them by name, opened. That is done one by one as they are asked for: one that is
    dropped in between is a NotFoundError there (`look_again`). Others are opened, too, as only
    their schema tells.
    """
    for name in warehouse.list_tables():
        table = warehouse.table(name)
        if table.schema.typed_options.get(BARRIER_INTERVAL) is not None:
            yield name, table
