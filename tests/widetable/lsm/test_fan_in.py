"""A bucket with more files at level 0 than can be open side by side is compacted in several steps."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import widetable as wt
from tests.support.tables.table_files import TableFiles
from widetable.format.data_file_meta import DataFileMeta
from widetable.lsm import fan_in
from widetable.lsm.fan_in import taken_at_once
from widetable.schema.new_schema import new_schema
from widetable.schema.options import TableOptions

MIB = 1 << 20
SECOND = 1_000_000_000


@pytest.fixture
def file(tmp_path: Path) -> DataFileMeta:
    """Of level 0."""
    columns = pa.schema([("k", pa.int64()), ("v", pa.int64())])
    files = TableFiles(tmp_path, new_schema(columns, primary_key=["k"], options={"bucket": "1"}))
    (message,) = files.write(["k", "v"], [("+I", {"k": 1, "v": 1})])
    return message.new_files[0]


def numbered(
    file: DataFileMeta, count: int, size: int, level: int = 0, files_of_a_commit: int = 1
) -> list[DataFileMeta]:
    """Files of ascending age, of commits that began a second after each other."""
    return [
        file._replace(
            file_name=f"data-{level}-{n}.parquet",
            file_size=size,
            level=level,
            min_sequence_number=n // files_of_a_commit * SECOND + n,
            max_sequence_number=n // files_of_a_commit * SECOND + n + files_of_a_commit,
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


@pytest.mark.parametrize(
    ("files_of_a_commit", "count"),
    [(1, 42), (2, 42), (5, 40), (13, 39), (15, 30), (30, 30), (41, 41), (50, 50), (100, 100)],
)
def test_files_of_one_commit_are_taken_together(
    file: DataFileMeta, files_of_a_commit: int, count: int
) -> None:
    """Readers of changes would be shown half of a commit."""
    files = numbered(file, 100, 2 * MIB, files_of_a_commit=files_of_a_commit)
    assert taken(files[::-1]) == tuple(files[:count][::-1])


def test_a_commit_of_many_files_is_taken_whole_rather_than_fewer_files_than_are_worth_it(
    file: DataFileMeta,
) -> None:
    files = numbered(file, 100, 100 * MIB, files_of_a_commit=15)
    assert taken(files) == tuple(files[:30])


@pytest.mark.parametrize("producer", ["lookup", "full-compaction"])
def test_changes_are_those_of_whole_commits(producer: str, tmp_path: Path) -> None:
    """Each key has an add, a delete and an add in each commit, which lie in files of their own."""
    table = wt.Catalog(str(tmp_path)).create_table(
        "db.t",
        {"k": "BIGINT", "g": "BIGINT", "v": "STRING"},
        primary_key=["k"],
        options={
            "merge-engine": "partial-update",
            "fields.g.sequence-group": "v",
            "partial-update.remove-record-on-sequence-group": "g",
            "changelog-producer": producer,
            "write-only": "true",
            "write-buffer-size": "16 kb",
            "target-file-size": "4 kb",
        },
    )
    kinds = ["+I", "-D", "+I", "-D", "+I"]
    rows = [
        {"k": key, "g": number, "v": f"{key} {number}" * 10, "_row_kind": kind}
        for number, kind in enumerate(kinds)
        for key in range(400)
    ]
    table.write(rows)
    assert len([*Path(table.path, "bucket-0").glob("data-*")]) > 20
    table.compact(full=True)
    changes = table.changes(0, table.snapshots()[-1].id).to_pylist()
    assert [(row["_row_kind"], row["g"]) for row in changes] == [("+I", 4)] * 400


def test_files_of_other_levels_stay(file: DataFileMeta) -> None:
    above = numbered(file, 50, 100 * MIB, level=5)
    files = [*numbered(file, 30, 100 * MIB), *above]
    assert set(taken(files)) == {*files[:16], *above}


@pytest.mark.parametrize("producer", ["none", "lookup", "full-compaction"])
@pytest.mark.parametrize("engine", ["partial-update", "aggregation", "deduplicate"])
def test_many_files_are_compacted_step_by_step(
    engine: str, producer: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fan_in, "_APART", 10)  # commits follow each other within milliseconds
    options = {"merge-engine": engine, "changelog-producer": producer, "write-only": "true"}
    if engine == "aggregation":
        options["fields.c1.aggregate-function"] = "sum"
    table = wt.Catalog(str(tmp_path)).create_table(
        "db.t",
        pa.schema([("k", pa.int64()), *((f"c{i}", pa.int64()) for i in range(3))]),
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
