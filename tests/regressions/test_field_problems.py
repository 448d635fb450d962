"""Field problems of neighbouring projects that were tried here and hold (docs/facts/field-problems.md)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import duckdb
import pyarrow as pa
import pytest

import widetable as wt

OLD = {
    "i": "INT",
    "f": "FLOAT",
    "d": "DECIMAL(5, 2)",
    "n": "INT",
    "s": "INT",
    "t": "TIMESTAMP(3)",
    "y": "DATE",
}
NEW = {
    "i": "BIGINT",
    "f": "DOUBLE",
    "d": "DECIMAL(9, 3)",
    "n": "DECIMAL(13, 2)",
    "s": "VARCHAR(11)",
    "t": "TIMESTAMP(6)",
    "y": "TIMESTAMP(6)",
}


def new_table(
    folder: Path,
    columns: Mapping[str, str],
    options: Mapping[str, str] | None = None,
    key: Sequence[str] = ("k",),
) -> wt.Table:
    """Of one bucket, in which nothing is compacted by itself."""
    kept = {"bucket": "1", "write-only": "true", **(options or {})}
    return wt.Catalog(folder).create_table("db.t", columns, primary_key=key, options=kept)


def row(k: int) -> dict[str, Any]:
    day = date(2024, 1, k)
    at = datetime(2024, 1, k)
    return {"k": k, "i": k, "f": k / 10, "d": Decimal(k) / 100, "n": k, "s": k, "t": at, "y": day}


WIDE = {
    "k": 30,
    "i": 2**40,
    "f": 1e300,
    "d": Decimal("123456.789"),
    "n": Decimal("99999999999.25"),
    "s": "zz",
    "t": datetime(2024, 5, 1, 0, 0, 0, 123456),
    "y": datetime(2024, 5, 1, 1),
}


# paimon#5825, #7803, #4705, #8843, trino#30544, duckdb#24900, spark: SPARK-46092, SPARK-34212


@pytest.fixture(scope="module")
def widened(tmp_path_factory: pytest.TempPathFactory) -> list[wt.Table]:
    """A row per commit, so that each file has statistics of its own: 1 to 10 in files of the old types, 30 of the new.
    Merged, then compacted.
    """
    tables = []
    for name in ("merged", "compacted"):
        table = new_table(tmp_path_factory.mktemp(name), {"k": "INT NOT NULL", **OLD})
        catalog = wt.Catalog(Path(table.path).parent.parent)
        table.write([row(k) for k in range(1, 5)])
        table.compact(full=True)
        for k in range(5, 11):
            table.write([row(k)])
        table = catalog.alter_table("db.t", change_types=NEW)
        table.write([WIDE])
        if name == "compacted":
            table.compact(full=True)
        tables.append(table)
    return tables


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("i < 9223372036854775807", [*range(1, 11), 30]),
        ("i = 4294967297", []),  # 1 in its lower half
        ("i > 2147483647", [30]),
        ("i IN (3, 1099511627776)", [3, 30]),
        ("NOT (i < 9)", [9, 10, 30]),
        ("f > 0.1", [1, *range(2, 11), 30]),  # a FLOAT 0.1 is a bit more
        ("f = 0.1", []),
        ("f <= 0.3", [1, 2]),
        ("f < 1e39", [*range(1, 11)]),
        ("d < 0.021", [1, 2]),
        ("d = 0.02", [2]),
        ("d = 0.0201", []),
        ("d > 999.99", [30]),
        ("n = 3", [3]),
        ("n > 9.5", [10, 30]),
        ("s > '9'", [30]),  # texts: '10' is before '9'
        ("s < '2'", [1, 10]),
        ("s = '7'", [7]),
        ("t = TIMESTAMP '2024-01-03 00:00:00'", [3]),
        ("t > TIMESTAMP '2024-01-09 00:00:00.000001'", [10, 30]),
        ("y > TIMESTAMP '2024-01-09 00:00:00.000001'", [10, 30]),
        ("y BETWEEN TIMESTAMP '2024-01-02 00:00:00' AND TIMESTAMP '2024-01-03 12:00:00'", [2, 3]),
        ("y IS NULL", []),
    ],
)
def test_a_condition_on_a_widened_column_finds_rows_of_all_files(
    widened: list[wt.Table], condition: str, expected: list[int]
) -> None:
    for table in widened:
        keys = table.scan(["k"], filter=condition).to_arrow()["k"].to_pylist()
        assert sorted(keys) == expected


# paimon#5872, lancedb#3377


def test_of_two_writers_of_a_key_the_later_commit_wins_before_and_after_a_compaction(
    tmp_path: Path,
) -> None:
    table = new_table(tmp_path, {"k": "INT NOT NULL", "v": "INT"})
    schema = pa.schema([("k", pa.int32()), ("v", pa.int32())])
    prepared = []
    for value in (8, 9):
        writer = wt.Table.open(table.path).new_writer(["k", "v"])
        writer.write(pa.table({"k": [1], "v": [value]}, schema))
        prepared.append(writer.finish())
    for messages in reversed(prepared):
        table.commit_append(messages)
    assert table.scan().to_arrow().to_pylist() == [{"k": 1, "v": 8}]
    table.compact(full=True)
    assert table.scan().to_arrow().to_pylist() == [{"k": 1, "v": 8}]


# paimon#9801


def test_a_key_in_another_order_than_the_columns_is_one_row(tmp_path: Path) -> None:
    columns = {"c": "STRING NOT NULL", "v": "INT", "b": "STRING NOT NULL", "a": "INT NOT NULL"}
    table = new_table(tmp_path, columns, key=["a", "c", "b"])
    keys = [{"a": a, "b": b, "c": c} for a in (2, 1) for b in "xy" for c in "zw"]
    table.write([{**key, "v": 1} for key in keys])
    table.write([{**keys[3], "v": 2}])
    for _ in range(2):
        rows = table.scan().to_arrow().to_pylist()
        assert [row["v"] for row in rows].count(1) == len(rows) - 1 == len(keys) - 1
        assert table.scan(filter="v = 2").to_arrow().to_pylist() == [{**keys[3], "v": 2}]
        table.compact(full=True)


# paimon#8204, #5724


@pytest.mark.parametrize("vectors", ["true", "false"])
def test_a_row_that_comes_again_after_its_delete_is_in_the_changelog(
    tmp_path: Path, vectors: str
) -> None:
    options = {
        "write-only": "false",
        "changelog-producer": "lookup",
        "changelog-producer.row-deduplicate": "true",
        "changelog-producer.row-deduplicate-ignore-fields": "at",
        "deletion-vectors.enabled": vectors,
    }
    table = new_table(tmp_path, {"k": "INT NOT NULL", "v": "INT", "at": "INT"}, options)
    for at, kind in enumerate(["+I", "-D", "+I", "+I", "-D", "+I"]):
        table.write([{"k": 1, "v": 1, "at": at, "_row_kind": kind}])
        if at == 0:
            table.compact(full=True)
    table.compact()
    changes = table.changes(0, table.snapshots()[-1].id).to_pydict()
    assert changes["_row_kind"] == ["+I", "-D", "+I", "-D", "+I"]


# flink-cdc#1249, #4437, hudi#9186, iceberg#5619


@pytest.mark.parametrize("producer", ["none", "input", "lookup"])
@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, [(3, 8)]),
        ({"merge-engine": "aggregation", "fields.v.aggregate-function": "sum"}, [(1, 0), (2, 0)]),
    ],
    ids=["deduplicate", "sum"],
)
def test_halves_of_an_update_do_what_they_say(
    tmp_path: Path, producer: str, options: dict[str, str], expected: list[tuple[int, int]]
) -> None:
    """A key that changes comes as -U of the old and +U of the new one; a condition upstream may let one half pass."""
    columns = {"k": "INT NOT NULL", "v": "INT"}
    table = new_table(tmp_path, columns, {**options, "changelog-producer": producer})
    table.write([{"k": 1, "v": 5}])
    table.write([{"k": 1, "v": 5, "_row_kind": "-U"}, {"k": 2, "v": 5, "_row_kind": "+U"}])
    table.write([{"k": 2, "v": 5, "_row_kind": "-U"}])
    if not options:
        table.write([{"k": 3, "v": 7, "_row_kind": "+U"}])
        table.write([{"k": 3, "v": 8, "_row_kind": "+U"}])
    for _ in range(2):
        rows = table.scan().to_arrow().to_pylist()
        assert sorted((row["k"], row["v"]) for row in rows) == expected
        table.compact(full=True)


# paimon#5819


def test_a_reader_that_shares_the_consumer_of_a_faster_one_is_told_what_expired(
    tmp_path: Path,
) -> None:
    columns = {"k": "INT NOT NULL"}
    table = new_table(tmp_path, columns, {"snapshot.num-retained.min": "1"})
    for k in range(6):
        table.write([{"k": k}])
    slow = iter(table.follow("c", scan_mode="from-snapshot", snapshot_id=1, timeout=0))
    assert [next(slow)["k"].to_pylist() for _ in range(2)] == [[0], [1]]
    assert len(list(table.follow("c", timeout=0))) == 5
    wt.Catalog(tmp_path).alter_table("db.t", set_options={"snapshot.num-retained.max": "1"})
    assert wt.Table.open(table.path).expire_snapshots().ids == (1, 2, 3, 4, 5)
    with pytest.raises(wt.NotFoundError, match=r"snapshot 3 of .* an expired snapshot"):
        next(slow)


# paimon#3361, trino#30187, spark: SPARK-40697


def test_texts_of_char_are_what_was_written(tmp_path: Path) -> None:
    table = new_table(tmp_path, {"k": "CHAR(5) NOT NULL", "v": "CHAR(4)"})
    texts = ["a", "a ", "a    ", "b    "]
    table.write([{"k": text, "v": text[:4]} for text in texts])
    for _ in range(2):
        for text in texts:
            chosen = table.scan(["k"], filter=f"k = '{text}' AND v = '{text[:4]}'").to_arrow()
            assert chosen["k"].to_pylist() == [text]
        assert table.lookup(["a", "b", "b    "])["k"].to_pylist() == ["a", None, "b    "]
        table.compact(full=True)
    with pytest.raises(wt.InvalidError, match="'k': found a value of 6 characters"):
        table.write([{"k": "a     "}])


# polars#29462, pg_lake#431, paimon#8623, starrocks#78760


def test_equal_negative_decimals_are_found(tmp_path: Path) -> None:
    columns = {"k": "INT NOT NULL", "x": "DECIMAL(5, 2)", "y": "DECIMAL(38, 0)"}
    table = new_table(tmp_path, columns)
    for k in (1, 2):
        table.write([{"k": k, "x": Decimal("-0.05"), "y": -(Decimal(10) ** 37)}])
    for _ in range(2):
        for condition in ("x = -0.05", "x < 0", "x <= -0.05", "x > -0.051", f"y = -1{'0' * 37}"):
            assert table.scan(filter=condition).to_arrow().num_rows == 2
        for condition in ("x > -0.05", "x < -0.05", "x = 0.05", "y > 0"):
            assert table.scan(filter=condition).to_arrow().num_rows == 0
        table.compact(full=True)


# paimon#9436, #1807, starrocks#73950


def test_partitions_of_blanks_share_a_directory_and_nothing_else(tmp_path: Path) -> None:
    columns = {"p": "STRING NOT NULL", "k": "INT NOT NULL"}
    table = wt.Catalog(tmp_path).create_table(
        "db.t", columns, primary_key=["p", "k"], partition_by=["p"], options={"bucket": "1"}
    )
    texts = ["", "  ", "\t", "__DEFAULT_PARTITION__", "null"]
    for k, text in enumerate(texts):
        table.write([{"p": text, "k": k}])
    assert sorted(path.name for path in Path(table.path).glob("p=*")) == [
        "p=__DEFAULT_PARTITION__",
        "p=null",
    ]
    for k, text in enumerate(texts):
        assert table.scan(["k"], filter=f"p = '{text}'").to_arrow()["k"].to_pylist() == [k]
    table.drop_partitions([{"p": "  "}])
    assert sorted(table.scan(["k"]).to_arrow()["k"].to_pylist()) == [0, 2, 3, 4]


# duckdb#13576, #11887, #12368, #1742


TAKEN = {
    "HUGEINT": ("DECIMAL(38, 0)", "5::HUGEINT", Decimal(5)),
    "UHUGEINT": ("DECIMAL(38, 0)", "5::UHUGEINT", Decimal(5)),
    "UBIGINT": ("DECIMAL(20, 0)", "18446744073709551615::UBIGINT", Decimal(2**64 - 1)),
    "ENUM": ("STRING", "'b'::ENUM('a', 'b')", "b"),
    "UUID": ("STRING", f"uuid '{UUID(int=42)}'", str(UUID(int=42))),
    "STRUCT": (
        "ARRAY<ROW<a INT, b STRING>>",
        "[{'a': 1, 'b': ''}, NULL]",
        [{"a": 1, "b": ""}, None],
    ),
    "ARRAY": ("ARRAY<INT>", "[1, 2]::INT[2]", [1, 2]),
    "MAP": ("MAP<STRING, INT>", "MAP {'a': 1}", [("a", 1)]),
    "TIMESTAMP_S": ("TIMESTAMP(0)", "TIMESTAMP_S '2024-01-01'", datetime(2024, 1, 1)),
    "VARCHAR": ("STRING", "repeat('ab', 100000)", "ab" * 100_000),
    "NULL": ("INT", "NULL", None),
}
REFUSED = {
    "HUGEINT": ("DECIMAL(38, 0)", "170141183460469231731687303715884105727::HUGEINT"),
    "BIT": ("STRING", "'10101'::BIT"),
    "INTERVAL": ("STRING", "INTERVAL 1 MONTH"),
    "UNION": ("INT", "union_value(a := 1)"),
    "TIMESTAMPTZ": ("TIMESTAMP(6)", "TIMESTAMPTZ '2024-07-01 00:00:00+00'"),
    "TIMESTAMP_NS": ("TIMESTAMP(6)", "TIMESTAMP_NS '2024-01-01 00:00:00.123456789'"),
    "UBIGINT": ("BIGINT", "18446744073709551615::UBIGINT"),
}


@pytest.mark.parametrize(("kind", "value", "expected"), TAKEN.values(), ids=TAKEN)
def test_values_of_duckdb_are_taken_by_their_meaning(
    tmp_path: Path, kind: str, value: str, expected: Any
) -> None:
    table = new_table(tmp_path, {"k": "INT NOT NULL", "v": kind})
    for setting in ("false", "true"):
        with duckdb.connect() as connection:
            connection.execute(f"SET arrow_large_buffer_size = {setting}")
            table.write(connection.sql(f"SELECT 1 AS k, {value} AS v"))
        for _ in range(2):
            assert table.scan().to_arrow().to_pylist() == [{"k": 1, "v": expected}]
            table.compact(full=True)


@pytest.mark.parametrize(("kind", "value"), REFUSED.values(), ids=REFUSED)
def test_a_value_of_duckdb_that_does_not_fit_is_refused_by_column(
    tmp_path: Path, kind: str, value: str
) -> None:
    table = new_table(tmp_path, {"k": "INT NOT NULL", "v": kind})
    with duckdb.connect() as connection, pytest.raises(wt.InvalidError, match="column 'v'"):
        table.write(connection.sql(f"SELECT 1 AS k, {value} AS v"))
    assert not table.snapshots()


@pytest.mark.parametrize("kind", ["BIT", "HUGEINT", "TIMETZ", "UUID"])
def test_types_of_duckdb_alone_are_refused_by_column(tmp_path: Path, kind: str) -> None:
    table = new_table(tmp_path, {"k": "INT NOT NULL", "v": "STRING"})
    with duckdb.connect() as connection:
        connection.execute("SET arrow_lossless_conversion = true")
        rows = connection.sql(f"SELECT 1 AS k, NULL::{kind} AS v")
        with pytest.raises(wt.InvalidError, match="column 'v': found the type extension"):
            table.write(rows)


def test_infinite_days_of_duckdb_are_the_last_ones(tmp_path: Path) -> None:
    table = new_table(tmp_path, {"k": "INT NOT NULL", "d": "DATE", "t": "TIMESTAMP(6)"})
    days = [(1, "-infinity"), (2, "2024-01-01"), (3, "infinity")]
    with duckdb.connect() as connection:
        for k, text in days:
            table.write(connection.sql(f"SELECT {k} k, '{text}'::DATE d, '{text}'::TIMESTAMP t"))
        for _ in range(2):
            for condition, keys in (("> '2024-01-01'", [3]), ("< '2024-01-01'", [1])):
                for column in "dt":
                    chosen = table.scan(["k"], filter=f"{column} {condition}").to_arrow()
                    assert chosen["k"].to_pylist() == keys
            rows = table.scan().to_arrow()
            shown = connection.from_arrow(rows).order("k").project("d::TEXT").fetchall()
            assert [text for (text,) in shown] == [text for _, text in days]
            table.compact(full=True)
