"""File indexes between Paimon's Java and widetable: each skips a file by the other's index, and finds what is in it.

A value between the others of a file is in no bound, so only the index can say that the file lacks it. Java is asked
after the data file is gone: it reads the index, and fails only where it would open the data file.
Needs Maven and a JDK: `make interop-java`.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pytest

import widetable as wt
from tests.interop.append.model import Column
from tests.interop.java.java_process import JavaProcess, JavaRefused, JavaTable
from tests.interop.java.java_session import NEEDS_JAVA
from tests.interop.java.java_values import json_rows
from widetable.format.file_index.column_indexes import column_indexes
from widetable.storage.local import LocalFileIO

pytestmark = [pytest.mark.interop, NEEDS_JAVA]

# Two values of a type, and one between them: not zero, whose hash is zero, so that a filter seldom lacks it.
VALUES: Final[dict[str, tuple[Any, Any, Any]]] = {
    "TINYINT": (-128, 5, 127),
    "SMALLINT": (-32768, 5, 32767),
    "INT": (-(2**31), -7, 2**31 - 1),
    "BIGINT": (-(2**63), 2**40, 2**63 - 1),
    "FLOAT": (-1.5, 0.5, 3.25),
    "DOUBLE": (-1e300, 0.1, 1e300),
    "STRING": ("", "grüße", "\U0010ffff"),
    "VARCHAR(40)": ("a" * 40, "a" * 39 + "b", "b" * 40),
    "BYTES": (b"", b"\x7f" * 40, b"\x7f" * 50),
    "DATE": (-719_162, 19_782, 2_932_896),
    "TIME(3)": (0, 45_296_789, 86_399_999),
    "TIMESTAMP(0)": (-2_177_452_800, 5, 1_704_164_645),
    "TIMESTAMP(3)": (-1001, -1, 1_704_164_645_678),
    "TIMESTAMP(6)": (-1_000_001, -1, 253_402_214_400_000_000),
    "TIMESTAMP(9)": (1_001, 1_000_001, 1_704_164_645_678_901_000),
    "TIMESTAMP_LTZ(3)": (-1, 5, 1_704_164_645_678),
    "TIMESTAMP_LTZ(6)": (-1, 5, 1_704_164_645_678_901),
    "BOOLEAN": (False, True, None),
}
WITHOUT_BITMAP: Final = ("FLOAT", "DOUBLE", "BYTES")
CASES: Final = [
    *(("bloom-filter", kind) for kind in VALUES if kind != "BOOLEAN"),
    *(("bitmap", kind) for kind in VALUES if kind not in WITHOUT_BITMAP),
]


def created(folder: Path, index: str, kind: str, **options: str) -> wt.Table:
    """A table with an index of the column c."""
    fine = {"file-index.bloom-filter.c.fpp": "0.000001"} if index == "bloom-filter" else {}
    return wt.Catalog(str(folder)).create_table(
        "db.t",
        {"c": kind},
        options={f"file-index.{index}.columns": "c", "widetable.fsync": "false"} | fine | options,
    )


def rows_of(kind: str, values: Sequence[Any]) -> pa.Table:
    return pa.table({"c": Column(0, "c", kind).array(values)})


def written(kind: str) -> tuple[list[Any], list[Any], Any]:
    """What is written, what of it is looked for, and what is not there."""
    low, between, high = VALUES[kind]
    sought = [low] if high is None else [low, high]
    return [low, None, low, high], sought, between


def asked(theirs: JavaTable, rows: pa.Table) -> list[list[Any]]:
    (field,) = theirs.fields()
    literals = [row[1] for row in json_rows(rows, [field])]
    return theirs.ask("read", where=["equal", "c", literals])


@pytest.mark.parametrize("threshold", ["0 b", "1 mb"], ids=["file", "manifest"])
@pytest.mark.parametrize(("index", "kind"), CASES)
def test_java_skips_a_file_by_our_index(
    tmp_path: Path, java: JavaProcess, index: str, kind: str, threshold: str
) -> None:
    table = created(tmp_path, index, kind, **{"file-index.in-manifest-threshold": threshold})
    values, sought, absent = written(kind)
    table.write(rows_of(kind, values))
    theirs = JavaTable(java, Path(table.path))
    for value in sought:
        assert len(asked(theirs, rows_of(kind, [value]))) == values.count(value)
    (file,) = Path(table.path).glob("bucket-0/*.parquet")
    file.unlink()
    assert asked(theirs, rows_of(kind, [absent])) == []
    for value in sought:
        with pytest.raises(JavaRefused, match=file.name):
            asked(theirs, rows_of(kind, [value]))


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("threshold", ["0 b", "1 mb"], ids=["file", "manifest"])
@pytest.mark.parametrize(("index", "kind"), CASES)
def test_we_skip_a_file_by_the_index_of_java(
    tmp_path: Path, java: JavaProcess, index: str, kind: str, threshold: str, version: int
) -> None:
    table = created(tmp_path, index, kind)
    values, sought, absent = written(kind)
    options = {"file-index.in-manifest-threshold": threshold}
    if index == "bitmap":
        options["file-index.bitmap.c.version"] = str(version)
    JavaTable(java, Path(table.path)).write(rows_of(kind, values), options=options)
    for value in sought:
        (literal,) = rows_of(kind, [value])["c"].chunk(0)
        scan = table.scan(filter=pa.compute.field("c") == literal)
        assert scan.to_arrow().num_rows == values.count(value)
        assert len(scan.splits()) == 1
    (literal,) = rows_of(kind, [absent])["c"].chunk(0)
    assert table.scan(filter=pa.compute.field("c") == literal).splits() == []


@pytest.mark.parametrize("vectors", ["false", "true"])
@pytest.mark.parametrize("index", ["bloom-filter", "bitmap"])
def test_java_finds_the_newest_rows_of_a_table_with_a_key(
    tmp_path: Path, java: JavaProcess, rng: random.Random, index: str, vectors: str
) -> None:
    """A file that has an older value of a key, or lacks the newer one, leads nobody astray."""
    options = {
        f"file-index.{index}.columns": "k, s",
        "deletion-vectors.enabled": vectors,
        "bucket": "1",
    }
    table = wt.Catalog(str(tmp_path)).create_table(
        "db.t", {"k": "BIGINT", "s": "STRING"}, primary_key=["k"], options=options
    )
    theirs, rows = JavaTable(java, Path(table.path)), dict[int, str]()
    for number in range(8):
        new = {rng.randrange(12): f"v{rng.randrange(4)}" for _ in range(5)}
        rows |= new
        data = {"k": list(new), "s": list(new.values())}
        if rng.random() < 0.5:
            table.write(pa.table(data))
        else:
            theirs.write(pa.table(data))
        if number % 3 == 2 or vectors == "true":
            table.compact(full=number % 2 == 0)
        for value in ("v0", "v1", "v2", "v3", "none"):
            expected = sorted(key for key, each in rows.items() if each == value)
            given = theirs.ask("read", where=["equal", "s", [value]])
            assert sorted(row[1] for row in given) == expected
            kept = table.scan(["k"], filter=f"s = '{value}'").to_arrow()["k"]
            assert sorted(kept.to_pylist()) == expected
        for key in range(13):
            given = theirs.ask("read", where=["equal", "k", [key]])
            assert [row[2] for row in given] == ([rows[key]] if key in rows else [])


@pytest.mark.parametrize(
    "kind", [kind for kind in VALUES if kind not in ("BOOLEAN", "TINYINT", "SMALLINT")]
)
def test_our_bloom_filter_has_the_bits_of_java(
    tmp_path: Path, java: JavaProcess, kind: str
) -> None:
    """Java makes a filter for a number of values that an option gives; ours is for those that are there."""
    table = created(tmp_path, "bloom-filter", kind)
    low, between, high = VALUES[kind]
    rows = rows_of(kind, [low, between, high, None, low])
    table.write(rows)
    options = {"file-index.bloom-filter.c.items": "3"}
    JavaTable(java, Path(table.path)).write(rows, options=options)
    ours, theirs = [filter_bytes(table, at) for at in range(2)]
    assert ours == theirs


def filter_bytes(table: wt.Table, at: int) -> bytes:
    """The Bloom filter of one file, in the order of commits."""
    (split,) = table.scan().splits()
    file = sorted(split.files, key=lambda file: file.creation_time_millis or 0)[at]
    path = f"{table.path}/bucket-0/{file.file_name}"
    schema = table.schema
    with column_indexes(LocalFileIO(), path, file, schema, schema.fields) as indexes:
        part = indexes["c"][0]._part  # type: ignore[attr-defined]
        return bytes(part.read(0, part.length))
