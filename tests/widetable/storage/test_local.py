"""The local disk: what appears, when, and what an error leaves."""

from __future__ import annotations

import contextlib
import os
import resource
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from widetable.errors import InvalidError, NotFoundError, StorageError, WidetableError
from widetable.storage.local import LocalFileIO


@pytest.fixture(params=[True, False], ids=["fsync", "no fsync"])
def file_io(request: pytest.FixtureRequest) -> LocalFileIO:
    return LocalFileIO(fsync=request.param)


@contextlib.contextmanager
def small_files() -> Iterator[None]:
    """Files may not grow past 100 bytes: the disk is full, as far as this process can tell.

    Only around the call: pytest's own output may go to a file.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def names(directory: Path) -> list[str]:
    return sorted(os.listdir(directory))


def test_publish_makes_a_file_once(file_io: LocalFileIO, tmp_path: Path) -> None:
    path = tmp_path / "deep/down/snapshot-1"
    assert file_io.publish(str(path), b"first")
    assert not file_io.publish(str(path), b"second")
    assert path.read_bytes() == b"first"
    assert names(path.parent) == ["snapshot-1"]


def test_one_of_many_publishers_wins(file_io: LocalFileIO, tmp_path: Path) -> None:
    path = str(tmp_path / "snapshot-1")
    barrier = threading.Barrier(8)
    won: list[bytes] = []

    def publish(number: int) -> None:
        data = str(number).encode() * 1000
        barrier.wait()
        if file_io.publish(path, data):
            won.append(data)

    threads = [threading.Thread(target=publish, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [file_io.read(path)] == won
    assert names(tmp_path) == ["snapshot-1"]


def test_replace_is_whole_whatever_was_there(file_io: LocalFileIO, tmp_path: Path) -> None:
    path = str(tmp_path / "snapshot/LATEST")
    for data in (b"10", b"9", b""):
        file_io.replace(path, data)
        assert file_io.read(path) == data
    assert names(tmp_path / "snapshot") == ["LATEST"]


def test_new_files_are_not_written_over(file_io: LocalFileIO, tmp_path: Path) -> None:
    path = str(tmp_path / "manifest/manifest-1")
    file_io.write_new(path, b"a")
    with pytest.raises(InvalidError, match="manifest-1"):
        file_io.write_new(path, b"b")
    with pytest.raises(InvalidError, match="manifest-1"):
        file_io.open_output(path)
    assert file_io.read(path) == b"a"


def test_streams(file_io: LocalFileIO, tmp_path: Path) -> None:
    path = str(tmp_path / "bucket-0/data-1.parquet")
    with file_io.open_output(path) as out:
        out.write(b"0123456789")
    file_io.sync(path)
    assert file_io.size(path) == 10
    with file_io.open_input(path) as source:
        source.seek(4)
        assert source.read(3) == b"456"


def test_listing(file_io: LocalFileIO, tmp_path: Path) -> None:
    file_io.write_new(str(tmp_path / "b"), b"xyz")
    file_io.write_new(str(tmp_path / "a/inner"), b"")
    inner, outer = file_io.list(str(tmp_path))
    assert (inner.name, inner.is_dir) == ("a", True)
    assert (outer.name, outer.is_dir, outer.size_bytes) == ("b", False, 3)
    assert abs(outer.modified_millis - (tmp_path / "b").stat().st_mtime * 1000) < 2
    assert file_io.list(str(tmp_path / "nothing")) == []


def test_what_is_not_there(file_io: LocalFileIO, tmp_path: Path) -> None:
    path = str(tmp_path / "missing")
    assert not file_io.exists(path)
    assert not file_io.delete(path)
    assert not file_io.delete_dir(path)
    for ask in (file_io.read, file_io.size, file_io.open_input, LocalFileIO(fsync=True).sync):
        with pytest.raises(NotFoundError, match="missing"):
            ask(path)


def test_removal(file_io: LocalFileIO, tmp_path: Path) -> None:
    file_io.write_new(str(tmp_path / "d/a"), b"")
    assert file_io.delete(str(tmp_path / "d/a"))
    file_io.write_new(str(tmp_path / "d/e/b"), b"")
    assert file_io.delete_dir(str(tmp_path / "d"))
    assert names(tmp_path) == []


def test_only_empty_directories_are_removed_as_such(file_io: LocalFileIO, tmp_path: Path) -> None:
    path = str(tmp_path / "d")
    file_io.write_new(f"{path}/a", b"")
    assert not file_io.delete_empty_dir(path)
    assert file_io.exists(f"{path}/a")
    file_io.delete(f"{path}/a")
    assert file_io.delete_empty_dir(path)
    assert not file_io.delete_empty_dir(path)


@pytest.mark.parametrize("write", ["write_new", "publish", "replace", "open_output"])
def test_files_are_made_while_their_empty_directories_are_removed(
    file_io: LocalFileIO, tmp_path: Path, write: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The directory goes away right after it was made, a few times."""
    left = [3]
    make = os.makedirs

    def make_and_lose(path: str, *, exist_ok: bool) -> None:
        make(path, exist_ok=exist_ok)
        if left[0] > 0:
            left[0] -= 1
            os.rmdir(path)

    monkeypatch.setattr(os, "makedirs", make_and_lose)
    path = str(tmp_path / "d/file")
    if write == "open_output":
        file_io.open_output(path).close()
    else:
        getattr(file_io, write)(path, b"")
    assert file_io.exists(path)


