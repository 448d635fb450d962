"""What we write, pypaimon reads: the same rows, for every feature that it does not refuse."""

from __future__ import annotations

import datetime as dt
import random
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import widetable as wt
from tests.interop.conftest import NATIVE, PypaimonProcess
from tests.support.models.plain_rows import row_texts

pytestmark = pytest.mark.interop
Reader = Callable[..., list[str]]

KEY = pa.field("k", pa.int32(), nullable=False)


def create(
    folder: Path,
    columns: Sequence[pa.Field],
    options: Mapping[str, str] | None = None,
    *,
    key: Sequence[str] = ("k",),
    partition_by: Sequence[str] = (),
) -> wt.Table:
    """A table that is never compacted by itself, so that the tests choose when."""
    return wt.Catalog(str(folder)).create_table(
        "db.t",
        pa.schema(columns),
        primary_key=key,
        partition_by=partition_by,
        options={"widetable.fsync": "false", "write-only": "true", **(options or {})},
    )


def write(table: wt.Table, rows: Sequence[Mapping[str, Any]]) -> None:
    """One commit of the columns that the first row has."""
    fields = [table.arrow_schema.field(name) for name in rows[0] if name != "_row_kind"]
    if "_row_kind" in rows[0]:
        fields.append(pa.field("_row_kind", pa.string()))
    table.write(pa.Table.from_pylist([dict(row) for row in rows], pa.schema(fields)))


def ours(table: wt.Table, **choice: Any) -> list[str]:
    return row_texts(table.scan(**choice).to_arrow().to_pylist())


def assert_same_in_all_layouts(table: wt.Table, theirs: Reader) -> None:
    """Level-0 files, then after a universal pick, then one bottom run; and each snapshot as it was."""
    before = ours(table)
    assert theirs(table) == before
    table.compact()
    assert theirs(table) == ours(table) == before
    table.compact(full=True)
    assert theirs(table) == ours(table) == before
    for snapshot in table.snapshots():
        assert theirs(table, snapshot=snapshot.id) == ours(table, snapshot_id=snapshot.id)


ALL_TYPES: dict[str, tuple[pa.DataType, list[Any]]] = {
    "c_bool": (pa.bool_(), [True, False, None]),
    "c_i8": (pa.int8(), [-128, 127, None]),
    "c_i16": (pa.int16(), [-32768, 32767, None]),
    "c_i32": (pa.int32(), [-(2**31), 2**31 - 1, None]),
    "c_i64": (pa.int64(), [-(2**63), 2**63 - 1, None]),
    "c_f32": (pa.float32(), [1.5, -0.0, None]),
    "c_f64": (pa.float64(), [-2.25, float("nan"), None]),
    "c_dec9": (pa.decimal128(9, 2), [Decimal("1234567.89"), Decimal("-0.01"), None]),
    "c_dec18": (pa.decimal128(18, 4), [Decimal("12345678901234.5678"), Decimal("-1.0000"), None]),
    "c_dec38": (
        pa.decimal128(38, 10),
        [Decimal("-1234567890123456789012345678.0123456789"), Decimal("1.0000000000"), None],
    ),
    "c_string": (pa.string(), ["", "grüße-日本, longer than fifteen bytes", None]),
    "c_bytes": (pa.binary(), [b"", b"\x00\xff\x10", None]),
    "c_fixed": (pa.binary(4), [b"\x00\x01\x02\x03", b"abcd", None]),
    "c_date": (pa.date32(), [dt.date(2024, 2, 29), dt.date(1969, 12, 31), None]),
    "c_time": (pa.time32("ms"), [dt.time(12, 34, 56, 789000), dt.time(0), None]),
    "c_ts0": (pa.timestamp("s"), [dt.datetime(2024, 1, 2, 3, 4, 5), dt.datetime(1901, 1, 1), None]),
    "c_ts3": (
        pa.timestamp("ms"),
        [dt.datetime(2024, 1, 2, 3, 4, 5, 678000), dt.datetime(1969, 12, 31, 23, 59, 59), None],
    ),
    "c_ts6": (
        pa.timestamp("us"),
        [dt.datetime(2024, 1, 2, 3, 4, 5, 678901), dt.datetime(9999, 12, 31), None],
    ),
    "c_ts9": (pa.timestamp("ns"), [1704164645678901000, -1000, None]),
    "c_ltz3": (
        pa.timestamp("ms", "UTC"),
        [dt.datetime(2024, 1, 2, 3, 4, 5, 678000, dt.timezone.utc), None, None],
    ),
    "c_ltz6": (
        pa.timestamp("us", "UTC"),
        [dt.datetime(2024, 1, 2, 3, 4, 5, 678901, dt.timezone.utc), None, None],
    ),
    "c_array": (pa.list_(pa.int32()), [[1, None, 3], [], None]),
    "c_map": (pa.map_(pa.string(), pa.int64()), [[("a", 1), ("b", None)], [], None]),
    "c_row": (
        pa.struct([("x", pa.int32()), ("y", pa.list_(pa.string()))]),
        [{"x": 1, "y": ["p", None]}, {"x": None, "y": None}, None],
    ),
    "c_deep": (
        pa.list_(pa.struct([("m", pa.map_(pa.int32(), pa.decimal128(10, 2)))])),
        [[{"m": [(1, Decimal("1.50"))]}, {"m": None}], [], None],
    ),
}


