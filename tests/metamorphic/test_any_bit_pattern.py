"""Tables of any types with any bits in them, keys and partitions too: what was written is what every reader gives.

The expected rows come from folding the records one by one, by a model that knows cells only (`bit_patterns.cells`).
WIDETABLE_BIT_TABLES: how many tables (default 12).
"""

from __future__ import annotations

import os
import random
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import widetable as wt
from tests.support.models.bit_patterns import FLAT, cells, draw_column, draw_type
from tests.support.programs.tallies import Note

TABLES = int(os.environ.get("WIDETABLE_BIT_TABLES", "12"))
COMMITS, ROWS, POOL = 6, 12, 8
# Floats have no text that all versions of Java agree on, binaries none at all.
PARTITIONS = [kind for kind in FLAT if not (pa.types.is_floating(kind) or pa.types.is_binary(kind))]
KINDS = {"-D": False, "+I": True}


@dataclass
class RandomTable:
    """A table, the values that its columns are drawn from, and its rows as cells by the cells of the key."""

    table: wt.Table
    key: list[str]
    is_partial: bool
    pools: dict[str, pa.Array]
    rows: dict[tuple[Any, ...], dict[str, Any]] = field(default_factory=dict)

    def write(self, rng: random.Random) -> None:
        columns = {
            name: pool.take(pa.array([rng.randrange(len(pool)) for _ in range(ROWS)]))
            for name, pool in self.pools.items()
            if name in self.key or not self.is_partial or rng.random() < 0.7
        }
        kinds = ["+I" if self.is_partial or rng.random() < 0.8 else "-D" for _ in range(ROWS)]
        self.table.write(pa.table({**columns, "_row_kind": kinds}))
        values = {name: cells(column) for name, column in columns.items()}
        for row, kind in enumerate(kinds):
            self.fold(kind, {name: column[row] for name, column in values.items()})

    def fold(self, kind: str, record: dict[str, Any]) -> None:
        key = tuple(record[name] for name in self.key)
        if kind == "-D":
            self.rows.pop(key, None)
        elif self.is_partial:
            known = self.rows.setdefault(key, dict.fromkeys(self.pools))
            known |= {name: value for name, value in record.items() if value is not None}
        else:
            self.rows[key] = dict.fromkeys(self.pools) | record

    def check(self) -> None:
        assert as_rows(self.table.scan().to_arrow(), self.key) == self.rows
        asked = pa.table({name: self.pools[name] for name in self.key})
        found = self.table.lookup(asked)
        columns = {name: cells(found[name].combine_chunks()) for name in found.column_names}
        keys = zip(*(cells(self.pools[name]) for name in self.key), strict=True)
        for row, key in enumerate(keys):
            expected = self.rows.get(key, dict.fromkeys(self.pools))
            assert {name: column[row] for name, column in columns.items()} == expected


def as_rows(table: pa.Table, key: list[str]) -> dict[tuple[Any, ...], dict[str, Any]]:
    columns = {name: cells(table[name].combine_chunks()) for name in table.column_names}
    listed = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    found = {tuple(row[name] for name in key): row for row in listed}
    assert len(found) == table.num_rows
    return found


def draw_table(rng: random.Random, warehouse: Path) -> RandomTable:
    key = [f"k{i}" for i in range(rng.randint(1, 3))]
    kinds = {name: rng.choice(FLAT) for name in key}
    partitions = [key[0]] if len(key) > 1 and rng.random() < 0.5 else []
    for name in partitions:
        kinds[name] = rng.choice(PARTITIONS)
    kinds |= {f"v{i}": draw_type(rng) for i in range(rng.randint(1, 4))}
    is_partial = rng.random() < 0.5
    producer = rng.choice(["none", "lookup", "lookup", "full-compaction"])
    table = wt.Catalog(str(warehouse)).create_table(
        "db.t",
        pa.schema(list(kinds.items())),
        primary_key=key,
        partition_by=partitions,
        options={
            "bucket": rng.choice(["1", "3"]),
            "merge-engine": "partial-update" if is_partial else "deduplicate",
            "changelog-producer": producer,
            "changelog-producer.row-deduplicate": rng.choice(["true", "false"]),
            "num-sorted-run.compaction-trigger": rng.choice(["2", "5"]),
            "target-file-size": rng.choice(["1 kb", "128 mb"]),
            "widetable.lookup-strategy": rng.choice(["scan", "lookup"]),
            "widetable.fsync": "false",
        },
    )
    pools = {
        name: draw_column(
            rng, kind, POOL, nulls=name not in key, longest=50 if name in partitions else 2000
        )
        for name, kind in kinds.items()
    }
    return RandomTable(table, key, is_partial, pools)


def fold_of_changes(table: wt.Table, key: list[str]) -> dict[tuple[Any, ...], dict[str, Any]]:
    last = table.snapshots()[-1].id
    changes = table.changes(0, last)
    columns = {name: cells(changes[name].combine_chunks()) for name in changes.column_names}
    rows: dict[tuple[Any, ...], dict[str, Any]] = {}
    for values in zip(*columns.values(), strict=True):
        record = dict(zip(columns, values, strict=True))
        kind = record.pop("_row_kind").decode()
        place = tuple(record[name] for name in key)
        if kind in ("-U", "-D"):
            assert rows.pop(place) == record
        else:
            assert place not in rows
            rows[place] = record
    return rows


@pytest.mark.parametrize("number", range(TABLES))
def test_what_was_written_is_what_every_reader_gives(
    rng: random.Random, tmp_path: Path, number: int, tally: Note
) -> None:
    tally(cases=1)
    drawn = draw_table(rng, tmp_path)
    for _ in range(COMMITS):
        drawn.write(rng)
    drawn.check()
    drawn.table.compact(full=True)
    drawn.check()
    if drawn.table.schema.options["changelog-producer"] != "none":
        assert fold_of_changes(drawn.table, drawn.key) == drawn.rows
    report = drawn.table.audit()
    assert report.ok, [str(finding) for finding in report.findings]
    drawn.table.expire_snapshots(num_retained_min=1, time_retained_millis=0)
    drawn.check()


@pytest.mark.parametrize("kind", [k for k in FLAT if pa.types.is_floating(k)], ids=str)
def test_all_nans_are_one_key(kind: pa.DataType, tmp_path: Path) -> None:
    size = kind.bit_width // 8
    bits = {4: (0x7FC00000, 0xFFC00000, 0x7F800001, 0xFFFFFFFF)}.get(
        size, (0x7FF8 << 48, 0xFFF8 << 48, (0x7FF0 << 48) + 1, 2**64 - 1)
    )
    keys = pa.array(np.array(bits, f"u{size}").view(f"f{size}"))
    table = wt.Catalog(str(tmp_path)).create_table(
        "db.t",
        pa.schema([("k", kind), ("v", pa.int32())]),
        primary_key=["k"],
        options={"bucket": "16"},
    )
    for row in range(len(keys)):
        table.write(pa.table({"k": keys[row : row + 1], "v": pa.array([row], pa.int32())}))
    assert table.scan(columns=["v"]).to_arrow().to_pylist() == [{"v": 3}]
    assert table.lookup(keys)["v"].to_pylist() == [3] * 4
