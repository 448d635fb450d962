"""Rows of an append table: each row that is written is there once, in few files, within the memory of the writer."""

from __future__ import annotations

import datetime as dt
import random
from collections import Counter
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import widetable as wt
from tests.append.model import frozen, made, rows_of
from widetable.operations.writes.new_values import NewValues
from widetable.schema import options as opt
from widetable.schema.table_schema import TableSchema
from widetable.write.append import append_writer

TYPES = {
    "b": "BOOLEAN",
    "i": "TINYINT",
    "n": "BIGINT",
    "f": "FLOAT",
    "m": "DECIMAL(30, 3)",
    "c": "CHAR(3)",
    "y": "BYTES",
    "d": "DATE",
    "t": "TIMESTAMP(9)",
    "z": "TIMESTAMP_LTZ(6)",
    "r": "ROW<x INT, y STRING>",
    "l": "ARRAY<MAP<STRING, INT>>",
}
ROW: dict[str, Any] = {
    "b": True,
    "i": -128,
    "n": 2**62,
    "f": 0.5,
    "m": Decimal("-123456789012345678901234567.125"),
    "c": "abc",
    "y": b"\xff" * 40,
    "d": dt.date(1, 1, 1),
    "t": dt.datetime(2026, 12, 1, 1, 2, 3, 4),
    "z": dt.datetime(2026, 12, 1, tzinfo=dt.timezone.utc),
    "r": {"x": 1, "y": None},
    "l": [[("k", 1)], []],
}


def catalog(folder: Path) -> wt.Catalog:
    return wt.Catalog(str(folder))


def test_equal_rows_stay_apart_whatever_their_types_are(tmp_path: Path) -> None:
    table = catalog(tmp_path).create_table("db.t", TYPES)
    for _ in range(3):
        table.write([ROW, dict.fromkeys(TYPES), {"n": 1}])
    rows = table.scan().to_arrow().to_pylist()
    assert len(rows) == 9
    assert Counter(map(repr, rows)) == dict.fromkeys(Counter(map(repr, rows)), 3) | {
        repr(dict.fromkeys(TYPES)): 3
    }
    (whole, *_) = [row for row in rows if row["b"]]
    assert {name: whole[name] for name in "binfmcydrlz"} == {
        name: ROW[name] for name in "binfmcydrlz"
    }
    assert table.audit().findings == ()


def test_a_table_without_a_key_is_made_by_leaving_the_key_out(tmp_path: Path) -> None:
    table = catalog(tmp_path).create_table("db.t", {"n": "BIGINT"})
    assert table.schema.primary_keys == ()
    assert table.schema.options["bucket"] == "-1"
    assert table.inspect().merge_engine is None
    with pytest.raises(wt.InvalidError, match="primary_key"):
        catalog(tmp_path).create_table("db.u", {"n": "BIGINT"}, primary_key=[])


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"merge-engine": "partial-update"}, "merge-engine"),
        ({"changelog-producer": "lookup"}, "changelog-producer"),
        ({"changelog-producer": "input"}, "changelog-producer"),
        ({"sequence.field": "n"}, "sequence.field"),
        ({"rowkind.field": "s"}, "rowkind.field"),
        ({"ignore-delete": "true"}, "ignore-delete"),
        ({"fields.n.aggregate-function": "sum"}, "n.aggregate"),
        ({"widetable.barrier-interval": "1 s"}, "barrier"),
        ({"index.s": "db.i"}, "index.s"),
        ({"history.table": "db.h"}, "history.table"),
        ({"record-level.expire-time": "1 d", "record-level.time-field": "n"}, "record-level"),
        ({"bucket": "2"}, "bucket-key"),
        ({"bucket-key": "n"}, "bucket-key"),
        ({"bucket": "2", "bucket-key": "p"}, "bucket-key"),
        ({"bucket": "2", "bucket-key": "q"}, "bucket-key"),
        ({"bucket": "2", "bucket-key": "n,n"}, "bucket-key"),
        ({"bucket": "-2"}, "bucket"),
        ({"clustering.columns": "n"}, "clustering.columns"),
        ({"clustering.incremental": "true"}, "clustering.incremental"),
        ({"file-index.bsi.columns": "n"}, "file-index.bsi"),
        ({"row-tracking.enabled": "true"}, "row-tracking"),
        ({"ignore-delete": "true"}, "'ignore-delete'"),
        ({"partial-update.ignore-delete": "true"}, "partial-update.ignore-delete"),
        ({"deduplicate.ignore-delete": "true"}, "deduplicate.ignore-delete"),
        ({"first-row.ignore-delete": "true"}, "first-row.ignore-delete"),
    ],
)
def test_an_option_without_effect_is_refused_by_its_name(
    tmp_path: Path, options: dict[str, str], named: str
) -> None:
    columns = {"p": "INT", "n": "BIGINT", "s": "STRING"}
    with pytest.raises(wt.WidetableError, match=named):
        catalog(tmp_path).create_table("db.t", columns, partition_by=["p"], options=options)