@pytest.mark.parametrize("engine", ["deduplicate", "partial-update"])
def test_all_column_types(tmp_path: Path, pypaimon_rows: Reader, engine: str) -> None:
    columns = [KEY, *(pa.field(name, kind) for name, (kind, _) in ALL_TYPES.items())]
    table = create(tmp_path, columns, {"merge-engine": engine})
    for shift in range(3):  # each value meets each other in the merge
        data = {"k": pa.array([1, 2, 3], pa.int32())}
        for name, (kind, values) in ALL_TYPES.items():
            data[name] = pa.array(values[shift:] + values[:shift], kind)
        table.write(pa.table(data))
        assert pypaimon_rows(table) == ours(table)
    assert_same_in_all_layouts(table, pypaimon_rows)


def test_nanoseconds(tmp_path: Path, pypaimon_rows: Reader) -> None:
    """Read without a merge: when pypaimon merges, it keeps microseconds only."""
    table = create(tmp_path, [KEY, pa.field("t", pa.timestamp("ns"))])
    times = pa.array([1704164645678901234, -1, None], pa.timestamp("ns"))
    table.write(pa.table({"k": pa.array([1, 2, 3], pa.int32()), "t": times}))
    assert "678901234" in ours(table)[0]
    assert_same_in_all_layouts(table, pypaimon_rows)


def test_narrow_files_of_several_writers(tmp_path: Path, pypaimon_rows: Reader) -> None:
    names = [f"c{i}" for i in range(6)]
    columns = [KEY, *(pa.field(name, pa.int64()) for name in names)]
    table = create(tmp_path, columns, {"merge-engine": "partial-update", "bucket": "3"})
    rng = random.Random(7)
    for commit in range(8):
        chosen = rng.sample(names, 2)
        keys = rng.sample(range(40), 15)
        write(table, [{"k": k, **{name: commit * 100 + k for name in chosen}} for k in keys])
    assert_same_in_all_layouts(table, pypaimon_rows)


def test_narrow_rows_of_deduplicate_are_null_elsewhere(
    tmp_path: Path, pypaimon_rows: Reader
) -> None:
    table = create(tmp_path, [KEY, pa.field("a", pa.string()), pa.field("b", pa.string())])
    write(table, [{"k": 1, "a": "x", "b": "y"}, {"k": 2, "a": "x", "b": "y"}])
    write(table, [{"k": 1, "b": "z"}, {"k": 3, "b": "z"}])
    assert ours(table) == row_texts(
        [{"k": 1, "a": None, "b": "z"}, {"k": 2, "a": "x", "b": "y"}, {"k": 3, "a": None, "b": "z"}]
    )
    assert_same_in_all_layouts(table, pypaimon_rows)


