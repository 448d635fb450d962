"""What Paimon's Java (1.4.2) says otherwise, a case each: the reasons why random tables leave these out.

docs/differences-from-paimon.md lists them.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import widetable as wt
from tests.interop.differing_cases import (
    CASES,
    OF_PYPAIMON_ALONE,
    chosen,
    rows_of,
    table_of,
    without_a_value,
)
from tests.interop.java.java_process import JavaProcess, JavaRefused, JavaTable
from tests.interop.java.java_session import NEEDS_JAVA

pytestmark = [pytest.mark.interop, NEEDS_JAVA]


def create(folder: Path, key: pa.DataType, value: pa.DataType, **options: str) -> wt.Table:
    """Columns k and v; two commits stay two runs."""
    named = {name.replace("__", ".").replace("_", "-"): text for name, text in options.items()}
    return wt.Catalog(str(folder)).create_table(
        "db.t",
        pa.schema([pa.field("k", key, nullable=False), ("v", value)]),
        primary_key=["k"],
        options={"write-only": "true", "widetable.fsync": "false", **named},
    )


def write(table: wt.Table, *rows: tuple[Any, ...]) -> None:
    keys, values = zip(*rows, strict=True)
    schema = table.arrow_schema
    table.write(
        pa.table(
            [pa.array(keys, schema.field(0).type), pa.array(values, schema.field(1).type)],
            ["k", "v"],
        )
    )


def both(java: JavaProcess, table: wt.Table) -> tuple[list[Any], list[Any]]:
    theirs = JavaTable(java, Path(table.path)).read()
    return table.scan().to_arrow()["v"].to_pylist(), theirs["v"].to_pylist()


@pytest.mark.parametrize("name", CASES)
def test_both_answers(tmp_path: Path, java: JavaProcess, name: str) -> None:
    """What differs from pypaimon, and for one case not from Java."""
    case = CASES[name]
    table = table_of(tmp_path, case)
    assert chosen(table.scan().to_arrow().to_pylist()) == rows_of(case.ours)
    theirs = case.ours if name in OF_PYPAIMON_ALONE else case.theirs
    assert chosen(JavaTable(java, Path(table.path)).read().to_pylist()) == rows_of(theirs)


def test_a_not_null_column_that_a_retraction_clears(tmp_path: Path, java: JavaProcess) -> None:
    table = without_a_value(tmp_path)
    assert table.scan().to_arrow()["needed"].to_pylist() == [7]
    with pytest.raises(JavaRefused, match="NullPointerException"):
        JavaTable(java, Path(table.path)).read()


def test_a_nan_in_a_key_swallows_rows_of_other_keys(tmp_path: Path, java: JavaProcess) -> None:
    """Its comparator asks `a > b`, then `a < b`, and takes the rest for equal (GenerateUtils.generateCompare)."""
    table = create(tmp_path, pa.float64(), pa.int32())
    write(table, (1.0, 1))
    write(table, (math.nan, 2))
    assert both(java, table) == ([1, 2], [2])


@pytest.mark.parametrize("kind", [pa.float32(), pa.float64()], ids=str)
def test_zero_and_minus_zero_are_one_key_in_reads_and_two_in_lookups(
    tmp_path: Path, java: JavaProcess, kind: pa.DataType
) -> None:
    """The same comparator; elsewhere keys are equal as bytes are (semantics, section 2)."""
    table = create(tmp_path, kind, pa.int32())
    write(table, (0.0, 1))
    write(table, (-0.0, 2))
    assert both(java, table) == ([2, 1], [2])


def test_the_first_times_of_a_timestamp_are_not_written(tmp_path: Path, java: JavaProcess) -> None:
    """Those of the millisecond that its 64 bits hold a part of: it is multiplied first (Timestamp.toMicros)."""
    kind = pa.timestamp("us")
    table = create(tmp_path, pa.int32(), kind)
    first = -(2**63 // 1000) * 1000
    theirs = JavaTable(java, Path(table.path))
    theirs.write(pa.table({"k": pa.array([1], pa.int32()), "v": pa.array([first], kind)}))
    lost = pa.table({"k": pa.array([2], pa.int32()), "v": pa.array([first - 1], kind)})
    with pytest.raises(JavaRefused, match="ArithmeticException: long overflow"):
        theirs.write(lost)
    table.write(lost)
    times = [first, first - 1]
    assert table.scan().to_arrow()["v"].cast(pa.int64()).to_pylist() == times
    assert theirs.read()["v"].cast(pa.int64()).to_pylist() == times


def test_no_min_of_booleans(tmp_path: Path, java: JavaProcess) -> None:
    options = {"merge_engine": "aggregation", "fields__v__aggregate_function": "min"}
    table = create(tmp_path, pa.int32(), pa.bool_(), **options)
    write(table, (1, True))
    write(table, (1, False))
    assert table.scan().to_arrow()["v"].to_pylist() == [False]
    with pytest.raises(JavaRefused, match="Incomparable type: BOOLEAN"):
        JavaTable(java, Path(table.path)).read()


def test_distinct_rows_with_a_null_cannot_be_collected(tmp_path: Path, java: JavaProcess) -> None:
    """FieldCollectAgg compares elements that are rows without a look for null."""
    kind = pa.list_(pa.struct([("id", pa.int32())]))
    options = {
        "merge_engine": "aggregation",
        "fields__v__aggregate_function": "collect",
        "fields__v__distinct": "true",
    }
    table = create(tmp_path, pa.int32(), kind, **options)
    write(table, (1, [None]))
    write(table, (1, [{"id": 1}]))
    assert table.scan().to_arrow()["v"].to_pylist() == [[None, {"id": 1}]]
    with pytest.raises(JavaRefused, match="NullPointerException"):
        JavaTable(java, Path(table.path)).read()


def test_a_snapshot_from_before_the_sequence_field_was_renamed(
    tmp_path: Path, java: JavaProcess
) -> None:
    """It reads the old schema with the options of today (AbstractFileStoreTable.copy)."""
    table = create(tmp_path, pa.int32(), pa.int32(), sequence__field="v")
    write(table, (1, 7))
    table = wt.Catalog(str(tmp_path)).alter_table("db.t", rename_columns={"v": "w"})
    assert table.scan(snapshot_id=1).to_arrow().to_pylist() == [{"k": 1, "v": 7}]
    with pytest.raises(JavaRefused, match="Sequence field: 'w' can not be found"):
        JavaTable(java, Path(table.path)).read({"scan.snapshot-id": "1"})


def test_one_of_several_sequence_fields_cannot_be_renamed(
    tmp_path: Path, java: JavaProcess
) -> None:
    """It looks for the name with the blank in front (SchemaManager.commitChanges); named without, it is found."""
    columns = [pa.field("k", pa.int32(), nullable=False), ("a", pa.int32()), ("b", pa.int32())]
    table = wt.Catalog(str(tmp_path)).create_table(
        "db.t", pa.schema(columns), primary_key=["k"], options={"sequence.field": "a, b"}
    )
    with pytest.raises(JavaRefused, match="Sequence field: 'b' can not be found"):
        JavaTable(java, Path(table.path)).alter({"rename_columns": {"b": "c"}})
    table = wt.Catalog(str(tmp_path)).alter_table("db.t", rename_columns={"b": "c"})
    assert table.schema.sequence_fields == ("a", "c")


def test_keys_of_bytes_cannot_be_looked_up(tmp_path: Path, java: JavaProcess) -> None:
    """RowCompactedSerializer's comparator casts byte arrays to Comparable."""
    table = create(tmp_path, pa.binary(), pa.int32(), changelog_producer="lookup")
    rows = pa.table([pa.array([b"a"]), pa.array([1], pa.int32())], ["k", "v"])
    theirs = JavaTable(java, Path(table.path))
    # Small as they are, a lookup compaction would merge the runs.
    new_runs_only = {"write-only": "false", "compaction.size-ratio": "-99"}
    theirs.write(rows, options=new_runs_only)
    with pytest.raises(JavaRefused, match="ClassCastException"):
        theirs.write(rows, options=new_runs_only)
    table.compact()
    assert both(java, table) == ([1], [1])


