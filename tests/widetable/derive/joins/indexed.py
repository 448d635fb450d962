"""The table of the sheet's case 11, with an index that its maintainer feeds."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

import widetable as wt
from widetable.commit.transaction.commit_identity import Identity
from widetable.operations.writes.table_commit import overwrite_by
from widetable.operations.writes.table_write import any_writer
from widetable.schema.table_schema import ROW_KIND_COLUMN

DIM = pa.schema([("k", pa.int64()), ("name", pa.string()), ("city", pa.string())])


def dim(folder: Path, **options: str) -> wt.Table:
    """Case 11 of the sheet: D = {(1,Ann,Oslo),(2,Bob,Rome)}; key 3 was written and deleted; indexed by city."""
    given = {"index.city": "db.by_city", "bucket": "2", "widetable.fsync": "false"}
    table = wt.Catalog(str(folder)).create_table(
        "db.d", DIM, primary_key=["k"], options=given | options
    )
    write(table, (1, "Ann", "Oslo"), (2, "Bob", "Rome"), (3, "Gone", "Oslo"))
    table.write(pa.table({"k": [3], "name": [""], "city": [""], "_row_kind": ["-D"]}))
    return table


def write(table: wt.Table, *rows: tuple[Any, ...]) -> None:
    names = table.schema.names
    given = [dict(zip(names, row, strict=True)) for row in rows]
    table.write(pa.Table.from_pylist(given, table.arrow_schema))


def maintained(table: wt.Table) -> int:
    return table.maintain(once=True).derived_rows


def by_city(table: wt.Table, cities: Sequence[str | None]) -> list[tuple[int, int]]:
    found = table.lookup_index(pa.table({"city": pa.array(cities, pa.string())}), ["k"])
    return list(zip(found["_key_number"].to_pylist(), found["k"].to_pylist(), strict=True))


def disturb(
    index: wt.Table, rows: pa.Table, kind: str = "+I", *, whole_table: bool = False
) -> None:
    """As another client does it."""
    with any_writer(index, [*rows.column_names, ROW_KIND_COLUMN]) as writer:
        writer.write(rows.append_column(ROW_KIND_COLUMN, pa.array([kind] * rows.num_rows)))
        messages = writer.finish()
    if whole_table:
        overwrite_by(index, messages, Identity.unnamed(), whole_table=True)
    else:
        index.commit_append(messages)
