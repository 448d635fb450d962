"""Scans: what they give in which order, and how little they touch."""

from __future__ import annotations

import datetime as dt
import json
import pickle
import random
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import widetable as wt
from tests.support.faults.counting_file_io import CountingFileIO
from tests.support.models.plain_rows import row_texts
from widetable.format.column_stats import EMPTY_STATS
from widetable.format.data_file_meta import DataFileMeta
from widetable.format.data_file_reader import DataFile, open_data_file
from widetable.read import merge_read
from widetable.read.filters import parse
from widetable.read.split import needs_merge

KEY = pa.field("k", pa.int64(), nullable=False)


def create(
    folder: Path,
    columns: Sequence[pa.Field],
    options: Mapping[str, str] | None = None,
    *,
    key: Sequence[str] = ("k",),
    partition_by: Sequence[str] = (),
) -> wt.Table:
    return wt.Catalog(str(folder)).create_table(
        "db.t",
        pa.schema(columns),
        primary_key=key,
        partition_by=partition_by,
        options={"widetable.fsync": "false", "write-only": "true", **(options or {})},
    )


def rows(table: wt.Table, **how: Any) -> list[Any]:
    return table.scan(**how).to_arrow().to_pylist()  # type: ignore[no-any-return]


def keyed(keys: Sequence[int] | range, **columns: Sequence[Any]) -> pa.Table:
    return pa.table({"k": pa.array(list(keys), pa.int64()), **columns})


@pytest.fixture
def counted(tmp_path: Path) -> tuple[wt.Table, CountingFileIO]:
    """8 buckets, three overlapping commits of 1,000 keys each."""
    table = create(
        tmp_path, [KEY, pa.field("v", pa.int64()), pa.field("s", pa.string())], {"bucket": "8"}
    )
    for commit in range(3):
        keys = range(commit * 500, commit * 500 + 1000)
        table.write(keyed(keys, v=[commit] * 1000, s=[f"s{k}" for k in keys]))
    file_io = CountingFileIO()
    return wt.Table.open(table.path, file_io=file_io), file_io


def test_a_point_read_touches_one_bucket(counted: tuple[wt.Table, CountingFileIO]) -> None:
    table, file_io = counted
    for filter in ("k = 777", pc.field("k") == 777, "k = 777 AND v > 0", "k IN (777)"):
        file_io.opened.clear()
        assert rows(table, filter=filter) == [{"k": 777, "v": 1, "s": "s777"}]
        assert len({Path(path).parent for path in file_io.opened}) == 1
        assert len(file_io.opened) == 2  # the key range of the third commit starts after the key


def test_a_key_that_the_type_cannot_hold_touches_nothing(
    counted: tuple[wt.Table, CountingFileIO],
) -> None:
    table, file_io = counted
    for filter in ("k = 1.5", "k = 1e30", "k IN (0.5, 99999999999999999999)"):
        file_io.opened.clear()
        assert rows(table, filter=filter) == []
        assert file_io.opened == []


def test_key_ranges_leave_out_files(counted: tuple[wt.Table, CountingFileIO]) -> None:
    table, file_io = counted
    assert len(rows(table, filter="k >= 1900")) == 100
    assert len(file_io.opened) == 8  # of the third commit only
    file_io.opened.clear()
    assert rows(table, filter="k < 0 OR k > 5000") == []
    assert file_io.opened == []


def test_values_do_not_leave_out_files_before_the_merge(
    counted: tuple[wt.Table, CountingFileIO],
) -> None:
    table, _ = counted
    # Old versions of keys 500 to 999 have v = 0: they must not come back.
    assert sorted(row["k"] for row in rows(table, filter="v = 0")) == list(range(500))


def test_row_groups_are_left_out_by_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("widetable.format.data_file_writer.ROW_GROUP_ROWS", 1000)
    table = create(tmp_path, [KEY, pa.field("v", pa.int64())])
    table.write(keyed(range(10_000), v=list(range(10_000))))
    table.write(keyed([5500], v=[-1]))
    table.compact(full=True)
    read: list[int] = []
    original = DataFile.batches

    def noting(self: DataFile, *arguments: Any, **how: Any) -> Iterator[pa.RecordBatch]:
        for batch in original(self, *arguments, **how):
            read.append(batch.num_rows)
            yield batch

    monkeypatch.setattr(DataFile, "batches", noting)
    assert rows(table, filter="k BETWEEN 5400 AND 5600 AND v < 5402") == [
        {"k": 5400, "v": 5400},
        {"k": 5401, "v": 5401},
        {"k": 5500, "v": -1},
    ]
    assert read == [1000]