def test_all_columns_in_level_0(tmp_path: Path, pypaimon_rows: Reader) -> None:
    columns = [KEY, pa.field("a", pa.string()), pa.field("b", pa.int64())]
    options = {"merge-engine": "partial-update", "widetable.level0-columns": "all"}
    table = create(tmp_path, columns, options)
    write(table, [{"k": 1, "a": "x"}, {"k": 2, "a": "y"}])
    write(table, [{"k": 2, "b": 5}])
    assert_same_in_all_layouts(table, pypaimon_rows)


@pytest.mark.parametrize("native", [True, False])
def test_dynamic_buckets(tmp_path: Path, pypaimon_process: PypaimonProcess, native: bool) -> None:
    """Both put new keys into buckets by the other's index, and find old ones there."""
    how: dict[str, Any] = {"options": NATIVE} if native else {}
    columns, options = [KEY, pa.field("v", pa.int32())], {"dynamic-bucket.target-row-num": "3"}
    table = create(tmp_path, columns, {"bucket": "-1", **options})
    path = tmp_path / "rows.arrow"
    for number in range(4):
        rows = [{"k": k, "v": number} for k in range(4 * number, 4 * number + 9)]
        if number % 2 == 0:
            write(table, rows)
        else:
            data = pa.Table.from_pylist(rows, table.arrow_schema)
            with pa.ipc.new_file(path, data.schema) as writer:
                writer.write_table(data)
            pypaimon_process.ask(table, write=str(path), **how)
        assert row_texts(pypaimon_process.ask(table, **how)) == ours(table)
    assert len(ours(table)) == 21
    table.compact(full=True)
    assert row_texts(pypaimon_process.ask(table, **how)) == ours(table)
    assert table.lookup([0, 12, 20, 21])["v"].to_pylist() == [0, 3, 3, None]


PARTITION_VALUES: dict[str, tuple[pa.DataType, list[Any]]] = {
    "date": (pa.date32(), [dt.date(2024, 2, 29), dt.date(1969, 12, 31)]),
    "string": (pa.string(), ["a/b=c %", " "]),
    "int": (pa.int32(), [-5, 7]),
}


@pytest.mark.parametrize("kind", PARTITION_VALUES)
def test_partitions(tmp_path: Path, pypaimon_rows: Reader, kind: str) -> None:
    day, values = PARTITION_VALUES[kind]
    table = create(
        tmp_path,
        [
            pa.field("p", day, False),
            pa.field("region", pa.string(), False),
            KEY,
            pa.field("v", pa.int64()),
        ],
        {"bucket": "2"},
        key=["p", "region", "k"],
        partition_by=["p", "region"],
    )
    for commit in range(3):
        write(
            table,
            [
                {"p": p, "region": region, "k": k, "v": commit}
                for p in values
                for region in ("eu", "日本")
                for k in range(commit, commit + 4)
            ],
        )
    assert_same_in_all_layouts(table, pypaimon_rows)
    assert pypaimon_rows(table, filter=["region", "eu"]) == ours(table, filter="region = 'eu'")


def test_deletes(tmp_path: Path, pypaimon_rows: Reader) -> None:
    table = create(tmp_path, [KEY, pa.field("v", pa.int64())])
    write(table, [{"k": k, "v": k} for k in range(10)])
    write(table, [{"k": k, "v": None, "_row_kind": "-D"} for k in (1, 3, 77)])
    write(table, [{"k": 3, "v": 33, "_row_kind": "+I"}, {"k": 4, "v": 4, "_row_kind": "-U"}])
    assert len(ours(table)) == 8
    assert_same_in_all_layouts(table, pypaimon_rows)


def test_a_lone_delete(tmp_path: Path, pypaimon_rows: Reader) -> None:
    table = create(tmp_path, [KEY, pa.field("v", pa.int64())])
    write(table, [{"k": 1, "v": None, "_row_kind": "-D"}, {"k": 2, "v": 2, "_row_kind": "+I"}])
    assert ours(table) == row_texts([{"k": 2, "v": 2}])
    assert_same_in_all_layouts(table, pypaimon_rows)


