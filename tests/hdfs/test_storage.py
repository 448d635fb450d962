"""HDFS as a storage: what appears, when, and what answers that get lost leave behind."""

from __future__ import annotations

import contextlib
import os
import pickle
import subprocess
import sys
import time
from collections.abc import Callable

import pytest

from tests.hdfs.hdfs_server import NEEDS_HDFS
from tests.support.contracts.storage_contract import StorageContract, names_in
from tests.support.faults.patience import wait_for
from widetable.errors import InvalidError, NotFoundError, StorageError
from widetable.storage.locate import locate
from widetable.storage.remote.hdfs import HdfsFileIO

pytestmark = NEEDS_HDFS


class TestHdfs(StorageContract):
    """A NameNode and a DataNode on loopback."""


def test_new_files_are_not_written_over(file_io: HdfsFileIO, place: str) -> None:
    file_io.write_new(f"{place}/manifest-1", b"a")
    with pytest.raises(InvalidError, match="manifest-1"):
        file_io.write_new(f"{place}/manifest-1", b"b")
    with pytest.raises(InvalidError, match="manifest-1"):
        file_io.open_output(f"{place}/manifest-1")
    assert file_io.read(f"{place}/manifest-1") == b"a"
    assert names_in(file_io, place) == ["manifest-1"]


def test_listing(file_io: HdfsFileIO, place: str, root: str) -> None:
    name = "dt=a%3Ab c&d#e+f=ü%2F"
    for path in ("b", "a/inner", "a.b/inner", f"{name}/x"):
        file_io.write_new(f"{place}/{path}", b"xyz")
    found = {entry.name: (entry.is_dir, entry.size_bytes) for entry in file_io.list(place)}
    directory = (True, 0)
    assert found == {"a": directory, "a.b": directory, name: directory, "b": (False, 3)}
    assert names_in(file_io, f"{place}/{name}") == ["x"]
    assert file_io.list(f"{place}/nothing") == file_io.list(f"{place}/b") == []
    assert place.rpartition("/")[2] in names_in(file_io, root)


def test_what_is_not_there(file_io: HdfsFileIO, place: str) -> None:
    path = f"{place}/missing"
    assert not file_io.exists(path)
    assert not file_io.delete(path)
    assert not file_io.delete_dir(path)
    assert not file_io.delete_empty_dir(path)
    for ask in (file_io.read, file_io.size, file_io.open_input):
        with pytest.raises(NotFoundError, match="missing"):
            ask(path)
    with pytest.raises(NotFoundError, match="missing"):
        file_io.link(path, f"{place}/x")
    with pytest.raises(NotFoundError, match="missing"):
        file_io.move_dir(path, f"{place}/x")


def test_directories_go_and_move_whole(file_io: HdfsFileIO, place: str) -> None:
    file_io.write_new(f"{place}/a/deep/x", b"1")
    file_io.write_new(f"{place}/full/y", b"2")
    with pytest.raises(StorageError, match="a directory"):
        file_io.delete(f"{place}/a")
    assert not file_io.delete_empty_dir(f"{place}/a")
    assert not file_io.delete_empty_dir(f"{place}/full/y")
    assert not file_io.move_dir(f"{place}/a", f"{place}/full")
    assert not file_io.move_dir(f"{place}/a", f"{place}/full/y")
    assert file_io.move_dir(f"{place}/a", f"{place}/new/b")
    assert file_io.read(f"{place}/new/b/deep/x") == b"1"
    assert file_io.delete(f"{place}/full/y")
    assert file_io.move_dir(f"{place}/new/b", f"{place}/full")
    assert names_in(file_io, f"{place}/full/deep") == ["x"]
    assert file_io.delete_empty_dir(f"{place}/new")
    assert list(file_io.delete_all([f"{place}/full/deep/x", f"{place}/none"])) == [
        f"{place}/full/deep/x"
    ]
    assert file_io.delete_dir(place)
    assert not file_io.exists(place)


