"""The changelog of producer `input`: every record that passed the filters, unmerged, beside the merged level-0 file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import widetable as wt
from tests.support.faults.faults import Fault, FaultyFileIO
from widetable.storage.local import LocalFileIO

COLUMNS = pa.schema([pa.field("k", pa.int64(), nullable=False), ("g", pa.int64()), ("a", pa.int64())])  # fmt: skip
FAST = {"widetable.fsync": "false", "changelog-producer": "input"}


def table_with(path: Path, **options: str) -> wt.Table:
    return wt.Catalog(str(path)).create_table(
        "db.t", COLUMNS, primary_key=["k"], options=FAST | options
    )


def write(table: wt.Table, rows: list[tuple[Any, ...]]) -> wt.CommitResult:
    columns = list(zip(*rows, strict=True))
    data = dict(zip(("_row_kind", "k", "g", "a"), columns, strict=True))
    return table.write(pa.table(data))


def emitted(table: wt.Table, start: int, end: int) -> list[tuple[Any, ...]]:
    rows = table.changes(start, end).to_pylist()
    return [(row["_row_kind"], row["k"], row["g"], row["a"]) for row in rows]


def test_records_are_kept_as_they_came_by_key(tmp_path: Path) -> None:
    table = table_with(tmp_path)
    records = [("+I", 2, 1, 1), ("+U", 1, 2, 2), ("-U", 2, 3, 3), ("+U", 2, 4, 4), ("-D", 1, 5, 5)]
    assert write(table, records).committed
    assert emitted(table, 0, 1) == [
        ("+U", 1, 2, 2),
        ("-D", 1, 5, 5),
        ("+I", 2, 1, 1),
        ("-U", 2, 3, 3),
        ("+U", 2, 4, 4),
    ]
    assert table.snapshots()[0].changelog_record_count == 5
    assert table.scan().to_arrow().to_pylist() == [{"k": 2, "g": 4, "a": 4}]


def test_values_without_meaning_for_the_table_are_still_emitted(tmp_path: Path) -> None:
    options = {"merge-engine": "partial-update", "fields.g.sequence-group": "a"}
    table = table_with(tmp_path, **options)
    write(table, [("+I", 1, None, 7), ("-U", 2, 3, 8)])
    assert emitted(table, 0, 1) == [("+I", 1, None, 7), ("-U", 2, 3, 8)]


def test_filtered_records_are_not_emitted(tmp_path: Path) -> None:
    table = table_with(tmp_path, **{"ignore-delete": "true"})
    write(table, [("+I", 1, 1, 1), ("-D", 1, 2, 2), ("-U", 1, 3, 3)])
    assert emitted(table, 0, 1) == [("+I", 1, 1, 1)]


def test_a_small_budget_gives_more_files_in_the_same_order(tmp_path: Path) -> None:
    table = table_with(tmp_path, **{"write-buffer-size": "64 kb"})
    batches = [pa.table({"k": list(range(500)), "a": [n] * 500}) for n in range(20)]
    table.write(batch for each in batches for batch in each.to_batches())
    snapshot = table.snapshots()[0]
    assert snapshot.changelog_record_count == 10_000
    values: dict[int, list[int]] = {}
    for _, k, _, a in emitted(table, 0, 1):
        values.setdefault(k, []).append(a)
    assert all(values[k] == list(range(20)) for k in range(500))


def test_an_overwrite_emits_nothing(tmp_path: Path) -> None:
    table = table_with(tmp_path)
    write(table, [("+I", 1, 1, 1)])
    table.overwrite(pa.table({"k": [2], "a": [2]}))
    assert emitted(table, 1, 2) == []
    assert table.snapshots()[1].changelog_manifest_list is None
    names = [path.name for path in tmp_path.rglob("changelog-*.parquet")]
    assert len(names) == 1


def test_a_failed_writer_leaves_no_file(tmp_path: Path) -> None:
    table = table_with(tmp_path)
    faulty = FaultyFileIO(LocalFileIO(fsync=False))
    faulty.fail("open_output", Fault.BEFORE, "changelog-")
    with pytest.raises(wt.StorageError):
        write(wt.Table.open(table.path, file_io=faulty), [("+I", 1, 1, 1)])
    assert not list(tmp_path.rglob("*.parquet"))


def test_changelog_files_have_a_codec_of_their_own_or_that_of_data_files(tmp_path: Path) -> None:
    for name, options, codec in (
        ("same", {"file.compression": "gzip"}, "GZIP"),
        ("own", {"file.compression": "gzip", "changelog-file.compression": "lz4"}, "LZ4"),
    ):
        write(table_with(tmp_path / name, **options), [("+I", 1, 1, 1)])
        (path,) = (tmp_path / name).rglob("changelog-*.parquet")
        assert pq.ParquetFile(path).metadata.row_group(0).column(0).compression == codec
