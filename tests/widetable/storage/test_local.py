"""The local disk: what appears, when, and what an error leaves."""

from __future__ import annotations

import contextlib
import errno
import os
import resource
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.contracts.storage_contract import StorageContract
from widetable.errors import InvalidError, NotFoundError, StorageError, WidetableError
from widetable.storage.local import LocalFileIO


@contextlib.contextmanager
def small_files() -> Iterator[None]:
    """Files may not grow past 100 bytes: the disk is full, as far as this process can see.

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


@pytest.fixture
def place(tmp_path: Path) -> str:
    return str(tmp_path)


class TestLocalDisk(StorageContract):
    """A directory of this machine, with fsync and without."""


def test_new_files_are_not_written_over(file_io: LocalFileIO, tmp_path: Path) -> None:
    path = str(tmp_path / "manifest/manifest-1")
    file_io.write_new(path, b"a")
    with pytest.raises(InvalidError, match="manifest-1"):
        file_io.write_new(path, b"b")
    with pytest.raises(InvalidError, match="manifest-1"):
        file_io.open_output(path)
    assert file_io.read(path) == b"a"


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


def test_a_linked_directory_goes_with_its_link(file_io: LocalFileIO, tmp_path: Path) -> None:
    """A table that was moved to another disk, say."""
    file_io.write_new(f"{tmp_path}/elsewhere/d/a", b"")
    file_io.write_new(f"{tmp_path}/elsewhere/e/a", b"")
    (tmp_path / "elsewhere/d/link").symlink_to(tmp_path / "elsewhere/e")
    (tmp_path / "d").symlink_to(tmp_path / "elsewhere/d")
    assert file_io.delete_dir(f"{tmp_path}/d")
    assert names(tmp_path) == ["elsewhere"]
    assert names(tmp_path / "elsewhere") == ["e"]
    assert names(tmp_path / "elsewhere/e") == ["a"]
    assert not file_io.delete_dir(f"{tmp_path}/d")


def test_a_directory_goes_beside_who_makes_files_in_it(
    file_io: LocalFileIO, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A table is dropped while others write to it."""
    rmdir, left = os.rmdir, [3]

    def overtaken(path: Any, **options: Any) -> None:
        if left[0]:
            left[0] -= 1
            (tmp_path / "d" / f"new{left[0]}").write_bytes(b"")
        rmdir(path, **options)

    file_io.write_new(f"{tmp_path}/d/e/f", b"")
    monkeypatch.setattr(os, "rmdir", overtaken)
    assert file_io.delete_dir(f"{tmp_path}/d")
    assert not (tmp_path / "d").exists()
    assert not file_io.delete_dir(f"{tmp_path}/d")


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
    make = os.mkdir

    def make_and_lose(path: str) -> None:
        make(path)
        if left[0] > 0:
            left[0] -= 1
            os.rmdir(path)

    monkeypatch.setattr(os, "mkdir", make_and_lose)
    path = str(tmp_path / "d/file")
    if write == "open_output":
        file_io.open_output(path).close()
    else:
        getattr(file_io, write)(path, b"")
    assert file_io.exists(path)
    assert left == [0]


WRITES: dict[str, Callable[[LocalFileIO, str, bytes], object]] = {
    "publish": lambda io, path, data: io.publish(path, data),
    "replace": lambda io, path, data: io.replace(path, data),
    "write_new": lambda io, path, data: io.write_new(path, data),
}


@pytest.mark.parametrize("operation", WRITES)
def test_a_full_disk_is_reported_and_nothing_appears_by_halves(
    file_io: LocalFileIO, tmp_path: Path, operation: str
) -> None:
    path = str(tmp_path / "file")
    if operation == "replace":
        file_io.replace(path, b"before")
    with small_files(), pytest.raises(StorageError) as raised:
        WRITES[operation](file_io, path, b"x" * 100_000)
    assert raised.value.subject == path
    left = {name: (tmp_path / name).read_bytes() for name in names(tmp_path)}
    assert left == ({"file": b"before"} if operation == "replace" else {})


@pytest.mark.parametrize("operation", WRITES)
def test_a_directory_that_is_a_file(file_io: LocalFileIO, tmp_path: Path, operation: str) -> None:
    (tmp_path / "file").write_bytes(b"")
    for name in ("file/inner", "file/deep/inner"):
        with pytest.raises(StorageError):
            WRITES[operation](file_io, str(tmp_path / name), b"x")
        with pytest.raises(NotFoundError):
            file_io.read(str(tmp_path / name))
        assert not file_io.exists(str(tmp_path / name))
        assert not file_io.delete(str(tmp_path / name))
        assert file_io.list(str(tmp_path / name)) == []


# What may be asked of a path, whatever is there.
def _beside(path: str) -> str:
    """A path of the same file system, which is not in the directory of `path`."""
    return f"{os.path.dirname(path)}-beside"


def _file_beside(path: str) -> str:
    Path(_beside(path)).write_bytes(b"a")
    return _beside(path)


