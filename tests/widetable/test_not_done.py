"""What is not done in this version (the end of docs/differences-from-paimon.md) is refused by name, whoever set it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

import widetable as wt

COLUMNS = {"k": "BIGINT", "s": "BIGINT", "v": "BYTES"}
Use = Callable[[wt.Table], object]
READS: dict[str, Use] = {
    "scan": lambda table: table.scan().to_arrow(),
    "count": lambda table: table.scan().count(),
    "changes": lambda table: table.changes(0, 1),
    "follow": lambda table: list(table.follow(timeout=0)),
    "lookup": lambda table: table.lookup({"k": [1]}),
    "explain": lambda table: table.explain({"k": 1}),
}
WRITES: dict[str, Use] = {
    "write": lambda table: table.write({"k": [2], "v": [b"2"]}),
    "overwrite": lambda table: table.overwrite({"k": [2], "v": [b"2"]}),
    "delete_keys": lambda table: table.delete_keys({"k": [1]}),
    "new_writer": lambda table: table.new_writer(["k", "v"]),
    "compact": lambda table: table.compact(full=True),
    "maintain": lambda table: table.maintain(once=True),
    "expire_snapshots": lambda table: table.expire_snapshots(),
    "remove_orphan_files": lambda table: table.remove_orphan_files(),
}


def create(folder: Path, **options: str) -> wt.Table:
    return wt.Catalog(str(folder)).create_table("db.t", COLUMNS, primary_key=["k"], options=options)


def of_another_client(folder: Path, **options: str) -> wt.Table:
    """A table with a row, whose schema says so too."""
    table = create(folder)
    table.write({"k": [1], "v": [b"1"]})
    path = Path(table.path, "schema/schema-0")
    body = json.loads(path.read_text())
    body["options"] |= options
    path.write_text(json.dumps(body))
    return wt.Table.open(table.path)


def check_refused(
    table: wt.Table,
    uses: dict[str, Use],
    said: str,
    kind: type[wt.WidetableError] = wt.UnsupportedError,
) -> None:
    files = sorted(Path(table.path).rglob("*"))
    for use in uses.values():
        with pytest.raises(kind, match=said):
            use(table)
    assert sorted(Path(table.path).rglob("*")) == files


@pytest.mark.parametrize("function", ["rbm32", "rbm64", "hll_sketch", "theta_sketch"])
@pytest.mark.parametrize("engine", ["aggregation", "partial-update"])
def test_bitmap_and_sketch_functions(tmp_path: Path, function: str, engine: str) -> None:
    options = {
        "merge-engine": engine,
        "fields.s.sequence-group": "v",
        "fields.v.aggregate-function": function,
    }
    with pytest.raises(wt.UnsupportedError, match=function):
        create(tmp_path, **options)
    check_refused(of_another_client(tmp_path, **options), {**READS, **WRITES}, function)


@pytest.mark.parametrize(
    "kind",
    ["format-table", "materialized-table", "object-table", "lance-table", "iceberg-table", "view"],
)
def test_views_and_tables_of_other_kinds(tmp_path: Path, kind: str) -> None:
    with pytest.raises(wt.UnsupportedError, match=f"'type'.*'{kind}'"):
        create(tmp_path, type=kind)
    check_refused(of_another_client(tmp_path, type=kind), {**READS, **WRITES}, f"'type'.*'{kind}'")


def test_tags_of_batches(tmp_path: Path) -> None:
    """Whoever writes owes the tag; the rows are as without it."""
    with pytest.raises(wt.UnsupportedError, match=r"tag\.automatic-creation.*'batch'"):
        create(tmp_path, **{"tag.automatic-creation": "batch"})
    table = of_another_client(tmp_path, **{"tag.automatic-creation": "batch"})
    check_refused(table, WRITES, r"tag\.automatic-creation.*'batch'")
    assert table.scan().count() == 1


@pytest.mark.parametrize("name", ["orc", "avro"])
def test_writing_orc_and_avro(tmp_path: Path, name: str) -> None:
    with pytest.raises(wt.InvalidError, match=rf"file\.format.*'{name}'"):
        create(tmp_path, **{"file.format": name})
    table = of_another_client(tmp_path, **{"file.format": name})
    check_refused(table, WRITES, rf"file\.format.*'{name}'", wt.InvalidError)
    assert table.scan().count() == 1


def test_tasks_of_dynamic_buckets(tmp_path: Path) -> None:
    table = create(tmp_path, bucket="-1")
    for task in (0, 1):
        with pytest.raises(wt.UnsupportedError, match="one writer at a time"):
            table.new_writer(["k", "v"], task=task, tasks=2)
    table.new_writer(["k", "v"], task=0, tasks=1).abort()


@pytest.mark.parametrize("scheme", ["oss", "obs", "cosn", "az", "viewfs"])
def test_other_storages(scheme: str) -> None:
    for use in (wt.Catalog, wt.Table.open):
        with pytest.raises(wt.UnsupportedError, match=f"'{scheme}'"):
            use(f"{scheme}://bucket/path")


def test_tables_whose_key_lacks_the_partition_are_not_made(tmp_path: Path) -> None:
    catalog = wt.Catalog(tmp_path)
    with pytest.raises(wt.InvalidError, match="primary_key"):
        catalog.create_table("db.t", COLUMNS, primary_key=[])
    with pytest.raises(wt.UnsupportedError, match=r"primary_key.*'s'"):
        catalog.create_table("db.t", COLUMNS, primary_key=["k"], partition_by=["s"])
    assert catalog.list_tables() == []
