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
            assert folded == rows
    names = [path.name for path in Path(table.path).rglob("bucket-postpone/*")]
    assert all(int(m[1]) < 2**31 for name in names if (m := _NAME.match(name)))
    assert all(map(_NAME.match, names))
    assert {name.rpartition(".")[2] for name in names} == {"parquet", "avro"}
    assert table.audit().findings == ()
