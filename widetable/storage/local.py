"""FileIO on a local disk. Publishing is a hard link to a complete, synced temporary file: it fails
when the target exists.

POSIX rename is not exclusive, link is (format.md section 11). Temporary names are `.<random>.tmp`: no reader takes one
for a snapshot, and the cleaning of orphans knows them.

What is left if the process dies on its way through `publish`:

    temporary file written          a `.tmp` file: an orphan, removed when it is old enough
    linked, temporary name there    the file has both names; the snapshot is there, whole
    linked, directory not forced    the same; after a loss of power it may be gone, and nobody was told that it is there

Renames write over, so they serve `replace`: whoever reads has the old bytes or the new ones.
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
from widetable.storage.file_io import FileStatus
from widetable.storage.lock_queue import turn
from widetable.storage.remote.replace_in_steps import put, replace_in_steps

T = TypeVar("T")
# What says that there is no such file; every other error says nothing of it.
_ABSENT: Final = (FileNotFoundError, NotADirectoryError)
_NO_LINK: Final = (errno.EPERM, errno.EMLINK, errno.EOPNOTSUPP)
# How often a file is made again whose directory went away before it was there, and a directory removed again that
# got one meanwhile.
_TRIES: Final = 10


class LocalFileIO:
    """fsync: force files and directory entries to the disk before they are published (option `widetable.fsync`)."""

    def __init__(self, *, fsync: bool = True) -> None:
        self._fsync = fsync

    def read(self, path: str) -> bytes:
        with _mapped_errors(path), open(path, "rb") as file:
            return file.read()

    def open_input(self, path: str) -> pa.NativeFile:
        """Mapped: bytes are read when they are touched, and a file that is unlinked meanwhile
        stays readable.
        """
        with _mapped_errors(path):
            return pa.memory_map(path)

    def open_output(self, path: str) -> pa.NativeFile:
        """Looked for before, as Arrow would write over it: names are random, so nobody makes one
        in between.
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

    def replace_if(self, path: str, held: bytes, data: bytes) -> bool:
        return replace_in_steps(self, path, held, data)

    def link(self, source: str, target: str, *, replace: bool = False) -> bool:
        """Where the system refuses it (a file of another user, too many names), the bytes are copied."""
        try:
            with _mapped_errors(source):
                return self._link(source, target, replace=replace)
        except StorageError as refusal:
            cause = refusal.__cause__
            if not isinstance(cause, OSError) or cause.errno not in _NO_LINK:
                raise
        return put(self, target, self.read(source), replace=replace)

    def _link(self, source: str, target: str, *, replace: bool) -> bool:
        # A link is never made over another; a rename is. So with `replace` the bytes get a
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
                _unlink(name)  # a rename leaves it when the target is the same file already
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
        """The link goes last: until then the directory can be found and removed again by it."""
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
        """Both parents are forced: after a loss of power it must not be gone from the one and
        not in the other.
        """
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
                    found = entry.stat()
                except _ABSENT:
                    continue  # a temporary file that went away between the listing and the look
                yield FileStatus(
                    entry.name,
                    stat.S_ISDIR(found.st_mode),
                    found.st_size,
                    int(found.st_mtime * 1000),
                    int(found.st_ctime * 1000),
                )

    @contextlib.contextmanager
    def _written(self, path: str, data: bytes, *, durable: bool = True) -> Iterator[str]:
        """A temporary file beside `path` with all of the data; its name is gone afterwards."""
        temporary = _temporary(path)
        self._in_its_directory(temporary, lambda: self._write(temporary, data, durable=durable))
        try:
            yield temporary
        finally:
            _unlink(temporary)

    def _write(self, path: str, data: bytes, *, durable: bool = True) -> None:
        """All of a new file, or nothing: what has no room should take none."""
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
        """What makes a file, with its directory there: maintenance may remove an empty one at any moment. source: of
        what there is made of another; where that is not there nothing is made for it.
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
        """With those above it, each forced into its parent."""
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
        """The directory that holds `path`."""
        if self._fsync:
            _force(os.path.dirname(path))


def _temporary(path: str) -> str:
    """Short, so that the longest name that the system takes can be published."""
    return f"{os.path.dirname(path)}/.{uuid.uuid4().hex}.tmp"


def _force(path: str) -> None:
    """A file or directory, to the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _unlink(path: str) -> None:
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)


def _removed_tree(path: str) -> bool:
    """False when it is not there."""
    for _ in range(_TRIES):
        try:
            shutil.rmtree(path)
            return True
        except _ABSENT:
            if not _is_there(path):
                return False
        except OSError as cause:  # somebody makes files there at the same time
            if cause.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                raise
    shutil.rmtree(path)
    return True


def _is_there(path: str) -> bool:
    """Not `os.path.exists`, which says False of a directory that may not be read, or a lost
    device: that would be taken for a file that has expired.
    """
    try:
        os.stat(path)
    except _ABSENT:
        return False
    return True


def _was_absent(path: str, cause: OSError) -> bool:
    """Whether it could not be removed because it is not there. A disk that is mounted read-only says the same of what
    is there and what is not: it does not look.
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
    """Turn the errors of the operating system, Python and Arrow into ours, naming the path."""
    try:
        yield
    except _ABSENT as cause:
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
        expected="a storage that takes the operation",
        action="Make room or mend the storage, then retry; nothing was committed.",
    )


def _no_path(path: str, reason: str) -> InvalidError:
    return InvalidError(
        repr(path),
        found=f"a path that the storage cannot have: {reason}",
        expected="names of at most 255 bytes, without NUL, that are text",
        action="Use another name.",
    )