def test_only_inserts_are_taken(tmp_path: Path) -> None:
    table = made(tmp_path, "free", parts=False)
    table.write([{"n": 1, "_row_kind": "+I"}])
    for kind in ("-U", "+U", "-D"):
        with pytest.raises(wt.InvalidError, match="without a primary key"):
            table.write([{"n": 2, "_row_kind": "+I"}, {"n": 3, "_row_kind": kind}])
    assert table.scan().count() == 1


def test_a_column_that_says_where_a_row_lies_is_required(tmp_path: Path) -> None:
    for kind, missing in (("free", "p"), ("buckets", "s")):
        table = made(tmp_path / kind, kind, parts=True)
        rows = [{"n": 1, "p": 1, "s": "a"}]
        table.write(rows)
        with pytest.raises(wt.InvalidError, match=f"'{missing}'"):
            table.write([{k: v for k, v in rows[0].items() if k != missing}])
        with pytest.raises(wt.InvalidError, match="'n'"):
            table.write([{"p": 1, "s": "a"}])


def test_rows_carry_their_own_columns(tmp_path: Path) -> None:
    table = made(tmp_path, "free", parts=False)
    data = pa.table({"n": [1, 2], "s": ["a", "b"], "d": [1.0, 2.0], "has": [["s"], ["d"]]})
    with pytest.raises(wt.InvalidError, match="'n'"):
        table.write(data, written_columns="has")
    data = data.set_column(3, "has", pa.array([["n", "s"], ["n", "d"]]))
    table.write(data, written_columns="has")
    rows = table.scan(["n", "s", "d"]).to_arrow().to_pylist()
    assert rows == [{"n": 1, "s": "a", "d": None}, {"n": 2, "s": None, "d": 2.0}]


