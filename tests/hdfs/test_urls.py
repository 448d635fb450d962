"""URLs of HDFS, without one."""

from __future__ import annotations

import socket
import subprocess
import sys
from types import SimpleNamespace

import pytest

from widetable.errors import InvalidError, NotFoundError, StorageError, WidetableError
from widetable.storage.locate import locate
from widetable.storage.remote import hdfs_client
from widetable.storage.remote.hdfs import HdfsFileIO


@pytest.mark.parametrize(
    ("url", "root", "path"),
    [
        ("hdfs://nameservice1/wh", "hdfs://nameservice1", "hdfs://nameservice1/wh"),
        (
            "hdfs://name.node:8020//a/./".replace("./", ""),
            "hdfs://name.node:8020",
            "hdfs://name.node:8020/a",
        ),
        ("hdfs://[::1]:8020/a", "hdfs://[::1]:8020", "hdfs://[::1]:8020/a"),
        ("hdfs:///wh", "hdfs://", "hdfs:///wh"),
    ],
)
def test_what_is_one(url: str, root: str, path: str) -> None:
    file_io, found = locate(url)
    assert (repr(file_io), found) == (f"HdfsFileIO({root!r})", path)


@pytest.mark.parametrize(
    "url",
    [
        "hdfs://me:secret@namenode/wh",
        "hdfs://name node/wh",
        "hdfs://namenode:port/wh",
        "hdfs://namenode/../wh",
        "hdfs://namenode/./wh",
    ],
)
def test_what_is_none(url: str) -> None:
    with pytest.raises(InvalidError, match="such as hdfs://namenode:8020/warehouse") as refused:
        locate(url)
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize(
    ("text", "kind", "found"),
    [
        (
            'DataTransferError("All DataNodes failed: [DatanodeInfoProto { id: 1 }]")',
            StorageError,
            "All DataNodes failed",
        ),
        (
            'OperationFailed("Failed to complete file in time")',
            StorageError,
            "Failed to complete file in time",
        ),
        ("Connection refused (os error 111)", StorageError, "Connection refused (os error 111)"),
        (
            'RPCError("a.b.SafeModeException", "Name node is in safe mode.\\n\\tat a.b.C")',
            StorageError,
            "SafeModeException: Name node is in safe mode.",
        ),
        (
            'RPCError("a.b.PathIsNotEmptyDirectoryException", "`/a is non empty\': no\\n\\tat")',
            InvalidError,
            "a file, or a directory with entries",
        ),
        (
            'RPCError("a.AccessControlException", "/f (is not a directory)\\n\\tat")',
            StorageError,
            "AccessControlException: /f (is not a directory)",
        ),
        (
            'RPCError("a.AccessControlException", "/f is not a directory\\n\\tat")',
            NotFoundError,
            "no such file",
        ),
    ],
)
def test_what_the_servers_say_is_told_in_short(
    text: str, kind: type[WidetableError], found: str
) -> None:
    with pytest.raises(kind) as refused, hdfs_client.mapped_errors("hdfs://n/a"):
        raise RuntimeError(text)
    assert refused.value.found == found


class _Fleeting:
    """A client of a NameNode that refuses a rename, as somebody has the name, which is free then: a lease that is given
    back, a snapshot that expires.
    """

    def create(self, key: str, options: object) -> _Fleeting:
        return self

    def write(self, data: memoryview) -> None:
        """Taken."""

    def hsync(self) -> None:
        """On the disks."""

    def close(self) -> None:
        """Complete."""

    def rename(self, source: str, target: str) -> None:
        raise RuntimeError(
            'RPCError("a.b.FileAlreadyExistsException", "rename destination\\n\\tat")'
        )

    def get_file_info(self, key: str) -> SimpleNamespace:
        if not key.endswith(".tmp"):
            raise FileNotFoundError(key)
        return SimpleNamespace(isdir=False)

    def delete(self, key: str) -> bool:
        return True


def test_who_lost_has_lost_though_the_name_is_free_by_now(monkeypatch: pytest.MonkeyPatch) -> None:
    file_io = HdfsFileIO("hdfs://n")
    monkeypatch.setattr(file_io._client, "_client", _Fleeting())
    assert not file_io.publish("hdfs://n/t/snapshot-1", b"ours")


def test_without_the_package_it_is_named() -> None:
    program = (
        "import sys; sys.modules['hdfs_native'] = None\n"
        "import widetable as wt\n"
        "try: wt.Catalog('hdfs://namenode/wh')\n"
        "except wt.UnsupportedError as error: print(error.action)\n"
    )
    found = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert found.stdout == "pip install 'widetable[hdfs]'\n"


def test_a_server_that_says_nothing_is_an_error_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """It takes the connection, and an interrupt comes through meanwhile."""
    monkeypatch.setattr(hdfs_client, "_PATIENCE_SECONDS", 1.0)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        root = f"hdfs://127.0.0.1:{silent.getsockname()[1]}"
        with pytest.raises(StorageError, match="no answer for 1 s"):
            HdfsFileIO(root).exists(f"{root}/a")
