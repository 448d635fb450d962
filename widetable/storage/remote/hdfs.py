"""FileIO on HDFS, by hdfs-native: the NameNode decides which writer gets a name.

A path is the whole URL, `hdfs://<NameNode or nameservice>/...`; the files of HADOOP_CONF_DIR supply the rest (the
addresses behind a nameservice, security), as for Hadoop's own tools. A commit is a rename that does not overwrite: a
complete, synced temporary file gets the name of the snapshot if that name is free.

    renames                 one step in the NameNode, for files and directories. If an answer was lost, the temporary
                            name tells the outcome: only this rename removes it
    links                   copies
    replacing a lease       reads, removes and publishes, as on a disk: HDFS has no conditional replacement
    locks (`turn`)          among the processes of this machine, on a temporary file

Synced (`hsync`) means that the DataNodes have written the bytes to their disks. Erasure-coded directories do not
support it, and the client refuses them.

Source: format.md section 11. Raises as `file_io` says, UnsupportedError if hdfs-native is not installed.

How `_renamed` finds the outcome when a rename is answered by an error, or not at all:

    the temporary file can be deleted      it was not renamed, nor will be, by a late call either
        and the name exists, or the        another writer was first, whatever became of its file: False
        error says that it exists
        and the name does not exist        the error is raised
    it is gone, and the name has our bytes     the rename was carried out: True
    it is gone, and the name has other bytes   the directory was removed: the error is raised
"""

from __future__ import annotations

import contextlib
import io
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from functools import partial
from typing import Any, Final, TypeVar

import pyarrow as pa

from widetable.errors import InvalidError, NotFoundError, StorageError, WidetableError
from widetable.storage.file_io import FileStatus
from widetable.storage.leftover import delete_leftover
from widetable.storage.lock_queue import turn_of_name
from widetable.storage.remote.hdfs_client import hdfs_client, root_of
from widetable.storage.remote.ranged_input import file_of_size
from widetable.storage.remote.remote_output import RemoteOutput
from widetable.storage.remote.replace_in_steps import holds, replace_in_steps

T = TypeVar("T")

# Collects the small pieces that Parquet writes.
_BUFFER_BYTES: Final = 1 << 20
_COPY_BYTES: Final = 8 << 20


