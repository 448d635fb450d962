"""Rows that are others here than in Paimon's Java (docs/differences-from-paimon.md, Answers), worked out by hand.

More of them stand in the tests of what makes them: tests/support/models/differences.py says which.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import widetable as wt

SUM = {"merge-engine": "aggregation", "fields.v.aggregate-function": "sum"}
GROUPED = {"merge-engine": "partial-update", "fields.s.sequence-group": "v"}
LAST = {"merge-engine": "aggregation", "fields.v.aggregate-function": "last_value"}
RUNS = {"write-only": "true"}


def create(folder: Path, v: str = "BIGINT", **options: str) -> wt.Table:
    """Key k, s to order by, v; each commit of one key stays a run until it is compacted."""
    return wt.Catalog(str(folder)).create_table(
        "db.t",
        {"k": "BIGINT", "s": "BIGINT", "v": v},
        primary_key=["k"],
        options={"bucket": "1", "widetable.fsync": "false", **options},
    )


def write(table: wt.Table, *records: tuple[str, int | None, Any]) -> None:
    """One commit of records of key 1: kind, s, v."""
    kinds, orders, values = zip(*records, strict=True)
    schema = table.arrow_schema
    table.write(
        pa.table(
            {
                "k": pa.array([1] * len(kinds), pa.int64()),
                "s": pa.array(orders, pa.int64()),
                "v": pa.array(values, schema.field("v").type),
                "_row_kind": pa.array(kinds),
            }
        )
    )


def row(table: wt.Table) -> Any:
    """(s, v) of key 1; None where it has no row."""
    found = table.scan().to_arrow().to_pylist()
    return (found[0]["s"], found[0]["v"]) if found else None


def last_changes(table: wt.Table) -> list[tuple[str, Any]]:
    last = table.snapshots()[-1].id
    found = table.changes(last - 1, last).to_pylist()
    return [(change["_row_kind"], change["v"]) for change in found]


def test_a_delete_that_stays_at_the_bottom_is_no_row_before(tmp_path: Path) -> None:
    """The -D of s = 2 is kept, for it blocks what comes late; the add after it is an insert."""
    options = {"sequence.field": "s", "changelog-producer": "full-compaction", **RUNS}
    table = create(tmp_path, **options)
    seen = []
    for s, kind, v in ((1, "+I", 10), (2, "-D", 10), (3, "+I", 30)):
        write(table, (kind, s, v))
        table.compact(full=True)
        seen += last_changes(table)
        files = [file for split in table.scan().splits() for file in split.files]
        assert [file.delete_row_count for file in files] == [int(s == 2)]
    assert seen == [("+I", 10), ("-D", 10), ("+I", 30)]


def test_a_retraction_after_a_removal_shows_nothing(tmp_path: Path) -> None:
    options = {**GROUPED, "partial-update.remove-record-on-sequence-group": "s", **RUNS}
    table = create(tmp_path, **options)
    shown = []
    for record in (("+I", 1, 10), ("-D", 2, None), ("-U", 3, None), ("+I", 4, 40)):
        write(table, record)
        shown.append(row(table))
    assert shown == [(1, 10), None, None, (4, 40)]


BY_ORDER = [
    {"merge-engine": "partial-update"},
    {"merge-engine": "aggregation", "fields.v.aggregate-function": "first_value"},
    {"merge-engine": "aggregation", "fields.v.aggregate-function": "product"},
]


@pytest.mark.parametrize("producer", ["lookup", "full-compaction"])
@pytest.mark.parametrize("options", BY_ORDER, ids=lambda o: list(o.values())[-1])
def test_sequence_field_and_a_producer_that_needs_merged_rows_are_refused(
    tmp_path: Path, options: dict[str, str], producer: str
) -> None:
    with pytest.raises(wt.UnsupportedError, match="'changelog-producer'") as raised:
        create(tmp_path, **options, **{"sequence.field": "s", "changelog-producer": producer})
    assert "sequence.field" in str(raised.value)
    create(tmp_path, **options, **{"sequence.field": "s", "changelog-producer": "input"})


@pytest.mark.parametrize("kind", ["DOUBLE", "FLOAT"])
def test_a_sum_goes_from_the_oldest_commit_on_whatever_was_compacted(
    tmp_path: Path, kind: str
) -> None:
    """2^53 + 1 is 2^53 (2^24 of FLOAT), so three commits of 1 add nothing; of one commit they are added first."""
    large = 2.0 ** {"DOUBLE": 53, "FLOAT": 24}[kind]
    options = {**SUM, "num-sorted-run.compaction-trigger": "2", **RUNS}
    table = create(tmp_path, kind, **options)
    table.write({"k": [1, *range(2, 5000)], "v": [large, *[0.5] * 4998]})
    table.compact(full=True)
    for _ in range(3):
        write(table, ("+I", 0, 1.0))
    for full in (None, False, True):
        if full is not None:
            table.compact(full=full)
        assert row(table) == (0, large)
    write(table, *[("+I", 0, 1.0)] * 2)
    assert row(table) == (0, large + 2)


@pytest.mark.parametrize("full", [False, True], ids=["read", "compacted"])
def test_a_retraction_beside_an_add_takes_back_what_is_older(tmp_path: Path, full: bool) -> None:
    """Folded into one record, +5 and -5 would be null, which leaves the 3."""
    of_v = "fields.v.aggregate-function"
    options = {"merge-engine": "aggregation", of_v: "last_non_null_value", **RUNS}
    table = create(tmp_path, **options)
    write(table, ("+I", 1, 3))
    write(table, ("+I", 2, 5), ("-U", 3, 5))
    if full:
        table.compact(full=True)
    assert row(table)[1] is None


def test_collect_takes_an_update_of_one_commit_as_its_new_value(tmp_path: Path) -> None:
    """As Java's writer, which folds the commit; in two commits the -U takes its element out."""
    of_v = "fields.v.aggregate-function"
    options = {"merge-engine": "aggregation", of_v: "collect", **RUNS}
    for name, commits in (("one", 1), ("two", 2)):
        table = create(tmp_path / name, "ARRAY<BIGINT>", **options)
        write(table, ("+I", 1, [1]))
        update = [("-U", 2, [1]), ("+U", 3, [2])]
        for at in range(commits):
            write(table, *(update if commits == 1 else update[at : at + 1]))
        assert row(table) == (3, [1, 2] if commits == 1 else [2])


