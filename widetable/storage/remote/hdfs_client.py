"""The client of HDFS (hdfs-native): one for all tables of a NameNode, with translated errors and a timeout.

In: a URL. Out: the client, which is created at its first use. hdfs-native waits for ever for a server that accepts a
call and does not answer, and blocks interrupts meanwhile. So each call runs in a thread, which is abandoned after the
timeout. Raises StorageError, UnsupportedError if hdfs-native is not installed, InvalidError for text that is not a URL
or path of HDFS.

    RPCError("org..PathIsNotEmptyDirectoryException", ..)      InvalidError: the target exists
    FileNotFoundError, or "is not a directory"                 NotFoundError
    RPCError("org..SafeModeException", "Cannot ..", ..)        StorageError, "SafeModeException: Cannot ..": wait
    no answer for two minutes                                  StorageError
"""

from __future__ import annotations

import contextlib
import re
import threading
from collections.abc import Callable, Iterator
from importlib import import_module
from typing import Any, Final, TypeVar

from widetable.errors import InvalidError, NotFoundError, StorageError, UnsupportedError
from widetable.messages.error_code import ErrorCode
from widetable.runtime.worker_thread import Task
from widetable.storage.path_below import path_below
from widetable.storage.remote.store_client import check_not_forked

T = TypeVar("T")

SCHEME: Final = "hdfs"
# The timeout of a call. The client itself takes three minutes to find out that no server listens.
_PATIENCE_SECONDS: Final = 120.0
_LONGEST_NAME_BYTES: Final = 255
# A host and port, or a nameservice; empty: the default of Hadoop's configuration.
_AUTHORITY: Final = re.compile(r"(?:[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(?::[0-9]{1,5})?|")
_LONGEST_REASON: Final = 300
# RPCError("org.apache.hadoop.fs.PathIsNotEmptyDirectoryException", "`/a is non empty': ...\n\tat ...")
_OF_JAVA: Final = re.compile(r'RPCError\("([^"]*)", "(.*)"\)', re.DOTALL)
# DataTransferError("All DataNodes failed: [DatanodeInfoProto { ...")
_OF_THE_CLIENT: Final = re.compile(r'\w+\("(.*?)(?:"\)|: \[|$)')
_IS_THERE: Final = ("PathIsNotEmptyDirectoryException", "FileAlreadyExistsException")
_NOT_EMPTY: Final = "rename destination directory is not empty"
_NO_FILE: Final = "Path is not a file"
_BELOW_A_FILE: Final = "is not a directory"
_ACTION: Final = "Check NameNode, DataNodes, your rights and HADOOP_CONF_DIR, then retry."
_ACTIONS: Final = {
    "SafeModeException": "Wait until the NameNode has left its safe mode, then retry."
}


def root_of(url: str) -> tuple[str, str]:
    """Return the root `hdfs://<authority>`, and the path: the URL without empty parts and a final slash."""
    _, _, rest = url.partition("://")
    authority, _, key = rest.partition("/")
    names = [name for name in key.split("/") if name]
    if not _AUTHORITY.fullmatch(authority) or {".", ".."} & {*names}:
        shown = repr(url) if "@" not in authority else "a URL with an @ before its path"
        raise InvalidError(
            "path",
            found=shown,
            expected="a URL such as hdfs://namenode:8020/warehouse or hdfs://nameservice1/warehouse",
            action="Correct the argument.",
        )
    root = f"{SCHEME}://{authority}"
    return root, "/".join([root, *names])


