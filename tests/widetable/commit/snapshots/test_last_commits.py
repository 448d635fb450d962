"""Who has committed what stays known when only other clients commit, for longer than snapshots are kept."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest

import widetable as wt
from tests.support.models.kept_rows import batch, create, expire_all, rows, write
from widetable.commit.snapshots.committed import COMMIT_USERS, MAX_SEQUENCE_NUMBER, remembers
from widetable.commit.snapshots.last_commits import LastCommits
from widetable.commit.snapshots.snapshot_store import SnapshotStore
from widetable.commit.transaction.committer import Committer
from widetable.errors import NotFoundError
from widetable.storage.local import LocalFileIO
from widetable.storage.paths import TablePaths

IO = LocalFileIO(fsync=False)


def commit_of_another_client(table: wt.Table, user: str = "other", identifier: int = 7) -> None:
    """One that writes none of our properties."""
    paths = TablePaths(table.path)
    table.commit_append([], properties={"note": "x"})
    newest = SnapshotStore(IO, paths).latest()
    assert newest is not None
    foreign = replace(newest, commit_user=user, commit_identifier=identifier, properties={})
    IO.replace(paths.snapshot(newest.id), foreign.to_json().encode())


def test_replayed_commits_count_once_after_many_of_other_clients(tmp_path: Path) -> None:
    table = create(tmp_path)
    for number in range(3):
        write(table, number)
    for _ in range(4):
        commit_of_another_client(table)
        expire_all(table)
    assert [remembers(s) for s in table.snapshots()] == [False]
    expected = rows(table)
    for number in range(3):
        assert not write(table, number, replay=True).committed
    assert not write(table, 2).committed
    assert table.find_commit("stream", 2) is None, "it is in, but its snapshot has expired"
    assert not table.write(batch(5), "stream", 2).committed
    assert rows(table) == expected
    assert write(table, 3).committed
    remembered = json.loads(table.snapshots()[-1].properties[COMMIT_USERS])
    assert remembered["stream"][0] == 3
    assert remembered["other"][0] == 7


def test_the_newest_of_the_expired_is_kept(tmp_path: Path) -> None:
    table = create(tmp_path, {"write-only": "true"})
    for number in range(6):
        write(table, number) if number % 2 else commit_of_another_client(table)
        commit_of_another_client(table)
        expire_all(table)
        for before in range(1, number + 1, 2):
            assert not write(table, before, replay=True).committed


def test_nothing_is_copied_while_a_kept_snapshot_remembers(tmp_path: Path) -> None:
    table = create(tmp_path)
    for number in range(5):
        write(table, number)
    commit_of_another_client(table)
    table.expire_snapshots(num_retained_min=2, time_retained_millis=0)
    assert not IO.exists(TablePaths(table.path).last_commits)
    expire_all(table)
    assert IO.exists(TablePaths(table.path).last_commits)


def test_it_is_another_name_of_the_snapshots_own_bytes(tmp_path: Path) -> None:
    table = create(tmp_path)
    write(table, 0)
    paths = TablePaths(table.path)
    for _ in range(2):
        LastCommits(IO, paths).keep([1], [])
        assert os.path.samefile(paths.last_commits, paths.snapshot(1))
        left = {os.path.basename(path) for path in (paths.last_commits, paths.had_snapshots_mark)}
        assert set(os.listdir(paths.service_dir)) == left


def test_only_expired_snapshots_after_it_are_stood_for(tmp_path: Path) -> None:
    table = create(tmp_path)
    write(table, 0)
    for _ in range(3):
        commit_of_another_client(table)
    expire_all(table)
    last = LastCommits(IO, TablePaths(table.path))
    assert [last.load(id).id for id in (4, 3, 2, 1)] == [4, 1, 1, 1]
    with pytest.raises(NotFoundError):
        last.load(0)


def test_sequence_numbers_stay_ahead_too(tmp_path: Path) -> None:
    """A snapshot of another client does not say the highest: the files do."""
    table = create(tmp_path)
    write(table, 0)
    highest = int(table.snapshots()[-1].properties[MAX_SEQUENCE_NUMBER])
    for _ in range(2):
        commit_of_another_client(table)
        expire_all(table)
    assert Committer(IO, TablePaths(table.path)).sequence_base() > highest
