"""Random append tables under two masters: Paimon's Java and widetable write, delete by deletion vectors, compact and
alter one table in turn, and both read the rows that a list in Python has, in their order where they have one.

What Java knows of each file of ours (numbers, buckets, bounds, counts) is compared with the rows that it reads from it.
Needs Maven, which brings Paimon's jar, and a JDK: `make interop-java`. WIDETABLE_INTEROP_APPEND_TABLES: how many tables
of each kind (default 20). The seed in the head of a run repeats it.
"""

from __future__ import annotations

import os
import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pytest

import widetable as wt
from tests.interop.append.histories import KINDS, AppendHistory, Other
from tests.interop.append.model import Where
from tests.interop.java.append_files import check_file, java_files
from tests.interop.java.java_process import JavaProcess, JavaTable
from tests.interop.java.java_session import NEEDS_JAVA
from tests.interop.java.java_values import arrow_rows, json_rows
from tests.interop.random_histories import table_folder
from tests.support.models.plain_rows import plain, python_rows, row_texts

pytestmark = [pytest.mark.interop, NEEDS_JAVA]

TABLES: Final = int(os.environ.get("WIDETABLE_INTEROP_APPEND_TABLES", "20"))
STEPS: Final = int(os.environ.get("WIDETABLE_INTEROP_APPEND_STEPS", "15"))
_FORMATS: Final = ("parquet", "parquet", "orc", "avro")
_STATS: Final = ("truncate(16)", "full", "none", "counts")


@dataclass(frozen=True)
class JavaReader:
    java: JavaProcess

    def read(self, table: wt.Table, where: Where | None, snapshot: int | None) -> list[str]:
        theirs = JavaTable(self.java, Path(table.path))
        options = {} if snapshot is None else {"scan.snapshot-id": str(snapshot)}
        how: dict[str, Any] = {"options": options}
        if where is not None:
            (field,) = [field for field in theirs.fields() if field.name == where.column.name]
            values = pa.table({field.name: where.column.array(where.values)})
            literals = [row[1] for row in json_rows(values, [field])]
            how["where"] = [where.method, field.name, literals]
        rows = arrow_rows(theirs.ask("read", **how), theirs.fields(options))
        return row_texts([plain(row) for row in python_rows(rows)])

    def changes(self, table: wt.Table, last: int) -> list[tuple[int, str, str]]:
        changes = JavaTable(self.java, Path(table.path)).changes(last)
        return [(id, kind, row_texts([plain(row)])[0]) for id, (kind, row) in changes]


def java_other(java: JavaProcess, rng: random.Random) -> Other:
    """Java as the other master of a table; it writes files of any format, with any stats."""

    def of(table: wt.Table) -> JavaTable:
        return JavaTable(java, Path(table.path))

    def write(table: wt.Table, rows: pa.Table) -> None:
        # Avro has no nanoseconds; ORC has no times of the last second before 1970.
        has_times = any(map(pa.types.is_timestamp, rows.schema.types))
        file_format = "parquet" if has_times else rng.choice(_FORMATS)
        stats = rng.choice(_STATS)
        of(table).write(rows, options={"file.format": file_format, "metadata.stats-mode": stats})

    def compact(table: wt.Table, full: bool) -> None:
        # Two compactions of one bucket in one commit are refused: the second removes what the first adds.
        of(table).compact(full=full, options={"compaction.min.file-num": "100" if full else "5"})

    def delete(table: wt.Table, numbers: Sequence[int]) -> None:
        of(table).ask("delete", column="n", values=[str(number) for number in numbers])

    return Other(
        [JavaReader(java)],
        write,
        compact=compact,
        delete=delete,
        alter=lambda table, change: of(table).alter(change),
        reads_older_schemas=False,
        keeps_order=True,
    )


