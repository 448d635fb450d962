"""Random histories of tables with postponed buckets: what is written is seen when a compaction has given it a bucket,
in the order of commits, whoever wrote it and whenever the compaction runs.

The model is a list of records in the order of their commits, those that wait and those that are placed; a row is what
the merge engine makes of the placed ones, worked out by Python.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, TypeAlias

import pytest

import widetable as wt
from widetable.operations.handle.compaction_threads import wait_for_compactions

Row: TypeAlias = dict[str, Any]
Key: TypeAlias = tuple[int, int]

COLUMNS: Final = {"p": "INT NOT NULL", "k": "BIGINT NOT NULL", "a": "BIGINT", "b": "STRING"}
SUM: Final = {"merge-engine": "aggregation", "fields.a.aggregate-function": "sum"}
KINDS: Final[dict[str, dict[str, str]]] = {
    "deduplicate": {"changelog-producer": "lookup"},
    "deduplicate with vectors": {"deletion-vectors.enabled": "true"},
    "partial-update": {"merge-engine": "partial-update", "changelog-producer": "lookup"},
    "first-row": {"merge-engine": "first-row", "changelog-producer": "lookup"},
    "aggregation": {**SUM, "changelog-producer": "full-compaction"},
}


def merged(kind: str, records: list[Row]) -> dict[Key, Row]:
    """The rows that an engine makes of records, oldest first."""
    rows: dict[Key, Row] = {}
    for record in records:
        key = record["p"], record["k"]
        old = rows.get(key)
        given = {name: value for name, value in record.items() if name != "_row_kind"}
        if record.get("_row_kind") == "-D":
            rows.pop(key, None)
        elif old is None or kind.startswith("deduplicate"):
            rows[key] = dict.fromkeys(COLUMNS) | given
        elif kind != "first-row":
            values = {name: value for name, value in given.items() if value is not None}
            if kind == "aggregation" and "a" in values and old["a"] is not None:
                values["a"] += old["a"]
            rows[key] = old | values
    return rows


class History:
    def __init__(self, table: wt.Table, rng: random.Random, kind: str) -> None:
        self.table, self.rng, self.kind = table, rng, kind
        self.waiting: list[Row] = []
        self.placed: list[Row] = []
        self.at: dict[int, tuple[list[Row], list[Row]]] = {}
        self.next_id = 0

    def records(self) -> list[Row]:
        """Records of one commit, each key once, all with the same columns."""
        rng = self.rng
        names = [name for name in ("a", "b") if rng.random() < 0.7] or ["a"]
        keys = {(rng.randrange(2), rng.randrange(8)) for _ in range(rng.choice([1, 3, 8]))}
        values: Row = {}
        rows = []
        for p, k in sorted(keys):
            values = {
                "a": rng.choice([None, rng.randrange(100)]),
                "b": rng.choice([None, "x", "y"]),
            }
            rows.append({"p": p, "k": k, **{name: values[name] for name in names}})
        if self.kind.startswith("deduplicate") and rng.random() < 0.3:
            rows = [row | {"_row_kind": rng.choice(["+I", "-D"])} for row in rows]
        return rows

    def write(self) -> None:
        rows = self.records()
        self.table.write(rows)
        self.waiting += rows

    def write_twice(self) -> None:
        rows = self.records()
        self.next_id += 1
        done = [self.table.write(rows, "user", self.next_id).committed for _ in range(2)]
        assert done == [True, False]
        self.waiting += rows

    def write_in_tasks(self) -> None:
        """Two tasks of one commit: keys of the second come later."""
        base, messages, all_rows = self.table.sequence_base(), [], []
        for task in range(2):
            rows = [row for row in self.records() if row["k"] % 2 == task]
            if not rows:
                continue
            columns = list(rows[0])
            with self.table.new_writer(columns, task=task, tasks=2, sequence_base=base) as writer:
                writer.write(rows)
                messages += writer.finish()
            all_rows += rows
        self.rng.shuffle(messages)
        self.table.commit_append(messages)
        self.waiting += all_rows

    def commit_late(self) -> None:
        """A writer begins first and commits last: its records are the newer ones."""
        rows = self.records()
        with self.table.new_writer(list(rows[0])) as writer:
            writer.write(rows)
            messages = writer.finish()
        self.write()
        if self.rng.random() < 0.5:
            self.compact()
        self.table.commit_append(messages)
        self.waiting += rows

    def compact(self) -> None:
        self.table.compact(full=self.rng.random() < 0.5)
        self.placed += self.waiting
        self.waiting = []

    def overwrite(self) -> None:
        """It removes rows at once, also those that wait; the new ones wait."""
        rows = [row for row in self.records() if row.get("_row_kind") != "-D"]
        if not rows:
            return
        self.table.overwrite(rows)
        partitions = {row["p"] for row in rows}
        if not self.table.schema.partition_keys:
            partitions = {0, 1}
        self.placed = [row for row in self.placed if row["p"] not in partitions]
        self.waiting = [row for row in self.waiting if row["p"] not in partitions] + rows

    def roll_back(self) -> None:
        kept = [id for id in self.at if id < self.table.snapshots()[-1].id]
        if kept:
            id = self.rng.choice(kept)
            self.table.rollback(id)
            self.placed, self.waiting = ([*part] for part in self.at[id])

    def check(self) -> None:
        table = self.table
        wait_for_compactions(table.path)
        rows = merged(self.kind, self.placed)
        assert table_rows(table.scan()) == rows
        key = self.rng.randrange(8)
        assert table_rows(table.scan(filter=f"k = {key}")) == {
            place: row for place, row in rows.items() if place[1] == key
        }
        found = table.lookup([{"p": p, "k": key} for p in range(2)]).to_pylist()
        assert [row for row in found if row["p"] is not None] == [
            rows[p, key] for p in range(2) if (p, key) in rows
        ]
        self.at[table.snapshots()[-1].id] = [*self.placed], [*self.waiting]
        id = self.rng.choice([*self.at])
        assert table_rows(table.scan(snapshot_id=id)) == merged(self.kind, self.at[id][0])


def table_rows(scan: wt.TableScan) -> dict[Key, Row]:
    rows = scan.to_arrow().to_pylist()
    assert scan.count() == len(rows)
    return {(row["p"], row["k"]): row for row in rows}


STEPS: Final[tuple[Callable[[History], None], ...]] = (
    History.write,
    History.write,
    History.write,
    History.write_twice,
    History.write_in_tasks,
    History.commit_late,
    History.compact,
    History.compact,
    History.overwrite,
    History.roll_back,
)


def made(folder: Path, rng: random.Random, kind: str) -> wt.Table:
    sizes = rng.choice(
        [
            {},
            {"postpone.default-bucket-num": "3"},
            {"postpone.target-row-num-per-bucket": "4"},
            {"postpone.target-size-per-bucket": "2 kb"},
        ]
    )
    options = {"bucket": "-2", "widetable.fsync": "false", **KINDS[kind], **sizes}
    options["manifest.merge-min-count"] = rng.choice(["2", "30"])
    return wt.Catalog(str(folder)).create_table(
        "db.t",
        COLUMNS,
        primary_key=["p", "k"],
        partition_by=["p"] if rng.random() < 0.6 else [],
        options=options,
    )


@pytest.mark.parametrize("attempt", range(3))
@pytest.mark.parametrize("kind", KINDS)
def test_rows_are_seen_in_the_order_of_commits_when_they_have_a_bucket(
    tmp_path: Path, rng: random.Random, kind: str, attempt: int
) -> None:
    history = History(made(tmp_path, rng, kind), rng, kind)
    history.write()
    for _ in range(25):
        rng.choice(STEPS)(history)
        history.check()
    history.compact()
    history.check()
    assert history.table.audit().findings == ()
    assert history.table.doctor().findings == ()
