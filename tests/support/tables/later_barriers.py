"""A table that was under no barriers for a while, and is put under them."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

import widetable as wt
from tests.support.tables.barrier_tables import NAME, UNDER_BARRIERS, plain_table
from widetable.write.commit_message import CommitMessage

OLD = [(1, 10, None, None), (2, 20, None, None)]


def old_table(warehouse: Path, **options: str) -> wt.Table:
    """Under no barriers, with the rows of OLD in two commits."""
    table = plain_table(warehouse, **options)
    for id, a, _, _ in OLD:
        table.write({"id": [id], "a": [a]})
    return table


def put(warehouse: Path) -> wt.Catalog:
    """The table under barriers."""
    catalog = wt.Catalog(warehouse)
    catalog.alter_table(NAME, set_options=UNDER_BARRIERS)
    return catalog


def written(table: wt.Table, rows: dict[str, list[int]]) -> list[CommitMessage]:
    """Files, and no commit."""
    is_under_barriers = "widetable.barrier-interval" in table.schema.options
    with table.new_writer(list(rows), named=is_under_barriers) as writer:
        writer.write(pa.RecordBatch.from_pydict(rows))
        return writer.finish()