@pytest.mark.parametrize("order", ["ascending", "descending"])
def test_sequence_field(tmp_path: Path, pypaimon_rows: Reader, order: str) -> None:
    columns = [KEY, pa.field("ver", pa.int64()), pa.field("v", pa.string())]
    options = {"sequence.field": "ver", "sequence.field.sort-order": order}
    table = create(tmp_path, columns, options)
    write(table, [{"k": 1, "ver": 5, "v": "five"}, {"k": 2, "ver": None, "v": "none"}])
    write(table, [{"k": 1, "ver": 3, "v": "three"}, {"k": 2, "ver": 1, "v": "one"}])
    write(table, [{"k": 1, "ver": 5, "v": "five again"}, {"k": 2, "ver": None, "v": "late"}])
    assert_same_in_all_layouts(table, pypaimon_rows)


def test_rowkind_field(tmp_path: Path, pypaimon_rows: Reader) -> None:
    columns = [KEY, pa.field("v", pa.string()), pa.field("rk", pa.string())]
    table = create(tmp_path, columns, {"rowkind.field": "rk"})
    write(table, [{"k": 1, "v": "a", "rk": "+I"}, {"k": 2, "v": "b", "rk": "+I"}])
    write(table, [{"k": 1, "v": "A", "rk": "+U"}, {"k": 2, "v": "b", "rk": "-D"}])
    assert ours(table) == row_texts([{"k": 1, "v": "A", "rk": "+U"}])
    assert_same_in_all_layouts(table, pypaimon_rows)


def test_composite_key_and_bucket_key(tmp_path: Path, pypaimon_rows: Reader) -> None:
    table = create(
        tmp_path,
        [
            pa.field("v", pa.float64()),
            pa.field("id", pa.int64(), False),
            pa.field("region", pa.string(), False),
        ],
        {"bucket": "4", "bucket-key": "region"},
        key=["region", "id"],
    )
    rows = [
        {"region": r, "id": i, "v": i / 2}
        for r in ("", "seven77", "eight888", "grüße-日本")
        for i in (-1, 0, 2**40)
    ]
    write(table, rows)
    write(table, [{**row, "v": -1.0} for row in rows[::2]])
    assert_same_in_all_layouts(table, pypaimon_rows)
    assert pypaimon_rows(table, filter=["region", "eight888"]) == ours(
        table, filter="region = 'eight888'"
    )


@pytest.mark.parametrize("column", ["k", "v", "s"])
def test_filters_and_projections(tmp_path: Path, pypaimon_rows: Reader, column: str) -> None:
    columns = [KEY, pa.field("v", pa.int64()), pa.field("s", pa.string())]
    table = create(tmp_path, columns, {"bucket": "2", "merge-engine": "partial-update"})
    write(table, [{"k": k, "v": k % 5, "s": f"s{k % 3}"} for k in range(200)])
    write(table, [{"k": k, "v": 3} for k in range(50, 120)])
    value: Any = {"k": 77, "v": 3, "s": "s1"}[column]
    text = f"'{value}'" if isinstance(value, str) else str(value)
    for _ in range(2):
        found = pypaimon_rows(table, filter=[column, value])
        assert found == ours(table, filter=f"{column} = {text}")
        assert found
        assert pypaimon_rows(table, project=["s", "k"]) == ours(table, columns=["s", "k"])
        table.compact(full=True)


def test_tags(tmp_path: Path, pypaimon_rows: Reader) -> None:
    table = create(tmp_path, [KEY, pa.field("v", pa.int64())])
    write(table, [{"k": 1, "v": 1}])
    table.create_tag("first")
    write(table, [{"k": 1, "v": 2}, {"k": 2, "v": 2}])
    table.compact(full=True)
    assert (
        pypaimon_rows(table, tag="first")
        == ours(table, tag="first")
        == row_texts([{"k": 1, "v": 1}])
    )
    assert pypaimon_rows(table) == ours(table)


