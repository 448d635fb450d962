"""A fact table that is widened from a dimension, as the acceptance cases have them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import widetable as wt
from widetable.derive.changes import touched_rows

FACT_SCHEMA = pa.schema(
    [("id", pa.int64()), ("cust", pa.int64()), ("amount", pa.float64()), ("ts", pa.int64())]
)
CUSTOMERS = pa.schema([("id", pa.int64()), ("city", pa.string()), ("level", pa.int32())])
WIDEN = {"widen.cust": "db.customers(city as c_city, level as c_level)"}
COMMON = {"widetable.fsync": "false", "changelog-producer": "lookup"}


class Shop:
    """F(id PK, cust, amount; widened c_city, c_level), D customers(id PK, city, level) = {(7,Oslo,1),(8,Rome,2)}."""

    def __init__(self, folder: str | Path, **options: str) -> None:
        self.catalog = wt.Catalog(str(folder))
        self.dim = self.catalog.create_table(
            "db.customers", CUSTOMERS, primary_key=["id"], options=COMMON
        )
        given = {
            "merge-engine": "partial-update",
            "fields.ts.sequence-group": "cust,amount",
            "partial-update.remove-record-on-sequence-group": "ts",
            "bucket": "2",
        }
        self.fact = self.catalog.create_table(
            "db.f", FACT_SCHEMA, primary_key=["id"], options=COMMON | given | WIDEN | options
        )
        self._clock = 0
        self.customers((7, "Oslo", 1), (8, "Rome", 2))

    def customers(self, *rows: tuple[int, str | None, int | None]) -> None:
        self.dim.write(pa.Table.from_arrays(columns(rows, CUSTOMERS), schema=CUSTOMERS))

    def forget(self, *ids: int) -> None:
        kinds = ["-D"] * len(ids)
        nulls = [None] * len(ids)
        self.dim.write(
            pa.table(
                {
                    "id": ids,
                    "city": pa.array(nulls, pa.string()),
                    "level": pa.array(nulls, pa.int32()),
                    "_row_kind": kinds,
                }
            )
        )

    def orders(self, *rows: tuple[int, int | None, float | None], kind: str = "+I") -> None:
        self._clock += 1
        stamped = [(*row, self._clock) for row in rows]
        data = pa.Table.from_arrays(columns(stamped, FACT_SCHEMA), schema=FACT_SCHEMA)
        self.fact.write(data.append_column("_row_kind", pa.array([kind] * len(rows))))

    def round(self) -> int:
        """Rows written by one round of a maintainer, which compacts too."""
        return self.fact.maintain(once=True, expire=False).derived_rows

    def widened(self) -> list[tuple[Any, ...]]:
        rows = self.fact.scan(["id", "cust", "c_city", "c_level"]).to_arrow().to_pylist()
        return sorted(tuple(row.values()) for row in rows)

    def changes(self, after: int) -> list[tuple[Any, ...]]:
        names = ["id", "c_city", "c_level"]
        found = self.fact.changes(after, self.latest(), names).to_pylist()
        return [(row["_row_kind"], *(row[name] for name in names)) for row in found]

    def latest(self) -> int:
        return max(snapshot.id for snapshot in self.fact.snapshots())


def columns(rows: Any, schema: pa.Schema) -> list[pa.Array]:
    return [pa.array([row[i] for row in rows], field.type) for i, field in enumerate(schema)]


def once(
    monkeypatch: pytest.MonkeyPatch, work: Callable[[], None], at: str = "untouched_rows"
) -> None:
    """Do it right before the widener's next step of that name."""
    real = getattr(touched_rows, at)

    def step(*given: Any, **named: Any) -> Any:
        monkeypatch.setattr(touched_rows, at, real)
        work()
        return real(*given, **named)

    monkeypatch.setattr(touched_rows, at, step)


class Killed(BaseException):
    """At a step."""
