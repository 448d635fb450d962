"""Which life of a table it is: the same through everything that is done to it, another when it is made again."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pyarrow as pa
import pytest

import widetable as wt
from tests.support.tables.fixture_tables import TABLES, FixtureTable
from widetable.commit.snapshots.table_identity import check_identity, table_identity
from widetable.storage.local import LocalFileIO
from widetable.storage.paths import TablePaths

IO = LocalFileIO(fsync=False)
COLUMNS = pa.schema([pa.field("k", pa.int64(), nullable=False)])


def identity(table: wt.Table) -> str:
    return table_identity(IO, TablePaths(table.path))


def test_a_table_keeps_it_and_its_next_life_has_another(tmp_path: Path) -> None:
    catalog = wt.Catalog(str(tmp_path))
    table = catalog.create_table("db.t", COLUMNS, primary_key=["k"])
    first = identity(table)
    table.write(pa.table({"k": [1]}))
    catalog.alter_table("db.t", add_columns=[pa.field("v", pa.string())])
    table.compact(full=True)
    assert identity(table) == first
    check_identity(IO, TablePaths(table.path), first)
    other = catalog.create_table("db.other", COLUMNS, primary_key=["k"])
    catalog.drop_table("db.t")
    with pytest.raises(wt.NotFoundError):
        identity(table)
    again = catalog.create_table("db.t", COLUMNS, primary_key=["k"])
    assert len({first, identity(again), identity(other)}) == 3
    with pytest.raises(wt.InvalidError, match=f"another table .{identity(again)}.*{first}"):
        check_identity(IO, TablePaths(table.path), first)


def test_the_uuid_is_in_the_first_schema_only(tmp_path: Path) -> None:
    catalog = wt.Catalog(str(tmp_path))
    table = catalog.create_table("db.t", COLUMNS, primary_key=["k"])
    table = catalog.alter_table("db.t", add_columns=[pa.field("v", pa.string())])
    first, second = (
        json.loads(Path(table.path, f"schema/schema-{id}").read_text()) for id in (0, 1)
    )
    assert len(first["widetable.uuid"]) == 36
    assert "widetable.uuid" not in second
    assert "widetable.uuid" not in first["options"]
    assert table.schema.uuid is None


@pytest.mark.parametrize("fixture", TABLES[:3], ids=lambda table: table.id)
def test_tables_of_others_are_known_by_their_first_schema(
    fixture: FixtureTable, tmp_path: Path
) -> None:
    paths = TablePaths(str(shutil.copytree(fixture.path, tmp_path / "t")))
    found = table_identity(IO, paths)
    assert found == table_identity(IO, TablePaths(str(fixture.path)))
    body = json.loads(IO.read(paths.schema(0)))
    IO.replace(paths.schema(0), json.dumps({**body, "timeMillis": 1}).encode())
    assert table_identity(IO, paths) != found


def test_a_first_schema_that_is_gone_or_torn(tmp_path: Path) -> None:
    catalog = wt.Catalog(str(tmp_path))
    catalog.create_table("db.t", COLUMNS, primary_key=["k"])
    paths = TablePaths(catalog.alter_table("db.t", set_options={"write-only": "true"}).path)
    IO.delete(paths.schema(0))
    assert table_identity(IO, paths).startswith("sha256-")
    for torn in (b"", b"{", b"7"):
        IO.replace(paths.schema(0), torn)
        with pytest.raises(wt.DamagedError, match="schema-0"):
            table_identity(IO, paths)
