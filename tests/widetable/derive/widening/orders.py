"""A fact under barriers that is widened from a dimension, and what each writer has said of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa

import widetable as wt
from widetable.storage.file_io import FileIO

FACT, DIM = "db.orders", "db.customers"
WIDENER = f"widen-{FACT}-cust"
INTERVAL = 10
COMMON = {
    "widetable.fsync": "false",
    "widetable.barrier-interval": f"{INTERVAL} ms",
    "changelog-producer": "lookup",
    "bucket": "2",
}
DIM_SCHEMA = pa.schema([("id", pa.int64()), ("city", pa.string()), ("level", pa.int32())])
FACT_SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("cust", pa.int64()),
        ("ts", pa.int64()),
        ("amount", pa.int64()),
        ("paid", pa.int64()),
    ]
)


class Killed(BaseException):
    """At a step."""


class Orders:
    """A fact with two writers, of cust and of amount, and a dim with one; what each writer has said, by barrier.
    storage: that the fact is maintained through.
    """

    def __init__(self, folder: Path, storage: FileIO | None = None, /, **options: str) -> None:
        self.catalog = wt.Catalog(folder)
        self.dim = self.catalog.create_table(DIM, DIM_SCHEMA, primary_key=["id"], options=COMMON)
        self.fact = self.catalog.create_table(
            FACT,
            FACT_SCHEMA,
            primary_key=["id"],
            options={
                **COMMON,
                "merge-engine": "partial-update",
                "widen.cust": f"{DIM}(city, level as grade)",
                **options,
            },
        )
        self.maintained = wt.Catalog(folder, file_io=storage).table(FACT)
        self.writers = {
            "cust": self.catalog.writer(FACT, "orders", ["cust", "ts"]),
            "amount": self.catalog.writer(FACT, "payments", ["amount", "paid"]),
            "dim": self.catalog.writer(DIM, "customers"),
        }
        self.said: dict[str, list[tuple[int, int, Any]]] = {name: [] for name in self.writers}

    def write(self, who: str, values: dict[int, Any], barrier: int, *, all: bool = True) -> None:
        """values: by id; of the dim (city, level), None for one that is deleted."""
        rows: dict[str, Any] = {"id": list(values)}
        if who == "dim":
            given = [(None, None) if value is None else value for value in values.values()]
            rows["city"] = [city for city, _ in given]
            rows["level"] = pa.array([level for _, level in given], pa.int32())
            rows["_row_kind"] = ["-D" if value is None else "+U" for value in values.values()]
        else:
            rows[who] = pa.array(list(values.values()), pa.int64())
        if who != "dim":
            rows["ts" if who == "cust" else "paid"] = [barrier] * len(values)
        self.writers[who].write(rows, barrier=barrier, complete=all)
        self.said[who] += [(barrier, id, value) for id, value in values.items()]

    def expected(self, barrier: int) -> dict[int, tuple[Any, ...]]:
        """The rows as of a barrier, by id: cust, amount, city, grade."""
        of = {
            who: {id: value for label, id, value in said if label <= barrier}
            for who, said in self.said.items()
        }
        found = {}
        for id in of["cust"].keys() | of["amount"].keys():
            cust = of["cust"].get(id)
            city, grade = (None if cust is None else of["dim"].get(cust)) or (None, None)
            found[id] = cust, of["amount"].get(id), city, grade
        return found

    def round(self) -> int:
        return self.maintained.maintain(once=True, expire=False).derived_rows

    def as_of(self, barrier: int | None = None) -> tuple[int, dict[int, tuple[Any, ...]]]:
        """A barrier that both have, and the rows of the fact as of it."""
        with self.catalog.session([FACT, DIM], as_of=barrier) as session:
            names, fact = ["id", "cust", "amount", "city", "grade"], session.table(FACT)
            rows = fact.scan(names).to_arrow()
            assert fact.lookup(rows["id"], names).to_pylist() == rows.to_pylist()
            assert fact.lookup([-1], names).to_pylist() == [dict.fromkeys(names)]
            assert session.barrier is not None
            return session.barrier, {row["id"]: tuple(row.values())[1:] for row in rows.to_pylist()}

    def frontiers(self) -> dict[str, int]:
        (found,) = (each for each in self.catalog.topology().tables() if each.table == FACT)
        return {writer.name: writer.barrier for writer in found.writers}
