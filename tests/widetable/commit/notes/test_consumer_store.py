"""Consumers: what is recorded is what is read, and what cannot be read stops nobody else."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from tests.support.faults.torn_bytes import torn
from widetable.commit.notes import skipped_files as passed_over
from widetable.commit.notes.consumer_store import ConsumerStore
from widetable.errors import DamagedError, InvalidError
from widetable.storage.local import LocalFileIO
from widetable.storage.paths import TablePaths

IO = LocalFileIO(fsync=False)


@pytest.fixture(autouse=True)
def without_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(passed_over, "_PAUSE_SECONDS", 0)


@pytest.fixture
def paths(tmp_path: Path) -> TablePaths:
    return TablePaths(str(tmp_path))


def test_what_is_recorded_is_what_is_read(paths: TablePaths) -> None:
    store = ConsumerStore(IO, paths)
    for progress in (3, 9, 2, np.int64(7), np.uint8(8)):
        store.record("c", progress)  # type: ignore[arg-type]
        assert store.next_snapshot("c") == progress
        assert json.loads(IO.read(paths.consumer("c"))) == {"nextSnapshot": progress}
    assert store.next_snapshot("other") is None


@pytest.mark.parametrize(
    "progress", [True, False, 1.0, np.float64(2), np.True_, "3", None, 0, -1, [4], 2 + 0j]
)
def test_what_is_no_snapshot_id_is_refused_and_not_written(
    paths: TablePaths, progress: object
) -> None:
    store = ConsumerStore(IO, paths)
    store.record("c", 3)
    with pytest.raises(InvalidError, match="'c'"):
        store.record("c", progress)  # type: ignore[arg-type]
    assert store.all() == {"c": 3}


@pytest.mark.parametrize("content", torn(b'{"nextSnapshot": 12}'))
def test_a_torn_one_is_named_to_who_asks_for_it_and_to_nobody_else(
    paths: TablePaths, content: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    store = ConsumerStore(IO, paths)
    store.record("whole", 3)
    IO.write_new(paths.consumer("torn"), content)
    assert store.all() == {"whole": 3}
    assert store.all() == {"whole": 3}
    (record,) = caplog.records
    assert paths.consumer("torn") in record.getMessage()
    assert "delete the consumer" in record.getMessage()
    assert [damage.subject for damage in store.damaged()] == [paths.consumer("torn")]
    with pytest.raises(DamagedError, match="delete the consumer"):
        store.next_snapshot("torn")
    assert store.delete("torn")
    assert store.damaged() == []
