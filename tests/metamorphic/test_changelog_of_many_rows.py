"""Changes of tables with thousands of rows, in buffers and files that hold a few: windows, files and pages of caches
end somewhere in every commit, and nobody notices.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pytest

import widetable as wt
from tests.support.models.changelog_follower import Follower, change_texts, changes_of
from tests.support.models.model import Model, Record, Row
from tests.support.models.plain_rows import python_rows

COLUMNS: Final = [
    ("g1", pa.int64()),
    ("a", pa.string()),
    ("b", pa.float64()),
    ("g2", pa.int32()),
    ("c", pa.string()),
    ("d", pa.list_(pa.int32())),
    ("e", pa.int64()),
]
GROUPS: Final = {
    "merge-engine": "partial-update",
    "fields.g1.sequence-group": "a,b",
    "fields.g2.sequence-group": "c,d",
}
# Which columns a writer owns.
OWNED: Final = (("g1", "a", "b"), ("g2", "c", "d"), ("e",), tuple(name for name, _ in COLUMNS))
KEYS: Final[dict[str, tuple[dict[str, pa.DataType], Callable[[int], Row]]]] = {
    "long": ({"k": pa.int64()}, lambda n: {"k": (n * 7919) % 100_003 - 50_000}),
    "text": ({"k": pa.string()}, lambda n: {"k": "x" * (n % 40) + str(n)}),
    "two": ({"k": pa.string(), "j": pa.int32()}, lambda n: {"k": f"{n // 50:03}", "j": n % 50}),
}
TABLES: Final = {
    "deduplicate": {},
    "by sequence": {"sequence.field": "e"},
    "groups": GROUPS,
    "groups, removal": GROUPS | {"partial-update.remove-record-on-sequence-group": "g1"},
}
LAYOUTS: Final = {
    "scan": {"widetable.lookup-strategy": "scan", "write-buffer-size": "32 kb"},
    "lookup": {"widetable.lookup-strategy": "lookup", "target-file-size": "16 kb"},
    "no caches": {"widetable.lookup-strategy": "lookup", "lookup.cache-max-disk-size": "0 b"},
    "behind commits": {"widetable.inline-compaction-size": "0 b", "write-buffer-size": "64 kb"},
    "auto, buckets": {"bucket": "3", "write-buffer-size": "64 kb", "target-file-size": "16 kb"},
}
# How many of them one run of the tests looks at; all with WIDETABLE_LAYOUTS=5.
LAYOUTS_OF_A_RUN: Final = int(os.environ.get("WIDETABLE_LAYOUTS", "2"))


def record(rng: random.Random, key: Row, owned: tuple[str, ...]) -> Record:
    values: Row = {
        "g1": rng.choice([None, 1, 2, 3]),
        "a": rng.choice([None, "", "a" * rng.randint(1, 60)]),
        "b": rng.choice([None, rng.random(), -0.0]),
        "g2": rng.choice([None, 1, 2, 3]),
        "c": rng.choice([None, "c" * rng.randint(1, 20)]),
        "d": rng.choice([None, [], [1, None, rng.randint(0, 9)]]),
        "e": rng.choice([None, rng.randint(0, 5)]),
    }
    kind = rng.choice(["+I", "+I", "+I", "+U", "-D", "-U"])
    row = {**key, **{name: values[name] for name in owned}}
    if kind == "-D" and row.get("g1") is None and row.get("g2") is None:
        kind = "-U"  # a -D without a sequence is refused
    return kind, row


def data_of(table: wt.Table, owned: tuple[str, ...], records: list[Record]) -> pa.Table:
    names = [name for name in table.schema.names if name in (*table.schema.primary_keys, *owned)]
    fields = [table.arrow_schema.field(name) for name in names]
    rows: list[dict[str, Any]] = [row | {"_row_kind": kind} for kind, row in records]
    return pa.Table.from_pylist(rows, pa.schema([*fields, ("_row_kind", pa.string())]))


@pytest.mark.parametrize("kind", TABLES)
def test_changes_are_those_of_the_model(tmp_path: Path, rng: random.Random, kind: str) -> None:
    for layout in rng.sample(sorted(LAYOUTS), LAYOUTS_OF_A_RUN):
        _check(tmp_path / layout, rng, kind, layout)


def _check(path: Path, rng: random.Random, kind: str, layout: str) -> None:
    key_types, key_of = KEYS[rng.choice(list(KEYS))]
    options: dict[str, str] = {
        "widetable.fsync": "false",
        "changelog-producer": "lookup",
        "num-sorted-run.compaction-trigger": "4",
        "changelog-producer.row-deduplicate": rng.choice(["true", "false"]),
        **TABLES[kind],
        **LAYOUTS[layout],
    }
    table = wt.Catalog(str(path)).create_table(
        "db.t",
        pa.schema([*key_types.items(), *COLUMNS]),
        primary_key=list(key_types),
        options=options,
    )
    model, follower = Model(table.schema), Follower(table.schema)
    seen = 0
    # A base, a few commits of any size, and one that touches most of the table.
    for count in (2500, *(int(3 ** rng.uniform(0, 6.5)) for _ in range(7)), 1500):
        owned = rng.choice(OWNED)
        if "sequence.field" in options:
            owned = tuple(dict.fromkeys((*owned, "e")))
        keys = [key_of(rng.randrange(3000)) for _ in range(count)]
        records = [record(rng, key, owned) for key in keys]
        earlier = model.copy()
        model.write(records)
        table.write(data_of(table, owned, records))
        last = table.snapshots()[-1].id
        changes = changes_of(table, seen, last)
        seen = last
        changes.sort(key=lambda change: model.key_of(change[1]))
        assert change_texts(changes) == change_texts(model.changes_since(earlier))
        follower.apply(changes)
    rows = python_rows(table.scan().to_arrow())
    follower.check(rows)
    follower.check(model.rows())