class _LosesAnswers:
    """A client whose renames are carried out, or not, and then answered as the second try is."""

    def __init__(self, hdfs: object, *, is_done: bool) -> None:
        self._hdfs, self._is_done = hdfs, is_done

    def __getattr__(self, name: str) -> object:
        return getattr(self._hdfs, name)

    def rename(self, source: str, target: str, overwrite: bool = False) -> None:
        if not self._is_done:
            raise OSError("Connection reset by peer")
        self._hdfs.rename(source, target, overwrite)  # type: ignore[attr-defined]
        self._hdfs.rename(source, target, overwrite)  # type: ignore[attr-defined]


@pytest.mark.parametrize("is_done", [True, False])
def test_a_publish_whose_answer_got_lost_is_ours_if_it_was_done(
    file_io: HdfsFileIO, place: str, monkeypatch: pytest.MonkeyPatch, *, is_done: bool
) -> None:
    path = f"{place}/snapshot-1"
    with monkeypatch.context() as patch:
        lossy = _LosesAnswers(file_io._client.hdfs, is_done=is_done)
        patch.setattr(file_io._client, "_client", lossy)
        if is_done:
            assert file_io.publish(path, b"ours")
        else:
            with pytest.raises(StorageError, match="Connection reset"):
                file_io.publish(path, b"ours")
    assert names_in(file_io, place) == (["snapshot-1"] if is_done else [])
    assert file_io.publish(path, b"theirs") is not is_done


