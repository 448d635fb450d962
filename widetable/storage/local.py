"""FileIO on a local disk. Publishing is a hard link to a complete, synced temporary file: it fails
when the target exists.

POSIX rename is not exclusive, link is (format.md section 11). Temporary names start with a dot, so
no reader takes one for a snapshot.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import uuid
from collections.abc import Callable, Iterator
from typing import Final, TypeVar

import pyarrow as pa

from widetable.errors import InvalidError, NotFoundError, StorageError
from widetable.storage.file_io import FileStatus

T = TypeVar("T")
# How often a file is made again whose directory went away before it was there.
_TRIES: Final = 10


class LocalFileIO:
    """fsync: force files and directory entries to the disk before they are published (option `widetable.fsync`)."""

    def __init__(self, *, fsync: bool = True) -> None:
        self._fsync = fsync

    def read(self, path: str) -> bytes:
        with _mapped_errors(path), open(path, "rb") as file:
            return file.read()

    def open_input(self, path: str) -> pa.NativeFile:
        with _mapped_errors(path):
            return pa.memory_map(path)

    def open_output(self, path: str) -> pa.NativeFile:
        with _mapped_errors(path):
            if os.path.exists(path):
                raise FileExistsError(path)
            return _in_its_directory(path, lambda: pa.OSFile(path, "wb"))

    def write_new(self, path: str, data: bytes) -> None:
        with _mapped_errors(path):
            _in_its_directory(path, lambda: self._write(path, data))
            self._sync_dir(path)

    def publish(self, path: str, data: bytes) -> bool:
        temporary = self._temporary(path)
        with _mapped_errors(path):
            try:
                _in_its_directory(temporary, lambda: self._write(temporary, data))
                os.link(temporary, path)
            except FileExistsError:
                return False
            finally:
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(temporary)
            self._sync_dir(path)
        return True

    def replace(self, path: str, data: bytes) -> None:
        temporary = self._temporary(path)
        with _mapped_errors(path):
            try:
                _in_its_directory(temporary, lambda: _write_bytes(temporary, data))
                os.replace(temporary, path)
            finally:
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(temporary)

    def sync(self, path: str) -> None:
        if not self._fsync:
            return
        with _mapped_errors(path):
            descriptor = os.open(path, os.O_RDONLY)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
            self._sync_dir(path)

    def exists(self, path: str) -> bool:
        return os.path.exists(path)

    def size(self, path: str) -> int:
        with _mapped_errors(path):
            return os.stat(path).st_size

    def list(self, path: str) -> list[FileStatus]:
        with _mapped_errors(path):
            try:
                return sorted(self._entries(path), key=lambda entry: entry.name)
            except FileNotFoundError:
                return []

    def delete(self, path: str) -> bool:
        with _mapped_errors(path):
            try:
                os.unlink(path)
            except FileNotFoundError:
                return False
            return True

    def delete_dir(self, path: str) -> bool:
        with _mapped_errors(path):
            try:
                shutil.rmtree(path)
            except FileNotFoundError:
                return False
            return True

    def delete_empty_dir(self, path: str) -> bool:
        with _mapped_errors(path):
            try:
                os.rmdir(path)
            except FileNotFoundError:
                return False
            except OSError as cause:
                if cause.errno in (errno.ENOTEMPTY, errno.EEXIST):
                    return False
                raise
            return True

    def _entries(self, path: str) -> Iterator[FileStatus]:
        with os.scandir(path) as entries:
            for entry in entries:
                try:
                    status = entry.stat()
                except FileNotFoundError:
                    continue  # a temporary file that went away between the listing and the look
                yield FileStatus(
                    entry.name, entry.is_dir(), status.st_size, int(status.st_mtime * 1000)
                )

    def _temporary(self, path: str) -> str:
        return f"{os.path.dirname(path)}/.{os.path.basename(path)}.{uuid.uuid4()}.tmp"

    def _write(self, path: str, data: bytes) -> None:
        with open(path, "xb") as file:
            file.write(data)
            if self._fsync:
                file.flush()
                os.fsync(file.fileno())

    def _sync_dir(self, path: str) -> None:
        if self._fsync:
            descriptor = os.open(os.path.dirname(path), os.O_RDONLY)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)


def _in_its_directory(path: str, make: Callable[[], T]) -> T:
    """What makes a file, with its directory there: maintenance may remove an empty one at any moment."""
    for _ in range(_TRIES):
        with contextlib.suppress(FileNotFoundError):
            os.makedirs(os.path.dirname(path), exist_ok=True)
            return make()
    os.makedirs(os.path.dirname(path), exist_ok=True)
    return make()


def _write_bytes(path: str, data: bytes) -> None:
    with open(path, "xb") as file:
        file.write(data)


@contextlib.contextmanager
def _mapped_errors(path: str) -> Iterator[None]:
    """Turn the operating system's errors into ours, naming the path."""
    try:
        yield
    except FileNotFoundError as cause:
        raise NotFoundError(
            path,
            found="no such file",
            expected="a file",
            action="Check the path; the snapshot may have expired.",
        ) from cause
    except FileExistsError as cause:
        raise InvalidError(
            path, found="a file", expected="no file yet", action="Use a new name."
        ) from cause
    except OSError as cause:
        raise StorageError(
            path,
            found=f"{cause.strerror or cause} (errno {cause.errno})",
            expected="a storage that takes the operation",
            action="Make room or mend the storage, then retry; nothing was committed.",
        ) from cause