def test_projection_reads_needed_columns_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    columns = [KEY, *(pa.field(name, pa.int64()) for name in ("g1", "a", "b", "g2", "c", "free"))]
    options = {
        "merge-engine": "partial-update",
        "fields.g1.sequence-group": "a,b",
        "fields.g2.sequence-group": "c",
    }
    table = create(tmp_path, columns, options)
    every = {name: [1, 2] for name in ("g1", "a", "b", "g2", "c", "free")}
    table.write(keyed([1, 2], **every))
    table.write(keyed([1, 3], **every))
    asked: list[tuple[str, ...]] = []

    def noting(*arguments: Any, **named: Any) -> DataFile:
        opened = open_data_file(*arguments, **named)
        asked.append(opened.columns)
        return opened

    monkeypatch.setattr("widetable.write.table_state.open_data_file", noting)
    assert row_texts(rows(table, columns=["c"])) == row_texts([{"c": 1}, {"c": 2}, {"c": 2}])
    assert set(asked) == {("k", "g2", "c")}
    asked.clear()
    assert rows(table, columns=["free"], filter="a = 2") == [{"free": 2}, {"free": 2}]
    assert set(asked) == {("k", "g1", "a", "free")}
    table.compact(full=True)
    asked.clear()
    assert rows(table, columns=["free"], filter="a = 2") == [{"free": 2}, {"free": 2}]
    assert set(asked) == {("k", "a", "free")}


def test_columns_come_in_the_order_asked_for(tmp_path: Path) -> None:
    table = create(tmp_path, [KEY, pa.field("a", pa.string()), pa.field("b", pa.int32())])
    table.write(keyed([2, 1], a=["y", "x"]))
    scan = table.scan(columns=["b", "a"])
    assert scan.arrow_schema == pa.schema([("b", pa.int32()), ("a", pa.string())])
    assert scan.to_arrow().to_pylist() == [{"b": None, "a": "x"}, {"b": None, "a": "y"}]
    assert table.scan(columns=[]).to_arrow().num_rows == 2
    assert table.scan(columns=[]).to_arrow().num_columns == 0
    with pytest.raises(wt.NotFoundError, match="nope"):
        table.scan(columns=["nope"])


def test_an_empty_table_has_a_schema_and_no_rows(tmp_path: Path) -> None:
    table = create(tmp_path, [KEY, pa.field("a", pa.string())])
    assert table.scan().to_arrow() == table.arrow_schema.empty_table()
    assert list(table.scan().to_batches()) == []
    assert table.scan(filter="a = 'x'").splits() == []


def test_rows_come_by_partition_bucket_and_key(tmp_path: Path, rng: random.Random) -> None:
    table = create(
        tmp_path,
        [pa.field("p", pa.int32(), False), KEY, pa.field("v", pa.int64())],
        {"bucket": "3"},
        key=["p", "k"],
        partition_by=["p"],
    )
    for _ in range(3):
        keys = rng.sample(range(1000), 200)
        table.write(keyed(keys, p=pa.array([k % 4 - 2 for k in keys], pa.int32()), v=keys))
    found = rows(table)
    assert found == [row for batch in table.scan().to_batches() for row in batch.to_pylist()]
    splits = table.scan().splits()
    assert [s.bucket for s in splits] == sorted(
        (s.bucket for s in splits),
        key=lambda each: (int.from_bytes(each[0][12:16], "little", signed=True), each[1]),
    )
    for read in table.scan().split_reads():
        keys = [key for batch in read.to_batches() for key in batch["k"].to_pylist()]
        assert keys == sorted(set(keys))
    assert [row["p"] for row in found] == sorted(row["p"] for row in found)


@pytest.mark.parametrize(
    ("kind", "values", "filter", "expected"),
    [
        (pa.date32(), [dt.date(1969, 12, 31), dt.date(2024, 2, 29)], "p > '2000-01-01'", 1),
        (pa.date32(), [dt.date(1969, 12, 31), dt.date(2024, 2, 29)], "p = '1969-12-31'", 1),
        (pa.string(), ["a/b", "eu", "日本"], "p LIKE 'e%'", 1),
        (pa.string(), ["a/b", "eu", "日本"], "p <> 'eu'", 2),
        (pa.string(), ["a/b", "eu", "日本"], "p IN ('eu', 'x', '日本')", 2),
        (pa.int32(), [-5, 0, 7], "NOT p = 0", 2),
        (pa.int32(), [-5, 0, 7], "p = 0 OR k = 2", 3),
        (pa.int32(), [-5, 0, 7], "p = 0 AND k = 2", 1),
        (pa.int32(), [-5, 0, 7], "p IS NULL", 0),
        (pa.decimal128(5, 2), [1, 2], "p = 1.0", 1),
        (pa.bool_(), [True, False], "p", 1),
        (pa.timestamp("us"), [dt.datetime(2024, 1, 1, 10)], "p < TIMESTAMP '2024-01-01'", 0),
        (
            pa.timestamp("us"),
            [dt.datetime(2024, 1, 1, 10), dt.datetime(2024, 1, 1, 10, 30)],
            "p = '2024-01-01 10:30:00'",
            1,
        ),
    ],
)
def test_partitions_are_left_out(
    tmp_path: Path, kind: pa.DataType, values: list[Any], filter: str, expected: int
) -> None:
    table = create(
        tmp_path,
        [pa.field("p", kind, False), KEY],
        key=["p", "k"],
        partition_by=["p"],
    )
    repeated = pa.array([value for value in values for _ in range(3)], kind)
    table.write(keyed(list(range(3)) * len(values), p=repeated))
    everything = table.scan().to_arrow()
    assert len(table.scan(filter=filter).splits()) == expected
    wanted = everything.filter(parse(filter, table.schema).expression)
    assert table.scan(filter=filter).to_arrow() == wanted