class HdfsClient:
    """The client of one NameNode or nameservice. Thread-safe.

    new_file: the options of `create`, which refuses an existing file and creates directories. The
    client itself is created at the first call, so that a process may fork before it.
    """

    def __init__(self, root: str) -> None:
        self._root = root
        self._module = _hdfs_native()
        self._client: Any = None
        self.new_file: Final = self._module.WriteOptions(overwrite=False, create_parent=True)

    @property
    def hdfs(self) -> Any:
        """The client. Raises StorageError in a child that was forked after the first use, where calls never return."""
        check_not_forked(self._root, "HDFS")
        if self._client is None:
            self._client = self._module.Client(self._root)
        return self._client

    def key(self, path: str) -> str:
        """Return the path within HDFS. Raises InvalidError for text that cannot be a path."""
        key = path_below(self._root, path) or "/"
        if key != "/" and not all(map(_is_name, key[1:].split("/"))):
            raise InvalidError(
                repr(path),
                found="a path that HDFS does not support",
                expected=f"names of 1 to {_LONGEST_NAME_BYTES} bytes of valid text, without ':' and NUL, and not '..'",
                action="Use another name.",
            )
        return key

    def answered(self, path: str, ask: Callable[[], T]) -> T:
        """Return the client's answer to a call, or raise StorageError after the timeout. path: the path in errors.

        An abandoned call may still be carried out; callers for which that matters check it by
        another call (`hdfs._renamed`). Interrupts arrive, as only the thread waits in the client.
        """
        task = Task(ask)
        threading.Thread(target=task.run, name="widetable-hdfs", daemon=True).start()
        if not task.wait(_PATIENCE_SECONDS):
            raise _refused(path, f"no answer for {_PATIENCE_SECONDS:g} s", _ACTION)
        with mapped_errors(path):
            return task.result()


@contextlib.contextmanager
def mapped_errors(path: str) -> Iterator[None]:
    """Translate errors of hdfs-native into those of this package, which name the path. InvalidError: it exists."""
    try:
        yield
    except FileNotFoundError as cause:
        if str(cause).startswith(_NO_FILE):
            raise _refused(path, "a directory", "Move the directory away.") from cause
        raise _absent(path) from cause
    except FileExistsError as cause:
        raise _is_there(path) from cause
    except (OSError, RuntimeError, ValueError, TypeError) as cause:
        raise _of_java(path, str(cause)) from cause
    except BaseException as cause:
        if type(cause).__name__ != "PanicException":  # Rust's panic is no Exception in Python
            raise
        raise _refused(path, str(cause), _ACTION) from cause


_CLIENTS: Final[dict[str, HdfsClient]] = {}


def hdfs_client(root: str) -> HdfsClient:
    """Return the client of a root, one per process."""
    if root not in _CLIENTS:
        _CLIENTS[root] = HdfsClient(root)
    return _CLIENTS[root]


def _of_java(path: str, text: str) -> InvalidError | NotFoundError | StorageError:
    """Translate an error by the servers' message, which has a Java stack trace or a description of DataNodes behind."""
    remote = _OF_JAVA.search(text)
    kind = remote[1].rpartition(".")[2] if remote else ""
    own = None if remote else _OF_THE_CLIENT.match(text)
    message = re.split(r"\\n|\n", remote[2] if remote else own[1] if own else text)[0]
    if kind in _IS_THERE or message.startswith(_NOT_EMPTY):
        return _is_there(path)
    if message.endswith(_BELOW_A_FILE):
        return _absent(path)
    reason = f"{kind}: {message}" if kind else message
    return _refused(path, reason, _ACTIONS.get(kind, _ACTION))


def _is_name(name: str) -> bool:
    """Return whether HDFS accepts a name of a file or directory."""
    try:
        size = len(name.encode())
    except UnicodeEncodeError:
        return False
    has_marks = ":" in name or "\0" in name
    return 0 < size <= _LONGEST_NAME_BYTES and not has_marks and name not in (".", "..")


def _absent(path: str) -> NotFoundError:
    return NotFoundError(
        path,
        found="no such file",
        expected="a file",
        action="Check the path; the snapshot may have expired.",
        code=ErrorCode.FILE_NOT_FOUND,
    )


def _is_there(path: str) -> InvalidError:
    return InvalidError(
        path,
        found="a file, or a directory with entries",
        expected="no file yet",
        action="Use a new name.",
    )


def _refused(path: str, reason: str, action: str) -> StorageError:
    return StorageError(
        path,
        found=" ".join(reason.split())[:_LONGEST_REASON] or "an error without a message",
        expected="a file system that accepts the operation",
        action=action,
    )


def _hdfs_native() -> Any:
    try:
        return import_module("hdfs_native")
    except ImportError as cause:
        raise UnsupportedError(
            "HDFS",
            found=f"no hdfs-native ({cause})",
            expected="the package that reads and writes HDFS",
            action="pip install 'widetable[hdfs]'",
        ) from cause