@pytest.mark.parametrize("parts", [1, 5, 150])
def test_memory_is_bounded_and_each_partition_has_one_file(
    tmp_path: Path, parts: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows of more partitions than may have open files wait on the disk, in their order."""
    table = made(tmp_path, "buckets", parts=True, **{"write-buffer-size": "256 kb", "bucket": "1"})

    def batches() -> Iterator[pa.RecordBatch]:
        for start in range(0, 12_000, 500):
            numbers = range(start, start + 500)
            yield pa.record_batch(
                {
                    "p": pa.array([n % parts for n in numbers], pa.int32()),
                    "n": pa.array(numbers, pa.int64()),
                    "s": [f"text {n}" for n in numbers],
                }
            )

    table.write(batches())
    assert table.inspect.files().num_rows == parts
    scan = table.scan(["p", "n"]).to_arrow()
    assert scan.num_rows == 12_000
    for part in range(min(parts, 3)):
        rows = table.scan(["n"], f"p = {part}").to_arrow().column("n").to_pylist()
        assert rows == list(range(part, 12_000, parts))


def test_threads_share_many_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(append_writer, "_BYTES_PER_THREAD", 1000)
    table = made(tmp_path, "free", parts=True)
    rows = pa.table(
        {
            "p": pa.array([n % 2 for n in range(999)], pa.int32()),
            "n": pa.array(range(999), pa.int64()),
            "s": [str(n) for n in range(999)],
        }
    )
    done = table.write(rows)
    assert (done.rows, done.files) == (999, 4)
    ours = table.scan(rows.column_names).to_arrow().sort_by("n")
    assert ours.equals(rows.cast(ours.schema))
    table.write(rows, "user", 1)
    assert not table.write(rows, "user", 1).committed
    assert table.scan().count() == 2 * 999


def test_an_error_in_a_thread_leaves_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(append_writer, "_BYTES_PER_THREAD", 1000)
    table = made(tmp_path, "free", parts=False)
    numbers = pa.array([*range(999), None], pa.int64())
    with pytest.raises(wt.InvalidError, match="NOT NULL"):
        table.write(pa.table({"n": numbers, "s": ["x" * 20] * 1000}))
    assert list(Path(table.path).rglob("*.parquet")) == []
    assert table.snapshots() == []


def test_writers_of_one_bucket_never_conflict_and_keep_the_order_of_commits(
    tmp_path: Path, rng: random.Random
) -> None:
    table = made(tmp_path, "buckets", parts=False, **{"write-only": "true"})
    begun = []
    for number in range(12):
        with table.new_writer(["n", "s"]) as writer:
            writer.write(pa.table({"n": [number, number + 100], "s": ["a", "a"]}))
            begun.append((number, writer.finish()))
    rng.shuffle(begun)
    for _, messages in begun:
        table.commit_append(messages)
    expected = [n for number, _ in begun for n in (number, number + 100)]
    assert table.scan(["n"]).to_arrow().column("n").to_pylist() == expected
    table.compact(full=True)
    assert table.inspect.files().num_rows == 1
    assert table.scan(["n"]).to_arrow().column("n").to_pylist() == expected


def test_narrow_files_lack_what_nobody_wrote(tmp_path: Path) -> None:
    columns = {"n": "BIGINT", **{f"c{i}": "BIGINT" for i in range(300)}}
    table = catalog(tmp_path).create_table("db.t", columns, options={"write-only": "true"})
    table.write([{"n": 1, "c7": 7}])
    table.write([{"n": 2, "c250": 8}])
    table.compact(full=True)
    (file,) = table.inspect.files().column("path").to_pylist()
    assert pa.parquet.read_schema(file).names == ["n", "c7", "c250"]
    rows = table.scan(["n", "c7", "c250", "c3"]).to_arrow().to_pylist()
    assert [tuple(row.values()) for row in rows] == [(1, 7, None, None), (2, None, 8, None)]
    assert table.scan(filter="c3 IS NOT NULL").splits() == []
    assert table.audit().findings == ()


def test_a_commit_by_key_is_refused(tmp_path: Path) -> None:
    table = made(tmp_path, "free", parts=False)
    table.write([{"n": 1}])
    with pytest.raises(wt.UnsupportedError, match="append table"):
        table.commit_append([], read_snapshot=1)
    with pytest.raises(wt.UnsupportedError, match="append table"):
        table.lookup([1])


@pytest.mark.parametrize(
    "find",
    [
        lambda table: table.lookup([{"n": 1}]),
        lambda table: table.lookup_session(),
        lambda table: table.explain({"n": 1}),
        lambda table: table.follow_samples("r", complete=["s"], wait="1 h", on="n", writers=["w"]),
        lambda table: list(wt.lookup_join([pa.record_batch({"n": [1]})], table, ["n"])),
        lambda table: table.delete_keys([{"n": 1}]),
        lambda table: table.rescale(2),
    ],
    ids=["lookup", "session", "explain", "samples", "join", "delete_keys", "rescale"],
)
def test_what_finds_rows_by_a_key_is_refused_at_once(
    tmp_path: Path, find: Callable[[wt.Table], object]
) -> None:
    table = made(tmp_path, "free", parts=False)
    table.write([{"n": 1}])
    with pytest.raises(wt.UnsupportedError, match=r"found none \(an append table\)"):
        find(table)


def test_all_columns_are_written_for_old_readers(tmp_path: Path) -> None:
    table = made(tmp_path, "free", parts=False, **{opt.LEVEL0_COLUMNS.key: "all"})
    table.write([{"n": 1}])
    table.update("n = 1", {"d": 2.0})
    (file,) = table.inspect.files().column("path").to_pylist()
    assert pa.parquet.read_schema(file).names == list(table.schema.names)
    assert [frozen(row) for row in rows_of(table.scan().to_arrow())] == [
        frozen({"p": None, "n": 1, "s": None, "d": 2.0, "l": None})
    ]


def test_bytes_are_bounded_by_no_order(tmp_path: Path) -> None:
    """Other clients order bytes as signed numbers: bounds in one order hide rows from readers of the other."""
    table = catalog(tmp_path).create_table("db.t", {"y": "BYTES", "s": "STRING"})
    values = [b"\x7f", b"\x80", b"\xff", b"", None]
    table.write({"y": values, "s": ["a"] * 5})
    (file,) = [file for split in table.scan().splits() for file in split.files]
    assert b"\x7f" not in file.value_stats.min_values + file.value_stats.max_values
    for value in filter(None, values):
        kept = table.scan(filter=pa.compute.field("y") == pa.scalar(value))
        assert kept.count() == 1
    assert table.scan(filter="s IS NULL").splits() == []


@pytest.mark.parametrize("kind", ["INT", "BIGINT"])
def test_a_bucket_of_a_number_does_not_depend_on_nulls_beside_it(tmp_path: Path, kind: str) -> None:
    options = {"bucket": "4", "bucket-key": "v", "bucket-function.type": "mod"}
    table = catalog(tmp_path).create_table("db.t", {"v": kind, "n": "INT"}, options=options)
    values = [5, -7, 2**31 - 1] if kind == "INT" else [5, -7, 2**53 + 1, 2**60 + 3, -(2**63)]
    table.write({"v": [*values, None], "n": range(len(values) + 1)})
    table.write({"v": values, "n": range(len(values))})
    bucket_of = {
        value: {split.bucket.number for split in table.scan(filter=f"v = {value}").splits()}
        for value in values
    }
    assert bucket_of == {value: {value % 4} for value in values}
    assert [table.scan(filter=f"v = {value}").count() for value in values] == [2] * len(values)
    assert table.scan(filter="v IS NULL").count() == 1
    assert table.audit().ok


def test_an_expression_sees_null_where_a_file_lacks_a_column(tmp_path: Path) -> None:
    columns = {"a": "BIGINT", "b": "INT", **{f"c{at}": "INT" for at in range(101)}}
    table = catalog(tmp_path).create_table("db.t", columns)
    table.write({"a": [1, 2]})
    field = pa.compute.field
    table.update("true", {"b": pa.compute.if_else(field("c7").is_null(), 5, 6)})
    assert table.scan(columns=["b"]).to_arrow().column("b").to_pylist() == [5, 5]
    with pytest.raises(
        wt.InvalidError, match="found the column 'zzz'; expected columns of the table"
    ):
        table.update("a = 100", {"b": field("zzz")})


def test_changed_and_compacted_files_keep_the_bounds_of_sort_columns(tmp_path: Path) -> None:
    """A wide table bounds its first columns only, and those by which it is sorted."""
    columns = {f"c{at}": "INT" for at in range(130)}
    table = catalog(tmp_path).create_table("db.t", columns, options={"write-only": "true"})

    def bounded() -> set[tuple[str, ...] | None]:
        files = [file for split in table.scan().splits() for file in split.files]
        return {file.value_stats_cols and file.value_stats_cols[32:] for file in files}

    table.write({name: range(20) for name in columns})
    assert bounded() == {()}
    table.sort_compact(["c120", "c90"])
    table.delete("c3 = 4")
    table.update("c3 = 5", {"c7": 1})
    assert bounded() == {("c90", "c120")}
    table.write({name: range(20) for name in columns})
    table.sort_compact(["c120"])
    table.write({"c1": [1]})
    table.sort_compact(["c120", "c90"])
    table.write({"c1": [1]})
    table.compact(full=True)
    assert bounded() == {()}, "not all of the files were sorted"


def test_one_schema_says_what_an_update_sets(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A column becomes wider after the new values were made."""
    tables = catalog(tmp_path)
    table = tables.create_table("db.t", {"a": "INT", "b": "INT"})
    table.write({"a": [1, 2], "b": [1, 2]})
    of, calls = NewValues.of, list[str]()

    def slow(schema: TableSchema, given: Any) -> NewValues:
        values = of(schema, given)
        calls.append("of")
        if len(calls) == 2:  # the first one only checks the arguments
            tables.alter_table("db.t", change_types={"b": "BIGINT"})
        return values

    monkeypatch.setattr(NewValues, "of", slow)
    assert table.update("a = 2", {"b": 7}).rows == 1
    assert len(calls) == 2
    rows = tables.table("db.t").scan().to_arrow()
    assert rows.schema.field("b").type == pa.int64()
    assert rows.column("b").to_pylist() == [1, 7]


@pytest.mark.parametrize("rewrite", [False, True])
def test_a_rewrite_leaves_deleted_rows_in_no_file(tmp_path: Path, rewrite: bool) -> None:
    """Also where the table marks rows by deletion vectors, and has marked others of the same file before."""
    table = made(tmp_path, "vectors", parts=False, **{"write-only": "true"})
    table.write([{"n": number, "s": f"text {number}"} for number in range(9)])
    table.delete("n = 1")
    assert table.delete("n = 2", rewrite=rewrite).rows == 1
    (file,) = table.inspect.files().column("path").to_pylist()
    stored = pa.parquet.read_table(file)["n"].to_pylist()
    assert stored == ([0, *range(3, 9)] if rewrite else [*range(9)])
    assert sorted(table.scan(["n"]).to_arrow()["n"].to_pylist()) == [0, *range(3, 9)]
    assert table.audit().findings == ()
