"""Columns with fields through any changes: files of before are read right in each format, and so are tables, whatever
was compacted, looked up, cached or still written by those who knew the columns of before.
"""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import widetable as wt
from tests.support.models.nested_columns import (
    Change,
    Part,
    Value,
    arrow_rows,
    by_key,
    drawn,
    drawn_change,
    new_table,
    plain,
)
from tests.support.programs.tallies import Note
from tests.widetable.format.data_files import IO, write
from tests.widetable.format.foreign_files import write_avro, write_orc
from widetable.format.data_file_reader import open_data_file
from widetable.format.row_batch import row_batch_schema
from widetable.operations.ddl.schema_change import SchemaChange, changed_schema
from widetable.schema.new_schema import changed_types, new_schema
from widetable.schema.types import DataType

SYSTEM = {
    "_SEQUENCE_NUMBER": DataType("BIGINT", nullable=False),
    "_VALUE_KIND": DataType("TINYINT", nullable=False),
}
KEYS = range(8)


def schema_of(table: Part) -> pa.Schema:
    return arrow_rows([], [], table.parts).schema


@pytest.mark.parametrize("kind", ["parquet", "orc", "avro"])
@pytest.mark.parametrize("round_", range(8))
def test_a_file_of_any_format_is_read_after_any_changes(
    tmp_path: Path, rng: random.Random, kind: str, round_: int, tally: Note
) -> None:
    table = new_table(rng)
    schema = new_schema(schema_of(table), primary_key=["k"])
    records = [{part.number: drawn(rng, part) for part in table.parts} for _ in range(40)]
    rows = arrow_rows(range(40), records, table.parts)
    numbers = pa.array(range(40), pa.int64()), pa.array([0] * 40, pa.int8())
    target = row_batch_schema(schema, schema.names)
    columns = [column.combine_chunks() for column in rows.columns]
    batch = pa.record_batch(
        [a.cast(f.type) for a, f in zip([*numbers, *columns], target, strict=True)], target
    )
    path = tmp_path / f"data.{kind}"
    meta = write(tmp_path / "data.parquet", schema, [batch])
    if kind == "orc":
        meta = write_orc(path, pa.Table.from_batches([batch]), meta)
    elif kind == "avro":
        types = {**SYSTEM, **{field.name: field.type for field in schema.fields}}
        meta = write_avro(path, pa.Table.from_batches([batch]), types, meta)
    newer = schema
    for step in range(12):
        change = drawn_change(rng, table)
        types = changed_types(change.alter.get("change_types", {}), "change_types")
        asked = SchemaChange(**{**change.alter, "change_types": types})
        newer, table = changed_schema(newer, asked), change.table
        with open_data_file(IO, str(path), meta, newer, schema) as file:
            found = pa.Table.from_batches(file.batches(2_000), file.schema)
        found.validate(full=True)
        wanted = {
            key: {part.name: plain(record.get(part.number), part) for part in table.parts}
            for key, record in enumerate(records)
        }
        absent = dict.fromkeys(part.name for part in table.parts)
        rows_found = [absent | row for row in found.drop_columns([*SYSTEM]).to_pylist()]
        assert by_key(rows_found) == by_key([{"k": key, **row} for key, row in wanted.items()]), (
            step
        )
    tally(files=1, changes=12)


class History:
    """A table and its model: by key, the values of its row by the numbers of their columns."""

    def __init__(self, rng: random.Random, folder: Path, options: dict[str, str]) -> None:
        self.rng, self.columns = rng, new_table(rng)
        self.catalog = wt.Catalog(str(folder))
        self.is_partial = options.get("merge-engine") == "partial-update"
        self.rows: dict[int, dict[int, Value]] = {}
        self.catalog.create_table(
            "db.t",
            schema_of(self.columns),
            primary_key=["k"],
            options={"bucket": "1", "widetable.fsync": "false", **options},
        )

    @property
    def table(self) -> wt.Table:
        return self.catalog.table("db.t")

    def write(self, *, while_altered: bool = False) -> None:
        """One commit. while_altered: by a writer that knows the columns of before."""
        chosen = list(self.columns.parts)
        if self.is_partial:
            chosen = self.rng.sample(chosen, self.rng.randint(1, len(chosen)))
        keys = self.rng.sample(KEYS, self.rng.randint(1, len(KEYS)))
        records = [{part.number: drawn(self.rng, part) for part in chosen} for _ in keys]
        data = arrow_rows(keys, records, chosen)
        table = self.table
        if while_altered:
            writer = table.new_writer(data.column_names)
            self.alter()
            writer.write(data)
            table.commit_append(writer.finish())
        else:
            table.write(data)
        for key, record in zip(keys, records, strict=True):
            if not self.is_partial:
                self.rows[key] = {}
            given = {n: v for n, v in record.items() if v is not None or not self.is_partial}
            self.rows.setdefault(key, {}).update(given)

    def alter(self) -> Change:
        change = drawn_change(self.rng, self.columns)
        self.catalog.alter_table("db.t", **change.alter)
        self.columns = change.table
        return change

    def expected(self) -> dict[int, Value]:
        return by_key(
            [
                {"k": key, **{p.name: plain(row.get(p.number), p) for p in self.columns.parts}}
                for key, row in self.rows.items()
            ]
        )

    def check(self) -> None:
        table, expected = self.table, self.expected()
        assert by_key(table.scan().to_arrow().to_pylist()) == expected
        looked_up = [row for row in table.lookup([*KEYS]).to_pylist() if row["k"] is not None]
        assert by_key(looked_up) == expected

    def check_changes(self) -> None:
        """What a reader of all changes is left with."""
        left: dict[int, dict[str, Any]] = {}
        newest = self.table.inspect.snapshots().column("snapshot_id").to_pylist()[-1]
        for row in self.table.changes(0, newest).to_pylist():
            kind = row.pop("_row_kind")
            if kind.startswith("+"):
                left[row["k"]] = row
        assert by_key(list(left.values())) == self.expected()


ENGINES = {
    "deduplicate": {},
    "partial": {"merge-engine": "partial-update", "changelog-producer": "lookup"},
    "narrow": {"merge-engine": "partial-update", "write-only": "true"},
    "full": {"changelog-producer": "full-compaction"},
}


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("cached", [False, True], ids=["scanned", "cached"])
@pytest.mark.parametrize("round_", range(3))
def test_a_table_has_its_rows_through_any_changes(
    tmp_path: Path,
    rng: random.Random,
    monkeypatch: pytest.MonkeyPatch,
    engine: str,
    cached: bool,
    round_: int,
    tally: Note,
) -> None:
    monkeypatch.setenv("WIDETABLE_CACHE_DIR", str(tmp_path / "caches"))
    strategy = {"widetable.lookup-strategy": "lookup" if cached else "scan"}
    history = History(rng, tmp_path, {**ENGINES[engine], **strategy})
    history.write()
    for _ in range(12):
        step = rng.choice(["write", "alter", "alter", "late", "compact"])
        if step == "alter":
            history.alter()
        elif step == "compact":
            history.table.compact(full=rng.random() < 0.5)
        else:
            history.write(while_altered=step == "late")
        history.check()
    if "changelog-producer" in ENGINES[engine]:
        history.table.compact(full=True)
        history.check_changes()
    assert history.table.audit().findings == ()
    tally(tables=1, steps=12)
