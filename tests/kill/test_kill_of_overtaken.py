"""A commit that was overtaken is killed before each of its writes: between the copies of its files, before the publish,
behind it. The next life commits the same messages; its records are in once, and the latest.
"""

from __future__ import annotations

import pickle
import shutil
from itertools import count
from pathlib import Path

import pyarrow as pa
import pytest

import widetable as wt
from tests.kill.processes import start
from tests.kill.programs.overtaken_writer import BY
from tests.support.faults.patience import PATIENCE_SECONDS
from tests.support.models.overtaken import SCHEMA, rows, written
from tests.support.programs.tallies import Note
from widetable.storage.local import LocalFileIO

IO = LocalFileIO(fsync=False)
KEYS = 3


def made(folder: Path) -> None:
    """A table in which a writer of keys 0 to 2 was overtaken by one of key 1, and its messages."""
    options = {"bucket": "2", "write-only": "true"}
    catalog = wt.Catalog(str(folder), file_io=IO)
    table = catalog.create_table("db.t", SCHEMA, primary_key=["k"], options=options)
    late = written(table, pa.concat_tables([rows({"a": 1}, key) for key in range(KEYS)]))
    table.write(pa.concat_tables([rows({"a": 2, "b": 2}, key) for key in range(KEYS)]))
    (folder / "messages").write_bytes(pickle.dumps(list(late)))


def ended(folder: Path, call: int) -> int | None:
    """The exit code of a life that dies before that write."""
    arguments = [table_path(folder), str(folder / "messages"), str(call)]
    process = start("overtaken_writer", arguments, folder / "out")
    process.join(PATIENCE_SECONDS)
    assert process.exitcode in (0, -9), (folder / "out").read_text()
    return process.exitcode


def table_path(folder: Path) -> str:
    return wt.Catalog(str(folder)).table("db.t").path


@pytest.mark.timeout(PATIENCE_SECONDS * 2)
def test_killed_before_any_write_the_next_life_commits_once(tmp_path: Path, tally: Note) -> None:
    before, folder = tmp_path / "before", tmp_path / "killed"
    made(before)
    kills = was_in = 0
    for call in count():
        shutil.copytree(before, folder)
        if ended(folder, call) == 0:
            break
        kills += 1
        table = wt.Table.open(table_path(folder))
        is_in = table.find_commit(*BY) is not None
        was_in += is_in
        values = {row["k"]: row["a"] for row in table.scan().to_arrow().to_pylist()}
        assert values == dict.fromkeys(range(KEYS), 1 if is_in else 2)
        assert ended(folder, -1) == 0
        table = wt.Table.open(table_path(folder))
        expected = [dict.fromkeys(SCHEMA.names) | {"k": key, "a": 1} for key in range(KEYS)]
        assert sorted(table.scan().to_arrow().to_pylist(), key=lambda row: row["k"]) == expected
        appends = [each for each in table.snapshots() if each.commit_kind == "APPEND"]
        assert len(appends) == 2
        table.remove_orphan_files(older_than_millis=0)
        latest = table._committer.snapshots.latest()
        live = table._committer.live_files.live_entries(latest)
        left = {path.name for path in Path(table.path).glob("bucket-*/*")}
        assert left == {entry.file.file_name for entry in live}
        assert table.audit().ok
        shutil.rmtree(folder)
    assert kills >= 8  # two copies, manifest and lists, the publish, the given files
    assert 0 < was_in < kills
    tally(kills=kills)