def test_filters_on_a_key_of_several_columns(tmp_path: Path, rng: random.Random) -> None:
    key = [pa.field("x", pa.int32(), False), pa.field("y", pa.string(), False)]
    table = create(tmp_path, [pa.field("v", pa.int64()), *key], {"bucket": "2"}, key=["x", "y"])
    for _ in range(4):
        chosen = {(rng.randrange(4), f"y{rng.randrange(20):02}") for _ in range(12)}
        x, y = zip(*chosen, strict=True)
        values = [rng.randrange(5) for _ in chosen]
        table.write(pa.table({"x": pa.array(x, pa.int32()), "y": y, "v": values}))
    conditions = [f"y = 'y{n:02}'" for n in range(20)]
    conditions += [f"x = {n} AND y > 'y10'" for n in range(4)]
    conditions += ["x IN (1, 3) AND y IN ('y01', 'y02', 'y03')", "x > 1 AND y < 'y05'", "v = 1"]
    for _ in range(2):
        everything = table.scan().to_arrow()
        for condition in conditions:
            wanted = everything.filter(parse(condition, table.schema).expression)
            assert table.scan(filter=condition).to_arrow() == wanted, condition
        table.compact(full=True)


FLOATS = [float("nan"), float("-inf"), -5.0, -0.0, 0.0, 5.0, float("inf")]


@pytest.mark.parametrize("kind", [pa.float32(), pa.float64()], ids=str)
def test_expressions_over_float_keys_keep_what_arrow_keeps(
    tmp_path: Path, kind: pa.DataType
) -> None:
    """Wherever the rows lie: each key in a file of its own, where its bounds are exact."""
    table = create(tmp_path, [pa.field("k", kind)])
    for key in FLOATS:
        table.write(pa.table({"k": pa.array([key], kind)}))
    column, whole = pc.field("k"), table.scan().to_arrow()
    assert whole.num_rows == len(FLOATS)
    for value in FLOATS:
        literal = pc.scalar(pa.scalar(value, kind))
        conditions = [column == literal, column != literal, column < literal, column <= literal]
        conditions += [column > literal, column >= literal, column.isin([value]), column.is_null()]
        for condition in conditions:
            for kept in (condition, ~condition, ~(condition & column.is_valid())):
                found, wanted = table.scan(filter=kept).to_arrow(), whole.filter(kept)
                assert repr(found.to_pylist()) == repr(wanted.to_pylist()), str(kept)


def test_columns_behind_a_float_of_the_key_are_not_bounded_by_its_zeros(tmp_path: Path) -> None:
    """-0.0 and 0.0 are equal and lie apart: what follows them in the key begins anew."""
    table = create(
        tmp_path, [pa.field("k", pa.float64()), pa.field("l", pa.int64())], key=["k", "l"]
    )
    table.write(pa.table({"k": [-0.0, 0.0, 0.0], "l": [9, -3, 1]}))
    for text in ("l = 9", "l = -3", "l > 1", "l < 1", "l <> 1", "k = 0 AND l = 9", "l IN (9, 100)"):
        assert (
            rows(table, filter=text)
            == table.scan().to_arrow().filter(parse(text, table.schema).expression).to_pylist()
        ), text


def test_partitions_with_other_numbers_of_buckets(tmp_path: Path) -> None:
    """Paimon's clients may rescale a table: partitions that are not rewritten keep their number."""
    table = create(
        tmp_path,
        [pa.field("p", pa.int32(), False), KEY],
        {"bucket": "2"},
        key=["p", "k"],
        partition_by=["p"],
    )
    one = pa.array([1] * 50, pa.int32())
    table.write(keyed(range(50), p=one))
    schema = json.loads(Path(table.path, "schema/schema-0").read_text(encoding="utf-8"))
    schema["id"], schema["options"]["bucket"] = 1, "7"
    Path(table.path, "schema/schema-1").write_text(json.dumps(schema), encoding="utf-8")
    table.write(keyed(range(50), p=pa.array([2] * 50, pa.int32())))
    assert {s.bucket.number for s in table.scan(filter="p = 2").splits()} == set(range(7))
    for k in range(50):
        assert rows(table, filter=f"k = {k}") == [{"p": 1, "k": k}, {"p": 2, "k": k}]
        assert len(table.scan(filter=f"k = {k}").splits()) == 2


