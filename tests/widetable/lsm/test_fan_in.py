"""A bucket with more files at level 0 than can be open side by side is compacted in several steps."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import widetable as wt
from tests.table_files import TableFiles
from widetable.format.data_file_meta import DataFileMeta
from widetable.lsm.fan_in import taken_at_once
from widetable.new_schema import new_schema
from widetable.options import TableOptions

MIB = 1 << 20


@pytest.fixture
def file(tmp_path: Path) -> DataFileMeta:
    """Of level 0."""
    columns = pa.schema([("k", pa.int64()), ("v", pa.int64())])
    files = TableFiles(tmp_path, new_schema(columns, primary_key=["k"], options={"bucket": "1"}))
    (message,) = files.write(["k", "v"], [("+I", {"k": 1, "v": 1})])
    return message.new_files[0]


def numbered(file: DataFileMeta, count: int, size: int, level: int = 0) -> list[DataFileMeta]:
    """Files of ascending age; each has the numbers below those of the next."""
    return [
        file._replace(
            file_name=f"data-{level}-{n}.parquet",
            file_size=size,
            level=level,
            min_sequence_number=n,
            max_sequence_number=n,
        )
        for n in range(count)
    ]


def taken(files: list[DataFileMeta], budget: str = "256mb") -> tuple[DataFileMeta, ...]:
    return taken_at_once(files, TableOptions({"write-buffer-size": budget}))


def test_the_oldest_are_taken_as_many_as_fit(file: DataFileMeta) -> None:
    files = numbered(file, 100, 2 * MIB)
    assert taken(files[::-1]) == tuple(files[:42][::-1])
    assert taken(files[:42]) == tuple(files[:42])
    assert len(taken(files, "1gb")) == 100


def test_a_few_are_taken_however_large_they_are(file: DataFileMeta) -> None:
    files = numbered(file, 100, 100 * MIB)
    assert taken(files) == tuple(files[:16])
    assert taken(files[:3], "1kb") == tuple(files[:3])


def test_files_of_other_levels_stay(file: DataFileMeta) -> None:
    above = numbered(file, 50, 100 * MIB, level=5)
    files = [*numbered(file, 30, 100 * MIB), *above]
    assert set(taken(files)) == {*files[:16], *above}


@pytest.mark.parametrize("producer", ["none", "lookup", "full-compaction"])
@pytest.mark.parametrize("engine", ["partial-update", "aggregation", "deduplicate"])
def test_many_files_are_compacted_step_by_step(engine: str, producer: str, tmp_path: Path) -> None:
    options = {"merge-engine": engine, "changelog-producer": producer, "write-only": "true"}
    if engine == "aggregation":
        options["fields.c1.aggregate-function"] = "sum"
    table = wt.Catalog(str(tmp_path)).create_table(
        "db.t",
        pa.schema([("k", pa.int64()), *((f"c{i}", pa.int64()) for i in range(50))]),
        primary_key=["k"],
        options={
            "bucket": "1",
            "widetable.fsync": "false",
            "write-buffer-size": "1kb",
            **options,
        },
    )
    expected: dict[int, dict[str, Any]] = {}
    for number in range(50):
        rows = [{"k": k, f"c{number % 3}": number} for k in (number % 7, 100)]
        table.write(pa.Table.from_pylist(rows))
        for row in rows:
            old = expected.get(row["k"], {})
            if engine == "deduplicate":
                old = {}
            elif engine == "aggregation" and "c1" in row:
                row = {**row, "c1": row["c1"] + old.get("c1", 0)}
            expected[row["k"]] = {**old, **row}
    table.compact(full=True)
    found = table.scan().to_arrow().to_pylist()
    assert {r["k"]: {n: v for n, v in r.items() if v is not None} for r in found} == expected
    kinds = [snapshot.commit_kind for snapshot in table.snapshots()]
    assert kinds.count("COMPACT") > 1
    assert table.audit().ok
