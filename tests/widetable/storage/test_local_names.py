"""Other names of files and directories on the local disk: links and moves."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.widetable.storage.test_local import names
from widetable.errors import NotFoundError
from widetable.storage.local import LocalFileIO


def test_a_directory_is_moved_to_a_name_that_nothing_has(
    file_io: LocalFileIO, tmp_path: Path
) -> None:
    source, target = str(tmp_path / "from"), str(tmp_path / "deep/to")
    for taken in (f"{target}/a", target):
        file_io.write_new(f"{source}/b", b"b")
        file_io.write_new(taken, b"a")
        assert not file_io.move_dir(source, target)
        assert (file_io.read(taken), file_io.read(f"{source}/b")) == (b"a", b"b")
        file_io.delete_dir(str(tmp_path / "deep"))
        file_io.delete_dir(source)
    file_io.write_new(f"{source}/c/b", b"b")
    assert file_io.move_dir(source, target)
    assert file_io.read(f"{target}/c/b") == b"b"
    assert not file_io.exists(source)
    with pytest.raises(NotFoundError):
        file_io.move_dir(source, f"{target}2")


def test_a_link_is_another_name_that_takes_no_room(file_io: LocalFileIO, tmp_path: Path) -> None:
    source, target = tmp_path / "a", tmp_path / "deep/b"
    source.write_bytes(b"first")
    os.utime(source, (1, 1))
    before_millis = int(source.stat().st_ctime * 1000)
    assert file_io.link(str(source), str(target))
    assert source.samefile(target)
    (entry,) = file_io.list(str(target.parent))
    assert (entry.modified_millis, entry.size_bytes) == (1000, 5)
    assert entry.named_millis >= before_millis
    source.unlink()
    assert target.read_bytes() == b"first"


def test_a_link_is_exclusive_unless_it_replaces(file_io: LocalFileIO, tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).write_text(name)
    path = str(tmp_path / "target")
    assert file_io.link(str(tmp_path / "a"), path)
    assert not file_io.link(str(tmp_path / "b"), path)
    assert file_io.read(path) == b"a"
    for name in ("b", "b", "a"):
        assert file_io.link(str(tmp_path / name), path, replace=True)
        assert file_io.read(path) == name.encode()
    assert names(tmp_path) == ["a", "b", "target"]


@pytest.mark.parametrize("replace", [False, True])
def test_nothing_is_no_source_of_a_link(
    file_io: LocalFileIO, tmp_path: Path, replace: bool
) -> None:
    (tmp_path / "target").write_bytes(b"kept")
    with pytest.raises(NotFoundError, match="missing"):
        file_io.link(str(tmp_path / "missing"), str(tmp_path / "other"), replace=replace)
    if replace:
        with pytest.raises(NotFoundError, match="missing"):
            file_io.link(str(tmp_path / "missing"), str(tmp_path / "target"), replace=True)
    assert names(tmp_path) == ["target"]
    assert (tmp_path / "target").read_bytes() == b"kept"


@pytest.mark.parametrize("source", ["missing", "a file/missing"])
@pytest.mark.parametrize("operation", ["link", "replace", "move"])
def test_what_is_not_there_gets_no_directory_and_is_asked_for_once(
    file_io: LocalFileIO,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    operation: str,
    source: str,
) -> None:
    (tmp_path / "a file").touch()
    system = {"link": os.link, "replace": os.link, "move": os.rename}[operation]
    tries: list[object] = []

    def counted(*paths: str) -> None:
        tries.append(paths)
        system(*paths)

    monkeypatch.setattr(os, system.__name__, counted)
    paths = str(tmp_path / source), str(tmp_path / "deep/er/target")
    asks: dict[str, Callable[[], bool]] = {
        "link": lambda: file_io.link(*paths),
        "replace": lambda: file_io.link(*paths, replace=True),
        "move": lambda: file_io.move_dir(*paths),
    }
    with pytest.raises(NotFoundError, match="missing"):
        asks[operation]()
    assert (names(tmp_path), len(tries)) == (["a file"], 1)


@pytest.mark.parametrize("replace", [False, True])
def test_what_may_not_be_linked_is_copied(
    file_io: LocalFileIO, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, replace: bool
) -> None:
    """Files of other users, where the kernel protects them."""
    source, target = tmp_path / "a", tmp_path / "b"
    source.write_bytes(b"bytes")
    link = os.link

    def refuse(one: str, other: str) -> None:
        if one == str(source):
            raise PermissionError(errno.EPERM, os.strerror(errno.EPERM), one)
        link(one, other)

    monkeypatch.setattr(os, "link", refuse)
    assert file_io.link(str(source), str(target), replace=replace)
    assert file_io.link(str(source), str(target), replace=replace) is replace
    assert target.read_bytes() == b"bytes"
    assert not source.samefile(target)