class JavaHistory(AppendHistory):
    """Also what Java knows of the files."""

    @property
    def theirs(self) -> JavaTable:
        (reader,) = self.other.readers
        assert isinstance(reader, JavaReader)
        return JavaTable(reader.java, Path(self.table.path))

    def check(self) -> None:
        super().check()
        if self.rng.random() < 0.3:
            for file in java_files(self.theirs):
                check_file(self.theirs, file, self.table.schema.num_buckets)

    def check_order(self) -> None:
        super().check_order()
        self.same_order("they", self.theirs.read().to_pylist())


@pytest.mark.parametrize("attempt", range(TABLES))
@pytest.mark.parametrize("kind", KINDS)
def test_both_read_the_rows_that_were_written(
    java: JavaProcess, rng: random.Random, kind: str, attempt: int
) -> None:
    with table_folder() as folder:
        JavaHistory.made(folder, rng, kind, java_other(java, rng)).go(STEPS)


def created(folder: Path, columns: dict[str, str], **options: str) -> wt.Table:
    given = {"widetable.fsync": "false", **options}
    return wt.Catalog(str(folder)).create_table("db.t", columns, options=given)


@pytest.mark.xfail(strict=True, reason="Java's int96 before 1970 has negative nanoseconds of a day")
def test_nanoseconds_before_1970_that_java_wrote(tmp_path: Path, java: JavaProcess) -> None:
    table = created(tmp_path, {"t": "TIMESTAMP(9)"})
    times = pa.array([-1000, -(10**18) - 1, 5], pa.timestamp("ns"))
    JavaTable(java, Path(table.path)).write(pa.table({"t": times}))
    assert sorted(table.scan().to_arrow()["t"].cast(pa.int64()).to_pylist()) == [
        -(10**18) - 1,
        -1000,
        5,
    ]


def test_java_finds_rows_by_a_key_of_bytes(tmp_path: Path, java: JavaProcess) -> None:
    table = wt.Catalog(str(tmp_path)).create_table(
        "db.t", {"k": "BYTES NOT NULL"}, primary_key=["k"], options={"bucket": "1"}
    )
    table.write(pa.table({"k": [b"a", b"\xff"]}))
    theirs = JavaTable(java, Path(table.path))
    assert theirs.ask("read", where=["equal", "k", [b"a".hex()]]) == [["+I", b"a".hex()]]


@pytest.mark.parametrize("kind", ["BYTES", "BINARY(2)"])
def test_java_finds_rows_by_bytes(tmp_path: Path, java: JavaProcess, kind: str) -> None:
    """In our files and in those that it compacted."""
    table = created(tmp_path, {"b": kind})
    theirs = JavaTable(java, Path(table.path))
    values = [b"ab", b"\x80\x00", b"\xff\xff"]
    for compact in (lambda: None, lambda: table.compact(full=True)):
        table.write(pa.table({"b": pa.array(values, pa.binary())}))
        compact()
        for value in values:
            rows = theirs.ask("read", where=["equal", "b", [value.hex()]])
            assert {row[1] for row in rows} == {value.hex()}


def test_files_that_lack_columns_are_null_there(tmp_path: Path, java: JavaProcess) -> None:
    """Narrow files, as a write of some columns makes them, under a condition on a column that they lack; compacted."""
    padding = {f"c{at}": "INT" for at in range(100)}
    table = created(tmp_path, {"a": "INT", "b": "STRING", "c": "DOUBLE", **padding})
    nulls = [None] * len(padding)
    table.write([{"a": 1}, {"a": 2}])
    table.write([{"b": "x"}])
    theirs = JavaTable(java, Path(table.path))
    everything: list[list[object]] = [
        ["+I", 1, None, None, *nulls],
        ["+I", 2, None, None, *nulls],
        ["+I", None, "x", None, *nulls],
    ]
    for _ in range(2):
        assert sorted(theirs.ask("read"), key=repr) == everything
        assert theirs.ask("read", where=["equal", "b", ["x"]]) == everything[2:]
        assert theirs.ask("read", where=["equal", "a", [2]]) == everything[1:2]
        assert len(theirs.ask("read", where=["isNull", "c", []])) == 3
        theirs.compact(full=True, options={"compaction.min.file-num": "2"})
    assert [file.row_count for file in java_files(theirs)] == [3]