WRITES: dict[str, Callable[[LocalFileIO, str, bytes], object]] = {
    "publish": lambda io, path, data: io.publish(path, data),
    "replace": lambda io, path, data: io.replace(path, data),
    "write_new": lambda io, path, data: io.write_new(path, data),
}


@pytest.mark.parametrize("operation", WRITES)
def test_a_full_disk_is_told_and_nothing_appears_by_halves(
    file_io: LocalFileIO, tmp_path: Path, operation: str
) -> None:
    path = str(tmp_path / "file")
    if operation == "replace":
        file_io.replace(path, b"before")
    with small_files(), pytest.raises(StorageError) as raised:
        WRITES[operation](file_io, path, b"x" * 100_000)
    assert raised.value.subject == path
    left = {name: (tmp_path / name).read_bytes() for name in names(tmp_path)}
    expected = {"publish": {}, "replace": {"file": b"before"}, "write_new": {"file": b"x" * 100}}
    assert left == expected[operation]


@pytest.mark.parametrize("operation", WRITES)
def test_a_directory_that_is_a_file(file_io: LocalFileIO, tmp_path: Path, operation: str) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(WidetableError):
        WRITES[operation](file_io, str(tmp_path / "file/inner"), b"x")
    with pytest.raises(WidetableError):
        file_io.read(str(tmp_path / "file/inner"))


def test_what_is_published_is_on_the_disk_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """File synced, then linked, then the directory synced; nothing is synced without fsync."""
    done: list[str] = []
    fsync, link = os.fsync, os.link

    def noted_fsync(descriptor: int) -> None:
        target = os.readlink(f"/proc/self/fd/{descriptor}")
        done.append("sync directory" if os.path.isdir(target) else "sync file")
        fsync(descriptor)

    def noted_link(source: str, target: str) -> None:
        done.append("link")
        link(source, target)

    monkeypatch.setattr(os, "fsync", noted_fsync)
    monkeypatch.setattr(os, "link", noted_link)
    LocalFileIO(fsync=True).publish(str(tmp_path / "a"), b"x")
    assert done == ["sync file", "link", "sync directory"]
    done.clear()
    LocalFileIO(fsync=True).write_new(str(tmp_path / "b"), b"x")
    assert done == ["sync file", "sync directory"]
    done.clear()
    LocalFileIO(fsync=True).sync(str(tmp_path / "b"))
    assert done == ["sync file", "sync directory"]
    done.clear()
    quick = LocalFileIO(fsync=False)
    quick.publish(str(tmp_path / "c"), b"x")
    quick.write_new(str(tmp_path / "d"), b"x")
    quick.sync(str(tmp_path / "d"))
    assert done == ["link"]