def test_a_column_that_orders_has_the_value_of_a_retraction(tmp_path: Path) -> None:
    table = create(tmp_path, **SUM, **RUNS, **{"sequence.field": "s"})
    write(table, ("+I", 1, 5))
    write(table, ("-U", 2, 3))
    assert row(table) == (2, 2)
    table.compact(full=True)
    assert row(table) == (2, 2)


@pytest.mark.parametrize("kind", ["-U", "-D"])
def test_a_retraction_alone_is_taken_back_from_nothing(tmp_path: Path, kind: str) -> None:
    table = create(tmp_path, **SUM, **RUNS)
    write(table, (kind, 1, 5))
    assert row(table) is not None
    assert row(table)[1] == -5
    table.compact(full=True)
    assert row(table)[1] == -5


@pytest.mark.parametrize(
    "function", ["max", "min", "first_value", "first_non_null_value", "merge_map_with_keytime"]
)
def test_a_retraction_that_cannot_be_taken_back_is_not_written(
    tmp_path: Path, function: str
) -> None:
    is_map = function == "merge_map_with_keytime"
    kind = "MAP<STRING, ROW<x INT, ts STRING>>" if is_map else "BIGINT"
    options = {"merge-engine": "aggregation", "fields.v.aggregate-function": function}
    table = create(tmp_path, kind, **options, **RUNS)
    value = [("a", {"x": 1, "ts": "2"})] if is_map else 7
    write(table, ("+I", 1, value))
    with pytest.raises(wt.InvalidError, match="'v'"):
        write(table, ("-D", 2, value))
    assert len(table.snapshots()) == 1
    assert row(table) == (1, value)


