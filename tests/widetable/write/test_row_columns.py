"""Rows of one write that lack different columns: each is taken, or refused, as if it were written alone."""

from __future__ import annotations

import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import widetable as wt
from widetable.errors import InvalidError
from widetable.storage.local import LocalFileIO

Row = Mapping[str, Any]
SCHEMA = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False),
        *((name, pa.int64()) for name in ("a", "b", "g", "s", "t", "h", "u")),
    ]
)
TABLES: dict[str, dict[str, str]] = {
    "groups": {
        "merge-engine": "partial-update",
        "fields.g.sequence-group": "s,t",
        "fields.h.sequence-group": "u",
        "partial-update.remove-record-on-sequence-group": "g",
    },
    "nulls of groups": {
        "merge-engine": "partial-update",
        "fields.g.sequence-group": "s,t",
        "widetable.absent-group-columns": "null",
    },
    "functions in a group": {
        "merge-engine": "partial-update",
        "fields.g.sequence-group": "s,t",
        "fields.s.aggregate-function": "sum",
        "fields.t.aggregate-function": "last_value",
    },
    "functions": {
        "merge-engine": "aggregation",
        "fields.a.aggregate-function": "sum",
        "fields.b.aggregate-function": "last_value",
        "fields.s.aggregate-function": "max",
        "fields.t.aggregate-function": "first_non_null_value",
    },
    "deduplicate": {"sequence.field": "g"},
}


def new_table(folder: Path, options: Mapping[str, str]) -> wt.Table:
    file_io = LocalFileIO(fsync=False)
    return wt.Catalog(str(folder), file_io=file_io).create_table(
        "db.t", SCHEMA, primary_key=["id"], options={"bucket": "1", "write-only": "true", **options}
    )


def random_row(rng: random.Random) -> Row:
    names = rng.sample(SCHEMA.names[1:], rng.randint(0, 7))
    values = {name: rng.choice([None, 1, 2, 3]) for name in names}
    return {"id": rng.randint(1, 2), **values}


def is_taken(table: wt.Table, rows: list[Row]) -> bool:
    try:
        table.write(rows)
    except InvalidError:
        return False
    return True


@pytest.mark.parametrize("options", TABLES.values(), ids=TABLES)
def test_rows_together_are_as_each_alone(
    tmp_path: Path, options: Mapping[str, str], rng: random.Random
) -> None:
    for number in range(8):
        alone = new_table(tmp_path / f"alone{number}", options)
        together = new_table(tmp_path / f"together{number}", options)
        tried = [random_row(rng) for _ in range(rng.randint(2, 12))]
        rows = [row for row in tried if is_taken(alone, [row])]
        refused = [row for row in tried if row not in rows]
        for row in refused:
            assert not is_taken(together, [*rows, row]), row
        if rows:
            together.write(rows)
        assert together.scan().to_arrow().to_pylist() == alone.scan().to_arrow().to_pylist(), rows


def test_the_message_names_the_row_and_the_column(tmp_path: Path) -> None:
    table = new_table(tmp_path, TABLES["groups"])
    whole = {"id": 2, "s": 1, "t": 1, "g": 1}
    with pytest.raises(InvalidError, match=r"row 2.*'t'"):
        table.write([whole, {"id": 1, "s": 1, "g": 1}, whole])
    with table.new_writer(list(whole)) as writer, pytest.raises(InvalidError, match="row 1"):
        writer.write([{"id": 1, "s": 1, "g": 1}, whole])


def test_a_delete_among_rows_needs_the_key_alone(tmp_path: Path) -> None:
    options = TABLES["functions"] | {"aggregation.remove-record-on-delete": "true"}
    table = new_table(tmp_path, options)
    table.write([{"id": 1, "b": 1}, {"id": 2, "b": 1}])
    table.write([{"id": 1, "b": 2, "_row_kind": "+I"}, {"id": 2, "_row_kind": "-D"}])
    assert [row["id"] for row in table.scan().to_arrow().to_pylist()] == [1]