def test_a_rename_that_is_done_late_is_ours(
    file_io: HdfsFileIO, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It had no answer in time, and is carried out while we look whether it was."""
    path = f"{place}/snapshot-1"
    hdfs, late = file_io._client.hdfs, list[tuple[str, str]]()

    class Late:
        def __getattr__(self, name: str) -> object:
            return getattr(hdfs, name)

        def rename(self, source: str, target: str) -> None:
            late.append((source, target))
            raise OSError("timed out")

        def delete(self, key: str) -> bool:
            while late:
                hdfs.rename(*late.pop())
            return bool(hdfs.delete(key))

    with monkeypatch.context() as patch:
        patch.setattr(file_io._client, "_client", Late())
        assert file_io.publish(path, b"ours")
    assert names_in(file_io, place) == ["snapshot-1"]


def test_a_directory_that_goes_meanwhile_is_no_publish(
    file_io: HdfsFileIO, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    written = HdfsFileIO._written

    def dropped(self: HdfsFileIO, path: str, data: bytes, *, durable: bool = True) -> str:
        temporary = written(self, path, data, durable=durable)
        self.delete_dir(place)
        return temporary

    monkeypatch.setattr(HdfsFileIO, "_written", dropped)
    with pytest.raises(NotFoundError):
        file_io.publish(f"{place}/snapshot-1", b"ours")


def test_what_a_killed_writer_leaves_can_be_read_and_deleted(
    file_io: HdfsFileIO, place: str
) -> None:
    program = (
        "import os, sys\n"
        "from widetable.storage.locate import locate\n"
        "file_io, path = locate(sys.argv[1])\n"
        "out = file_io.open_output(path)\n"
        "out.write(b'x' * 3_000_000)\n"
        "os.kill(os.getpid(), 9)\n"
    )
    done = subprocess.run([sys.executable, "-c", program, f"{place}/half"], check=False)
    assert done.returncode == -9
    with pytest.raises(InvalidError, match="half"):
        file_io.open_output(f"{place}/half")
    assert file_io.delete(f"{place}/half")
    assert file_io.publish(f"{place}/half", b"whole")


def test_a_forked_child_says_that_it_cannot(file_io: HdfsFileIO, place: str) -> None:
    file_io.replace(f"{place}/a", b"1")
    child = os.fork()
    if not child:
        try:
            file_io.read(f"{place}/a")
        except StorageError as refused:
            os._exit(0 if "forked" in str(refused) else 2)
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_a_pickle_opens_the_same_place(file_io: HdfsFileIO, place: str, root: str) -> None:
    file_io.replace(f"{place}/a", b"1")
    copy = pickle.loads(pickle.dumps(file_io))
    assert (copy.read(f"{place}/a"), repr(copy)) == (b"1", f"HdfsFileIO({root!r})")


@pytest.mark.parametrize("name", ["a:b", "..", "a//b", "x" * 256, "nul\0", "\ud800"])
def test_names_that_hdfs_cannot_have_are_refused(
    file_io: HdfsFileIO, place: str, name: str
) -> None:
    asks: list[Callable[[str], object]] = [
        file_io.exists,
        file_io.list,
        file_io.read,
        file_io.open_output,
        lambda path: file_io.publish(path, b"1"),
        lambda path: file_io.replace(path, b"1"),
    ]
    for ask in asks:
        with pytest.raises(InvalidError, match="a path that HDFS does not support"):
            ask(f"{place}/{name}")
    assert file_io.list(place) == []


def test_the_longest_name_is_one(file_io: HdfsFileIO, place: str) -> None:
    assert file_io.publish(f"{place}/{'x' * 255}", b"1")


def test_where_a_directory_is_nothing_is_published_and_nothing_stays(
    file_io: HdfsFileIO, place: str
) -> None:
    file_io.write_new(f"{place}/d/x", b"1")
    file_io.write_new(f"{place}/f", b"1")
    assert not file_io.publish(f"{place}/d", b"1")
    assert not file_io.link(f"{place}/f", f"{place}/d")
    with pytest.raises((InvalidError, StorageError)) as replaced:
        file_io.replace(f"{place}/d", b"1")
    assert f"{place}/d" in str(replaced.value)
    with pytest.raises((InvalidError, StorageError)):
        file_io.link(f"{place}/f", f"{place}/d", replace=True)
    with pytest.raises(NotFoundError):
        file_io.link(f"{place}/none", f"{place}/g")
    with pytest.raises(StorageError, match="a directory"):
        file_io.read(f"{place}/d")
    assert not file_io.exists(f"{place}/f/below")
    assert not file_io.delete_dir(f"{place}/f")
    assert names_in(file_io, place) == ["d", "f"]


def test_a_file_that_goes_while_it_is_read_is_not_there(file_io: HdfsFileIO, place: str) -> None:
    path = f"{place}/data"
    file_io.replace(path, bytes(5_000_000))

    def goes() -> bool:
        try:
            opened.seek(0)
            opened.read(10)
        except NotFoundError:
            return True
        opened.seek(2_500_000)
        with contextlib.suppress(NotFoundError):  # so that the next read asks again
            opened.read(10)
        time.sleep(0.2)
        return False

    with file_io.open_input(path) as opened:
        assert file_io.delete(path)
        wait_for(goes)


def test_who_has_no_right_is_told(root: str, place: str) -> None:
    program = (
        "import sys\n"
        "import widetable as wt\n"
        "try: wt.Catalog(sys.argv[1]).create_table('db.t', {'k': 'INT'}, primary_key=['k'])\n"
        "except wt.StorageError as error: print(error.found)\n"
    )
    environment = {**os.environ, "HADOOP_USER_NAME": "nobody-known"}
    done = subprocess.run(
        [sys.executable, "-c", program, place],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.startswith("AccessControlException: Permission denied: user=nobody-known")
    assert "\tat " not in done.stdout


def test_urls(root: str) -> None:
    for url in (f"{root}/wh/", f"{root}//wh", root.replace("hdfs", "HDFS") + "/wh"):
        file_io, path = locate(url)
        assert (repr(file_io), path) == (f"HdfsFileIO({root!r})", f"{root}/wh")
    with pytest.raises(InvalidError, match=f"below {root}"):
        locate(root)[0].read("hdfs://elsewhere/wh")
