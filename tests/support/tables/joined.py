"""Two tables and the table that holds their join, for tests of joins."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

import widetable as wt

A = pa.schema([("u", pa.int64()), ("o", pa.int64()), ("amt", pa.int64())])
B = pa.schema([("u", pa.int64()), ("name", pa.string())])
LOOKUP = {"changelog-producer": "lookup"}
FAST = {"widetable.fsync": "false"}
Row = tuple[Any, ...]
TAGS = pa.schema([("w", pa.int64()), ("tag", pa.string()), ("weight", pa.float64())])


class Joined:
    """A(u,o PK; amt), bucket-key u; B(u PK; name); and their join."""

    def __init__(self, folder: Path, how: str = "inner", **made: Any) -> None:
        self.catalog = wt.Catalog(str(folder))
        options = {"bucket-key": "u", "bucket": "2", **FAST}
        self.a = self.catalog.create_table("db.a", A, primary_key=["u", "o"], options=options)
        self.b = self.catalog.create_table("db.b", B, primary_key=["u"], options=FAST)
        self.join = wt.DeltaJoin(self.catalog, "db.out", "db.a", "db.b", ["u"], how, **made)
        self.out = self.join.create({**LOOKUP, **FAST})

    def write_a(self, *rows: Row) -> None:
        write(self.a, rows)

    def write_b(self, *rows: Row) -> None:
        write(self.b, rows)

    def round(self) -> list[Row]:
        """What a round adds to the changelog."""
        before = newest(self.out)
        self.join.run_once()
        return changes(self.out, before, newest(self.out))

    @property
    def rows(self) -> list[Row]:
        return sorted(tuple(row.values()) for row in self.out.scan().to_arrow().to_pylist())


def write(table: wt.Table, rows: Sequence[Row]) -> None:
    """Rows of the kind, then the columns."""
    names = ["_row_kind", *table.schema.names]
    table.write([dict(zip(names, row, strict=True)) for row in rows])


def newest(table: wt.Table) -> int:
    return max([0, *(snapshot.id for snapshot in table.snapshots())])


def changes(table: wt.Table, start: int, end: int, *, in_order: bool = False) -> list[Row]:
    """The kind, then the columns: in the order of their text, or as they come."""
    names = ["_row_kind", *table.schema.names]
    if start == end:
        return []
    rows = [tuple(row[name] for name in names) for row in table.changes(start, end).to_pylist()]
    return rows if in_order else sorted(rows, key=repr)


def joined_at(how: str, folder: Path) -> Joined:
    """(7,1,10) with Ann."""
    joined = Joined(folder, how)
    joined.write_a(("+I", 7, 1, 10))
    joined.write_b(("+I", 7, "Ann"))
    joined.join.run_once()
    return joined


class ManyToMany(Joined):
    """A as above; B(w,tag PK; weight), bucket-key w."""

    def __init__(self, folder: Path, max_matches: int = 100_000) -> None:
        self.catalog = wt.Catalog(str(folder))
        options = {"bucket-key": "u", "bucket": "2", **FAST}
        self.a = self.catalog.create_table("db.a", A, primary_key=["u", "o"], options=options)
        self.b = self.catalog.create_table(
            "db.b", TAGS, primary_key=["w", "tag"], options={"bucket-key": "w", **FAST}
        )
        self.join = wt.DeltaJoin(
            self.catalog, "db.out", "db.a", "db.b", {"u": "w"}, max_matches=max_matches
        )
        self.out = self.join.create({**LOOKUP, **FAST})