def test_java_goes_on_with_our_deletion_vectors(tmp_path: Path, java: JavaProcess) -> None:
    """Both delete rows of one file of a table without buckets; what one deleted stays deleted for the other."""
    table = created(
        tmp_path, {"n": "INT"}, **{"deletion-vectors.enabled": "true"}, **{"write-only": "true"}
    )
    table.write(pa.table({"n": pa.array(range(40), pa.int32())}))
    theirs = JavaTable(java, Path(table.path))
    left = set(range(40))
    for number in range(6):
        if number % 2:
            table.delete(f"n = {number}")
        else:
            theirs.ask("delete", column="n", values=[str(number)])
        left.remove(number)
        assert set(table.scan().to_arrow()["n"].to_pylist()) == left
        assert {row[1] for row in theirs.ask("read")} == left
        (file,) = java_files(theirs)
        assert (file.total_buckets, file.deleted) == (-1, number + 1)
    theirs.compact(full=True, options={"compaction.delete-ratio-threshold": "0.01"})
    assert [file.deleted for file in java_files(theirs)] == [None]
    assert set(table.scan().to_arrow()["n"].to_pylist()) == left


def test_conditions_on_a_wide_table(tmp_path: Path, java: JavaProcess) -> None:
    """Bounds of some columns only: of the first ones, and of those by which files are sorted."""
    kinds = {f"c{i}": "STRING" if i % 2 else "BIGINT" for i in range(130)}
    table = created(tmp_path, kinds)
    theirs = JavaTable(java, Path(table.path))

    def check() -> None:
        for column, value in (("c2", 7), ("c3", "x7"), ("c120", 7), ("c121", "x7")):
            assert len(theirs.ask("read", where=["equal", column, [value]])) == 2
        for file in java_files(theirs):
            check_file(theirs, file, -1)

    for numbers in (range(10), range(10, 20)):
        table.write(wide_rows(kinds, numbers))
    theirs.write(wide_rows(kinds, range(5, 9)))
    check()
    table.sort_compact(["c120", "c121"], "zorder")
    assert [file.columns[-2:] for file in java_files(theirs)] == [["c120", "c121"]]
    check()
    table.delete("c120 = 3")
    assert [file.columns[-2:] for file in java_files(theirs)] == [["c120", "c121"]]
    check()
    theirs.compact(full=True, options={"compaction.min.file-num": "2"})
    check()


def wide_rows(kinds: dict[str, str], numbers: range) -> pa.Table:
    texts = pa.array([f"x{number}" for number in numbers])
    return pa.table({n: texts if k == "STRING" else pa.array(numbers) for n, k in kinds.items()})


@pytest.mark.parametrize("kind", ["INT", "BIGINT"])
def test_both_put_a_null_into_the_same_bucket(tmp_path: Path, java: JavaProcess, kind: str) -> None:
    options = {"bucket": "4", "bucket-key": "v", "bucket-function.type": "mod"}
    table = created(tmp_path, {"v": kind, "n": "INT"}, **options)
    theirs = JavaTable(java, Path(table.path))
    rows = pa.table({"v": [None, 5, -7, None, 3], "n": range(5)}, schema=table.arrow_schema)
    table.write(rows)
    theirs.write(rows)
    assert table.audit().ok
    buckets: dict[tuple[int, ...], list[int]] = {}
    for file in java_files(theirs):
        numbers = tuple(row[2] for row in file.rows)
        buckets.setdefault(numbers, []).append(file.bucket)
    assert buckets == {(0, 3): [0, 0], (1, 2): [1, 1], (4,): [3, 3]}
