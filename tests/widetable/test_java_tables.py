"""Tables that Paimon's Java made as others make them (java_fixtures.py): deletion vectors, ORC and Avro,
append tables, dynamic and postponed buckets, keys without the partition, fields that changed. Each snapshot has
the rows that Java read, and what can be written goes on with them.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import widetable as wt
from tests.support.models.plain_rows import plain, python_rows
from tests.support.models.random_table import live_files
from tests.support.tables.fixture_tables import ROOT
from widetable.commit.transaction.committer import Committer
from widetable.storage.local import LocalFileIO
from widetable.storage.paths import TablePaths

WAREHOUSE = ROOT / "wh_others/others.db"
TABLES: dict[str, dict[str, Any]] = {
    table["table"]: table
    for table in json.loads((ROOT / "others.json").read_text())["tables"]
    if table["branch"] is None
}
# Those clients pass over level 0 of these until it is compacted (docs/differences-from-paimon.md).
HIDES_LEVEL_0 = {"deletion-vectors.enabled": "true", "merge-engine": "first-row"}
APPEND = [name for name in TABLES if name.startswith("append")]
CROSS = [name for name in TABLES if name.startswith("cross_")]
WRITABLE = [
    name
    for name in TABLES
    if name.endswith("_nested")
    or (name.startswith(("dv", "dynamic")) and "_orc" not in name and "_avro" not in name)
]


def rows(table: wt.Table, snapshot: int | None = None) -> list[Any]:
    found = [plain(row) for row in python_rows(table.scan(snapshot_id=snapshot).to_arrow())]
    return json.loads(json.dumps(sorted(found, key=json.dumps)))  # type: ignore[no-any-return]


def hides_rows(table: wt.Table, snapshot_id: int) -> bool:
    """Whether Java does not show all of a snapshot."""
    options = table.schema.options
    if not any(options.get(key) == value for key, value in HIDES_LEVEL_0.items()):
        return False
    snapshot = Committer(LocalFileIO(), TablePaths(table.path)).snapshots.load(snapshot_id)
    held = [file for files in live_files(table.path, snapshot).values() for file in files]
    return bool(table.schema.primary_keys) and any(file.level == 0 for file in held)


def test_no_table_is_forgotten() -> None:
    assert len(TABLES) == 36
    assert (len(APPEND), len(CROSS), len(WRITABLE)) == (9, 3, 15)


@pytest.mark.parametrize("name", TABLES)
def test_every_snapshot_has_the_rows_that_java_read(name: str) -> None:
    table = wt.Table.open(WAREHOUSE / name)
    newest, compared = table.snapshots()[-1].id, 0
    for text, expected in {
        **TABLES[name]["rows_by_snapshot"],
        newest: TABLES[name]["rows"],
    }.items():
        if not hides_rows(table, int(text)):
            assert rows(table, int(text)) == expected
            assert table.scan(snapshot_id=int(text)).count() == len(expected)
            compared += 1
    assert compared


@pytest.mark.parametrize("name", WRITABLE)
def test_what_java_began_goes_on_here(tmp_path: Path, name: str) -> None:
    table = wt.Table.open(shutil.copytree(WAREHOUSE / name, tmp_path / "others.db" / name))
    before = rows(table)
    for full in (False, True):
        table.compact(full=full)
        assert rows(table) == before
        assert not hides_rows(table, table.snapshots()[-1].id)
    key = table.schema.primary_keys
    old = table.scan().to_arrow()
    assert table.lookup(old.select(list(key))).num_rows == old.num_rows
    if table.schema.options.get("merge-engine", "deduplicate") == "deduplicate":
        gone = old.slice(0, 5)
        table.delete_keys(gone.select(list(key)))
        table.compact()
        assert rows(table) == [row for row in before if row not in plain_rows(gone)]


def plain_rows(table: Any) -> list[Any]:
    return json.loads(json.dumps([plain(row) for row in python_rows(table)]))  # type: ignore[no-any-return]


@pytest.mark.parametrize("name", CROSS)
def test_what_needs_a_key_with_its_partition_is_refused_by_name(name: str) -> None:
    table = wt.Table.open(WAREHOUSE / name)
    first = table.schema.names[0]
    tries: dict[str, Callable[[], object]] = {
        "write": lambda: table.write(table.scan().to_arrow()),
        "delete": lambda: table.delete(f"{first} is null"),
        "new_writer": lambda: table.new_writer(table.schema.names),
        **keyed(table),
    }
    for one in tries.values():
        with pytest.raises(wt.UnsupportedError):
            one()


def keyed(table: wt.Table) -> dict[str, Callable[[], object]]:
    """Operations that find rows by their key, or move them."""
    first = table.schema.names[0]
    return {
        "lookup": lambda: table.lookup({first: [1]}),
        "lookup_prefix": lambda: table.lookup_prefix({first: [1]}),
        "explain": lambda: table.explain({first: 1}),
        "delete_keys": lambda: table.delete_keys({first: [1]}),
        "rescale": lambda: table.rescale(2),
    }


@pytest.mark.parametrize("name", APPEND)
def test_append_tables_refuse_by_name_what_needs_a_key(name: str) -> None:
    for one in keyed(wt.Table.open(WAREHOUSE / name)).values():
        with pytest.raises(wt.UnsupportedError, match="append table"):
            one()


@pytest.mark.parametrize("name", APPEND)
def test_an_append_table_of_java_goes_on_here(tmp_path: Path, name: str) -> None:
    table = wt.Table.open(shutil.copytree(WAREHOUSE / name, tmp_path / "others.db" / name))
    if table.schema.options.get("file.format", "parquet") != "parquet":
        with pytest.raises(wt.InvalidError, match=r"file\.format"):
            table.write([{"p": 5, "v": "ours"}])
        return
    expected = [row for row in rows(table) if row["p"] is not None]
    ours = [{"p": 5, "v": "ours"}, {"p": None, "v": "ours"}]
    table.write(ours)
    table.delete("p IS NULL")
    table.compact(full=True)
    assert rows(table) == sorted([*expected, ours[0]], key=json.dumps)
    assert table.audit().findings == ()


@pytest.mark.parametrize("name", APPEND)
def test_changes_of_append_tables_are_what_was_appended(name: str) -> None:
    table = wt.Table.open(WAREHOUSE / name)
    first = table.snapshots()[0]
    changed = table.changes(0, first.id)
    assert plain_rows(
        changed.drop_columns("_row_kind").sort_by(table.schema.names[0])
    ) == plain_rows(table.scan(snapshot_id=first.id).to_arrow().sort_by(table.schema.names[0]))