def test_filters_give_the_rows_of_the_merged_table(tmp_path: Path, rng: random.Random) -> None:
    columns = [KEY, pa.field("a", pa.int64()), pa.field("b", pa.string())]
    table = create(tmp_path, columns, {"bucket": "3", "merge-engine": "partial-update"})
    for commit in range(6):
        keys = rng.sample(range(300), 100)
        values = [rng.choice([None, rng.randrange(10)]) for _ in keys]
        if commit % 2:
            table.write(keyed(keys, a=pa.array(values, pa.int64())))
        else:
            table.write(keyed(keys, b=[None if v is None else f"b{v}" for v in values]))
        if commit == 3:
            table.compact(full=True)
    conditions = [
        "a = 3", "a IS NULL", "b > 'b4' AND a < 5", "NOT (a = 1 OR b = 'b1')", "k < 50 AND a IS NOT NULL",
        "k IN (1, 2, 3, 250)", "k BETWEEN 100 AND 120 OR a = 9", "b LIKE 'b1%'", "FALSE", "k <> 7",
    ]  # fmt: skip
    for _ in range(2):
        everything = table.scan().to_arrow()
        for condition in conditions:
            scan = table.scan(columns=["b", "k"], filter=condition)
            wanted = everything.filter(parse(condition, table.schema).expression)
            assert scan.to_arrow() == wanted.select(["b", "k"]), condition
        table.compact(full=True)


def test_splits_and_their_readers_travel_to_other_processes(tmp_path: Path) -> None:
    table = create(tmp_path, [KEY, pa.field("v", pa.int64())], {"bucket": "2"})
    table.write(keyed(range(100), v=list(range(100))))
    table.write(keyed(range(50), v=[-1] * 50))
    scan = table.scan(columns=["v"], filter="v < 60")
    reads = pickle.loads(pickle.dumps(scan.split_reads()))
    found = [row for read in reads for batch in read.to_batches() for row in batch.to_pylist()]
    assert found == rows(table, columns=["v"], filter="v < 60")
    assert pickle.loads(pickle.dumps(scan.splits())) == scan.splits()


def test_raw_files_are_given_when_nothing_is_to_be_merged(tmp_path: Path) -> None:
    table = create(tmp_path, [KEY, pa.field("v", pa.int64())])
    table.write(keyed([1, 2], v=[1, 2]))
    (read,) = table.scan().split_reads()
    assert read.raw_files is not None
    assert [file.schema_id for file in read.raw_files] == [0]
    assert Path(read.raw_files[0].path).exists()
    table.write(keyed([5], v=[1]))
    (read,) = table.scan().split_reads()
    assert read.raw_files is None
    table.compact(full=True)
    (read,) = table.scan().split_reads()
    assert read.raw_files is not None


def test_a_large_scan_comes_in_batches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(merge_read, "BATCH_BYTES", 25_000)
    table = create(tmp_path, [KEY, pa.field("v", pa.int64())])
    for shift in range(2):
        table.write(keyed(range(shift, 20_000, 2), v=list(range(shift, 20_000, 2))))
    for _ in range(2):
        sizes = [batch.num_rows for batch in table.scan().to_batches()]
        assert sum(sizes) == 20_000
        assert max(sizes) <= 1000
        table.compact(full=True)


def test_an_expression_that_cannot_be_computed_is_named(tmp_path: Path) -> None:
    table = create(tmp_path, [KEY])
    table.write(keyed([2**62 + 1]))
    with pytest.raises(wt.InvalidError, match="filter"):
        table.scan(filter=pc.field("k") > 5.5).to_arrow()


def test_what_needs_a_merge() -> None:
    """format.md T1 and T2."""

    def file(level: int, deletes: int | None) -> DataFileMeta:
        return DataFileMeta(
            f"data-{level}",
            1,
            1,
            b"",
            b"",
            EMPTY_STATS,
            EMPTY_STATS,
            0,
            0,
            0,
            level,
            delete_row_count=deletes,
        )

    assert not needs_merge([file(0, 0)])
    assert not needs_merge([file(5, None)])
    assert needs_merge([file(0, 1)])
    assert needs_merge([file(5, 1)])
    assert not needs_merge([file(5, 0), file(5, 0)])
    assert needs_merge([file(5, 0), file(5, None)])
    assert needs_merge([file(5, 0), file(5, 2)])
    assert needs_merge([file(0, 0), file(0, 0)])
    assert needs_merge([file(0, 0), file(5, 0)])
    assert needs_merge([file(4, 0), file(5, 0)])