def test_schema_evolution(tmp_path: Path, pypaimon_rows: Reader) -> None:
    columns = [
        KEY,
        pa.field("a", pa.int32()),
        pa.field("b", pa.string()),
        pa.field("gone", pa.string()),
    ]
    table = create(tmp_path, columns)
    catalog = wt.Catalog(str(tmp_path))
    write(table, [{"k": k, "a": k, "b": f"b{k}", "gone": "g"} for k in range(5)])
    catalog.alter_table(
        "db.t",
        rename_columns={"b": "b2"},
        drop_columns=["gone"],
        change_types={"a": pa.int64()},
        add_columns=[pa.field("d", pa.float64())],
    )
    write(table, [{"k": 2, "a": 9_000_000_000, "b2": "TWO", "d": 2.5}])
    assert pypaimon_rows(table) == ours(table)
    catalog.alter_table("db.t", add_columns=[pa.field("gone", pa.int32())])
    write(table, [{"k": 3, "gone": 7}])
    assert '"gone": "g"' not in "".join(ours(table))
    assert_same_in_all_layouts(table, pypaimon_rows)


def test_overwrite(tmp_path: Path, pypaimon_rows: Reader) -> None:
    table = create(
        tmp_path,
        [pa.field("p", pa.int32(), False), KEY, pa.field("v", pa.int64())],
        key=["p", "k"],
        partition_by=["p"],
    )
    write(table, [{"p": p, "k": k, "v": 0} for p in (1, 2) for k in range(3)])
    table.overwrite(
        pa.table({"p": pa.array([2], pa.int32()), "k": pa.array([9], pa.int32()), "v": [9]})
    )
    assert len(ours(table)) == 4
    assert_same_in_all_layouts(table, pypaimon_rows)


def test_many_commits_with_inline_compaction(tmp_path: Path, pypaimon_rows: Reader) -> None:
    columns = [KEY, *(pa.field(f"c{i}", pa.string()) for i in range(4))]
    options = {
        "merge-engine": "partial-update",
        "write-only": "false",
        "num-sorted-run.compaction-trigger": "3",
    }
    table = create(tmp_path, columns, options)
    rng = random.Random(3)
    for commit in range(20):
        column = f"c{rng.randrange(4)}"
        write(table, [{"k": k, column: f"{commit}-{k}"} for k in rng.sample(range(60), 20)])
    assert {s.commit_kind for s in table.snapshots()} == {"APPEND", "COMPACT"}
    assert_same_in_all_layouts(table, pypaimon_rows)


def test_both_write_one_table(
    tmp_path: Path, pypaimon_rows: Reader, pypaimon_write: Callable[[wt.Table, pa.Table], None]
) -> None:
    """Whoever commits later wins, whichever client it is; each reads the other's files, compacted or not."""
    table = create(tmp_path, [KEY, pa.field("v", pa.string())], {"bucket": "2"})
    write(table, [{"k": k, "v": "ours 1"} for k in range(6)])
    pypaimon_write(table, keyed(range(3, 9), "theirs 1"))
    assert ours(table) == row_texts(
        [{"k": k, "v": "ours 1" if k < 3 else "theirs 1"} for k in range(9)]
    )
    write(table, [{"k": k, "v": "ours 2"} for k in (4, 8)])
    assert_same_in_all_layouts(table, pypaimon_rows)
    pypaimon_write(table, keyed([0, 4], "theirs 2"))
    assert '{"k": 4, "v": "theirs 2"}' in ours(table)
    assert_same_in_all_layouts(table, pypaimon_rows)


def keyed(keys: Sequence[int] | range, value: str) -> pa.Table:
    """Rows of the table above, all with one value."""
    fields = pa.schema([KEY, pa.field("v", pa.string())])
    return pa.table(
        [pa.array(list(keys), pa.int32()), pa.array([value] * len(keys))], schema=fields
    )
