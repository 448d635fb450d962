"""FileIO on a local disk. Publishing is a hard link to a complete, synced temporary file: it fails
when the target exists.

POSIX rename is not exclusive, link is (format.md section 11). Temporary names are `.<random>.tmp`: no reader takes one
for a snapshot, and the cleaning of orphans recognises them.

What remains if the process dies during `publish`:

    temporary file written          a `.tmp` file: an orphan, removed when it is old enough
    linked, temporary name left     the file has both names; the snapshot is complete
    linked, directory not synced    the file has both names; a power failure may remove it, and no caller was told of it

A rename overwrites its target, so it serves `replace`: readers see the old bytes or the new ones.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import stat
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, TypeVar

import pyarrow as pa

from widetable.errors import InvalidError, NotFoundError, StorageError
from widetable.messages.error_code import ErrorCode
from widetable.storage.file_io import FileStatus
from widetable.storage.lock_queue import turn
from widetable.storage.remote.replace_in_steps import put, replace_in_steps

T = TypeVar("T")
# Errors that say that the file does not exist; other errors do not tell.
_ABSENT: Final = (FileNotFoundError, NotADirectoryError)
_NO_LINK: Final = (errno.EPERM, errno.EMLINK, errno.EOPNOTSUPP)
# The number of tries to create a file whose directory is removed meanwhile, and to remove a directory in which files
# are created meanwhile.
_TRIES: Final = 10


class LocalFileIO:
    """A FileIO on a local disk.

    fsync: force files and directory entries to the disk before they are published (option `widetable.fsync`).
    """

    def __init__(self, *, fsync: bool = True) -> None:
        self._fsync = fsync

    def read(self, path: str) -> bytes:
        with _mapped_errors(path), open(path, "rb") as file:
            return file.read()

    def open_input(self, path: str) -> pa.NativeFile:
        """Map the file into memory: bytes are read when they are accessed, and a file that is unlinked meanwhile stays
        readable.
        """
        with _mapped_errors(path):
            return pa.memory_map(path)

    def open_output(self, path: str) -> pa.NativeFile:
        """Check first that the file does not exist, because Arrow would overwrite it. Names are random, so no other
        process creates it between the check and the open.
        """
        with _mapped_errors(path):
            if _is_there(path):
                raise FileExistsError(path)
            return self._in_its_directory(path, lambda: pa.OSFile(path, "wb"))

    def write_new(self, path: str, data: bytes) -> None:
        with _mapped_errors(path):
            self._in_its_directory(path, lambda: self._write(path, data))
            self._sync_dir(path)

    def publish(self, path: str, data: bytes) -> bool:
        with _mapped_errors(path), self._written(path, data) as temporary:
            try:
                os.link(temporary, path)
            except FileExistsError:
                return False
            self._sync_dir(path)
        return True

    def replace(self, path: str, data: bytes, *, durable: bool = True) -> None:
        with _mapped_errors(path), self._written(path, data, durable=durable) as temporary:
            os.replace(temporary, path)
            if durable:
                self._sync_dir(path)

    def replace_if(self, path: str, expected: bytes, data: bytes) -> bool:
        return replace_in_steps(self, path, expected, data)

    def link(self, source: str, target: str, *, replace: bool = False) -> bool:
        """Make a hard link. The bytes are copied if the system refuses one (a file of another user, too many names)."""
        try:
            with _mapped_errors(source):
                return self._link(source, target, replace=replace)
        except StorageError as refusal:
            cause = refusal.__cause__
            if not isinstance(cause, OSError) or cause.errno not in _NO_LINK:
                raise
        return put(self, target, self.read(source), replace=replace)

    def _link(self, source: str, target: str, *, replace: bool) -> bool:
        # A link cannot overwrite its target, but a rename can. So with `replace` the bytes get a
        # temporary name first.
        name = _temporary(target) if replace else target
        try:
            self._in_its_directory(name, lambda: os.link(source, name), source)
        except FileExistsError:
            return False
        if replace:
            try:
                os.replace(name, target)
            finally:
                _unlink(name)  # a rename leaves it if the target is already the same file
        self._sync_dir(target)
        return True

    def sync(self, path: str) -> None:
        if not self._fsync:
            return
        with _mapped_errors(path):
            _force(path)
            self._sync_dir(path)

    def exists(self, path: str) -> bool:
        with _mapped_errors(path):
            return _is_there(path)

    def size(self, path: str) -> int:
        with _mapped_errors(path):
            return os.stat(path).st_size

    def list(self, path: str) -> list[FileStatus]:
        with _mapped_errors(path):
            try:
                return sorted(self._entries(path), key=lambda entry: entry.name)
            except _ABSENT:
                return []

    def delete(self, path: str) -> bool:
        with _mapped_errors(path):
            try:
                os.unlink(path)
            except OSError as cause:
                if _was_absent(path, cause):
                    return False
                raise
            return True

    def delete_all(self, paths: Iterable[str]) -> Sequence[str]:
        return [path for path in paths if self.delete(path)]

    def delete_dir(self, path: str) -> bool:
        """Remove the directory and then a link to it: until then another try can find the directory by the link."""
        with _mapped_errors(path):
            was_there = _removed_tree(os.path.realpath(path))
            if os.path.islink(path):
                os.unlink(path)
            return was_there

    def delete_empty_dir(self, path: str) -> bool:
        with _mapped_errors(path):
            try:
                os.rmdir(path)
            except OSError as cause:
                is_full = cause.errno in (errno.ENOTEMPTY, errno.EEXIST)
                if is_full or _was_absent(path, cause):
                    return False
                raise
            return True

    def moves_dirs(self) -> bool:
        return True

    def move_dir(self, source: str, target: str) -> bool:
        """Rename the directory and sync both parents: after a power failure one of them must still have the entry."""
        with _mapped_errors(source):
            if _is_there(target) and not os.path.isdir(target):
                return False
            try:
                self._in_its_directory(target, lambda: os.rename(source, target), source)
            except OSError as cause:
                if cause.errno in (errno.ENOTEMPTY, errno.EEXIST):
                    return False
                raise
            self._sync_dir(source)
            self._sync_dir(target)
        return True

    def turn(self, path: str) -> contextlib.AbstractContextManager[bool]:
        return turn(path)

    def _entries(self, path: str) -> Iterator[FileStatus]:
        with os.scandir(path) as entries:
            for entry in entries:
                try:
                    status = entry.stat()
                except _ABSENT:
                    continue  # a temporary file that was removed between the listing and the stat
                yield FileStatus(
                    entry.name,
                    stat.S_ISDIR(status.st_mode),
                    status.st_size,
                    int(status.st_mtime * 1000),
                    int(status.st_ctime * 1000),
                )

    @contextlib.contextmanager
    def _written(self, path: str, data: bytes, *, durable: bool = True) -> Iterator[str]:
        """Yield the name of a temporary file beside `path` that has all of the data; remove the name afterwards."""
        temporary = _temporary(path)
        self._in_its_directory(temporary, lambda: self._write(temporary, data, durable=durable))
        try:
            yield temporary
        finally:
            _unlink(temporary)

    def _write(self, path: str, data: bytes, *, durable: bool = True) -> None:
        """Write a new file completely, or remove it: a file for which there is no space should take none."""
        with open(path, "xb") as file:
            try:
                file.write(data)
                file.flush()
                if self._fsync and durable:
                    os.fsync(file.fileno())
            except BaseException:
                os.unlink(path)
                raise

    def _in_its_directory(self, path: str, make: Callable[[], T], source: str = "") -> T:
        """Call `make`, which creates a file, and create its directory as needed: maintenance may remove an empty one at
        any moment. source: the file from which `make` creates it; if it does not exist no directory is created.
        """
        for _ in range(_TRIES):
            try:
                return make()
            except _ABSENT as cause:
                if source:
                    os.lstat(source)
                if isinstance(cause, NotADirectoryError):
                    raise _refused(path, cause) from cause
                self._make_directory(os.path.dirname(path))
        return make()

    def _make_directory(self, path: str) -> None:
        """Create a directory and those above it, and sync the parent of each."""
        if os.path.isdir(path):
            return
        self._make_directory(os.path.dirname(path))
        try:
            os.mkdir(path)
        except FileExistsError:
            if not os.path.isdir(path):
                raise _refused(path, OSError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))) from None
        else:
            self._sync_dir(path)

    def _sync_dir(self, path: str) -> None:
        """Sync the directory that contains `path`."""
        if self._fsync:
            _force(os.path.dirname(path))


def _temporary(path: str) -> str:
    """Return a new temporary name. It is short, so that the longest name that the system accepts can be published."""
    return f"{os.path.dirname(path)}/.{uuid.uuid4().hex}.tmp"


def _force(path: str) -> None:
    """Force a file or directory to the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _unlink(path: str) -> None:
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)


