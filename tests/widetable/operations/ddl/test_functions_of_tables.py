"""What a table with functions, or of first rows, keeps through alterations, compactions and other clients' readers."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import widetable as wt

COLUMNS = {
    "k": "BIGINT",
    "g": "BIGINT",
    "n": "BIGINT",
    "m": "BIGINT",
    "l": "ARRAY<STRING>",
    "s": "STRING",
}
SUMS = {
    "merge-engine": "aggregation",
    "fields.n.aggregate-function": "sum",
    "fields.l.aggregate-function": "collect",
}
GROUPED = {
    "merge-engine": "partial-update",
    "fields.g.sequence-group": "n,l",
    "fields.n.aggregate-function": "sum",
    "fields.l.aggregate-function": "collect",
}


def create(folder: Path, options: dict[str, str]) -> wt.Table:
    return wt.Catalog(str(folder)).create_table(
        "db.t",
        COLUMNS,
        primary_key=["k"],
        options={"bucket": "1", "widetable.fsync": "false", **options},
    )


def alter(folder: Path, **how: Any) -> wt.Table:
    return wt.Catalog(str(folder)).alter_table("db.t", **how)


@pytest.mark.parametrize("options", [SUMS, GROUPED], ids=["aggregation", "partial-update"])
@pytest.mark.parametrize(
    "change",
    [
        {"set_options": {"fields.n.aggregate-function": "max"}},
        {"remove_options": ["fields.n.aggregate-function"]},
        {"set_options": {"fields.l.distinct": "true"}},
        {"set_options": {"fields.n.ignore-retract": "true"}},
        {"set_options": {"changelog-producer": "lookup"}},
    ],
    ids=str,
)
def test_a_function_stays_with_its_column(
    tmp_path: Path, options: dict[str, str], change: dict[str, Any]
) -> None:
    table = create(tmp_path, options)
    table.write({"k": [1], "g": [1], "n": [1], "l": [["a"]]})
    with pytest.raises(wt.WidetableError):
        alter(tmp_path, **change)
    assert wt.Table.open(table.path).schema.options == table.schema.options


def test_a_column_with_a_function_can_be_renamed_and_others_added(tmp_path: Path) -> None:
    table = create(tmp_path, SUMS)
    table.write({"k": [1], "n": [2], "l": [["a"]]})
    altered = alter(
        tmp_path,
        rename_columns={"n": "total"},
        set_options={
            "fields.total.aggregate-function": "sum",
            "fields.high.aggregate-function": "max",
        },
        remove_options=["fields.n.aggregate-function"],
        add_columns={"high": pa.int64()},
    )
    altered.write({"k": [1], "total": [3], "high": [7]})
    altered.write({"k": [1], "total": [4], "high": [5]})
    row = altered.scan(columns=["total", "high"]).to_arrow().to_pylist()
    assert row == [{"total": 9, "high": 7}]
    altered.compact(full=True)
    assert altered.scan(columns=["total", "high"]).to_arrow().to_pylist() == row


def test_first_rows_lie_in_one_file_each(tmp_path: Path) -> None:
    """Readers of other clients do not merge levels above 0 of such a table."""
    table = create(
        tmp_path, {"merge-engine": "first-row", "num-sorted-run.compaction-trigger": "2"}
    )
    for number in range(6):
        keys = range(10 * number, 10 * number + 30)
        table.write({"k": list(keys), "n": [number] * 30})
    table.compact()
    files = [f for split in table.scan().splits() for f in split.files]
    assert {file.level for file in files} != {0}
    found: Counter[int] = Counter()
    for file in files:
        found.update(pq.read_table(f"{table.path}/bucket-0/{file.file_name}")["k"].to_pylist())
    assert set(found.values()) == {1}
    rows = {row["k"]: row["n"] for row in table.scan(columns=["k", "n"]).to_arrow().to_pylist()}
    assert rows == {k: max(0, k // 10 - 2) for k in range(80)}


@pytest.mark.parametrize("options", [SUMS, GROUPED], ids=["aggregation", "partial-update"])
def test_a_changelog_of_functions_has_whole_rows(tmp_path: Path, options: dict[str, str]) -> None:
    table = create(tmp_path, {**options, "changelog-producer": "lookup"})
    table.write({"k": [1], "g": [1], "n": [2], "l": [["a"]]})
    table.write({"k": [1], "s": ["x"]})
    table.write({"k": [1], "g": [2], "n": [3], "l": [["b"]]})
    found = table.changes(0, table.snapshots()[-1].id)
    assert [(r["_row_kind"], r["n"], r["l"], r["s"]) for r in found.to_pylist()] == [
        ("+I", 2, ["a"], None),
        ("-U", 2, ["a"], None),
        ("+U", 2, ["a"], "x"),
        ("-U", 2, ["a"], "x"),
        ("+U", 5, ["a", "b"], "x"),
    ]
    assert table.audit().ok


@pytest.mark.parametrize(
    ("kind", "first", "second", "expected"),
    [
        ("TINYINT", 100, 27, 127),
        ("TINYINT", 100, 28, None),
        ("BIGINT", 2**63 - 1, 1, None),
        ("BIGINT", -(2**63), -1, None),
        ("BIGINT", 2**62, 2**62 - 1, 2**63 - 1),
    ],
)
@pytest.mark.parametrize("full", [False, True], ids=["read", "compacted"])
def test_sums_that_no_longer_fit_are_refused_with_their_key(
    tmp_path: Path, kind: str, first: int, second: int, expected: int | None, full: bool
) -> None:
    table = wt.Catalog(str(tmp_path)).create_table(
        "db.t",
        {"k": "INT", "n": kind},
        primary_key=["k"],
        options={
            "merge-engine": "aggregation",
            "fields.n.aggregate-function": "sum",
            "write-only": "true",
        },
    )
    for value in (first, second):
        table.write({"k": [5], "n": [value]})

    def use() -> list[Any]:
        if full:
            table.compact(full=True)
        return list(table.scan().to_arrow()["n"].to_pylist())

    if expected is None:
        with pytest.raises(wt.InvalidError, match=r"'n'.*k=5"):
            use()
    else:
        assert use() == [expected]
