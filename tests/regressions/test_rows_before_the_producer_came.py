"""A table that gained `changelog-producer=lookup` gave wrong rows before: its newest level with a key need not hold the
row of that key when it was compacted without a changelog.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import widetable as wt
from tests.support.models.changelog_follower import Follower, changes_of
from tests.support.models.random_table import live_files

SCHEMA = pa.schema([("k", pa.int64()), ("s", pa.int64()), ("a", pa.int64()), ("pad", pa.binary())])
LAYOUT = {
    "write-only": "true",
    "num-levels": "6",
    "num-sorted-run.compaction-trigger": "2",
    "compaction.max-size-amplification-percent": "1000000",
}
PARTIAL = {"merge-engine": "partial-update"}
GROUPED = PARTIAL | {"fields.s.sequence-group": "a"}
REMOVING = PARTIAL | {"partial-update.remove-record-on-delete": "true"}
BY_SEQUENCE = {"sequence.field": "s"}
GAINED = {"changelog-producer": "lookup", "num-sorted-run.compaction-trigger": "5"}


def record(kind: str, size: int = 0, **row: int | None) -> dict[str, Any]:
    return {"_row_kind": kind, **row, "pad": random.Random(size).randbytes(size) if size else None}


def write(table: wt.Table, *records: Mapping[str, Any]) -> None:
    names = [f for f in [*SCHEMA, pa.field("_row_kind", pa.string())] if f.name in records[0]]
    table.write(pa.Table.from_pylist([dict(r) for r in records], schema=pa.schema(names)))


def levels(table: wt.Table) -> list[int]:
    return sorted(file.level for files in live_files(table.path).values() for file in files)


def rows_by_key(table: wt.Table) -> dict[int, Any]:
    return {row["k"]: row for row in table.scan().to_arrow().to_pylist()}


@pytest.mark.parametrize("strategy", ["scan", "lookup"])
@pytest.mark.parametrize(
    ("options", "middle", "later"),
    [
        ({}, record("+I", k=1, s=3, a=3), record("+I", k=1, s=4, a=4)),
        ({}, record("-D", k=1, s=3, a=3), record("+I", k=1, s=4, a=4)),
        (BY_SEQUENCE, record("+I", k=1, s=3, a=3), record("+I", k=1, s=4, a=4)),
        (BY_SEQUENCE, record("-D", k=1, s=3, a=3), record("+I", k=1, s=4, a=4)),
        (BY_SEQUENCE, record("-D", k=1, s=6, a=3), record("+I", k=1, s=4, a=4)),
        (BY_SEQUENCE, record("+I", k=1, s=3, a=3), record("-D", k=1, s=6, a=4)),
        (PARTIAL, record("+I", k=1, s=None, a=3), record("+I", k=1, s=4, a=None)),
        (GROUPED, record("+I", k=1, s=3, a=3), record("+I", k=1, s=4, a=4)),
        (GROUPED, record("-D", k=1, s=6, a=3), record("+I", k=1, s=5, a=4)),
        (GROUPED, record("+I", k=1, s=3, a=3), record("-D", k=1, s=5, a=4)),
        (REMOVING, record("+I", k=1, s=None, a=3), record("-D", k=1, s=None, a=None)),
    ],
)
def test_what_was_compacted_in_part_is_seen_as_a_whole(
    tmp_path: Path,
    strategy: str,
    options: dict[str, str],
    middle: dict[str, Any],
    later: dict[str, Any],
) -> None:
    """The base has sequence 5, a level above it a record that the base may outlast, and then the producer comes."""
    catalog = wt.Catalog(str(tmp_path))
    options = {**LAYOUT, **options, "widetable.lookup-strategy": strategy}
    table = catalog.create_table("db.t", SCHEMA, primary_key=["k"], options=options)
    write(table, record("+I", 60_000, k=1, s=5, a=1), record("+I", k=3, s=5, a=1))
    table.compact(full=True)
    write(table, middle)
    write(table, record("+I", 9_000, k=2, s=1, a=1))
    table.compact()
    assert levels(table) == [4, 5]
    table = catalog.alter_table("db.t", set_options=GAINED)
    start = table.snapshots()[-1].id
    rows = rows_by_key(table)
    follower = Follower(table.schema, rows.values())
    assert table.lookup(pa.table({"k": [1]})).to_pylist() == [
        rows.get(1, dict.fromkeys(SCHEMA.names))
    ]
    for _ in range(2):
        write(table, later, record("+I", k=3, s=6, a=2))
        table.compact()
    follower.apply(changes_of(table, start, table.snapshots()[-1].id))
    follower.check(rows_by_key(table).values())
    assert {0}.isdisjoint(levels(table))


def test_an_overtaken_commit_above_what_overtook_it(tmp_path: Path) -> None:
    """The newer level once held the older row, by the numbers of its writer; it holds the later one now (0061)."""
    catalog = wt.Catalog(str(tmp_path))
    table = catalog.create_table("db.t", SCHEMA, primary_key=["k"], options=LAYOUT)
    write(table, record("+I", 200_000, k=1, a=0))
    table.compact(full=True)
    late = table.new_writer(["k", "a"])
    late.write(pa.table({"k": [1], "a": [1]}))
    write(table, record("+I", 60_000, k=1, a=2))
    write(table, record("+I", 9_000, k=2, a=2))
    table.compact()
    table.commit_append(late.finish())
    write(table, record("+I", 9_000, k=3, a=3))
    table.compact()
    assert levels(table) == [3, 4, 5]
    table = catalog.alter_table("db.t", set_options=GAINED)
    assert rows_by_key(table)[1]["a"] == 1
    start = table.snapshots()[-1].id
    write(table, record("+I", k=1, a=4))
    table.compact()
    emitted = changes_of(table, start, start + 2, columns=["k", "a"])
    assert emitted == [("-U", {"k": 1, "a": 1}), ("+U", {"k": 1, "a": 4})]
