"""Random histories of a source, as Debezium writes them, cut into batches and repeated: the table is the source.

The model of the source is a dict. It writes records as the embedded engine does (tests/fixtures/debezium): a change of
a key is a delete, a tombstone and an insert of one event; a big value that a statement does not set is a placeholder.
"""

from __future__ import annotations

import json
import random
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pytest

import widetable as wt
from tests.cdc.debezium.written_records import UNAVAILABLE, Column, T, key_of, record
from widetable_cdc import apply_debezium

Row = dict[str, object]


@dataclass
class Source:
    """A table of the source, and the records of its changes. is_full: replica identity FULL."""

    draw: random.Random
    columns: tuple[Column, ...] | None
    is_full: bool
    rows: dict[int, Row] = field(default_factory=dict)
    records: list[tuple[str | None, str | None]] = field(default_factory=list)
    moves: list[int] = field(default_factory=list)
    lsn: int = 1000

    def change(self) -> None:
        self.lsn += 1
        what = self.draw.choice(["insert", "insert", "update", "update", "move", "delete", "other"])
        free = [id for id in range(12) if id not in self.rows]
        if what == "insert" and free:
            self.insert(self.draw.choice(free))
        elif what == "other":
            self.other()
        elif self.rows:
            id = self.draw.choice(sorted(self.rows))
            if what == "update":
                self.update(id)
            elif what == "move" and free:
                self.move(id, self.draw.choice(free))
            else:
                self.delete(id)

    def insert(self, id: int) -> None:
        big = self.draw.choice([None, "small", f"{self.lsn} " * 500])
        row: Row = {"id": id, "name": f"n{self.lsn}", "big": big}
        self.rows[id] = row
        self.note(id, self.draw.choice("cr"), None, row)

    def update(self, id: int) -> None:
        before = self.rows[id]
        sets_big = self.draw.random() < 0.3
        after = {**before, "name": self.draw.choice([None, f"n{self.lsn}"])}
        if sets_big:
            after["big"] = self.draw.choice([None, f"{self.lsn} " * 400])
        self.rows[id] = after
        self.note(id, "u", before if self.is_full else None, self.sent(after, carries=sets_big))

    def move(self, id: int, other: int) -> None:
        before = self.rows.pop(id)
        after = {**before, "id": other, "name": f"m{self.lsn}"}
        self.rows[other] = after
        self.moves.append(len(self.records))
        self.gone(before)
        self.note(other, "c", None, self.sent(after, carries=False))

    def delete(self, id: int) -> None:
        self.gone(self.rows.pop(id))

    def other(self) -> None:
        if self.draw.random() < 0.1:
            self.rows.clear()
            self.records.append((None, record("t", None, None, lsn=self.lsn, columns=self.columns)))
        else:
            self.records.append((None, '{"op":"m","message":{"prefix":"p","content":"AA=="}}'))

    def sent(self, row: Row, *, carries: bool) -> Row:
        is_big = isinstance(row["big"], str) and len(row["big"]) > 100
        hides = is_big and not carries and not self.is_full
        return {**row, "big": UNAVAILABLE} if hides else row

    def gone(self, row: Row) -> None:
        known = row if self.is_full else {"id": row["id"], "name": None, "big": None}
        self.note(int(str(row["id"])), "d", known, None)
        self.records.append((key_of(int(str(row["id"]))), None))

    def note(self, id: int, op: str, before: Row | None, after: Row | None) -> None:
        value = record(op, before, after, lsn=self.lsn, columns=self.columns)
        self.records.append((key_of(id), value))


def cut(draw: random.Random, source: Source) -> list[pa.Table]:
    """The records in batches of any size; the delete and the insert of a changed key are in one."""
    batches, first = [], 0
    while first < len(source.records):
        last = min(first + draw.randrange(1, 30), len(source.records))
        while any(at < last < at + 3 for at in source.moves):
            last += 1
        keys, values = zip(*source.records[first:last], strict=True)
        batches.append(
            pa.table({"key": pa.array(keys, pa.string()), "value": pa.array(values, pa.string())})
        )
        first = last
    return batches