@pytest.mark.parametrize("kind", ["-D", "-U"])
@pytest.mark.parametrize("engine", ["partial-update", "first-row"])
def test_a_retraction_without_a_meaning_is_not_written(
    tmp_path: Path, engine: str, kind: str
) -> None:
    table = create(tmp_path, **{"merge-engine": engine}, **RUNS)
    write(table, ("+I", 1, 7))
    with pytest.raises(wt.InvalidError, match="'ignore-delete'"):
        write(table, (kind, 2, 7))
    assert len(table.snapshots()) == 1
    assert row(table) == (1, 7)


@pytest.mark.parametrize(
    ("options", "kind"), [(GROUPED, "-D"), (LAST, "-U")], ids=["a group", "a function"]
)
def test_a_not_null_column_without_a_value_has_that_of_the_last_record(
    tmp_path: Path, options: dict[str, str], kind: str
) -> None:
    table = create(tmp_path, "BIGINT NOT NULL", **options, **RUNS)
    write(table, ("+I", 1, 7))
    write(table, (kind, 2, 9))
    assert row(table)[1] == 9
    table.compact(full=True)
    assert row(table)[1] == 9


@pytest.mark.parametrize(
    ("options", "expected"),
    [({"merge-engine": "first-row"}, 10), ({"deletion-vectors.enabled": "true"}, 20)],
    ids=["first-row", "deletion vectors"],
)
def test_level_0_is_read_and_merged(tmp_path: Path, options: dict[str, str], expected: int) -> None:
    table = create(tmp_path, **options, **RUNS)
    write(table, ("+I", 1, 10))
    assert row(table) == (1, 10)
    write(table, ("+I", 2, 20))
    assert row(table)[1] == expected
    assert {file.level for split in table.scan().splits() for file in split.files} == {0}
    table.compact(full=True)
    assert row(table)[1] == expected


@pytest.mark.parametrize("ignored", [{}, {"ignore-delete": "true"}], ids=["", "ignore-delete"])
def test_the_first_record_of_a_key_is_published_as_an_insert(
    tmp_path: Path, ignored: dict[str, str]
) -> None:
    table = create(
        tmp_path, **{"merge-engine": "first-row", "changelog-producer": "lookup"}, **ignored
    )
    write(table, ("+U", 1, 10))
    assert last_changes(table) == [("+I", 10)]
    write(table, ("+U", 2, 20))
    assert row(table) == (1, 10)
    changes = table.changes(0, table.snapshots()[-1].id).to_pylist()
    assert [change["_row_kind"] for change in changes] == ["+I"]


def test_a_row_whose_fields_are_all_newer_is_a_row(tmp_path: Path) -> None:
    catalog = wt.Catalog(str(tmp_path))
    columns = {"k": "INT", "v": "ROW<a INT>", "l": "ARRAY<ROW<a INT>>", "m": "MAP<INT, ROW<a INT>>"}
    table = catalog.create_table("db.t", columns, primary_key=["k"])
    one = {"k": 1, "v": {"a": 1}, "l": [{"a": 1}, None], "m": [(1, {"a": 1})]}
    none = {"k": 2, "v": None, "l": None, "m": None}
    table.write(pa.Table.from_pylist([one, none], table.arrow_schema))
    rows = ("v", "l.element", "m.value")
    table = catalog.alter_table(
        "db.t",
        drop_columns=[f"{row}.a" for row in rows],
        add_columns=[pa.field(f"{row}.b", pa.int8()) for row in rows],
    )
    row = {"b": None}
    assert table.scan().to_arrow().to_pylist() == [
        {"k": 1, "v": row, "l": [row, None], "m": [(1, row)]},
        none,
    ]


def test_records_of_a_commit_in_several_files_are_in_one_order(tmp_path: Path) -> None:
    """That of `sequence.field`, though the files are in the order of arrival."""
    options = {"changelog-producer": "input", "sequence.field": "s", "write-buffer-size": "1 kb"}
    table = create(tmp_path, "STRING", **options)
    values = ["c" * 2000, "a" * 2000, "b"]
    rows = pa.table({"k": [1, 1, 1], "s": [3, 1, 2], "v": values}, table.arrow_schema)
    table.write(pa.Table.from_batches(rows.to_batches(max_chunksize=1)))
    assert len(list(Path(table.path).rglob("changelog-*.parquet"))) > 1
    assert [v for _, v in last_changes(table)] == [values[1], values[2], values[0]]
