"""The buckets of a large write are written by two threads: rows, order, failures and memory stay as with one."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import widetable as wt
from tests.support.faults.faults import Fault, FaultyFileIO
from tests.support.faults.patience import PATIENCE_SECONDS
from widetable.operations.handle.open_table import OpenTable
from widetable.operations.writes.table_write import write
from widetable.storage.local import LocalFileIO
from widetable.write import table_writer, write_buffer
from widetable.write.rolling_writer import RollingWriter

ROWS = 20_000
COLUMNS = {"id": "BIGINT", "v": "DOUBLE"}


@pytest.fixture(autouse=True)
def many_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each write is one of many rows."""
    for module in (table_writer, write_buffer):
        monkeypatch.setattr(module, "FEW_BYTES", 0)


def made(folder: Path, **options: str) -> wt.Table:
    given = {"bucket": "5", "write-only": "true", "widetable.fsync": "false", **options}
    return wt.Catalog(str(folder)).create_table("db.t", COLUMNS, primary_key=["id"], options=given)


def rows(seed: int) -> pa.Table:
    rng = np.random.default_rng(seed)
    return pa.table({"id": rng.permutation(ROWS), "v": rng.random(ROWS)})


@pytest.mark.parametrize(
    ("is_held", "buffer"),
    [(True, "256 mb"), (False, "256 mb"), (False, "1 mb")],
    ids=["held", "in memory", "spilled"],
)
def test_rows_and_order_of_buckets_are_those_of_one_thread(
    tmp_path: Path, is_held: bool, buffer: str
) -> None:
    workers = set[int]()
    both = threading.Barrier(2, timeout=PATIENCE_SECONDS)
    write_all = RollingWriter.write_all

    def meeting(self: RollingWriter, run: Any) -> Any:
        """Each thread waits with its first bucket for the other one."""
        if threading.get_ident() not in workers:
            workers.add(threading.get_ident())
            both.wait()
        return write_all(self, run)

    table = made(tmp_path, **{"write-buffer-size": buffer})
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(RollingWriter, "write_all", meeting)
        table.write(rows(1) if is_held else rows(1).to_reader())
    assert len(workers) == 2
    buckets = table.inspect.files()["bucket"].to_pylist()
    assert buckets == sorted(buckets)
    table.write(rows(2))
    expected = rows(2).sort_by("id")
    assert table.scan().to_arrow().sort_by("id").equals(expected.cast(table.scan().arrow_schema))
    assert table.audit().ok


@pytest.mark.parametrize("is_held", [True, False], ids=["held", "in memory"])
@pytest.mark.parametrize("written", range(5))
def test_a_failure_in_any_thread_leaves_no_file(
    tmp_path: Path, written: int, is_held: bool
) -> None:
    table = made(tmp_path)
    file_io = FaultyFileIO(LocalFileIO(fsync=False))
    file_io.fail("open_output", Fault.BEFORE, "/bucket-", skip=written)
    with pytest.raises(wt.StorageError):
        write(OpenTable(table.path, file_io), rows(1) if is_held else rows(1).to_reader())
    assert not list(Path(table.path).rglob("*.parquet"))
    table.write(rows(1))
    assert table.scan().count() == ROWS


def test_a_small_write_starts_no_thread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (table_writer, write_buffer):
        monkeypatch.setattr(module, "FEW_BYTES", 4 << 20)
    before = threading.active_count()
    seen = []
    write_all = RollingWriter.write_all

    def counted(self: RollingWriter, run: Any) -> Any:
        seen.append(threading.active_count())
        return write_all(self, run)

    monkeypatch.setattr(RollingWriter, "write_all", counted)
    made(tmp_path).write(rows(1).slice(0, 100))
    assert set(seen) == {before}
