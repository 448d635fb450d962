"""A program: applies one transaction of many rows to a table, and prints the memory that this took.

Arguments: the warehouse, how many rows. Prints, in a line, the commits, the rows, the mebibytes of the changes, and the
mebibytes of the process above those that it had with the changes. The table is write-only: compactions are the
engine's, and come after the commit.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from widetable import Catalog
from widetable_cdc.applying.barrier_line import LsnLine
from widetable_cdc.applying.error_rows import ErrorTable
from widetable_cdc.applying.last_states import last_states
from widetable_cdc.applying.round_rows import Round
from widetable_cdc.applying.row_events import row_events
from widetable_cdc.applying.target import BarrierTarget
from widetable_cdc.log.changes import ChangeBatch, Kind, Relation, RelationColumn
from widetable_cdc.values.column_type import column_type
from widetable_cdc.values.source_type import SourceType

WRITE_BUFFER_MEBIBYTES = 64
_TEXT, _INT8 = SourceType(25, "text"), SourceType(20, "int8")
TYPES = {
    "id": _INT8,
    "a": _INT8,
    "b": SourceType(701, "float8"),
    "c": SourceType(1700, "numeric", typmod=((12 << 16) | 2) + 4),
    "d": _TEXT,
    "e": SourceType(1184, "timestamptz"),
    "f": SourceType(1082, "date"),
    "g": SourceType(16, "bool"),
    "h": _TEXT,
    "i": _INT8,
    "big": _TEXT,
}


def changes(count: int, kind: Kind, lsn: int) -> ChangeBatch:
    """Changes of distinct keys in a random order; updates do not carry the big value."""
    columns = [RelationColumn(n, t.oid, t.typmod, n == "id") for n, t in TYPES.items()]
    ids = pa.array(np.random.default_rng(7).permutation(count))
    texts = ids.cast(pa.string()).cast(pa.large_string())

    def of(text: str) -> pa.Array:
        return pa.repeat(pa.scalar(text, pa.large_string()), count)

    def after(text: str) -> pa.Array:
        return pc.binary_join_element_wise(texts, of(text), pa.scalar("-", pa.large_string()))

    is_update = kind is Kind.UPDATE
    new = {
        "id": texts,
        "a": texts,
        "b": of("1.5"),
        "c": of("1234.50"),
        "d": after("d" * 20),
        "e": of("2026-01-02 03:04:05.678901+00"),
        "f": of("2026-01-02"),
        "g": of("f" if is_update else "t"),
        "h": after("h" * 30),
        "i": texts,
        "big": pa.nulls(count, pa.large_string()) if is_update else after("big"),
    }
    return ChangeBatch(
        relation=Relation(1, "public", "t", "d", tuple(columns)),
        kinds=np.full(count, kind, np.uint8),
        old_rows=np.zeros(count, np.uint8),
        ordinals=np.arange(count),
        xids=np.full(count, 900, np.uint32),
        end_lsns=np.full(count, lsn),
        new=pa.RecordBatch.from_pydict(new),
        unchanged={"big": np.ones(count, np.bool_)} if is_update else {},
        old=None,
    )


def mebibytes(line: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(each for each in lines if each.startswith(line)).split()[1]) >> 10


def main(warehouse: str, count: int) -> None:
    catalog = Catalog(warehouse)
    types = {name: column_type(kind) for name, kind in TYPES.items()}
    columns = {n: t.target + (" NOT NULL" if n == "id" else "") for n, t in types.items()}
    options = {
        "widetable.barrier-interval": "1 ms",
        "changelog-producer": "lookup",
        "write-buffer-size": f"{WRITE_BUFFER_MEBIBYTES} mb",
        "write-only": "true",
    }
    table = catalog.create_table("db.t", columns, primary_key=["id"], options=options)
    target = BarrierTarget(catalog, "db.t", "cdc/shop", LsnLine())

    def apply(batch: ChangeBatch, lsn: int) -> None:
        states = last_states([row_events(batch, ["id"])])
        target.apply(Round(states, types, lsn, ErrorTable(catalog, "db", "shop")))

    for lsn, kind in ((100, Kind.INSERT), (200, Kind.UPDATE)):
        apply(changes(2000, kind, lsn), lsn)  # what is compiled and loaded once
    for lsn, kind in ((300, Kind.INSERT), (400, Kind.UPDATE)):
        batch = changes(count, kind, lsn)
        pa.default_memory_pool().release_unused()
        Path("/proc/self/clear_refs").write_text("5")  # the peak begins now
        before = mebibytes("VmRSS")
        apply(batch, lsn)
        commits = sum(each.commit_identifier == lsn for each in table.snapshots())
        rows = table.scan(["id"], "big IS NOT NULL").to_arrow().num_rows
        taken = mebibytes("VmHWM") - before
        sys.stdout.write(f"{commits} {rows} {batch.new.nbytes >> 20} {taken}\n")
        del batch


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
