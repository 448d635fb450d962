"""FileIO on a bucket by a file system that the user made: s3fs, gcsfs, adlfs; those of pyarrow read only.

As `object_store`, with what fsspec leaves open:

    puts on condition       `pipe_file(.., mode="create")`. The clients ask again by themselves, so a "somebody has it"
                            may be the answer to their own second try: whoever publishes looks first, and what holds our
                            bytes after a put that was refused or failed is ours
    what a lease replaces   looked at, removed, published, as on a disk
    the first write         is preceded by the probe, be it of a snapshot or of a data file; a file system that fails
                            it writes nothing
    keys                    are asked as they are: none of the calls here takes `*`, `?` or `[` for a pattern

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
from widetable.storage.remote.redacted_errors import said_without_secrets
from widetable.storage.remote.remote_output import FarOutput
from widetable.storage.remote.replace_in_steps import put, replace_in_steps
from widetable.storage.remote.served_filesystem import ServedFilesystem, place_on
from widetable.storage.remote.store_client import check_not_forked

T = TypeVar("T")

_PART_BYTES: Final = 8 << 20
_SMALL_BYTES: Final = 8 << 20
_DELETES_AT_ONCE: Final = 16
# Between the tries of a put on condition, at most; the client has tried some itself.
_PAUSES_SECONDS: Final = (0.5,)
# Of an answer to a range that is not there.
_NO_RANGE: Final = re.compile(r"416|range", re.IGNORECASE)
# By which s3fs and adlfs find the version in a path.
_VERSION: Final = "?versionid="
# What clients raise that do not know `mode="create"`.
_KNOWS_NO_CONDITION: Final = (NotImplementedError, TypeError, ValueError)
# Under which name a client says when an object was written.
_TIMES: Final = ("LastModified", "last_modified", "updated", "mtime")
# Roots that have passed the probe in this process, by the file system that asks them.
_EXCLUSIVE: Final[WeakKeyDictionary[Any, set[str]]] = WeakKeyDictionary()


class FsspecFileIO(FlatKeys):
    """Of one bucket. root: the beginning of each path, a URL. bucket: its name on the file system. Picklable as far as
    the file system is.
    """

    def __init__(self, served: ServedFilesystem, root: str, bucket: str) -> None:
        self._served, self._root, self._bucket = served, root, bucket

    def __reduce__(self) -> tuple[object, ...]:
        return FsspecFileIO, (self._served, self._root, self._bucket)

    def beside(self, url: str) -> tuple[FsspecFileIO, str] | None:
        """Of a URL in this bucket: the storage by which the same file system asks it, and the path; None for one
        elsewhere, and for what is none.
        """
        if "://" not in url:
            return None
        try:
            root, bucket, path = place_on(self._served, url)
        except InvalidError:
            return None
        return (FsspecFileIO(self._served, root, bucket), path) if bucket == self._bucket else None

    def read(self, path: str) -> bytes:
        found = self._first(path, _SMALL_BYTES)
        size = len(found) if len(found) < _SMALL_BYTES else self.size(path)
        return found if size <= _SMALL_BYTES else found + self._range(path, _SMALL_BYTES, size)

    def open_input(self, path: str) -> pa.NativeFile:
        # Remembered for as long as the file is open: bytes that are missing then are an error,
        # not its end.
        size = self.size(path)

        def range_of(start: int, end: int) -> bytes:
            found = self._range(path, start, end)
            if len(found) != end - start:
                raise StorageError(
                    path,
                    found=f"{counted(len(found), 'byte')} from {start} on",
                    expected=f"{end - start} of the {size} that it had when it was opened",
                    action="Check the store, then retry.",
                )
            return found

        return file_of_size(size, range_of)

    def open_output(self, path: str) -> pa.NativeFile:
        """Nobody looks whether the object is there: names of data files are new by themselves."""
        self._check_writable(path)
        writer = self._writer(path)
        return pa.PythonFile(
            FarOutput(writer, lambda ask: self._written(path, lambda *_: ask())), mode="w"
        )

    def write_new(self, path: str, data: bytes) -> None:
        """Nobody looks before: the name is new by itself, so what holds our bytes is ours."""
        self._check_writable(path)
        if not self._put_new(path, data):
            raise taken_key(path)

    def publish(self, path: str, data: bytes) -> bool:
        """A look, then the put; if that is refused or fails, another look tells by whom:

            our bytes      True, though the client says that somebody has the name: its own first try
            others         False where it was refused; where it failed, once more
            nothing        once more, then an error

        What was there at the first look is somebody else's, whatever it holds.
        """
        self._check_writable(path)
        return not self.exists(path) and self._put_new(path, data)

    def replace(self, path: str, data: bytes, *, durable: bool = True) -> None:
        self._check_writable(path)
        self._written(path, lambda files, key: files.pipe_file(key, data))

    def replace_if(self, path: str, held: bytes, data: bytes) -> bool:
        return replace_in_steps(self, path, held, data)

    def link(self, source: str, target: str, *, replace: bool = False) -> bool:
        """A copy. What is longer than 8 MiB is looked for and then written: its name is new."""
        self._check_writable(target)
        if self.size(source) <= _SMALL_BYTES:
            return put(self, target, self.read(source), replace=replace)
        if not replace and self.exists(target):
            return False
        self._copy(source, target)
        return True

    def exists(self, path: str) -> bool:
        """A first byte is asked for: of what is not there `info` lists what is below it."""
        try:
            self._first(path, 1)
        except NotFoundError:
            return False
        return True

    def size(self, path: str) -> int:
        found = self._asked(path, lambda files, key: files.info(key))
        if found["type"] != "file":  # keys below it
            raise no_object(path)
        return int(found["size"])

    def list(self, path: str) -> list[FileStatus]:
        key = self._key(path)
        try:
            found = self._asked(path, lambda files, key: files.ls(key, detail=True))
            # A listing that names the directory itself may lack everything below it (adlfs): all
            # keys below are asked for instead.
            if any(one["name"].rstrip("/") == key for one in found):
                # An object of that name, or one in the place of a directory: adlfs says no other then.
                found = [*self._below(path).values()]
        except NotFoundError:
            return []
        entries = {}
        for one in found:
            name, slash, _ = one["name"][len(key) + 1 :].rstrip("/").partition("/")
            if not name or not one["name"].startswith(f"{key}/"):
                continue
            if one["type"] == "file" and not slash:
                millis = _millis(path, one)
                entries[name, False] = FileStatus(name, False, int(one["size"]), millis, millis)
            else:
                entries[name, True] = FileStatus(name, True, 0, 0, 0)
        return sorted(entries.values(), key=lambda entry: entry.name)

    def delete(self, path: str) -> bool:
        """Stores do not say whether there was anything: they are asked before."""
        self._check_writable(path)
        if not self.exists(path):
            return False
        self._remove(path)
        return True

    def delete_all(self, paths: Iterable[str]) -> Sequence[str]:
        """Without asking which are there."""
        asked = tuple(paths)
        if asked:
            self._check_writable(asked[0])
            in_threads(self._remove, asked, _DELETES_AT_ONCE)
        return asked

    def delete_dir(self, path: str) -> bool:
        self._check_writable(path)
        try:
            found = self._below(path)
        except NotFoundError:
            return False
        below = [f"{self._root}{name[len(self._bucket) :]}" for name in found]
        below = [each for each in below if each.startswith(f"{path}/")]
        in_threads(self._remove, below, _DELETES_AT_ONCE)
        return bool(below)

    def _copy(self, source: str, target: str) -> None:
        """Part by part. One that breaks off is thrown away: what was written would be taken for all of it."""
        writer = self._writer(target)
        try:
            with self.open_input(source) as opened:
                while piece := opened.read(_PART_BYTES):
                    with self._mapped_errors(target, ()):
                        writer.write(piece)
        except BaseException:
            writer.closed = (
                True  # else it is closed, and by that published, when nobody has it any more
            )
            with contextlib.suppress(Exception):  # what is left are parts of no object
                writer.discard()
            raise
        with self._mapped_errors(target, ()):
            writer.close()

    def _writer(self, path: str) -> Any:
        return self._written(path, lambda files, key: files.open(key, "wb", block_size=_PART_BYTES))

    def _check_writable(self, path: str) -> None:
        """Before anything is written: the path is in this bucket, the class puts on condition,
        and the store has passed the probe.
        """
        self._key(path)  # first: what is refused for its place says nothing of the store
        if not self._served.writes:
            raise self._no_condition("it looks whether somebody has the name, and then writes")
        if not self._passed:
            check_exclusive(self._root, path, self._put_new, self._remove)
            _EXCLUSIVE.setdefault(self._served.filesystem, set()).add(self._root)

    @property
    def _passed(self) -> bool:
        """The probe, in this process."""
        return self._root in _EXCLUSIVE.get(self._served.filesystem, ())

    def _put_new(self, path: str, data: bytes) -> bool:
        """On condition, twice at most: the clients have tried again themselves. False: somebody
        has the name, with other bytes. During the probe an error of a client that knows no
        condition says that this file system writes no tables.
        """
        for pause_seconds in (*_PAUSES_SECONDS, None):
            try:
                self._written(path, lambda files, key: files.pipe_file(key, data, mode="create"))
            except (InvalidError, StorageError) as refusal:
                found = self._found(path)
                if found == data:
                    return True
                if isinstance(refusal.__cause__, _KNOWS_NO_CONDITION) and not self._passed:
                    raise self._no_condition(refusal.found) from refusal.__cause__
                if isinstance(refusal, InvalidError) and found is not None:
                    return False
                if pause_seconds is None or isinstance(refusal.__cause__, PermissionError):
                    raise self._refused_put(path, refusal) from refusal.__cause__
                time.sleep(random.uniform(0.5, 1) * pause_seconds)
            else:
                return True
        raise AssertionError("the last try returns or raises")

    def _refused_put(self, path: str, refusal: InvalidError | StorageError) -> StorageError:
        """Any conflict is an object that is there, to adlfs: a container that is being deleted, too."""
        if isinstance(refusal, StorageError):
            return refusal
        return StorageError(
            path,
            found="that somebody has the name, says the store, and no object",
            expected="one of both",
            action="Check whether the bucket takes writes, then retry.",
        )

    def _no_condition(self, why: str) -> UnsupportedError:
        return UnsupportedError(
            self._root,
            found=f"{self._served.name}: {why}",
            expected="a file system that puts on the condition that nobody has the name (pipe_file with "
            "mode='create'): this one reads tables, and writes none",
            action="Write with s3fs, gcsfs or adlfs in a newer version; or leave file_io out, and give the URL with "
            "storage_options.",
        )

    def _below(self, path: str) -> dict[str, Mapping[str, Any]]:
        """What is below a directory at any depth, and perhaps the object of its name."""
        found = self._asked(path, lambda files, key: files.find(key, detail=True))
        if not isinstance(found, dict):  # adlfs's answer, whatever is below
            raise StorageError(
                path,
                found="an object with the name of a directory, below which this file system finds nothing",
                expected="no such object",
                action="Delete or move it with the store's own tools; no table has one there.",
            )
        return found

    def _found(self, path: str) -> bytes | None:
        try:
            return self.read(path)
        except NotFoundError:
            return None

    def _first(self, path: str, most: int) -> bytes:
        """In one request, where there is a byte: without a range s3fs asks for the size before."""
        try:
            return self._range(path, 0, most)
        except StorageError as refusal:
            if not _NO_RANGE.search(refusal.found) or self.size(path):
                raise
            return b""  # stores have no range of an empty object

    def _range(self, path: str, start: int, end: int) -> bytes:
        """As far as there is so much."""
        more = self._served.range_options

        def ask(files: Any, key: str) -> bytes:
            return bytes(files.cat_file(key, start=start, end=end, **more))

        return self._asked(path, ask)

    def _remove(self, path: str) -> None:
        with contextlib.suppress(NotFoundError):
            self._asked(path, lambda files, key: files.rm_file(key))

    def _key(self, path: str) -> str:
        if _VERSION in path.lower():
            raise refused(
                path, "path", f"a path without {_VERSION}, which means a version to some clients"
            )
        return f"{self._bucket}{path_below(self._root, path)}"

    def _asked(self, path: str, ask: Callable[[Any, str], T]) -> T:
        with self._mapped_errors(path, FileNotFoundError):
            return ask(self._filesystem, self._key(path))

    def _written(self, path: str, ask: Callable[[Any, str], T]) -> T:
        """What is not there is not the object, but the bucket, or a place that it is uploaded to."""
        with self._mapped_errors(path, ()):
            return ask(self._filesystem, self._key(path))

    @property
    def _filesystem(self) -> Any:
        check_not_forked(self._root, "a file system that was given as file_io")
        return self._served.filesystem

    @contextlib.contextmanager
    def _mapped_errors(self, path: str, not_found: type[Exception] | tuple[()]) -> Iterator[None]:
        """Whatever these libraries raise, and theirs: each client has errors of its own kind. not_found: what says that
        the object is not there.
        """
        try:
            yield
        except WidetableError:
            raise
        except not_found as cause:
            self._said(cause)
            raise no_object(path) from cause
        except FileExistsError as cause:
            self._said(cause)
            raise taken_key(path) from cause
        except Exception as cause:
            raise StorageError(
                path,
                found=self._said(cause),
                expected="a store that takes the operation",
                action="Check the store, the credentials and the file system that was given, then retry.",
            ) from cause

    def _said(self, cause: Exception) -> str:
        return said_without_secrets(cause, self._served.secrets)


def _millis(path: str, entry: Mapping[str, Any]) -> int:
    """When an object was written, as its client says it."""
    found = next((entry[name] for name in _TIMES if entry.get(name) is not None), None)
    if isinstance(found, str):
        found = datetime.fromisoformat(found.replace("Z", "+00:00"))
    if not isinstance(found, datetime):
        raise StorageError(
            f"{path}/{entry['name'].rpartition('/')[2]}",
            found=f"no time among {', '.join(sorted(entry))}",
            expected=f"when it was written: one of {', '.join(_TIMES)}",
            action="Use a file system that says it: files are deleted by their age.",
        )
    return int(found.timestamp() * 1000)
