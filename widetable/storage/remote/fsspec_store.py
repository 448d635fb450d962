"""FileIO on a bucket by a file system that the user created: s3fs, gcsfs, adlfs; those of pyarrow are read only.

It works as `object_store` does, except where fsspec differs:

    conditional puts        `pipe_file(.., mode="create")`. The clients retry by themselves, so "it exists" may be the
                            answer to their own second try: a publish checks first whether the object exists, and an
                            object with our bytes after a refused or failed put is ours
    replacing a lease       reads, removes and publishes, as on a disk
    the first write         is preceded by the probe, be it of a snapshot or of a data file; a file system that fails
                            it writes nothing
    keys                    are used literally: none of the calls here treats `*`, `?` or `[` as a pattern

Source: format.md section 11; fsspec 2026.9's `AbstractFileSystem`. Raises as `file_io` says.
"""

from __future__ import annotations

import contextlib
import random
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, Final, TypeVar
from weakref import WeakKeyDictionary

import pyarrow as pa

from widetable.arguments import refused
from widetable.errors import (
    InvalidError,
    NotFoundError,
    StorageError,
    UnsupportedError,
    WidetableError,
)
from widetable.messages.counted import counted
from widetable.runtime.worker_thread import in_threads
from widetable.storage.file_io import FileStatus
from widetable.storage.path_below import path_below
from widetable.storage.remote.flat_keys import FlatKeys, check_exclusive, no_object, taken_key
from widetable.storage.remote.ranged_input import file_of_size
from widetable.storage.remote.redacted_errors import redacted_message
from widetable.storage.remote.remote_output import RemoteOutput
from widetable.storage.remote.replace_in_steps import put, replace_in_steps
from widetable.storage.remote.served_filesystem import ServedFilesystem, place_on
from widetable.storage.remote.store_client import check_not_forked

T = TypeVar("T")

_PART_BYTES: Final = 8 << 20
_SMALL_BYTES: Final = 8 << 20
_DELETES_AT_ONCE: Final = 16
# The longest pauses between the tries of a conditional put; the client itself has retried before.
_PAUSES_SECONDS: Final = (0.5,)
# Occurs in the answer to a range that does not exist.
_NO_RANGE: Final = re.compile(r"416|range", re.IGNORECASE)
# Introduces the version in a path, for s3fs and adlfs.
_VERSION: Final = "?versionid="
# The errors of clients that do not support `mode="create"`.
_UNCONDITIONAL: Final = (NotImplementedError, TypeError, ValueError)
# The names under which clients report when an object was written.
_TIMES: Final = ("LastModified", "last_modified", "updated", "mtime")
# Roots that have passed the probe in this process, by file system.
_EXCLUSIVE: Final[WeakKeyDictionary[Any, set[str]]] = WeakKeyDictionary()


