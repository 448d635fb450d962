"""FileIO on an object store, S3 and what speaks its protocol: s3://bucket/key, or s3a://. By obstore.

A path is the whole URL, a key what stands behind the bucket, byte by byte as Paimon's Java names it. An object appears
whole or not at all, and is durable when its put is answered. A commit is a put on the condition that nobody has the key
(`If-None-Match: *`); a store that takes no such puts cannot hold a table, and is refused by name at the first try.

    answers that got lost   the put may have been carried out, also before a retry of the client, which then finds
                            "somebody" there: it is read back, and what holds our bytes is ours
    directories             those that have objects below them; an empty one is never there
    links                   copies in the store; small ones are put on condition, so that nothing is written over
    moves of directories    refused by name
    turns                   of the processes of this machine, at a file among the temporary ones

Credentials and the endpoint come from the environment, as the store's own tools take them (`AWS_ACCESS_KEY_ID`,
`AWS_ENDPOINT_URL`, …). They are in no error, and no pickle: tasks elsewhere take those of their machines.

Source: format.md section 11. Raises as `file_io` says, UnsupportedError where obstore is not installed.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import os
import re
import tempfile
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from datetime import datetime
from importlib import import_module
from typing import Any, Final, cast

import pyarrow as pa

from widetable.errors import InvalidError, NotFoundError, StorageError, UnsupportedError
from widetable.storage.file_io import FileStatus
from widetable.storage.local_turn import turn
from widetable.storage.ranged_input import RangedInput

SCHEMES: Final = ("s3", "s3a")
# Of one object that is written: what is longer goes up in parts.
_PART_BYTES: Final = 8 << 20
# Up to here bytes are put on condition; what is longer is copied by the store, under a name that is new.
_SMALL_BYTES: Final = 8 << 20
_LONGEST_REASON: Final = 300


class ObjectStoreFileIO:
    """Of one bucket. root: its URL, such as `s3://bucket`. Picklable."""

    def __init__(self, root: str) -> None:
        self._root = root
        self._client = _client(root)

    def __reduce__(self) -> tuple[object, ...]:
        return ObjectStoreFileIO, (self._root,)

    def __repr__(self) -> str:
        return f"ObjectStoreFileIO({self._root!r})"

    def read(self, path: str) -> bytes:
        with self._mapped_errors(path):
            return bytes(self._client.obs.get(self._client.store, self._key(path)).bytes())

    def open_input(self, path: str) -> pa.NativeFile:
        obs, key = self._client.obs, self._key(path)

        def tail(size: int) -> tuple[bytes, int]:
            with self._mapped_errors(path):
                found = obs.get(self._client.store, key, options={"range": {"suffix": size}})
                return bytes(found.bytes()), int(found.meta["size"])

        def range_of(start: int, end: int) -> bytes:
            with self._mapped_errors(path):
                return bytes(obs.get_range(self._client.store, key, start=start, end=end))

        return pa.PythonFile(RangedInput(tail, range_of), mode="r")

    def open_output(self, path: str) -> pa.NativeFile:
        """Nobody looks whether the object is there: names of data files are new by themselves."""
        with self._mapped_errors(path):
            writer = self._client.obs.open_writer(
                self._client.store, self._key(path), buffer_size=_PART_BYTES
            )
        return pa.PythonFile(_Output(writer, lambda: self._mapped_errors(path)), mode="w")

    def write_new(self, path: str, data: bytes) -> None:
        if not self.publish(path, data):
            raise InvalidError(
                path, found="an object", expected="none yet", action="Use a new name."
            )

    def publish(self, path: str, data: bytes) -> bool:
        if not self._client.is_exclusive:
            self._check_exclusive(f"{path.rpartition('/')[0]}/.{uuid.uuid4().hex}.tmp")
        try:
            self._put_new(path, data)
            return True
        except InvalidError:
            return self._is(path, data)  # or a retry met what its first try had put there
        except StorageError:
            if self._is(path, data):
                return True
            raise

    def replace(self, path: str, data: bytes, *, durable: bool = True) -> None:
        with self._mapped_errors(path):
            self._client.obs.put(self._client.store, self._key(path), data)

    def link(self, source: str, target: str, *, replace: bool = False) -> bool:
        if replace or self.size(source) > _SMALL_BYTES:
            if not replace and self.exists(target):
                return False
            with self._mapped_errors(source):
                keys = self._key(source), self._key(target)
                self._client.obs.copy(self._client.store, *keys, overwrite=True)
            return True
        return self.publish(target, self.read(source))

    def sync(self, path: str) -> None:
        """What was closed is durable."""

    def exists(self, path: str) -> bool:
        try:
            self._head(path)
        except NotFoundError:
            return False
        return True

    def size(self, path: str) -> int:
        return int(self._head(path)["size"])

    def list(self, path: str) -> list[FileStatus]:
        with self._mapped_errors(path):
            key = self._key(path)
            found = self._client.obs.list_with_delimiter(
                self._client.store, prefix=f"{key}/" if key else None
            )
        below = len(key) + 1 if key else 0
        entries = [
            FileStatus(prefix[below:].rstrip("/"), True, 0, 0, 0)
            for prefix in found["common_prefixes"]
        ]
        for one in found["objects"]:
            name, millis = one["path"][below:], _millis(one["last_modified"])
            if name:  # some tools put an empty object in the place of a directory
                entries.append(FileStatus(name, False, one["size"], millis, millis))
        return sorted(entries, key=lambda entry: entry.name)

    def delete(self, path: str) -> bool:
        """S3 does not say whether there was anything: it is asked before."""
        if not self.exists(path):
            return False
        try:
            with self._mapped_errors(path):
                self._client.obs.delete(self._client.store, self._key(path))
        except NotFoundError:
            return False
        return True

    def delete_dir(self, path: str) -> bool:
        with self._mapped_errors(path):
            found = self._client.obs.list(self._client.store, prefix=f"{self._key(path)}/")
            was_there = False
            for page in found:
                was_there = True
                keys = [one["path"] for one in cast("Sequence[dict[str, Any]]", page)]
                self._client.obs.delete(self._client.store, keys)
        return was_there

    def delete_empty_dir(self, path: str) -> bool:
        return False

    def move_dir(self, source: str, target: str) -> bool:
        raise UnsupportedError(
            target,
            found="an object store, where no directory gets another name",
            expected="a storage with directories",
            action="Copy the table to a local disk, or write its rows to a new table.",
        )

    def turn(self, path: str) -> contextlib.AbstractContextManager[bool]:
        folder = os.path.join(tempfile.gettempdir(), f"widetable-turns-{os.getuid()}")
        with contextlib.suppress(OSError):
            os.makedirs(folder, mode=0o700, exist_ok=True)
        return turn(os.path.join(folder, hashlib.sha256(path.encode()).hexdigest()))

    def _put_new(self, path: str, data: bytes) -> None:
        """Raises InvalidError when there is an object."""
        obs, key = self._client.obs, self._key(path)
        with self._mapped_errors(path):
            obs.put(self._client.store, key, data, mode="create", use_multipart=False)

    def _check_exclusive(self, path: str) -> None:
        """Once per process, before the first commit: some stores pass the condition over and write over what is there.
        path: of a new name.
        """
        try:
            self._put_new(path, b"one")
            self._put_new(path, b"two")
        except InvalidError:
            self._client.is_exclusive = True
        finally:
            self.delete(path)
        if not self._client.is_exclusive:
            raise UnsupportedError(
                self._root,
                found="a store that put an object where there was one, though asked not to (If-None-Match)",
                expected="a store that honours conditional puts: without them commits get lost",
                action="Use a store that does, such as S3 itself, or a local disk.",
            )

    def _head(self, path: str) -> dict[str, Any]:
        with self._mapped_errors(path):
            return cast(
                "dict[str, Any]", self._client.obs.head(self._client.store, self._key(path))
            )

    def _is(self, path: str, data: bytes) -> bool:
        try:
            return self.read(path) == data
        except NotFoundError:
            return False

    def _key(self, path: str) -> str:
        if path != self._root and not path.startswith(f"{self._root}/"):
            raise InvalidError(
                f"path {path!r}",
                found="another place",
                expected=f"a path below {self._root}",
                action="Open the other bucket by its own URL.",
            )
        return path[len(self._root) + 1 :]

    @contextlib.contextmanager
    def _mapped_errors(self, path: str) -> Iterator[None]:
        """Turn the errors of obstore and Python into ours, naming the path."""
        errors = self._client.errors
        try:
            yield
        except (errors.NotFoundError, FileNotFoundError) as cause:
            raise NotFoundError(
                path,
                found="no such object",
                expected="an object",
                action="Check the path; the snapshot may have expired.",
            ) from cause
        except (errors.AlreadyExistsError, errors.PreconditionError) as cause:
            raise InvalidError(
                path, found="an object", expected="none yet", action="Use a new name."
            ) from cause
        except errors.NotSupportedError as cause:
            raise UnsupportedError(
                path,
                found=_reason(cause),
                expected="a store that takes puts on the condition that nobody has the key",
                action="Use a store that does, such as S3 itself, or a local disk.",
            ) from cause
        except (errors.BaseError, OSError, pa.ArrowException) as cause:
            raise StorageError(
                path,
                found=_reason(cause),
                expected="a store that takes the operation",
                action="Check the store, its endpoint and credentials, then retry.",
            ) from cause


class _Client:
    """obstore and a store of it, opened when it is first used."""

    def __init__(self, root: str) -> None:
        """is_exclusive: known to honour conditional puts."""
        self._root = root
        self._store: Any = None
        self.is_exclusive = False
        self.obs: Any = _obstore("obstore")
        self.errors: Any = _obstore("obstore.exceptions")

    @property
    def store(self) -> Any:
        """Raises StorageError in a child that was forked after the first use: obstore's threads are gone there, and
        whoever waits for them waits for ever.
        """
        if _USERS.setdefault("process", os.getpid()) != os.getpid():
            raise StorageError(
                self._root,
                found="a process that was forked from one that had used an object store",
                expected="a process that was not, or that was forked before",
                action="Start it anew (multiprocessing's 'spawn' or 'forkserver').",
            )
        if self._store is None:
            self._store = _obstore("obstore.store").from_url(self._root)
        return self._store


# Which process has obstore's threads.
_USERS: Final[dict[str, int]] = {}
_CLIENTS: Final[dict[str, _Client]] = {}


def _client(root: str) -> _Client:
    """One for all tables of a bucket: its connections stay."""
    if root not in _CLIENTS:
        _CLIENTS[root] = _Client(root)
    return _CLIENTS[root]


class _Output(io.RawIOBase):
    """An object while it is written; there once it is closed. mapped: turns errors into ours."""

    def __init__(self, writer: Any, mapped: Callable[[], AbstractContextManager[None]]) -> None:
        super().__init__()
        self._writer, self._mapped = writer, mapped

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        with self._mapped():
            self._writer.write(memoryview(data).cast("B"))
        return len(data)

    def close(self) -> None:
        if not self.closed:
            super().close()
            with self._mapped():
                self._writer.close()


def _obstore(module: str) -> Any:
    try:
        return import_module(module)
    except ImportError as cause:
        raise UnsupportedError(
            "object store",
            found=f"no obstore ({cause})",
            expected="the package that reads and writes object stores",
            action="pip install 'widetable[object-store]'",
        ) from cause


def _millis(time: datetime) -> int:
    return int(time.timestamp() * 1000)


def _reason(cause: Exception) -> str:
    """Short, and without what the store says for programs."""
    text = re.sub(r"<[^>]*>", " ", str(cause))
    return " ".join(text.split())[:_LONGEST_REASON] or type(cause).__name__
