"""Measures of a table that nobody compacts cost no more than the commits that are looked back at; who was last at it
is known by the age of its lease.
"""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest

import widetable as wt
from tests.support.faults.counting_file_io import CountingFileIO
from widetable.operations.handle.held_lease import held_lease
from widetable.operations.inspection.table_measures import measured

SCHEMA = pa.schema([pa.field("k", pa.int64(), nullable=False), ("v", pa.string())])
OPTIONS = {"write-only": "true", "changelog-producer": "lookup", "widetable.fsync": "false"}


def make(folder: Path, commits: int) -> wt.Table:
    table = wt.Catalog(folder).create_table("db.t", SCHEMA, primary_key=["k"], options=OPTIONS)
    for key in range(commits):
        table.write(pa.table({"k": [key], "v": ["v"]}, SCHEMA))
    return table


def test_a_look_back_has_an_end(tmp_path: Path) -> None:
    make(tmp_path, 9)
    counted = CountingFileIO()
    table = wt.Catalog(tmp_path, file_io=counted).table("db.t")
    counted.read_files.clear()
    found = measured(table, 3).measures
    assert len({path for path in counted.read_files if "/snapshot-" in path}) == 3
    assert (found.commits_without_changelog, found.snapshots, found.backlog.files) == (3, 9, 9)
    assert measured(table).measures.commits_without_changelog == 9
    assert counted.opened == []


@pytest.mark.parametrize(
    ("expires_in", "silent"),
    [(60_000, 0), (20_000, 40_000), (-3_600_000, 3_660_000), (90_000, 0), (10**12, None)],
)
def test_a_heartbeat_is_as_old_as_the_last_renewal(
    tmp_path: Path, expires_in: int, silent: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = make(tmp_path, 1)
    now_millis = 1_800_000_000_000
    monkeypatch.setattr(
        "widetable.operations.inspection.table_measures.now_millis", lambda: now_millis
    )
    with held_lease(table._state()):
        path = Path(table._paths.lease)
        note = json.loads(path.read_text()) | {"expires_millis": now_millis + expires_in}
        path.write_text(json.dumps(note))
        assert measured(table).measures.silent_millis == silent


def test_a_table_without_a_lease_has_no_heartbeat(tmp_path: Path) -> None:
    assert measured(make(tmp_path, 1)).measures.silent_millis is None