def test_a_partition_with_nul_in_its_text_cannot_be_looked_up(
    tmp_path: Path, java: JavaProcess
) -> None:
    """Its text is part of a local file's name (LookupLevels.createLookupFile)."""
    columns = [pa.field(name, pa.string(), nullable=False) for name in ("p", "k")]
    table = wt.Catalog(str(tmp_path)).create_table(
        "db.t",
        pa.schema([*columns, ("v", pa.int32())]),
        primary_key=["p", "k"],
        partition_by=["p"],
        options={"bucket": "1", "changelog-producer": "lookup", "widetable.fsync": "false"},
    )
    theirs = JavaTable(java, Path(table.path))
    new_runs_only = {"compaction.size-ratio": "-99"}
    rows = [pa.table({"p": [p], "k": ["a"], "v": pa.array([1], pa.int32())}) for p in ("x", "x\0")]
    for row in rows:
        theirs.write(row, options=new_runs_only)
    theirs.write(rows[0], options=new_runs_only)
    with pytest.raises(JavaRefused, match="Invalid file path"):
        theirs.write(rows[1], options=new_runs_only)
    table.write(rows[1])
    assert both(java, table) == ([1, 1], [1, 1])


def test_records_of_one_commit_in_several_changelog_files(
    tmp_path: Path, java: JavaProcess
) -> None:
    """Here the order of `sequence.field` is that of the commit, there of each file."""
    table = create(
        tmp_path,
        pa.int32(),
        pa.string(),
        sequence__field="v",
        changelog_producer="input",
        write_buffer_size="1 kb",
    )
    values = ["b" * 2000, "a"]
    rows = pa.table({"k": pa.array([1, 1], pa.int32()), "v": values}, table.arrow_schema)
    table.write(pa.Table.from_batches(rows.to_batches(max_chunksize=1)))
    assert table.changes(0, 1)["v"].to_pylist() == values[::-1]
    theirs = JavaTable(java, Path(table.path)).changes(1)
    assert [row["v"] for _, (_, row) in theirs] == values


