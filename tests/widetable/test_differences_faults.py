"""What Java gets wrong is right here: for each fault of docs/differences-from-paimon.md what a table gives, worked out
by hand. tests/interop/test_java_faults.py shows Java's side.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import widetable as wt

NAN = float("nan")
FOLDS = "fields.v.aggregate-function"
ELEMENT = pa.struct([("id", pa.int32()), ("ts", pa.string())])


def create(folder: Path, key: pa.DataType, value: pa.DataType, **options: str) -> wt.Table:
    """Columns k and v; each commit is a run."""
    return wt.Catalog(str(folder)).create_table(
        "db.t",
        pa.schema([pa.field("k", key, nullable=False), ("v", value)]),
        primary_key=["k"],
        options={"write-only": "true", "widetable.fsync": "false", **options},
    )


def write(table: wt.Table, *rows: tuple[Any, Any]) -> None:
    """One commit."""
    keys, values = zip(*rows, strict=True)
    kinds = table.arrow_schema.types
    table.write(pa.table([pa.array(keys, kinds[0]), pa.array(values, kinds[1])], ["k", "v"]))


def folded(folder: Path, kind: pa.DataType, commits: list[Any], **options: str) -> list[Any]:
    """The value of a key after a commit of each, as reads merge it, and after each commit was compacted."""
    seen = []
    for compacts in (False, True):
        table = create(folder / str(compacts), pa.int32(), kind, **options)
        for value in commits:
            write(table, (1, value))
            if compacts:
                table.compact(full=True)
        seen.append(table.scan().to_arrow()["v"].to_pylist()[0])
    return seen


@pytest.mark.parametrize("kind", [pa.float32(), pa.float64()], ids=str)
@pytest.mark.parametrize("full", [False, True], ids=["read", "compacted"])
def test_nan_and_both_zeros_are_keys_of_their_own(
    tmp_path: Path, kind: pa.DataType, full: bool
) -> None:
    """In the order of keys: -1, -0.0, 0.0, infinity, NaN."""
    table = create(tmp_path, kind, pa.int32(), bucket="1")
    for v, k in enumerate([0.0, NAN, -1.0, -0.0, float("inf"), -NAN]):
        write(table, (k, v))
    if full:
        table.compact(full=True)
    assert table.scan().to_arrow()["v"].to_pylist() == [2, 3, 0, 4, 5]
    keys = pa.array([-0.0, 0.0, NAN], kind)
    assert table.lookup(keys)["v"].to_pylist() == [3, 0, 5]


@pytest.mark.parametrize(("function", "sign"), [("min", "-0.0"), ("max", "0.0")])
def test_minus_zero_is_the_lesser_value(tmp_path: Path, function: str, sign: str) -> None:
    options = {"merge-engine": "aggregation", FOLDS: function}
    orders: list[list[Any]] = [[0.0, -0.0], [-0.0, 0.0]]
    for number, commits in enumerate(orders):
        found = folded(tmp_path / str(number), pa.float64(), commits, **options)
        assert [str(value) for value in found] == [sign] * 2


def test_partitions_with_nul_in_their_text_are_looked_up_by_compactions(tmp_path: Path) -> None:
    columns = {"p": "STRING", "k": "STRING", "v": "INT"}
    options = {"bucket": "1", "changelog-producer": "lookup", "widetable.fsync": "false"}
    table = wt.Catalog(str(tmp_path)).create_table(
        "db.t", columns, primary_key=["p", "k"], partition_by=["p"], options=options
    )
    for v in (1, 2):
        table.write(pa.table({"p": ["x\0"], "k": ["a"], "v": [v]}, table.arrow_schema))
    assert table.changes(2, 4)["v"].to_pylist() == [1, 2]


@pytest.mark.parametrize("full", [False, True], ids=["read", "compacted"])
def test_the_first_and_the_last_time_of_a_timestamp(tmp_path: Path, full: bool) -> None:
    """All that 64 bits hold, as a value and as a key."""
    kind = pa.timestamp("us")
    times = [-(2**63), -(2**63) + 807, -(2**63) + 808, 2**63 - 1]
    for folder, key, value in (("k", kind, pa.int64()), ("v", pa.int64(), kind)):
        table = create(tmp_path / folder, key, value, bucket="1")
        for time in times:
            write(table, (time, time))
        if full:
            table.compact(full=True)
        rows = table.scan().to_arrow()
        assert rows["k"].cast(pa.int64()).to_pylist() == times
        assert rows["v"].cast(pa.int64()).to_pylist() == times


@pytest.mark.parametrize(("function", "expected"), [("min", False), ("max", True)])
def test_false_is_the_lesser_boolean(tmp_path: Path, function: str, expected: bool) -> None:
    options = {"merge-engine": "aggregation", FOLDS: function}
    orders: list[list[Any]] = [[True, None, False], [False, True]]
    for number, commits in enumerate(orders):
        found = folded(tmp_path / str(number), pa.bool_(), commits, **options)
        assert found == [expected] * 2


def test_a_late_null_is_the_first_value(tmp_path: Path) -> None:
    """Of s = 5, 4, 3 each but the first is late and becomes the first value, null too, whatever was compacted."""
    options = {
        "merge-engine": "partial-update",
        "fields.s.sequence-group": "v",
        FOLDS: "first_non_null_value",
        "write-only": "true",
    }
    seen = []
    for compacted in (None, 5, 4, 3):
        table = wt.Catalog(str(tmp_path / str(compacted))).create_table(
            "db.t", {"k": "INT", "s": "INT", "v": "INT"}, primary_key=["k"], options=options
        )
        for s, v in ((5, None), (4, 1), (3, None)):
            table.write({"k": [1], "s": [s], "v": [v]})
            if s == compacted:
                table.compact(full=True)
        seen.append(table.scan().to_arrow().to_pylist()[0])
    assert seen == [{"k": 1, "s": 5, "v": None}] * 4


def test_a_snapshot_from_before_its_ordering_column_was_renamed(tmp_path: Path) -> None:
    table = create(tmp_path, pa.int32(), pa.int32(), **{"sequence.field": "v"})
    for value in (7, 6):
        write(table, (1, value))
    table = wt.Catalog(str(tmp_path)).alter_table("db.t", rename_columns={"v": "w"})
    assert table.scan(snapshot_id=2).to_arrow().to_pylist() == [{"k": 1, "v": 7}]
    assert table.scan().to_arrow().to_pylist() == [{"k": 1, "w": 7}]


@pytest.mark.parametrize("kind", [pa.binary(), pa.binary(3)], ids=str)
def test_keys_of_bytes_are_looked_up_by_compactions(tmp_path: Path, kind: pa.DataType) -> None:
    options = {"changelog-producer": "lookup", "write-only": "false"}
    table = create(tmp_path, kind, pa.int32(), **options)
    write(table, (b"a\x00b", 1), (b"a\xff\xff", 2))
    write(table, (b"a\xff\xff", 3))
    last = table.snapshots()[-1].id
    changes = [tuple(row.values()) for row in table.changes(0, last).to_pylist()]
    assert changes == [
        (b"a\x00b", 1, "+I"),
        (b"a\xff\xff", 2, "+I"),
        (b"a\xff\xff", 2, "-U"),
        (b"a\xff\xff", 3, "+U"),
    ]


def test_null_is_one_of_the_distinct_rows(tmp_path: Path) -> None:
    options = {"merge-engine": "aggregation", FOLDS: "collect", "fields.v.distinct": "true"}
    a = {"id": 1, "ts": None}
    found = folded(tmp_path, pa.list_(ELEMENT), [[None], [a, None], [a]], **options)
    assert found == [[None, a]] * 2


def test_one_of_several_ordering_columns_is_renamed(tmp_path: Path) -> None:
    catalog = wt.Catalog(str(tmp_path))
    columns = {"k": "INT", "a": "INT", "b": "INT"}
    options = {"sequence.field": "a, b", "write-only": "true"}
    catalog.create_table("db.t", columns, primary_key=["k"], options=options)
    table = catalog.alter_table("db.t", rename_columns={"b": "c"})
    assert table.schema.sequence_fields == ("a", "c")
    for c in (2, 1):
        table.write({"k": [1], "a": [1], "c": [c]})
    assert table.scan().to_arrow().to_pylist() == [{"k": 1, "a": 1, "c": 2}]


TEXT_MAP = pa.map_(pa.string(), pa.int32())
NESTED = pa.list_(ELEMENT)


def of(id: int, ts: str | None = None) -> dict[str, Any]:
    return {"id": id, "ts": ts}


IN_ORDER: list[tuple[str, dict[str, str], pa.DataType, list[Any], Any]] = [
    ("collect", {}, pa.list_(pa.string()), [["q", "b"], ["z", "a"]], ["q", "b", "z", "a"]),
    (
        "collect",
        {"fields.v.distinct": "true"},
        pa.list_(pa.string()),
        [["q", "b"], ["b", "a", "q"]],
        ["q", "b", "a"],
    ),
    (
        "merge_map",
        {},
        TEXT_MAP,
        [[("q", 1), ("b", 2)], [("z", 3), ("q", 4)]],
        [("q", 4), ("b", 2), ("z", 3)],
    ),
    (
        "merge_map_with_keytime",
        {},
        pa.map_(pa.string(), ELEMENT),
        [[("q", of(1, "2")), ("b", of(2, "2"))], [("a", of(3, "1")), ("q", of(4, "3"))]],
        [("q", of(4, "3")), ("b", of(2, "2")), ("a", of(3, "1"))],
    ),
    ("nested_update", {}, NESTED, [[of(9), of(3)], [of(5)]], [of(9), of(3), of(5)]),
    (
        "nested_update",
        {"fields.v.nested-key": "id"},
        NESTED,
        [[of(9), of(3)], [of(1), of(9, "x")]],
        [of(9, "x"), of(3), of(1)],
    ),
    (
        "nested_partial_update",
        {"fields.v.nested-key": "id"},
        NESTED,
        [[of(9, "x"), of(3)], [of(1), of(9)]],
        [of(9, "x"), of(3), of(1)],
    ),
]


@pytest.mark.parametrize(
    ("function", "options", "kind", "commits", "expected"),
    IN_ORDER,
    ids=[f"{row[0]} {' '.join(row[1])}".strip() for row in IN_ORDER],
)
def test_elements_stay_in_the_order_in_which_they_came(
    tmp_path: Path,
    function: str,
    options: dict[str, str],
    kind: pa.DataType,
    commits: list[Any],
    expected: list[Any],
) -> None:
    options = {"merge-engine": "aggregation", FOLDS: function, **options}
    assert folded(tmp_path, kind, commits, **options) == [expected] * 2


NO_ELEMENT: dict[str, tuple[pa.DataType, list[Any]]] = {
    "merge_map_with_keytime": (pa.map_(pa.string(), ELEMENT), [("p", of(2))]),
    "nested_update": (NESTED, [None]),
    "nested_partial_update": (NESTED, [None]),
}


@pytest.mark.parametrize("function", NO_ELEMENT)
@pytest.mark.parametrize("at", [0, 1], ids=["first", "later"])
def test_what_is_no_element_is_passed_over_wherever_it_stands(
    tmp_path: Path, function: str, at: int
) -> None:
    kind, value = NO_ELEMENT[function]
    options = {"merge-engine": "aggregation", FOLDS: function}
    if function == "nested_partial_update":
        options["fields.v.nested-key"] = "id"
    commits = [value, None] if at == 0 else [[], value]
    assert folded(tmp_path, kind, commits, **options) == [[]] * 2
