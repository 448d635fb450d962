"""Rows of one write that carry different columns: the files that they become, in one commit and in their order."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import widetable as wt
from widetable.errors import InvalidError
from widetable.schema.table_schema import SEQUENCE_NUMBER
from widetable.storage.local import LocalFileIO

# Acceptance case 21 of change data capture, with the sequences of its groups.
CASE: list[dict[str, Any]] = [
    {"id": 1, "a": 1, "g": 1},
    {"id": 1, "b": None, "h": 1},
    {"id": 2, "a": None, "g": 1, "b": 2, "h": 1},
]
GROUPS = {
    "merge-engine": "partial-update",
    "fields.g.sequence-group": "a",
    "fields.h.sequence-group": "b",
}
COLUMNS = {"id": "BIGINT", "a": "BIGINT", "b": "BIGINT", "g": "BIGINT", "h": "BIGINT"}


def created(
    folder: Path, options: Mapping[str, str] | None = None, more: Mapping[str, str] | None = None
) -> wt.Table:
    return wt.Catalog(str(folder), file_io=LocalFileIO(fsync=False)).create_table(
        "db.t",
        COLUMNS | dict(more or {}),
        primary_key=["id"],
        options={"bucket": "1", "write-only": "true", **GROUPS, **(options or {})},
    )


def files(table: wt.Table, kind: str = "data") -> list[pa.Table]:
    """The data files of a table with their rows."""
    return [pq.read_table(path) for path in sorted(Path(table.path).rglob(f"{kind}-*.parquet"))]


def column_sets(table: wt.Table) -> list[set[str]]:
    """The columns of each file besides those of the format."""
    names = [set(file.column_names) & set(table.schema.names) for file in files(table)]
    return sorted(names, key=sorted)


def rows_of(table: wt.Table) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = table.scan().to_arrow().to_pylist()
    return rows


def row(**values: int | None) -> dict[str, Any]:
    return dict.fromkeys(COLUMNS) | values


def listed(rows: Sequence[Mapping[str, Any]], column: str = "written") -> pa.Table:
    """Dicts as rows of all columns, with a list of those that each has."""
    schema = pa.schema([(name, pa.int64()) for name in COLUMNS])
    names = pa.array([list(row) for row in rows], pa.list_(pa.string()))
    return pa.Table.from_pylist(list(rows), schema).append_column(column, names)


def test_a_null_is_written_and_what_is_absent_is_not(tmp_path: Path) -> None:
    table = created(tmp_path)
    table.write({"id": [1, 2], "a": [9, 9], "b": [9, 9], "g": [0, 0], "h": [0, 0]})
    done = table.write(CASE, "feed", 1)
    assert rows_of(table) == [row(id=1, a=1, g=1, h=1), row(id=2, g=1, b=2, h=1)]
    assert not table.write(CASE, "feed", 1).committed
    assert [each.id for each in table.snapshots()] == [1, done.snapshot_id]


def test_each_set_of_columns_has_a_file_of_one_commit(tmp_path: Path) -> None:
    table = created(tmp_path)
    rows = [{"id": 1, "a": 1, "g": 1}, {"id": 2, "b": 1, "h": 1}, {"id": 3}, *CASE]
    rows += [{"id": 4, "h": 2, "b": 2}, {"id": 5, "a": 2, "g": 2}]
    table.write(rows)
    assert len(table.snapshots()) == 1
    every = set(COLUMNS)
    assert column_sets(table) == sorted(
        [{"id", "a", "g"}, {"id", "b", "h"}, {"id"}, every], key=sorted
    )
    assert sorted(file["id"].to_pylist() for file in files(table)) == [[1, 2], [3], [4], [5]]


def test_rows_are_numbered_in_their_order_whatever_they_carry(tmp_path: Path) -> None:
    table = created(tmp_path)
    rows: list[dict[str, Any]] = [
        {"id": i, "a": i, "g": 1} if i % 3 else {"id": i, "b": i, "h": 1} for i in range(20)
    ]
    table.write(rows)
    numbers = {
        key: number
        for file in files(table)
        for key, number in zip(
            file["id"].to_pylist(), file[SEQUENCE_NUMBER].to_pylist(), strict=True
        )
    }
    first = numbers[0]
    assert [numbers[i] - first for i in range(20)] == list(range(20))


@pytest.mark.parametrize("budget", ["1 kb", "256 mb"], ids=["spilled", "in memory"])
def test_a_key_that_alternates_between_overlapping_sets_has_its_last_values(
    tmp_path: Path, budget: str, rng: random.Random
) -> None:
    """A record of {a} between two of {a, b} must not be merged past either of them. No group: only order decides."""
    options = {"merge-engine": "partial-update", "bucket": "1", "write-buffer-size": budget}
    catalog = wt.Catalog(tmp_path)
    columns = {"id": "BIGINT", "a": "BIGINT", "b": "BIGINT"}
    table = catalog.create_table("db.t", columns, primary_key=["id"], options=options)
    rows: list[dict[str, Any]] = []
    expected: dict[int, dict[str, int | None]] = {}
    for value in range(300):
        key = rng.randrange(3)
        carried = rng.choice([("a",), ("b",), ("a", "b")])
        written = {name: rng.choice([None, value]) for name in carried}
        rows.append({"id": key, **written})
        known = expected.setdefault(key, {})
        known.update({name: each for name, each in written.items() if each is not None})
    table.write(rows)
    assert rows_of(table) == [
        {"id": key, "a": None, "b": None} | expected[key] for key in sorted(expected)
    ]


def test_a_spilled_bucket_keeps_files_of_its_sets(tmp_path: Path) -> None:
    table = created(tmp_path, {"write-buffer-size": "64 kb"})
    rows: list[dict[str, Any]] = [
        {"id": i, "a": i, "g": 1} if i % 2 else {"id": i, "b": i, "h": 1} for i in range(4000)
    ]
    batches = listed(rows).to_batches(max_chunksize=500)
    table.write(iter(batches), written_columns="written")
    assert {frozenset(each) for each in column_sets(table)} == {
        frozenset({"id", "a", "g"}),
        frozenset({"id", "b", "h"}),
    }
    assert len(files(table)) > 2, "the rows fitted into memory"
    values = [each["a"] if each["id"] % 2 else each["b"] for each in rows_of(table)]
    assert values == [*range(4000)]


def test_rows_of_one_set_are_one_file(tmp_path: Path) -> None:
    table = created(tmp_path, {"write-buffer-size": "64 kb"})
    rows = listed([{"id": i, "a": i, "g": 1} for i in range(4000)])
    table.write(iter(rows.to_batches(max_chunksize=500)), written_columns="written")
    assert column_sets(table) == [{"id", "a", "g"}]


def test_a_list_of_names_says_what_a_row_carries(tmp_path: Path) -> None:
    table = created(tmp_path)
    table.write({"id": [1, 2], "a": [9, 9], "b": [9, 9], "g": [0, 0], "h": [0, 0]})
    rows = listed(CASE).to_pylist()
    rows[1]["a"] = 99  # not listed, so not written
    rows[2]["written"] = None  # all columns
    table.write(pa.Table.from_pylist(rows), written_columns="written")
    assert rows_of(table) == [row(id=1, a=1, g=1, h=1), row(id=2, g=1, b=2, h=1)]


def test_a_column_that_lists_no_names_is_refused(tmp_path: Path) -> None:
    table = created(tmp_path)
    for data, column, problem in (
        (listed(CASE), "nowhere", "no such column"),
        ({"id": [1], "a": [["b"]], "g": [1]}, "a", "a column of the table"),
        ({"id": [1], "n": [1]}, "n", "a column of int64"),
    ):
        with pytest.raises(InvalidError, match=f"names the columns of each row: found {problem}"):
            table.write(data, written_columns=column)
    assert not table.snapshots()


def test_an_overwrite_takes_rows_of_different_columns(tmp_path: Path) -> None:
    table = created(tmp_path)
    table.write([{"id": 7}])
    table.overwrite(listed(CASE), written_columns="written")
    assert rows_of(table) == [row(id=1, a=1, g=1, h=1), row(id=2, g=1, b=2, h=1)]


def test_dicts_may_lack_columns_of_their_writer(tmp_path: Path) -> None:
    table = created(tmp_path)
    with table.new_writer(list(COLUMNS)) as writer:
        writer.write([{"id": 1, "a": 1, "g": 1}])
        writer.write([{"id": 1, "b": 2, "h": 1}])
        messages = writer.finish()
    table.commit_append(messages)
    assert rows_of(table) == [row(id=1, a=1, g=1, b=2, h=1)]
    with (
        table.new_writer(list(COLUMNS)) as writer,
        pytest.raises(InvalidError, match=r"row 1.*'g'"),
    ):
        writer.write([{"id": 1, "a": 1}])


def test_a_writer_of_tasks_takes_lists_of_names(tmp_path: Path) -> None:
    table = created(tmp_path)
    base = table.sequence_base()
    messages = []
    for task in range(2):
        with table.new_writer(
            list(COLUMNS), task=task, tasks=2, sequence_base=base, written_columns="written"
        ) as writer:
            writer.write(listed(CASE[task : task + 1]))
            messages += writer.finish()
    table.commit_append(messages)
    assert rows_of(table) == [row(id=1, a=1, g=1, h=1)]


def test_a_writer_under_barriers_takes_rows_of_different_columns(tmp_path: Path) -> None:
    table = created(tmp_path, {"widetable.barrier-interval": "100 ms"})
    writer = wt.Catalog(tmp_path).writer("db.t", "feed", ["a", "g", "b", "h"])
    writer.write(CASE, 1, barrier=100)
    writer.write(listed(CASE), 2, barrier=100, complete=True, written_columns="written")
    assert not writer.write(listed(CASE), 2, written_columns="written").committed
    assert table.scan(barrier=100).to_arrow().to_pylist() == [
        row(id=1, a=1, g=1, h=1),
        row(id=2, g=1, b=2, h=1),
    ]


def test_a_writer_of_some_columns_may_not_list_others(tmp_path: Path) -> None:
    created(tmp_path, {"widetable.barrier-interval": "100 ms"})
    writer = wt.Catalog(tmp_path).writer("db.t", "feed", ["a", "g"])
    with pytest.raises(InvalidError, match="'b'"):
        writer.write(listed(CASE), written_columns="written")


def test_more_than_64_sets_are_refused(tmp_path: Path) -> None:
    values = {f"v{i}": "INT" for i in range(70)}
    table = created(tmp_path, more=values)
    rows = [{"id": i, f"v{i}": i} for i in range(65)]
    with pytest.raises(InvalidError, match="more than 64 different sets of columns"):
        table.write(rows)
    assert not files(table)
    table.write(rows[1:])
    assert len(files(table)) == 64
    assert [each[f"v{each['id']}"] for each in rows_of(table)] == list(range(1, 65))


def test_keys_of_many_combinations_share_one_file(tmp_path: Path, rng: random.Random) -> None:
    """Each key carries several of 20 sets, so there are more combinations than files."""
    names = [f"v{i}" for i in range(20)]
    table = created(tmp_path, more=dict.fromkeys(names, "INT"))
    carried = {key: rng.sample(names, 3) for key in range(200)}
    rows = [{"id": key, name: key} for key, chosen in carried.items() for name in chosen]
    rows += [{"id": 1000 + i, name: 1} for i, name in enumerate(names)]
    rng.shuffle(rows)
    table.write(rows)
    assert len(files(table)) == 21
    for each in rows_of(table)[:200]:
        assert {n for n in names if each[n] is not None} == set(carried[each["id"]])


def test_a_row_that_replaces_the_row_before_has_null_where_it_carries_nothing(
    tmp_path: Path,
) -> None:
    catalog = wt.Catalog(tmp_path)
    columns = {"id": "BIGINT", "a": "BIGINT", "b": "BIGINT"}
    table = catalog.create_table("db.d", columns, primary_key=["id"], options={"bucket": "1"})
    table.write([{"id": 1, "a": 1, "b": 1}, {"id": 2, "b": 1}])
    table.write([{"id": 1, "a": 2}, {"id": 3, "b": 3}])
    assert rows_of(table) == [
        {"id": 1, "a": 2, "b": None},
        {"id": 2, "a": None, "b": 1},
        {"id": 3, "a": None, "b": 3},
    ]
    assert len(files(table)) == 2, "a commit of whole rows needs one file"


def test_deletes_need_their_key_alone(tmp_path: Path) -> None:
    table = created(tmp_path, {"partial-update.remove-record-on-sequence-group": "g"})
    table.write([{"id": 1, "a": 1, "g": 1}, {"id": 2, "b": 1, "h": 1}])
    table.write(
        [
            {"id": 1, "g": 2, "a": None, "_row_kind": "-D"},
            {"id": 2, "b": 2, "h": 2, "_row_kind": "+I"},
        ]
    )
    assert rows_of(table) == [row(id=2, b=2, h=2)]


def test_new_keys_of_dynamic_buckets_are_where_lookups_find_them(tmp_path: Path) -> None:
    table = created(tmp_path, {"bucket": "-1", "dynamic-bucket.target-row-num": "3"})
    rows: list[dict[str, Any]] = [
        {"id": i, "a": i, "g": 1} if i % 2 else {"id": i, "b": i, "h": 1} for i in range(20)
    ]
    table.write(rows)
    table.write([{"id": i, "b": -i, "h": 2} for i in range(20)] + [{"id": 30}])
    assert sorted((each["id"], each["b"]) for each in rows_of(table)) == [
        *((i, -i) for i in range(20)),
        (30, None),
    ]
    assert table.lookup([3], columns=["a", "b"]).to_pylist() == [{"a": 3, "b": -3}]


def test_columns_that_may_not_be_null_are_in_each_file(tmp_path: Path) -> None:
    table = created(tmp_path, more={"n": "BIGINT NOT NULL"})
    with pytest.raises(InvalidError, match=r"row 2.*'n'"):
        table.write([{"id": 1, "n": 1, "a": 1, "g": 1}, {"id": 2, "b": 1, "h": 1}])
    table.write([{"id": 1, "n": 1, "a": 1, "g": 1}, {"id": 2, "n": 2, "b": 1, "h": 1}])
    assert column_sets(table) == [{"id", "n", "a", "g"}, {"id", "n", "b", "h"}]


def test_files_of_all_columns_stay_together(tmp_path: Path) -> None:
    table = created(tmp_path, {"widetable.level0-columns": "all"})
    table.write({"id": [1], "a": [9], "b": [9], "g": [0], "h": [0]})
    table.write(CASE)
    assert len(files(table)) == 2
    assert rows_of(table) == [row(id=1, a=1, g=1, h=1), row(id=2, g=1, b=2, h=1)]


def test_an_explanation_says_which_record_wrote_which_cell(tmp_path: Path) -> None:
    table = created(tmp_path)
    table.write([{"id": 2, "b": 9, "h": 0}, {"id": 1, "a": 9, "g": 0}, {"id": 1, "b": 9, "h": 0}])
    table.write(CASE)
    table.write([{"id": 1, "a": 5, "g": 3}, {"id": 2, "b": None, "h": 3}])
    cells = {
        (key, column.name): (
            column.value,
            column.record,
            [(e.effect, e.why) for e in column.events],
        )
        for key in (1, 2)
        for column in table.explain(key).columns
    }
    absent = ("leaves", "written without this column")
    assert cells[1, "a"] == (
        5,
        3,
        [
            ("takes", "g = 0 is the first"),
            ("takes", "g = 1 is not below g = 0 of #1"),
            ("takes", "g = 3 is not below g = 1 of #2"),
        ],
    )
    assert cells[1, "b"] == (
        None,
        2,
        [("takes", "h = 0 is the first"), ("takes", "h = 1 is not below h = 0 of #1"), absent],
    )
    assert cells[2, "a"] == (None, 2, [absent, ("takes", "g = 1 is the first"), absent])
    assert cells[2, "b"][:2] == (None, 3)