class HdfsFileIO:
    """A FileIO on one NameNode or nameservice. root: such as `hdfs://nameservice1`. fsync: force bytes to the disks of
    DataNodes before they are published (option `widetable.fsync`). Picklable.
    """

    def __init__(self, root: str, *, fsync: bool = True) -> None:
        self._root, _ = root_of(root)
        self._fsync = fsync
        self._client = hdfs_client(self._root)

    def __reduce__(self) -> tuple[object, ...]:
        return partial(HdfsFileIO, fsync=self._fsync), (self._root,)

    def __repr__(self) -> str:
        return f"HdfsFileIO({self._root!r})"

    def read(self, path: str) -> bytes:
        with self._or_gone(path):
            return self._call(path, lambda hdfs, key: _whole(hdfs.read(key)))

    def open_input(self, path: str) -> pa.NativeFile:
        source = self._call(path, lambda hdfs, key: hdfs.read(key))
        size = len(source)

        def range_of(start: int, end: int) -> bytes:
            with self._or_gone(path):
                data: bytes = self._call(path, lambda *_: source.read_range(start, end - start))
            return data

        return file_of_size(size, range_of)

    def open_output(self, path: str) -> pa.NativeFile:
        return pa.PythonFile(self._created(path, path), mode="w")

    def write_new(self, path: str, data: bytes) -> None:
        if not self.publish(path, data):
            raise InvalidError(
                path, found="a file", expected="no file yet", action="Use a new name."
            )

    def publish(self, path: str, data: bytes) -> bool:
        temporary = self._written(path, data)
        return self._renamed(temporary, path, data)

    def replace(self, path: str, data: bytes, *, durable: bool = True) -> None:
        temporary = self._written(path, data, durable=durable)
        with self._removed_after_errors(temporary):
            self._put_in_place(temporary, path, path)

    def replace_if(self, path: str, expected: bytes, data: bytes) -> bool:
        return replace_in_steps(self, path, expected, data)

    def link(self, source: str, target: str, *, replace: bool = False) -> bool:
        temporary = self._temporary(target)
        with self._removed_after_errors(temporary):
            # The bytes pass through this process: HDFS has no copy operation. The copy is closed,
            # and thereby synced, before it gets its name.
            with self.open_input(source) as opened, self._created(temporary, target) as copy:
                while piece := opened.read(_COPY_BYTES):
                    copy.write(piece)
            if replace:
                self._put_in_place(temporary, target, target)
                return True
        return self._renamed(temporary, target, None)

    def sync(self, path: str) -> None:
        """Do nothing: a closed file is on the disks."""

    def exists(self, path: str) -> bool:
        return self._info(path) is not None

    def size(self, path: str) -> int:
        return int(self._call(path, lambda hdfs, key: hdfs.get_file_info(key)).length)

    def list(self, path: str) -> list[FileStatus]:
        try:
            statuses = self._call(path, lambda hdfs, key: list(hdfs.list_status(key)))
        except NotFoundError:
            return []
        key = self._client.key(path)
        entries = [
            FileStatus(
                status.path.rpartition("/")[2],
                status.isdir,
                status.length,
                status.modification_time,
                status.modification_time,
            )
            for status in statuses
            if status.path != key  # the listing of a file contains the file itself
        ]
        return sorted(entries, key=lambda entry: entry.name)

    def delete(self, path: str) -> bool:
        info = self._info(path)
        if info is None:
            return False
        if info.isdir:  # HDFS would remove an empty directory
            raise StorageError(
                path,
                found="a directory",
                expected="a file",
                action="Move the directory away; no table has a directory there.",
            )
        return bool(self._call(path, lambda hdfs, key: hdfs.delete(key)))

    def delete_all(self, paths: Iterable[str]) -> Sequence[str]:
        return [path for path in paths if self.delete(path)]

    def delete_dir(self, path: str) -> bool:
        info = self._info(path)
        is_dir = info is not None and info.isdir
        return is_dir and bool(self._call(path, lambda hdfs, key: hdfs.delete(key, recursive=True)))

    def delete_empty_dir(self, path: str) -> bool:
        try:
            info = self._info(path)
            is_dir = info is not None and info.isdir
            return is_dir and bool(self._call(path, lambda hdfs, key: hdfs.delete(key)))
        except InvalidError:  # the directory has entries
            return False

    def moves_dirs(self) -> bool:
        return True

    def move_dir(self, source: str, target: str) -> bool:
        info = self._info(target)
        if info is not None and not info.isdir:
            return False
        parent = target.rpartition("/")[0]
        self._call(parent, lambda hdfs, key: hdfs.mkdirs(key, create_parent=True))
        try:
            self._put_in_place(source, target, source)
        except InvalidError:  # the target has entries
            return False
        return True

    def turn(self, path: str) -> AbstractContextManager[bool]:
        return turn_of_name(path)

    def _info(self, path: str) -> Any | None:
        """Return the NameNode's entry of a file or directory; None if it does not exist."""
        try:
            return self._call(path, lambda hdfs, key: hdfs.get_file_info(key))
        except NotFoundError:
            return None

    def _call(self, path: str, request: Callable[[Any, str], T], shown: str = "") -> T:
        """Call the client with the key of a path. shown: the path that errors name; `path` by default."""
        hdfs, key = self._client.hdfs, self._client.key(path)
        return self._client.answered(shown or path, lambda: request(hdfs, key))

    @contextlib.contextmanager
    def _or_gone(self, path: str) -> Iterator[None]:
        """Raise NotFoundError for a file that is deleted while it is read: its DataNodes raise another error."""
        try:
            yield
        except StorageError:
            self.size(path)
            raise

    @contextlib.contextmanager
    def _removed_after_errors(self, temporary: str) -> Iterator[None]:
        try:
            yield
        except BaseException:
            delete_leftover(self, temporary)
            raise

    def _temporary(self, path: str) -> str:
        """Return a new name in the directory of `path`. Raises InvalidError for text that cannot be a path."""
        self._client.key(path)
        return f"{path.rpartition('/')[0]}/.{uuid.uuid4().hex}.tmp"

    def _created(self, path: str, shown: str, *, durable: bool = True) -> io.BufferedWriter:
        options = self._client.new_file
        writer = self._call(path, lambda hdfs, key: hdfs.create(key, options), shown)
        sync = writer.hsync if self._fsync and durable else None
        output = RemoteOutput(writer, lambda request: self._client.answered(shown, request), sync)
        return io.BufferedWriter(output, _BUFFER_BYTES)

    def _written(self, path: str, data: bytes, *, durable: bool = True) -> str:
        """Write the data to a temporary file in the directory of `path`; return its name."""
        temporary = self._temporary(path)
        with (
            self._removed_after_errors(temporary),
            self._created(temporary, path, durable=durable) as output,
        ):
            output.write(data)
        return temporary

    def _put_in_place(self, source: str, target: str, shown: str) -> None:
        """Rename `source`, and replace a file or an empty directory at `target`. shown: the path that errors name."""
        to = self._client.key(target)
        self._call(source, lambda hdfs, key: hdfs.rename(key, to, overwrite=True), shown)

    def _renamed(self, temporary: str, path: str, data: bytes | None) -> bool:
        """Rename a temporary file if `path` does not exist; otherwise delete it and return False. data: its bytes;
        None: they are not compared.
        """
        to = self._client.key(path)
        try:
            self._call(temporary, lambda hdfs, key: hdfs.rename(key, to), path)
        except WidetableError as refusal:
            if self.delete(temporary):  # in one step: it was not renamed, and will not be
                if isinstance(refusal, InvalidError) or self.exists(path):
                    return False
                raise
            # Either an answer was lost, or the directory was removed with all that was in it.
            if not (self.exists(path) if data is None else holds(self, path, data)):
                raise
        return True


def _whole(source: Any) -> bytes:
    size = len(source)
    data: bytes = source.read_range(0, size) if size else b""
    return data