class FsspecFileIO(FlatKeys):
    """A FileIO on one bucket of a user's file system. root: the URL with which each path begins. bucket: its name on
    the file system. Picklable if the file system is.
    """

    def __init__(self, served: ServedFilesystem, root: str, bucket: str) -> None:
        self._served, self._root, self._bucket = served, root, bucket

    def __reduce__(self) -> tuple[object, ...]:
        return FsspecFileIO, (self._served, self._root, self._bucket)

    def beside(self, url: str) -> tuple[FsspecFileIO, str] | None:
        """Return the storage and the path of a URL in this bucket, by the same file system. None for a URL elsewhere,
        and for text that is not a URL.
        """
        if "://" not in url:
            return None
        try:
            root, bucket, path = place_on(self._served, url)
        except InvalidError:
            return None
        return (FsspecFileIO(self._served, root, bucket), path) if bucket == self._bucket else None

    def read(self, path: str) -> bytes:
        data = self._first(path, _SMALL_BYTES)
        size = len(data) if len(data) < _SMALL_BYTES else self.size(path)
        return data if size <= _SMALL_BYTES else data + self._range(path, _SMALL_BYTES, size)

    def open_input(self, path: str) -> pa.NativeFile:
        # The size is fixed while the file is open: bytes that are missing later are an error,
        # and not the end of the file.
        size = self.size(path)

        def range_of(start: int, end: int) -> bytes:
            data = self._range(path, start, end)
            if len(data) != end - start:
                raise StorageError(
                    path,
                    found=f"{counted(len(data), 'byte')} from {start} on",
                    expected=f"{end - start} of the {size} bytes that the file had when it was opened",
                    action="Check the store, then retry.",
                )
            return data

        return file_of_size(size, range_of)

    def open_output(self, path: str) -> pa.NativeFile:
        """Open a new object without checking that it does not exist: names of data files are always new."""
        self._check_writable(path)
        writer = self._writer(path)
        return pa.PythonFile(
            RemoteOutput(writer, lambda request: self._written(path, lambda *_: request())),
            mode="w",
        )

    def write_new(self, path: str, data: bytes) -> None:
        """Put an object without a check before: the name is new, so an object with our bytes is ours."""
        self._check_writable(path)
        if not self._put_new(path, data):
            raise taken_key(path)

    def publish(self, path: str, data: bytes) -> bool:
        """Check that the object does not exist, then put it. If the put is refused or fails, read the object:

            our bytes      True, although the client says that the object exists: its own first try created it
            other bytes    False if the put was refused; if it failed, retry
            no object      retry, then raise an error

        An object that exists at the first check belongs to another writer, whatever its bytes are.
        """
        self._check_writable(path)
        return not self.exists(path) and self._put_new(path, data)

    def replace(self, path: str, data: bytes, *, durable: bool = True) -> None:
        self._check_writable(path)
        self._written(path, lambda files, key: files.pipe_file(key, data))

    def replace_if(self, path: str, expected: bytes, data: bytes) -> bool:
        return replace_in_steps(self, path, expected, data)

    def link(self, source: str, target: str, *, replace: bool = False) -> bool:
        """Copy an object. One of more than 8 MiB is written after a check that the target, whose name is new, does not
        exist.
        """
        self._check_writable(target)
        if self.size(source) <= _SMALL_BYTES:
            return put(self, target, self.read(source), replace=replace)
        if not replace and self.exists(target):
            return False
        self._copy(source, target)
        return True

    def exists(self, path: str) -> bool:
        """Request the first byte: for a missing object, `info` lists the keys below it."""
        try:
            self._first(path, 1)
        except NotFoundError:
            return False
        return True

    def size(self, path: str) -> int:
        entry = self._call(path, lambda files, key: files.info(key))
        if entry["type"] != "file":  # there are keys below it
            raise no_object(path)
        return int(entry["size"])

    def list(self, path: str) -> list[FileStatus]:
        key = self._key(path)
        try:
            listing = self._call(path, lambda files, key: files.ls(key, detail=True))
            # A listing that contains the directory itself may lack everything below it (adlfs, for
            # an object of that name, or one that stands for the directory): list all keys below.
            if any(entry["name"].rstrip("/") == key for entry in listing):
                listing = [*self._below(path).values()]
        except NotFoundError:
            return []
        entries = {}
        for entry in listing:
            name, slash, _ = entry["name"][len(key) + 1 :].rstrip("/").partition("/")
            if not name or not entry["name"].startswith(f"{key}/"):
                continue
            if entry["type"] == "file" and not slash:
                millis = _millis(path, entry)
                entries[name, False] = FileStatus(name, False, int(entry["size"]), millis, millis)
            else:
                entries[name, True] = FileStatus(name, True, 0, 0, 0)
        return sorted(entries.values(), key=lambda status: status.name)

    def delete(self, path: str) -> bool:
        """Check first whether the object exists, because a store's answer to a delete does not tell."""
        self._check_writable(path)
        if not self.exists(path):
            return False
        self._remove(path)
        return True

    def delete_all(self, paths: Iterable[str]) -> Sequence[str]:
        """Delete objects without checking which of them exist."""
        all_paths = tuple(paths)
        if all_paths:
            self._check_writable(all_paths[0])
            in_threads(self._remove, all_paths, _DELETES_AT_ONCE)
        return all_paths

    def delete_dir(self, path: str) -> bool:
        self._check_writable(path)
        try:
            names = self._below(path)
        except NotFoundError:
            return False
        below = [f"{self._root}{name[len(self._bucket) :]}" for name in names]
        below = [each for each in below if each.startswith(f"{path}/")]
        in_threads(self._remove, below, _DELETES_AT_ONCE)
        return bool(below)

    def _copy(self, source: str, target: str) -> None:
        """Copy an object part by part. An interrupted copy is discarded: its parts would pass for a whole object."""
        writer = self._writer(target)
        try:
            with self.open_input(source) as opened:
                while piece := opened.read(_PART_BYTES):
                    with self._mapped_errors(target, ()):
                        writer.write(piece)
        except BaseException:
            writer.closed = True  # otherwise its finalizer closes it, and so publishes the object
            with contextlib.suppress(Exception):  # parts of no object may remain
                writer.discard()
            raise
        with self._mapped_errors(target, ()):
            writer.close()

    def _writer(self, path: str) -> Any:
        return self._written(path, lambda files, key: files.open(key, "wb", block_size=_PART_BYTES))

    def _check_writable(self, path: str) -> None:
        """Check before a write that the path is in this bucket, the class supports conditional puts,
        and the store has passed the probe.
        """
        self._key(path)  # first: a path that is refused tells nothing about the store
        if not self._served.writes:
            raise self._no_condition("it checks whether the object exists, and then writes")
        if not self._passed:
            check_exclusive(self._root, path, self._put_new, self._remove)
            _EXCLUSIVE.setdefault(self._served.filesystem, set()).add(self._root)

    @property
    def _passed(self) -> bool:
        """Whether the bucket has passed the probe in this process."""
        return self._root in _EXCLUSIVE.get(self._served.filesystem, ())

    def _put_new(self, path: str, data: bytes) -> bool:
        """Put on the condition that the object does not exist, at most twice: the clients retry themselves. Return
        False if an object with other bytes exists. During the probe the error of a client that does not support
        the condition shows that this file system cannot write tables.
        """
        for pause_seconds in (*_PAUSES_SECONDS, None):
            try:
                self._written(path, lambda files, key: files.pipe_file(key, data, mode="create"))
            except (InvalidError, StorageError) as refusal:
                content = self._content(path)
                if content == data:
                    return True
                if isinstance(refusal.__cause__, _UNCONDITIONAL) and not self._passed:
                    raise self._no_condition(refusal.found) from refusal.__cause__
                if isinstance(refusal, InvalidError) and content is not None:
                    return False
                if pause_seconds is None or isinstance(refusal.__cause__, PermissionError):
                    raise self._refused_put(path, refusal) from refusal.__cause__
                time.sleep(random.uniform(0.5, 1) * pause_seconds)
            else:
                return True
        raise AssertionError("the last try returns or raises")

    def _refused_put(self, path: str, refusal: InvalidError | StorageError) -> StorageError:
        """Create the error of a put. adlfs reports any conflict as an existing object, also a container that is being
        deleted.
        """
        if isinstance(refusal, StorageError):
            return refusal
        return StorageError(
            path,
            found="no object, although the store refused the put because the object exists",
            expected="an object, or a put that succeeds",
            action="Check whether the bucket accepts writes, then retry.",
        )

    def _no_condition(self, why: str) -> UnsupportedError:
        return UnsupportedError(
            self._root,
            found=f"{self._served.name}: {why}",
            expected="a file system that puts on the condition that the object does not exist (pipe_file with "
            "mode='create'): this one can read tables, but not write them",
            action="Write with s3fs, gcsfs or adlfs in a newer version; or leave file_io out, and pass the URL with "
            "storage_options.",
        )

    def _below(self, path: str) -> dict[str, Mapping[str, Any]]:
        """Return the objects below a directory at any depth, and possibly the object with its name."""
        entries = self._call(path, lambda files, key: files.find(key, detail=True))
        if not isinstance(entries, dict):  # adlfs answers so, whatever is below
            raise StorageError(
                path,
                found="an object with the name of a directory, below which this file system lists nothing",
                expected="no such object",
                action="Delete or move it with the store's own tools; no table has such an object.",
            )
        return entries

    def _content(self, path: str) -> bytes | None:
        try:
            return self.read(path)
        except NotFoundError:
            return None

    def _first(self, path: str, most: int) -> bytes:
        """Read the first bytes, in one request if there are any: without a range s3fs requests the size before."""
        try:
            return self._range(path, 0, most)
        except StorageError as refusal:
            if not _NO_RANGE.search(refusal.found) or self.size(path):
                raise
            return b""  # stores refuse ranges of an empty object

    def _range(self, path: str, start: int, end: int) -> bytes:
        """Read a range, up to the end of the object."""
        more = self._served.range_options

        def request(files: Any, key: str) -> bytes:
            return bytes(files.cat_file(key, start=start, end=end, **more))

        return self._call(path, request)

    def _remove(self, path: str) -> None:
        with contextlib.suppress(NotFoundError):
            self._call(path, lambda files, key: files.rm_file(key))

    def _key(self, path: str) -> str:
        if _VERSION in path.lower():
            raise refused(
                path, "path", f"a path without {_VERSION}, which some clients read as a version"
            )
        return f"{self._bucket}{path_below(self._root, path)}"

    def _call(self, path: str, request: Callable[[Any, str], T]) -> T:
        with self._mapped_errors(path, FileNotFoundError):
            return request(self._filesystem, self._key(path))

    def _written(self, path: str, request: Callable[[Any, str], T]) -> T:
        """Call a request that writes. FileNotFoundError means a missing bucket, or upload, and not the object."""
        with self._mapped_errors(path, ()):
            return request(self._filesystem, self._key(path))

    @property
    def _filesystem(self) -> Any:
        check_not_forked(self._root, "a file system that was passed as file_io")
        return self._served.filesystem

    @contextlib.contextmanager
    def _mapped_errors(self, path: str, not_found: type[Exception] | tuple[()]) -> Iterator[None]:
        """Translate all errors, as each client has its own kinds. not_found: the error for a missing object."""
        try:
            yield
        except WidetableError:
            raise
        except not_found as cause:
            self._redacted(cause)
            raise no_object(path) from cause
        except FileExistsError as cause:
            self._redacted(cause)
            raise taken_key(path) from cause
        except Exception as cause:
            raise StorageError(
                path,
                found=self._redacted(cause),
                expected="a store that accepts the operation",
                action="Check the store, the credentials and the file system that was passed, then retry.",
            ) from cause

    def _redacted(self, cause: Exception) -> str:
        return redacted_message(cause, self._served.secrets)


def _millis(path: str, entry: Mapping[str, Any]) -> int:
    """Return the time at which an object was written, as its client reports it, in epoch milliseconds."""
    written = next((entry[name] for name in _TIMES if entry.get(name) is not None), None)
    if isinstance(written, str):
        written = datetime.fromisoformat(written.replace("Z", "+00:00"))
    if not isinstance(written, datetime):
        raise StorageError(
            f"{path}/{entry['name'].rpartition('/')[2]}",
            found=f"no time among {', '.join(sorted(entry))}",
            expected=f"the time at which it was written: one of {', '.join(_TIMES)}",
            action="Use a file system that reports it: files are deleted by their age.",
        )
    return int(written.timestamp() * 1000)
