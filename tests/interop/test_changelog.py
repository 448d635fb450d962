"""pypaimon's streaming reader gets the same changes as `Table.changes`, snapshot by snapshot.

It refuses partial-update with sequence groups, so these are not here. Within a snapshot only the order of a key's
changes counts.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import widetable as wt
from tests.interop.conftest import PypaimonProcess
from tests.support.models.changelog_follower import Follower, change_texts, changes_of
from tests.support.models.model import Record
from tests.support.models.plain_rows import plain

pytestmark = pytest.mark.interop

COLUMNS = pa.schema(
    [pa.field("k", pa.int64(), False), ("a", pa.string()), ("b", pa.int64()), ("s", pa.int64())]
)
PARTITIONED = pa.schema([pa.field("p", pa.string(), False), *COLUMNS])
PARTIAL = {"merge-engine": "partial-update"}
TABLES: dict[str, dict[str, str]] = {
    "deduplicate": {},
    "deduplicate, sequence.field": {"sequence.field": "s"},
    "deduplicate, ignore-delete": {"ignore-delete": "true"},
    "partial-update": PARTIAL,
}
PRODUCERS: dict[str, dict[str, str]] = {
    "lookup": {"changelog-producer": "lookup", "bucket": "2"},
    "lookup, row-deduplicate": {
        "changelog-producer": "lookup",
        "changelog-producer.row-deduplicate": "true",
    },
    "lookup, small files": {
        "changelog-producer": "lookup",
        "target-file-size": "1 kb",
        "num-sorted-run.compaction-trigger": "2",
    },
    "full-compaction": {"changelog-producer": "full-compaction"},
    "input": {"changelog-producer": "input"},
    "input, spilled": {"changelog-producer": "input", "write-buffer-size": "1 kb"},
}


def commit(rng: random.Random, names: Sequence[str], *, deletes: bool) -> pa.Table:
    """A few records of random keys, that carry the key and some other columns."""
    chosen = ["k", *sorted(rng.sample(["a", "b"], rng.randint(1, 2))), "s"]
    chosen = [name for name in names if name in chosen or name == "p"]
    rows = []
    for _ in range(rng.randint(1, 30)):
        row: dict[str, Any] = {
            "p": rng.choice(["eu", "日本"]),
            "k": rng.randint(0, 11),
            "a": rng.choice([None, "x", "y", "ü" * 40]),
            "b": rng.choice([None, 0, 2**60]),
            "s": rng.choice([None, 1, 2, 3]),
        }
        kind = rng.choice(["+I", "+U", "-D", "-U"] if deletes else ["+I", "+U"])
        rows.append({name: row[name] for name in chosen} | {"_row_kind": kind})
    fields = [PARTITIONED.field(name) for name in chosen]
    return pa.Table.from_pylist(rows, pa.schema([*fields, ("_row_kind", pa.string())]))


def by_key(
    changes: Iterable[tuple[int, Record]], key: Sequence[str]
) -> dict[tuple[int, str], list[str]]:
    """The changes of each snapshot and key, in order."""
    found: dict[tuple[int, str], list[str]] = {}
    for snapshot_id, change in changes:
        name = json.dumps([plain(change[1][column]) for column in key])
        found.setdefault((snapshot_id, name), []).extend(change_texts([change]))
    return found


@pytest.mark.parametrize("producer", PRODUCERS)
@pytest.mark.parametrize("kind", TABLES)
def test_changes_are_the_same(
    tmp_path: Path,
    pypaimon_process: PypaimonProcess,
    rng: random.Random,
    kind: str,
    producer: str,
) -> None:
    has_compactor = rng.random() < 0.5
    options: Mapping[str, str] = {
        "widetable.fsync": "false",
        "write-only": "true" if has_compactor else "false",
        **TABLES[kind],
        **PRODUCERS[producer],
    }
    is_partitioned = rng.random() < 0.5
    schema, key = (PARTITIONED, ["p", "k"]) if is_partitioned else (COLUMNS, ["k"])
    table = wt.Catalog(str(tmp_path)).create_table(
        "db.t",
        schema,
        primary_key=key,
        partition_by=["p"] if is_partitioned else [],
        options=options,
    )
    is_full = options["changelog-producer"] == "full-compaction"
    for _ in range(6):
        table.write(commit(rng, schema.names, deletes="partial-update" not in kind))
        if has_compactor or is_full:
            table.compact(full=is_full)
    last = table.snapshots()[-1].id
    ours = [(id, change) for id in range(1, last + 1) for change in changes_of(table, id - 1, id)]
    theirs = [(id, (kind, row)) for id, kind, row in pypaimon_process.ask(table, changes=[1, last])]
    if producer == "input, spilled":
        # The files of one commit overlap; pypaimon reads them by their first key, not in the order of the records.
        ours, theirs = sorted(ours, key=repr), sorted(theirs, key=repr)
    assert by_key(theirs, key) == by_key(ours, key)
    assert len({kind for _, (kind, _) in ours}) > 1
    if options["changelog-producer"] != "input":
        follower = Follower(table.schema)
        follower.apply([change for _, change in theirs])
        follower.check(table.scan().to_arrow().to_pylist())