def _removed_tree(path: str) -> bool:
    """Remove a directory and all below; return False if it did not exist."""
    for _ in range(_TRIES):
        try:
            shutil.rmtree(path)
            return True
        except _ABSENT:
            if not _is_there(path):
                return False
        except OSError as cause:  # another process creates files there at the same time
            if cause.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                raise
    shutil.rmtree(path)
    return True


def _is_there(path: str) -> bool:
    """Return whether the path exists. `os.path.exists` is False for an unreadable directory and a lost device as well,
    which would look like a file that has expired.
    """
    try:
        os.stat(path)
    except _ABSENT:
        return False
    return True


def _was_absent(path: str, cause: OSError) -> bool:
    """Return whether a removal failed because the path does not exist. A disk that is mounted read-only raises the same
    error for existing and for missing paths, so the path is looked up there.
    """
    if cause.errno != errno.EROFS:
        return isinstance(cause, _ABSENT)
    try:
        os.lstat(path)
    except _ABSENT:
        return True
    return False


@contextlib.contextmanager
def _mapped_errors(path: str) -> Iterator[None]:
    """Translate errors of the operating system, Python and Arrow into those of this package, which name the path."""
    try:
        yield
    except _ABSENT as cause:
        raise NotFoundError(
            path,
            found="no such file",
            expected="a file",
            action="Check the path; the snapshot may have expired.",
            code=ErrorCode.FILE_NOT_FOUND,
        ) from cause
    except FileExistsError as cause:
        raise InvalidError(
            path, found="a file", expected="no file yet", action="Use a new name."
        ) from cause
    except (ValueError, OverflowError) as cause:
        raise _no_path(path, str(cause)) from cause
    except (OSError, pa.ArrowException) as cause:
        if getattr(cause, "errno", None) == errno.ENAMETOOLONG:
            raise _no_path(path, os.strerror(errno.ENAMETOOLONG)) from cause
        raise _refused(path, cause) from cause


def _refused(path: str, cause: Exception) -> StorageError:
    reason = getattr(cause, "strerror", None) or cause
    return StorageError(
        path,
        found=f"{reason} (errno {getattr(cause, 'errno', None)})",
        expected="a storage that accepts the operation",
        action="Free space or repair the storage, then retry; nothing was committed.",
    )


def _no_path(path: str, reason: str) -> InvalidError:
    return InvalidError(
        repr(path),
        found=f"a path that the storage does not support: {reason}",
        expected="names of at most 255 bytes, without NUL, that are valid text",
        action="Use another name.",
    )