def test_a_removed_row_comes_back_with_the_value_of_its_removal(
    tmp_path: Path, java: JavaProcess
) -> None:
    """A function in a group: the first record of a key is taken as it is, its values too (semantics U6)."""
    columns = [pa.field("k", pa.int32(), nullable=False), ("s", pa.int32()), ("v", pa.int32())]
    table = wt.Catalog(str(tmp_path)).create_table(
        "db.t",
        pa.schema(columns),
        primary_key=["k"],
        options={
            "merge-engine": "partial-update",
            "fields.s.sequence-group": "v",
            "fields.v.aggregate-function": "last_value",
            "partial-update.remove-record-on-sequence-group": "s",
            "write-only": "true",
        },
    )
    for kind, sequence, value in (("-D", 0, 5), ("+I", None, 7)):
        row = {"k": 1, "s": sequence, "v": value, "_row_kind": kind}
        table.write(pa.Table.from_pylist([row], pa.schema([*columns, ("_row_kind", pa.string())])))
    assert both(java, table) == ([None], [5])


def test_a_row_that_java_removed_comes_back_with_the_values_of_its_removal(
    tmp_path: Path, java: JavaProcess
) -> None:
    """We write removals without values (decision 0001), it writes and takes them as they are."""
    columns = [pa.field("k", pa.int32(), nullable=False), ("v", pa.int32()), ("w", pa.int32())]
    options = {"merge-engine": "partial-update", "partial-update.remove-record-on-delete": "true"}
    table = wt.Catalog(str(tmp_path)).create_table(
        "db.t", pa.schema(columns), primary_key=["k"], options={**options, "write-only": "true"}
    )
    removal = {"k": [1], "v": [5], "_row_kind": ["-D"]}
    schema = pa.schema([*columns[:2], ("_row_kind", pa.string())])
    JavaTable(java, Path(table.path)).write(pa.table(removal, schema))
    table.write(pa.table({"k": [1], "w": [2]}, pa.schema([columns[0], columns[2]])))
    assert both(java, table) == ([None], [5])


def test_the_first_value_of_a_group_depends_on_when_java_compacts(
    tmp_path: Path, java: JavaProcess
) -> None:
    """The function remembers beside its value whether it had one, until a compaction forgets it (semantics 6.4, U8)."""
    columns = [pa.field("k", pa.int32(), nullable=False), ("s", pa.int32()), ("v", pa.int32())]
    options = {
        "merge-engine": "partial-update",
        "fields.s.sequence-group": "v",
        "fields.v.aggregate-function": "first_non_null_value",
        "write-only": "true",
    }

    def written(name: str, compacted_behind: int) -> tuple[list[Any], list[Any]]:
        table = wt.Catalog(str(tmp_path / name)).create_table(
            "db.t", pa.schema(columns), primary_key=["k"], options=options
        )
        for sequence, value in ((5, None), (4, 1), (3, None)):
            row = {"k": 1, "s": sequence, "v": value}
            table.write(pa.Table.from_pylist([row], pa.schema(columns)))
            if sequence == compacted_behind:
                JavaTable(java, Path(table.path)).compact(full=True)
        return both(java, table)

    assert written("never", 0) == ([None], [1])
    assert written("behind_the_second", 4) == ([None], [None])


def test_level_0_of_first_row_is_not_read(tmp_path: Path, java: JavaProcess) -> None:
    table = create(tmp_path, pa.int32(), pa.int32(), merge_engine="first-row")
    write(table, (1, 7))
    assert both(java, table) == ([7], [])
    table.compact(full=True)
    assert both(java, table) == ([7], [7])


_ROW = pa.struct([("id", pa.int32()), ("ts", pa.string())])
PASSED_OVER: dict[str, tuple[pa.DataType, list[Any]]] = {
    "merge_map_with_keytime": (pa.map_(pa.string(), _ROW), [("p", {"id": 2, "ts": None})]),
    "nested_partial_update": (pa.list_(_ROW), [None]),
    "nested_update": (pa.list_(_ROW), [None]),
}


@pytest.mark.parametrize("function", PASSED_OVER)
def test_the_first_value_is_taken_as_it_is(
    tmp_path: Path, java: JavaProcess, function: str
) -> None:
    """An entry without a time and an element that is null are passed over, but not in the first value of a key as Java
    writes it (`agg` of FieldMergeMapWithKeyTimeAgg, FieldNestedUpdateAgg, FieldNestedPartialUpdateAgg).
    """
    kind, value = PASSED_OVER[function]
    options = {"merge_engine": "aggregation", "fields__v__aggregate_function": function}
    if function == "nested_partial_update":
        options["fields__v__nested_key"] = "id"
    table = create(tmp_path, pa.int32(), kind, **options)
    first = pa.table([pa.array([1], pa.int32()), pa.array([value], kind)], ["k", "v"])
    JavaTable(java, Path(table.path)).write(first)
    write(table, (1, None))
    assert both(java, table) == ([[]], [value])
    mine = create(tmp_path / "ours", pa.int32(), kind, **options)
    mine.write(first)
    write(mine, (1, None))
    assert both(java, mine) == ([[]], [[]])