@pytest.mark.parametrize("is_full", [False, True])
@pytest.mark.parametrize("columns", [None, T])
@pytest.mark.parametrize("engine", [{}, {"changelog-producer": "lookup", "bucket": "2"}])
def test_the_table_is_the_source_however_records_are_cut_and_repeated(
    tmp_path: Path,
    rng: random.Random,
    columns: tuple[Column, ...] | None,
    is_full: bool,
    engine: dict[str, str],
) -> None:
    catalog = wt.Catalog(str(tmp_path / "wh"))
    types = {"id": "INT", "name": "STRING", "big": "STRING"}
    table = catalog.create_table("db.t", types, primary_key=["id"], options=engine)
    source = Source(rng, columns, is_full)
    for _ in range(150):
        source.change()
    snapshot = None
    for number, batch in enumerate(cut(rng, source)):
        result = apply_debezium(catalog, "db.t", batch, commit_user="c", commit_identifier=number)
        assert result.bad == 0, catalog.table("db.__cdc_errors").scan().to_arrow().to_pylist()
        if result.committed:
            snapshot = result.snapshot_id
            again = apply_debezium(
                catalog, "db.t", batch, commit_user="c", commit_identifier=number
            )
            assert (again.committed, again.snapshot_id) == (False, snapshot)
    rows = {row["id"]: row for row in table.scan().to_arrow().to_pylist()}
    assert rows == source.rows


@pytest.mark.parametrize("columns", [None, T])
def test_records_one_by_one_give_the_rows_of_the_source(
    tmp_path: Path, rng: random.Random, columns: tuple[Column, ...] | None
) -> None:
    """A batch may end between the delete and the insert of a changed key, and between these and their tombstone."""
    catalog = wt.Catalog(str(tmp_path / "wh"))
    types = {"id": "INT", "name": "STRING", "big": "STRING"}
    table = catalog.create_table("db.t", types, primary_key=["id"])
    source = Source(rng, columns, is_full=False)
    while len(source.moves) < 4:
        source.change()
    for number, (key, value) in enumerate(source.records):
        record = pa.table(
            {"key": pa.array([key], pa.string()), "value": pa.array([value], pa.string())}
        )
        result = apply_debezium(catalog, "db.t", record, commit_user="c", commit_identifier=number)
        assert result.bad == 0
    rows = {row["id"]: row for row in table.scan().to_arrow().to_pylist()}
    assert rows == source.rows


def test_records_that_come_twice_and_late_change_nothing_with_positions(
    tmp_path: Path, rng: random.Random
) -> None:
    """Kafka may repeat records, also in a later batch: the source's position says which are older."""
    catalog = wt.Catalog(str(tmp_path / "wh"))
    types = {"id": "INT", "name": "STRING", "big": "STRING", "_lsn": "BIGINT"}
    options = {"sequence.field": "_lsn"}
    table = catalog.create_table("db.t", types, primary_key=["id"], options=options)
    source = Source(rng, None, is_full=True)
    for _ in range(200):
        source.change()
    records = [each for each in source.records if '"op":"t"' not in (each[1] or "")]
    first = 0
    while first < len(records):
        last = first + rng.randrange(1, 25)
        part = records[max(0, first - rng.randrange(20)) : last]
        rng.shuffle(part)
        data = pa.table({"value": pa.array([value for _, value in part], pa.string())})
        apply_debezium(catalog, "db.t", data, commit_user="c")
        first = last
    rows = {row.pop("id"): row for row in table.scan().to_arrow().to_pylist()}
    model = Source(rng, None, is_full=True)
    assert {id: row["name"] for id, row in rows.items()} == {
        id: row["name"] for id, row in replayed(records, model).items()
    }


def replayed(records: list[tuple[str | None, str | None]], model: Source) -> dict[int, Row]:
    """The rows after the records in their order."""
    rows: dict[int, Row] = {}
    for _, value in records:
        payload = json.loads(value or "null")
        if payload and payload["op"] in "cru":
            rows[payload["after"]["id"]] = payload["after"]
        elif payload and payload["op"] == "d":
            rows.pop(payload["before"]["id"], None)
    return rows
