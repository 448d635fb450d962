"""hdfs-native's side of HDFS: one client for all tables of a NameNode, its errors as ours, and an end of its patience.

In: a URL. Out: the client, which is made when it is first used. hdfs-native waits for ever for a server that takes a
call and says nothing, and lets no interrupt through meanwhile: so each call is made in a thread, which is left behind
when its time is over. Raises StorageError, UnsupportedError where hdfs-native is not installed, InvalidError for what
is no URL or path of HDFS.

    RPCError("org..PathIsNotEmptyDirectoryException", ..)      InvalidError: it is there
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
from widetable.runtime.worker_thread import Task
from widetable.storage.path_below import path_below
from widetable.storage.remote.store_client import check_not_forked

T = TypeVar("T")

SCHEME: Final = "hdfs"
# Of a call. The client itself takes three minutes to find out that nobody listens.
_PATIENCE_SECONDS: Final = 120.0
_LONGEST_NAME_BYTES: Final = 255
# A host and port, or a nameservice; nothing: the default of Hadoop's configuration.
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
    """`hdfs://<authority>`, and the whole path: the URL without empty parts and a slash at its end."""
    _, _, rest = url.partition("://")
    authority, _, key = rest.partition("/")
    names = [name for name in key.split("/") if name]
    if not _AUTHORITY.fullmatch(authority) or {".", ".."} & {*names}:
        shown = repr(url) if "@" not in authority else "one with an @ before its path"
        raise InvalidError(
            "path",
            found=shown,
            expected="a URL such as hdfs://namenode:8020/warehouse or hdfs://nameservice1/warehouse",
            action="Correct the argument.",
        )
    root = f"{SCHEME}://{authority}"
    return root, "/".join([root, *names])


class HdfsClient:
    """Threads may share it.

    new_file: options for `create`, which refuses what is there and makes directories. The client
    itself is made at the first call, so that a process may fork before it.
    """

    def __init__(self, root: str) -> None:
        self._root = root
        self._module = _hdfs_native()
        self._client: Any = None
        self.new_file: Final = self._module.WriteOptions(overwrite=False, create_parent=True)

    @property
    def hdfs(self) -> Any:
        """Raises StorageError in a child that was forked after the first use, where it would wait for ever."""
        check_not_forked(self._root, "HDFS")
        if self._client is None:
            self._client = self._module.Client(self._root)
        return self._client

    def key(self, path: str) -> str:
        """The path within HDFS. Raises InvalidError for what can be none."""
        key = path_below(self._root, path) or "/"
        if key != "/" and not all(map(_is_name, key[1:].split("/"))):
            raise InvalidError(
                repr(path),
                found="a path that HDFS cannot have",
                expected=f"names of 1 to {_LONGEST_NAME_BYTES} bytes, without ':' and NUL, that are text and not '..'",
                action="Use another name.",
            )
        return key

    def answered(self, path: str, ask: Callable[[], T]) -> T:
        """What the client says to it, in time. path: that errors name.

        A call that is left behind may still be carried out. So whoever cannot live with that
        finds out by a call of its own (`hdfs._renamed`). Interrupts come through, as only the
        thread waits in the client.
        """
        task = Task(ask)
        threading.Thread(target=task.run, name="widetable-hdfs", daemon=True).start()
        if not task.wait(_PATIENCE_SECONDS):
            raise _refused(path, f"no answer for {_PATIENCE_SECONDS:g} s", _ACTION)
        with mapped_errors(path):
            return task.result()


@contextlib.contextmanager
def mapped_errors(path: str) -> Iterator[None]:
    """Turn the errors of hdfs-native into ours, naming the path. What is there already is an InvalidError."""
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
        if type(cause).__name__ != "PanicException":  # Rust's, no Exception of Python
            raise
        raise _refused(path, str(cause), _ACTION) from cause


_CLIENTS: Final[dict[str, HdfsClient]] = {}


def hdfs_client(root: str) -> HdfsClient:
    """The one of this process."""
    if root not in _CLIENTS:
        _CLIENTS[root] = HdfsClient(root)
    return _CLIENTS[root]


def _of_java(path: str, text: str) -> InvalidError | NotFoundError | StorageError:
    """By what the servers say, which comes with a stack of Java, or with all that is known of a DataNode."""
    said = _OF_JAVA.search(text)
    kind = said[1].rpartition(".")[2] if said else ""
    own = None if said else _OF_THE_CLIENT.match(text)
    message = re.split(r"\\n|\n", said[2] if said else own[1] if own else text)[0]
    if kind in _IS_THERE or message.startswith(_NOT_EMPTY):
        return _is_there(path)
    if message.endswith(_BELOW_A_FILE):
        return _absent(path)
    reason = f"{kind}: {message}" if kind else message
    return _refused(path, reason, _ACTIONS.get(kind, _ACTION))


def _is_name(name: str) -> bool:
    """Whether a file or directory can have it."""
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
    )


def _is_there(path: str) -> InvalidError:
    return InvalidError(
        path, found="a file, or entries", expected="none yet", action="Use a new name."
    )


def _refused(path: str, reason: str, action: str) -> StorageError:
    return StorageError(
        path,
        found=" ".join(reason.split())[:_LONGEST_REASON] or "no word why",
        expected="a file system that takes the operation",
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
