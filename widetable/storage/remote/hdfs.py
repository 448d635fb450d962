"""FileIO on HDFS, by hdfs-native: the NameNode decides who has a name.

A path is the whole URL, `hdfs://<NameNode or nameservice>/...`; what the URL leaves open (the addresses behind a
nameservice, security) stands in the files of HADOOP_CONF_DIR, as for Hadoop's own tools. A commit is a rename that does
not write over: a complete, forced temporary file gets the name of the snapshot, if nobody has it.

    renames                 one step in the NameNode, of files and of directories. Where an answer got lost the
                            temporary name tells: only this rename takes it away
    links                   copies
    what a lease replaces   looked at, removed, published, as on a disk: no condition can be put
    turns                   of the processes of this machine, at a file among the temporary ones

Forced (`hsync`) is what the DataNodes have written to their disks. Erasure-coded directories cannot do it, and are
refused by the client.

Source: format.md section 11. Raises as `file_io` says, UnsupportedError where hdfs-native is not installed.

Who renamed it, in `_renamed`, when the answer to a rename is an error or none:

    the temporary file can be deleted      it was not renamed, nor will be, by a call that comes late either
        and the answer is that the         somebody else was first, whatever became of it: False
        name is taken, or it is taken
        and it is not                      the error is raised
    it is gone, and the name has our bytes     the rename was carried out: True
    it is gone, and the name has not           the directory went away: the error is raised
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
from widetable.storage.remote.remote_output import FarOutput
from widetable.storage.remote.replace_in_steps import holds, replace_in_steps

T = TypeVar("T")

# Parquet writes in small pieces.
_BUFFER_BYTES: Final = 1 << 20
_COPY_BYTES: Final = 8 << 20


class HdfsFileIO:
    """Of one NameNode or nameservice. root: such as `hdfs://nameservice1`. fsync: force bytes to the DataNodes' disks
    before they are published (option `widetable.fsync`). Picklable.
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
            return self._asked(path, lambda hdfs, key: _whole(hdfs.read(key)))

    def open_input(self, path: str) -> pa.NativeFile:
        source = self._asked(path, lambda hdfs, key: hdfs.read(key))
        size = len(source)

        def range_of(start: int, end: int) -> bytes:
            with self._or_gone(path):
                found: bytes = self._asked(path, lambda *_: source.read_range(start, end - start))
            return found

        return file_of_size(size, range_of)

    def open_output(self, path: str) -> pa.NativeFile:
        return pa.PythonFile(self._created(path, path), mode="w")

    def write_new(self, path: str, data: bytes) -> None:
        if not self.publish(path, data):
            raise InvalidError(path, found="a file", expected="none yet", action="Use a new name.")

    def publish(self, path: str, data: bytes) -> bool:
        temporary = self._written(path, data)
        return self._renamed(temporary, path, data)

    def replace(self, path: str, data: bytes, *, durable: bool = True) -> None:
        temporary = self._written(path, data, durable=durable)
        with self._removed_after_errors(temporary):
            self._put_in_place(temporary, path, path)

    def replace_if(self, path: str, held: bytes, data: bytes) -> bool:
        return replace_in_steps(self, path, held, data)

    def link(self, source: str, target: str, *, replace: bool = False) -> bool:
        temporary = self._temporary(target)
        with self._removed_after_errors(temporary):
            # Through this process: HDFS has no copy of its own. Closed, and by that forced,
            # before it gets its name.
            with self.open_input(source) as opened, self._created(temporary, target) as copy:
                while piece := opened.read(_COPY_BYTES):
                    copy.write(piece)
            if replace:
                self._put_in_place(temporary, target, target)
                return True
        return self._renamed(temporary, target, None)

    def sync(self, path: str) -> None:
        """What was closed is on the disks."""

    def exists(self, path: str) -> bool:
        return self._found(path) is not None

    def size(self, path: str) -> int:
        return int(self._asked(path, lambda hdfs, key: hdfs.get_file_info(key)).length)

    def list(self, path: str) -> list[FileStatus]:
        try:
            found = self._asked(path, lambda hdfs, key: list(hdfs.list_status(key)))
        except NotFoundError:
            return []
        key = self._client.key(path)
        entries = [
            FileStatus(
                one.path.rpartition("/")[2],
                one.isdir,
                one.length,
                one.modification_time,
                one.modification_time,
            )
            for one in found
            if one.path != key  # of a file HDFS lists the file
        ]
        return sorted(entries, key=lambda entry: entry.name)

    def delete(self, path: str) -> bool:
        found = self._found(path)
        if found is None:
            return False
        if found.isdir:  # HDFS would remove an empty one
            raise StorageError(
                path,
                found="a directory",
                expected="a file",
                action="Move the directory away; no table has one there.",
            )
        return bool(self._asked(path, lambda hdfs, key: hdfs.delete(key)))

    def delete_all(self, paths: Iterable[str]) -> Sequence[str]:
        return [path for path in paths if self.delete(path)]

    def delete_dir(self, path: str) -> bool:
        found = self._found(path)
        is_dir = found is not None and found.isdir
        return is_dir and bool(
            self._asked(path, lambda hdfs, key: hdfs.delete(key, recursive=True))
        )

    def delete_empty_dir(self, path: str) -> bool:
        try:
            found = self._found(path)
            is_dir = found is not None and found.isdir
            return is_dir and bool(self._asked(path, lambda hdfs, key: hdfs.delete(key)))
        except InvalidError:  # it has entries
            return False

    def moves_dirs(self) -> bool:
        return True

    def move_dir(self, source: str, target: str) -> bool:
        there = self._found(target)
        if there is not None and not there.isdir:
            return False
        parent = target.rpartition("/")[0]
        self._asked(parent, lambda hdfs, key: hdfs.mkdirs(key, create_parent=True))
        try:
            self._put_in_place(source, target, source)
        except InvalidError:  # it has entries
            return False
        return True

    def turn(self, path: str) -> AbstractContextManager[bool]:
        return turn_of_name(path)

    def _found(self, path: str) -> Any | None:
        """What the NameNode says of a file or directory; None: it is not there."""
        try:
            return self._asked(path, lambda hdfs, key: hdfs.get_file_info(key))
        except NotFoundError:
            return None

    def _asked(self, path: str, ask: Callable[[Any, str], T], told: str = "") -> T:
        """told: the path that errors name; by default the same."""
        hdfs, key = self._client.hdfs, self._client.key(path)
        return self._client.answered(told or path, lambda: ask(hdfs, key))

    @contextlib.contextmanager
    def _or_gone(self, path: str) -> Iterator[None]:
        """A file that is deleted while it is read is not there: its DataNodes say something else of it."""
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
        """A new name beside it. Raises InvalidError for a path that can be none."""
        self._client.key(path)
        return f"{path.rpartition('/')[0]}/.{uuid.uuid4().hex}.tmp"

    def _created(self, path: str, told: str, *, durable: bool = True) -> io.BufferedWriter:
        options = self._client.new_file
        writer = self._asked(path, lambda hdfs, key: hdfs.create(key, options), told)
        forced = writer.hsync if self._fsync and durable else None
        output = FarOutput(writer, lambda ask: self._client.answered(told, ask), forced)
        return io.BufferedWriter(output, _BUFFER_BYTES)

    def _written(self, path: str, data: bytes, *, durable: bool = True) -> str:
        """A temporary file beside it that holds the data; its name."""
        temporary = self._temporary(path)
        with (
            self._removed_after_errors(temporary),
            self._created(temporary, path, durable=durable) as output,
        ):
            output.write(data)
        return temporary

    def _put_in_place(self, source: str, target: str, told: str) -> None:
        """Give it another name, whatever file or empty directory has it. told: the path that errors name."""
        to = self._client.key(target)
        self._asked(source, lambda hdfs, key: hdfs.rename(key, to, overwrite=True), told)

    def _renamed(self, temporary: str, path: str, data: bytes | None) -> bool:
        """Give it another name if nobody has that; False: somebody has, and the temporary file is gone. data: its
        bytes; None: they are not compared.
        """
        to = self._client.key(path)
        try:
            self._asked(temporary, lambda hdfs, key: hdfs.rename(key, to), path)
        except WidetableError as refusal:
            if self.delete(temporary):  # in one step: it was not renamed, and will not be
                if isinstance(refusal, InvalidError) or self.exists(path):
                    return False
                raise
            # An answer got lost. Or the directory is gone, with all that was in it.
            if not (self.exists(path) if data is None else holds(self, path, data)):
                raise
        return True


def _whole(source: Any) -> bytes:
    size = len(source)
    found: bytes = source.read_range(0, size) if size else b""
    return found
