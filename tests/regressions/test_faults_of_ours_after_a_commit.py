"""What a compaction raised that is no error of the package reached the writer, whose commit was in, and ended a
maintainer.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import widetable as wt
from widetable.commit.notes.compaction_requests import CompactionRequests
from widetable.lsm import table_kind
from widetable.operations.compaction import unattended
from widetable.operations.maintenance import maintenance
from widetable.operations.maintenance.maintenance import Upkeep


def make(path: Path, **options: str) -> wt.Table:
    columns = pa.schema([("k", pa.int64()), ("v", pa.int64())])
    return wt.Catalog(str(path)).create_table(
        "db.t", columns, primary_key=["k"], options={"widetable.fsync": "false", **options}
    )


def fault(*_: Any, **__: Any) -> Any:
    raise LookupError("a fault of ours")


def test_a_fault_of_a_compaction_is_logged_and_the_write_is_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    table = make(tmp_path)
    monkeypatch.setattr(table_kind, "plan_bucket", fault)
    assert table.write(pa.table({"k": [1], "v": [1]}), "job", 1).committed
    assert not table.write(pa.table({"k": [1], "v": [1]}), "job", 1).committed
    assert "a fault of ours" in caplog.text
    monkeypatch.undo()
    assert table.scan().to_arrow().num_rows == 1
    assert table.compact(full=True).committed


def test_a_fault_of_the_note_for_the_thread_is_logged_and_the_write_is_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    table = make(tmp_path, **{"changelog-producer": "lookup", "lookup-wait": "false"})
    monkeypatch.setattr(CompactionRequests, "add", fault)
    assert table.write(pa.table({"k": [1], "v": [1]})).committed
    assert "a fault of ours" in caplog.text


def test_a_fault_of_the_warning_is_logged_and_the_write_is_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    table = make(tmp_path, **{"write-only": "true", "changelog-producer": "lookup"})
    for key in range(2):
        table.write(pa.table({"k": [key], "v": [1]}))
    monkeypatch.setattr(unattended, "holder", fault)
    assert table.write(pa.table({"k": [1], "v": [1]})).committed
    assert "a fault of ours" in caplog.text


def test_a_fault_of_a_round_is_logged_and_the_next_round_goes_on(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    table = make(tmp_path, **{"write-only": "true"})
    table.write(pa.table({"k": [1], "v": [1]}))
    compact = iter([fault, maintenance.compact_here])
    with table.maintainer(Upkeep(), lambda *of: next(compact)(*of)) as maintainer:
        assert maintainer.round().failures == 1
        assert "a fault of ours" in caplog.text
        assert maintainer.round().failures == 0