ASKS: dict[str, Callable[[LocalFileIO, str], object]] = {
    "exists": lambda io, path: io.exists(path),
    "list": lambda io, path: io.list(path),
    "size": lambda io, path: io.size(path),
    "read": lambda io, path: io.read(path),
    "open_input": lambda io, path: io.open_input(path),
    "open_output": lambda io, path: io.open_output(path),
    "delete": lambda io, path: io.delete(path),
    "delete_dir": lambda io, path: io.delete_dir(path),
    "delete_empty_dir": lambda io, path: io.delete_empty_dir(path),
    "publish": lambda io, path: io.publish(path, b""),
    "replace": lambda io, path: io.replace(path, b""),
    "write_new": lambda io, path: io.write_new(path, b""),
    "sync": lambda io, path: io.sync(path),
    "move_dir": lambda io, path: io.move_dir(path, _beside(path)),
    "link from": lambda io, path: io.link(path, _beside(path)),
    "link to": lambda io, path: io.link(_file_beside(path), path),
}


@pytest.mark.parametrize("ask", ASKS)
def test_a_look_that_fails_is_an_error_and_not_an_absence(tmp_path: Path, ask: str) -> None:
    """A path that the kernel cannot follow: it may be there or not."""
    loop = tmp_path / "loop"
    loop.symlink_to(loop)
    with pytest.raises(StorageError, match="symbolic links"):
        ASKS[ask](LocalFileIO(), str(loop / "inner"))


@pytest.mark.parametrize("code", [errno.EIO, errno.EACCES, errno.ESTALE, errno.ENOMEM])
@pytest.mark.parametrize(("call", "ask"), [("stat", "exists"), ("scandir", "list")])
def test_whatever_the_look_fails_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int, call: str, ask: str
) -> None:
    look = getattr(os, call)

    def fail(path: Any, **options: Any) -> Any:
        if str(path) == str(tmp_path):
            raise OSError(code, os.strerror(code), path)
        return look(path, **options)

    monkeypatch.setattr(os, call, fail)
    with pytest.raises(StorageError, match=f"errno {code}"):
        ASKS[ask](LocalFileIO(), str(tmp_path))


def test_a_listing_says_nothing_wrong_of_what_it_cannot_look_at(
    file_io: LocalFileIO, tmp_path: Path
) -> None:
    (tmp_path / "a").touch()
    (tmp_path / "gone").symlink_to(tmp_path / "nothing")
    assert [entry.name for entry in file_io.list(str(tmp_path))] == ["a"]
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    with pytest.raises(StorageError):
        file_io.list(str(tmp_path))


@pytest.mark.parametrize("ask", ASKS)
@pytest.mark.parametrize("name", ["a\0b", "\ud800", "x" * 256, "ä" * 128])
def test_what_can_be_no_path_is_reported_as_such(tmp_path: Path, ask: str, name: str) -> None:
    with pytest.raises(InvalidError, match="a path that the storage does not support"):
        ASKS[ask](LocalFileIO(), f"{tmp_path}/{name}")


@pytest.mark.parametrize("ask", ["open_input", "open_output"])
def test_what_arrow_refuses_to_open_is_reported_as_ours(tmp_path: Path, ask: str) -> None:
    with pytest.raises(WidetableError):
        ASKS[ask](LocalFileIO(), str(tmp_path))


@pytest.mark.parametrize("write", ["publish", "replace", "write_new", "link to"])
@pytest.mark.parametrize("name", ["x" * 255, "ä" * 127])
def test_the_longest_name_that_there_can_be_is_taken(
    file_io: LocalFileIO, tmp_path: Path, write: str, name: str
) -> None:
    ASKS[write](file_io, f"{tmp_path}/{name}")
    assert names(tmp_path) == [name]


def test_what_is_published_is_on_the_disk_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """File synced, then named, then the directory synced, new directories too; nothing is synced without fsync."""
    done: list[str] = []
    fsync, link, rename, make = os.fsync, os.link, os.replace, os.mkdir

    def noted_fsync(descriptor: int) -> None:
        target = os.readlink(f"/proc/self/fd/{descriptor}")
        done.append("sync directory" if os.path.isdir(target) else "sync file")
        fsync(descriptor)

    def noted_link(source: str, target: str) -> None:
        link(source, target)
        done.append("link")

    def noted_rename(source: str, target: str) -> None:
        done.append("rename")
        rename(source, target)

    def noted_make(path: str) -> None:
        done.append("make directory")
        make(path)

    monkeypatch.setattr(os, "fsync", noted_fsync)
    monkeypatch.setattr(os, "link", noted_link)
    monkeypatch.setattr(os, "replace", noted_rename)
    monkeypatch.setattr(os, "mkdir", noted_make)
    LocalFileIO(fsync=True).publish(str(tmp_path / "a"), b"x")
    assert done == ["sync file", "link", "sync directory"]
    done.clear()
    LocalFileIO(fsync=True).replace(str(tmp_path / "a"), b"y")
    assert done == ["sync file", "rename", "sync directory"]
    done.clear()
    LocalFileIO(fsync=True).replace(str(tmp_path / "a"), b"z", durable=False)
    assert done == ["rename"]
    done.clear()
    LocalFileIO(fsync=True).link(str(tmp_path / "a"), str(tmp_path / "l"))
    assert done == ["link", "sync directory"]
    done.clear()
    LocalFileIO(fsync=True).publish(str(tmp_path / "new/newer/a"), b"x")
    assert done == [
        *["make directory", "sync directory"] * 2,
        *["sync file", "link", "sync directory"],
    ]
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
    quick.replace(str(tmp_path / "d"), b"y")
    quick.link(str(tmp_path / "d"), str(tmp_path / "other/e"))
    quick.sync(str(tmp_path / "d"))
    assert done == ["link", "rename", "make directory", "link"]
