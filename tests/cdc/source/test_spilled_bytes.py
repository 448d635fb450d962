"""What is in files has the values that it had in memory, and a full disk is an error of ours."""

from __future__ import annotations

import mmap
from pathlib import Path

import pyarrow as pa
import pytest

from tests.support.faults.small_disk import fill, small_disk
from widetable import StorageError
from widetable_cdc.source.spilled_bytes import SpilledBytes, SpilledColumns

__all__ = ["small_disk"]  # a fixture


@pytest.mark.parametrize("most", [0, 3, 4, 1000])
def test_bytes_come_back_in_their_order(most: int) -> None:
    data = SpilledBytes(most)
    for each in (b"ab", b"", memoryview(b"cd"), b"efg" * 100):
        data.write(each)
    whole = data.whole()
    assert isinstance(whole, mmap.mmap) == (most < 304)
    assert whole[:] == b"abcd" + b"efg" * 100


def test_columns_come_back_with_their_nulls() -> None:
    columns = pa.RecordBatch.from_pydict(
        {
            "a": pa.array(["x", None, "", "long" * 99], pa.large_string()),
            "b": pa.array([None] * 4, pa.large_string()),
        }
    )
    spilled = SpilledColumns(columns.nbytes)
    assert spilled.keep(columns) is columns
    before = pa.total_allocated_bytes()
    mapped = spilled.keep(columns)
    assert mapped is not columns
    assert mapped.equals(columns)
    assert pa.total_allocated_bytes() - before < columns.nbytes
    assert spilled.keep(columns.slice(0, 0)).num_rows == 0


def test_a_full_disk_is_named(small_disk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(small_disk))
    fill(small_disk)
    with pytest.raises(StorageError, match=r"No space left.*TMPDIR"):
        SpilledBytes(10).write(bytes(100_000))
    big = pa.RecordBatch.from_pydict({"a": pa.array(["x" * 100_000])})
    with pytest.raises(StorageError, match=r"No space left.*TMPDIR"):
        SpilledColumns(10).keep(big)
