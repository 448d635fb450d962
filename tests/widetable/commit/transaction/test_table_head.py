"""A commit may build on what is known without looking first: what has become of that is found out before it is in."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.support.faults.faults import FaultyFileIO
from tests.widetable.commit.transaction.fake_table import (
    committer,
    data_file,
    live_names,
    make_table,
    metadata_files,
    named_metadata_files,
    written,
)
from widetable.commit.snapshots.manifest_cache import MANIFEST_CACHE
from widetable.commit.transaction.commit_identity import Identity
from widetable.commit.transaction.committer import Committer
from widetable.errors import InvalidError, NotFoundError
from widetable.storage.local import LocalFileIO
from widetable.storage.paths import TablePaths

IO = LocalFileIO(fsync=False)


def known(paths: TablePaths, file_io: FaultyFileIO | None = None) -> Committer:
    """A committer that made the newest snapshot, 2."""
    table = committer(paths, file_io)
    table.append([written(data_file("a"))])
    table.append([written(data_file("undone"))], Identity.of("user", 1))
    return table


def go_back(paths: TablePaths) -> None:
    """As other clients roll back: snapshot 2 goes, and its id is used again."""
    IO.delete(paths.snapshot(2))
    IO.replace(paths.latest_hint, b"1")


def test_a_commit_looks_at_nothing_twice(tmp_path: Path) -> None:
    file_io = FaultyFileIO(IO)
    table = known(make_table(tmp_path), file_io)
    file_io.log.clear()
    table.append([written(data_file("b"))])
    looks = [(operation, path.rsplit("/")[-1]) for operation, path in file_io.log]
    looks = [look for look in looks if look[0] in ("exists", "read", "list", "size")]
    assert looks == [
        ("exists", "snapshot-3"),
        ("exists", "schema-1"),
        ("read", "snapshot-2"),
    ]


@pytest.mark.parametrize("commits_since", [0, 1, 2])
def test_what_another_client_rolled_back_does_not_come_back(
    tmp_path: Path, commits_since: int
) -> None:
    paths = make_table(tmp_path)
    table = known(paths)
    go_back(paths)
    for number in range(commits_since):
        committer(paths).append([written(data_file(f"other{number}"))])
    result = table.append([written(data_file("mine"))])
    assert result.snapshot_id == 2 + commits_since
    assert live_names(table) == ["a", "mine", *(f"other{n}" for n in range(commits_since))]


def test_a_batch_that_was_rolled_back_is_not_taken_for_one_that_is_in(tmp_path: Path) -> None:
    paths = make_table(tmp_path)
    table = known(paths)
    go_back(paths)
    result = table.append([written(data_file("again"))], Identity.of("user", 1))
    assert (result.committed, result.snapshot_id) == (True, 2)
    assert live_names(table) == ["a", "again"]


def test_nothing_is_said_to_be_in_a_table_that_was_dropped(tmp_path: Path) -> None:
    paths = make_table(tmp_path / "t")
    table = known(paths)
    shutil.rmtree(paths.root)
    with pytest.raises(NotFoundError):
        table.append([written(data_file("again"))], Identity.of("user", 1))
    with pytest.raises(NotFoundError):
        table.append([])
    with pytest.raises(NotFoundError):
        table.append([written(data_file("b"))])
    assert not [path for path in (tmp_path / "t").rglob("*") if path.is_file()]


def test_a_table_that_was_made_again_gets_nothing_of_the_old_one(tmp_path: Path) -> None:
    paths = make_table(tmp_path / "t")
    table = known(paths)
    shutil.rmtree(paths.root)
    other = committer(make_table(tmp_path / "t"))
    for name in "xy":
        other.append([written(data_file(name))])
    with pytest.raises(InvalidError, match="another table"):
        table.append([written(data_file("b"))])
    assert live_names(other) == ["x", "y"]
    assert metadata_files(paths) == named_metadata_files(other)


def test_a_refusal_by_what_was_rolled_back_does_not_hold(tmp_path: Path) -> None:
    """Of a lower identifier: the commit that makes it a collision is not there any more."""
    paths = make_table(tmp_path)
    table = known(paths)
    go_back(paths)
    result = table.append([written(data_file("lower"))], Identity.of("user", 0, digest="d"))
    assert result.committed
    assert live_names(table) == ["a", "lower"]


def forgetting(paths: TablePaths) -> FaultyFileIO:
    """Another process has no manifests in memory."""
    file_io = FaultyFileIO(IO)
    file_io.run_before("exists", MANIFEST_CACHE.clear, "snapshot-3", times=-1)
    return file_io


@pytest.mark.parametrize("is_made_again", [True, False])
def test_a_commit_that_reads_what_is_gone_ends(tmp_path: Path, *, is_made_again: bool) -> None:
    """It reads manifests of the snapshot that it knows, which went with the table."""
    paths = make_table(tmp_path / "t")
    table = known(paths, forgetting(paths))
    entries = table.live_files.live_entries(table.snapshots.latest())
    shutil.rmtree(paths.root)
    if is_made_again:
        committer(make_table(tmp_path / "t")).append([written(data_file("x"))])
    with pytest.raises(InvalidError if is_made_again else NotFoundError):
        table.overwrite(None, [written(data_file("b"))])
    assert len(entries) == 2


def test_a_commit_that_reads_what_was_rolled_back_goes_again(tmp_path: Path) -> None:
    paths = make_table(tmp_path)
    table = known(paths, forgetting(paths))
    newest = table.snapshots.latest()
    assert newest is not None
    go_back(paths)
    for name in newest.list_bytes:
        IO.delete(paths.manifest(name))
    assert table.overwrite(None, [written(data_file("b"))]).snapshot_id == 2
    assert live_names(table) == ["b"]


def test_a_first_commit_that_slept_does_not_become_the_first_again(tmp_path: Path) -> None:
    """Others have committed and expired their first ones since it looked."""
    paths = make_table(tmp_path)
    other = committer(paths)

    def others_go_on() -> None:
        for name in "xyz":
            other.append([written(data_file(name))])
        for id in (1, 2):
            IO.delete(paths.snapshot(id))

    file_io = FaultyFileIO(IO)
    file_io.run_before("write_new", others_go_on, "/manifest/")
    table = committer(paths, file_io)
    assert table.append([written(data_file("mine"))]).snapshot_id == 4
    assert live_names(table) == ["mine", "x", "y", "z"]
