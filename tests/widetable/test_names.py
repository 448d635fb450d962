"""Names that no file can have are refused when they are given, with the limit, and not at the first write."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import widetable as wt
from widetable.storage.paths import check_name

WRONG = ["", " ", ".", "..", "...", "a/b", "a\\b", "a\0b", "a\n", " a", "a ", "\ud800", "ü" * 150]
COLUMNS = pa.schema([("k", pa.int64()), ("p", pa.string())])


@pytest.fixture
def catalog(tmp_path: Path) -> wt.Catalog:
    return wt.Catalog(tmp_path)


def make(catalog: wt.Catalog, name: str = "db.t", **more: Any) -> wt.Table:
    options = {"widetable.fsync": "false", **more.pop("options", {})}
    given = {"schema": COLUMNS, "primary_key": ["k", "p"], **more}
    return catalog.create_table(name, given.pop("schema"), options=options, **given)


def files(catalog: wt.Catalog) -> list[Path]:
    return sorted(Path(catalog.warehouse).rglob("*"))


NAMED: dict[str, Callable[[wt.Catalog, wt.Table, str], object]] = {
    "table": lambda catalog, table, name: make(catalog, f"db.{name}"),
    "database": lambda catalog, table, name: make(catalog, f"{name}.t"),
    "database list": lambda catalog, table, name: catalog.list_tables(name),
    "tag": lambda catalog, table, name: table.create_tag(name),
    "deleted tag": lambda catalog, table, name: table.delete_tag(name),
    "branch": lambda catalog, table, name: table.create_branch(name),
    "dropped branch": lambda catalog, table, name: table.drop_branch(name),
    "consumer": lambda catalog, table, name: table.follow(name, "latest", timeout=0).close(),
    "deleted consumer": lambda catalog, table, name: table.delete_consumer(name),
}


@pytest.mark.parametrize("what", NAMED)
def test_a_name_that_no_file_can_have_is_refused(catalog: wt.Catalog, what: str) -> None:
    table = make(catalog)
    table.write(pa.table({"k": [1], "p": ["a"]}))
    before = files(catalog)
    for wrong in WRONG:
        with pytest.raises(wt.InvalidError):
            NAMED[what](catalog, table, wrong)
    assert files(catalog) == before


# With what is put around it: .db, branch-, tag-, consumer-; and temporary names of other clients around the last two.
LONGEST = {"table": 255, "database": 252, "branch": 248, "tag": 203, "consumer": 198}


@pytest.mark.parametrize("what", LONGEST)
def test_the_longest_name_works_and_a_longer_one_is_refused_with_the_limit(
    catalog: wt.Catalog, what: str
) -> None:
    table = make(catalog)
    table.write(pa.table({"k": [1], "p": ["a"]}))
    with pytest.raises(wt.InvalidError, match=f"1 to {LONGEST[what]} bytes"):
        NAMED[what](catalog, table, "x" * (LONGEST[what] + 1))
    NAMED[what](catalog, table, "x" * LONGEST[what])
    kept = {
        "tag": list(table.tags()),
        "consumer": list(table.consumers()),
        "branch": table.branches(),
    }
    assert kept.get(what, catalog.list_tables())


def test_a_name_comes_out_plain() -> None:
    assert check_name("grüße-1.5", "name") == "grüße-1.5"
    with pytest.raises(wt.InvalidError, match="name: found 7 of type int"):
        check_name(7, "name")


@pytest.mark.parametrize("options", [{}, {"partition.default-name": "x" * 250}])
def test_a_partition_column_that_leaves_no_room_for_values_is_refused_at_create(
    catalog: wt.Catalog, options: dict[str, str]
) -> None:
    name = "p" * (10 if options else 240)
    schema = pa.schema([("k", pa.int64()), ("q", pa.int64()), (name, pa.string())])
    make(catalog, "db.fits", schema=schema, primary_key=["k", "q"], partition_by=["q"])
    with pytest.raises(wt.InvalidError, match="255 bytes"):
        make(catalog, schema=schema, primary_key=["k", name], partition_by=[name], options=options)
    assert catalog.list_tables() == ["db.fits"]


def test_a_column_with_nul_in_its_name_is_refused(catalog: wt.Catalog) -> None:
    with pytest.raises(wt.InvalidError, match="NUL"):
        make(catalog, schema=pa.schema([*COLUMNS, ("a\0b", pa.int64())]))
    make(catalog)
    with pytest.raises(wt.InvalidError, match="NUL"):
        catalog.alter_table("db.t", add_columns=[pa.field("\0", pa.int8())])


@pytest.mark.parametrize("producer", ["none", "input"])
def test_a_partition_value_that_no_directory_can_have_writes_nothing(
    catalog: wt.Catalog, producer: str
) -> None:
    options = {"changelog-producer": producer}
    table = make(catalog, partition_by=["p"], options=options)
    before = files(catalog)
    for wrong in ("x" * 254, "ü" * 127, "/" * 85):
        with pytest.raises(wt.InvalidError, match="at most 255 bytes"):
            table.write(pa.table({"k": [1, 2], "p": ["fine", wrong]}))
    assert files(catalog) == before
    table.write(pa.table({"k": [1, 2], "p": ["x" * 253, "/" * 84]}))
    assert table.scan().to_arrow().num_rows == 2
