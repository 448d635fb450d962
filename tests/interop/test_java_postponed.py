"""Postponed buckets (`bucket` = -2) with Paimon's Java: both write records, our compaction places them in the order of
commits, and Java reads the rows and the changelog that they make.

Java's own compaction of such tables needs Flink or Spark, and is not run here; its rules for the names of files are:
a writer has a number and a prefix, by which its files are found. Needs Maven and a JDK: `make interop-java`.
"""

from __future__ import annotations

import random
import re
from pathlib import Path

import pyarrow as pa
import pytest

import widetable as wt
from tests.interop.java.java_process import JavaProcess, JavaTable
from tests.interop.java.java_session import NEEDS_JAVA

pytestmark = [pytest.mark.interop, NEEDS_JAVA]

# Paimon `PostponeBucketFileStoreWrite.getWriteId` and `getWriterPrefix`.
_NAME = re.compile(r"^data-.*-s-(\d+)-w-[^/]+$")


@pytest.mark.parametrize("attempt", range(6))
@pytest.mark.parametrize("engine", ["deduplicate", "partial-update"])
def test_records_of_both_are_placed_in_the_order_of_commits(
    tmp_path: Path, java: JavaProcess, rng: random.Random, engine: str, attempt: int
) -> None:
    options = {
        "bucket": "-2",
        "merge-engine": engine,
        "changelog-producer": "lookup",
        "postpone.default-bucket-num": str(rng.randrange(1, 4)),
    }
    table = wt.Catalog(str(tmp_path)).create_table(
        "db.t",
        {"p": "INT", "k": "BIGINT", "a": "STRING", "b": "INT"},
        primary_key=["p", "k"],
        partition_by=["p"] if attempt % 2 else [],
        options=options,
    )
    theirs = JavaTable(java, Path(table.path))
    rows: dict[tuple[int, int], dict[str, object]] = {}
    for number in range(10):
        keys = {(rng.randrange(2), rng.randrange(6)) for _ in range(4)}
        records = [{"p": p, "k": k, "a": f"a{number}", "b": number} for p, k in sorted(keys)]
        data = pa.Table.from_pylist(records, schema=table.arrow_schema)
        if rng.random() < 0.5:
            theirs.write(data, options={"postpone.batch-write-fixed-bucket": "false"})
        else:
            table.write(data)
        rows |= {(int(str(row["p"])), int(str(row["k"]))): row for row in records}
        assert table.audit().findings == ()
        if engine == "deduplicate" and rng.random() < 0.3:
            key = rng.choice(sorted(rows))
            table.delete_keys([dict(zip("pk", key, strict=True))])
            del rows[key]
        if number % 3 == 2:
            table.compact(full=number % 2 == 0)
            expected = sorted(rows.values(), key=repr)
            assert sorted(table.scan().to_arrow().to_pylist(), key=repr) == expected
            assert sorted(theirs.read().to_pylist(), key=repr) == expected
            last = table.snapshots()[-1].id
            folded = {}
            for _, (kind, row) in theirs.changes(last):
                if kind in ("+I", "+U"):
                    folded[row["p"], row["k"]] = row
                elif kind == "-D":
                    del folded[row["p"], row["k"]]
            assert folded == rows
    names = [path.name for path in Path(table.path).rglob("bucket-postpone/*")]
    assert all(int(m[1]) < 2**31 for name in names if (m := _NAME.match(name)))
    assert all(map(_NAME.match, names))
    assert {name.rpartition(".")[2] for name in names} == {"parquet", "avro"}
    assert table.audit().findings == ()


WAITS = {"postpone.batch-write-fixed-bucket": "false"}


def made(folder: Path) -> wt.Table:
    return wt.Catalog(str(folder)).create_table(
        "db.t", {"k": "BIGINT", "a": "STRING"}, primary_key=["k"], options={"bucket": "-2"}
    )


def rows_of(*keys: int, value: str = "theirs") -> pa.Table:
    schema = pa.schema([pa.field("k", pa.int64(), nullable=False), ("a", pa.string())])
    return pa.table({"k": list(keys), "a": [value] * len(keys)}, schema)


@pytest.mark.parametrize("is_there", [False, True])
def test_a_record_of_java_conflicts_wherever_it_lies_in_its_file(
    tmp_path: Path, java: JavaProcess, is_there: bool
) -> None:
    """Java writes such rows as they come, so the first and the last key of a file are no bounds."""
    table = made(tmp_path)
    table.write(rows_of(1, 2, 3, value="ours"))
    table.compact()
    theirs = JavaTable(java, Path(table.path))
    if is_there:
        theirs.write(rows_of(2, 3, 1, 2), options=WAITS)
    read = table.snapshots()[-1].id
    if not is_there:
        theirs.write(rows_of(2, 3, 1, 2), options=WAITS)
    for key in (1, 3):
        with table.new_writer(["k", "a"]) as writer:
            writer.write(rows_of(key, value="ours"))
            messages = writer.finish()
        with pytest.raises(wt.ConflictError, match="1 key of this commit"):
            table.commit_append(messages, read_snapshot=read)
        table.discard(messages)
    table.delete("a = 'theirs' and k <> 2")
    table.compact()
    assert table.scan().to_arrow().to_pylist() == [{"k": 2, "a": "theirs"}]


def test_a_damaged_file_of_java_is_repaired(tmp_path: Path, java: JavaProcess) -> None:
    table = made(tmp_path)
    theirs = JavaTable(java, Path(table.path))
    theirs.write(rows_of(3, 1), options=WAITS)
    [avro] = Path(table.path).rglob("bucket-postpone/*.avro")
    table.write(rows_of(1, value="ours"))
    theirs.write(rows_of(4), options=WAITS)
    avro.write_bytes(avro.read_bytes()[:-1])
    with pytest.raises(wt.DamagedError, match=avro.name):
        table.compact()
    [file] = table.repair().files
    assert (file.damage.path, file.kept_rows, file.lost_rows) == (str(avro), 0, 2)
    table.compact()
    expected = [{"k": 1, "a": "ours"}, {"k": 4, "a": "theirs"}]
    assert sorted(theirs.read().to_pylist(), key=repr) == sorted(expected, key=repr)
    assert table.doctor(deep=True).ok
