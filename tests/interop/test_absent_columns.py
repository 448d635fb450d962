"""Compacted and changelog files without the columns that nobody wrote, read by pypaimon's Python and native engine."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import widetable as wt
from tests.interop.conftest import NATIVE, PypaimonProcess
from tests.support.models.changelog_follower import Follower, changes_of
from tests.support.models.plain_rows import row_texts

pytestmark = pytest.mark.interop

DECLARED = [f"c{i}" for i in range(40)]
WRITTEN = {"k", "c1", "c2", "c30"}


def created(folder: Path, options: dict[str, str]) -> wt.Table:
    return wt.Catalog(str(folder)).create_table(
        "db.t",
        pa.schema([pa.field("k", pa.int64(), False), *((n, pa.int64()) for n in DECLARED)]),
        primary_key=["k"],
        options={"bucket": "1", "widetable.fsync": "false", **options},
    )


def written(table: wt.Table) -> None:
    """Four commits, of which none has all of the columns."""
    for number, columns in enumerate((["c1", "c2"], ["c30"], ["c2"], ["c30", "c1"])):
        rows = [{"k": k, **dict.fromkeys(columns, 10 * number + k)} for k in range(number, 20)]
        table.write(pa.Table.from_pylist(rows))


@pytest.mark.parametrize("native", [False, True], ids=["Python", "native"])
@pytest.mark.parametrize(
    "options",
    [
        {"merge-engine": "partial-update"},
        {"merge-engine": "partial-update", "changelog-producer": "lookup"},
        {"merge-engine": "deduplicate"},
        {"merge-engine": "deduplicate", "deletion-vectors.enabled": "true"},
        {"merge-engine": "aggregation", "fields.c1.aggregate-function": "sum"},
    ],
    ids=str,
)
def test_rows_of_compacted_files(
    options: dict[str, str], native: bool, tmp_path: Path, pypaimon_process: PypaimonProcess
) -> None:
    table = created(tmp_path, options)
    how: dict[str, Any] = {"options": NATIVE} if native else {}
    written(table)
    for full in (False, True):
        table.compact(full=full)
        theirs = row_texts(pypaimon_process.ask(table, **how))
        assert theirs == row_texts(table.scan().to_arrow().to_pylist())
        assert len(theirs) == 20
        few = row_texts(pypaimon_process.ask(table, project=["k", "c2", "c33"], **how))
        assert few == row_texts(table.scan(columns=["k", "c2", "c33"]).to_arrow().to_pylist())
        found = pypaimon_process.ask(table, filter=["c1", 33], **how)
        assert row_texts(found) == row_texts(table.scan(filter="c1 = 33").to_arrow().to_pylist())
    files = [set(pq.read_schema(path).names) for path in tmp_path.rglob("data-*.parquet")]
    assert {name for names in files for name in names if name[0] != "_"} == WRITTEN


GROUPED = {
    "merge-engine": "partial-update",
    "fields.c2.sequence-group": "c1",
    "fields.c30.sequence-group": "c31",
}
SUMMED = {"merge-engine": "aggregation", "fields.c1.aggregate-function": "sum"}


@pytest.mark.parametrize(
    ("options", "native"),
    [
        ({"merge-engine": "partial-update"}, False),
        ({"merge-engine": "partial-update"}, True),
        (SUMMED, False),
        (SUMMED, True),
        (GROUPED, True),  # its Python engine has no groups
    ],
    ids=["partial-update", "partial-update native", "sum", "sum native", "groups native"],
)
def test_rows_of_one_write_that_carry_different_columns(
    options: dict[str, str], native: bool, tmp_path: Path, pypaimon_process: PypaimonProcess
) -> None:
    table = created(tmp_path, {**options, "write-only": "true"})
    how: dict[str, Any] = {"options": NATIVE} if native else {}
    table.write([{"k": k, "c1": 100, "c2": 0, "c30": 0, "c31": 100} for k in range(20)])
    sets = (("c1", "c2"), ("c30", "c31"), ("c1", "c2", "c30", "c31"), ())
    table.write(
        [
            {
                "k": n % 20,
                **{name: None if n % 7 == 3 and name == "c1" else n for name in sets[n % 4]},
            }
            for n in range(1, 90)
            if n % 5
        ]
    )
    files = {frozenset(pq.read_schema(path).names) for path in tmp_path.rglob("data-*.parquet")}
    assert len(files) > 1, "the rows are in files of equal columns"
    for full in (False, True):
        theirs = row_texts(pypaimon_process.ask(table, **how))
        assert theirs == row_texts(table.scan().to_arrow().to_pylist())
        assert len(theirs) == 20
        table.compact(full=full)


def test_changes_of_a_lookup_changelog(tmp_path: Path, pypaimon_process: PypaimonProcess) -> None:
    options = {"merge-engine": "partial-update", "changelog-producer": "lookup"}
    table = created(tmp_path, options)
    written(table)
    last = table.snapshots()[-1].id
    theirs = [(kind, row) for _, kind, row in pypaimon_process.ask(table, changes=[1, last])]
    assert row_texts(theirs) == row_texts(changes_of(table, 0, last))
    follower = Follower(table.schema)
    follower.apply(theirs)
    follower.check(table.scan().to_arrow().to_pylist())
    files = [set(pq.read_schema(path).names) for path in tmp_path.rglob("changelog-*.parquet")]
    assert {name for names in files for name in names if name[0] != "_"} == WRITTEN


def test_columns_that_are_added_and_renamed(
    tmp_path: Path, pypaimon_process: PypaimonProcess
) -> None:
    table, catalog = (
        created(tmp_path, {"merge-engine": "partial-update"}),
        wt.Catalog(str(tmp_path)),
    )
    written(table)
    table.compact(full=True)
    catalog.alter_table("db.t", rename_columns={"c2": "d"}, drop_columns=["c1"])
    catalog.alter_table("db.t", add_columns=[pa.field("c1", pa.int64()), pa.field("e", pa.int64())])
    table = catalog.table("db.t")
    table.write({"k": [1, 50], "e": [7, 8]})
    for full in (False, True):
        table.compact(full=full)
        for how in ({}, {"options": NATIVE}):
            theirs = row_texts(pypaimon_process.ask(table, **how))
            assert theirs == row_texts(table.scan().to_arrow().to_pylist())
