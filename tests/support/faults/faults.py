"""A storage that fails on purpose: at chosen points, or at random from one printed seed.

    BEFORE   the operation fails and did nothing
    AFTER    the operation was done, then its answer got lost
    TORN     the file holds a prefix of its bytes, then the operation fails (only for files that need not appear whole)
    FULL     no space is left: like TORN for these files, like BEFORE for the others

`run_before` puts an action, for instance another commit, at an exact point of the one that is tested.
"""

from __future__ import annotations

import contextlib
import errno
import os
import random
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final, TypeVar

import pyarrow as pa

from widetable.errors import NotFoundError, StorageError
from widetable.storage.file_io import FileIO, FileStatus

T = TypeVar("T")


class Fault(Enum):
    BEFORE = "before"
    AFTER = "after"
    TORN = "torn"
    FULL = "full"


WRITES: Final = ("write_new", "publish", "replace", "link", "delete", "open_output", "sync")
READS: Final = ("read", "exists", "list", "open_input", "size")
_APPEAR_WHOLE: Final = ("publish", "replace", "link")


@dataclass
class _Point:
    """The operation on a path that contains `name`, after it was let through `skip` times, `times` times in a row."""

    operation: str
    name: str
    skip: int
    times: int
    fault: Fault | None = None
    action: Callable[[], object] | None = None

    def meets(self, operation: str, path: str) -> bool:
        if operation != self.operation or self.name not in path or self.times == 0:
            return False
        if self.skip > 0:
            self.skip -= 1
            return False
        self.times -= 1
        return True


class FaultyFileIO:
    """rate: how likely any of `operations` fails, with one of `faults`. log: (operation, path) of what was asked."""

    def __init__(
        self,
        inner: FileIO,
        *,
        seed: int = 0,
        rate: float = 0.0,
        operations: Sequence[str] = WRITES + READS,
        faults: Sequence[Fault] = tuple(Fault),
    ) -> None:
        self.inner = inner
        self.rate = rate
        self.log: list[tuple[str, str]] = []
        self._operations = operations
        self._faults = faults
        self._random = random.Random(seed)
        self._points: list[_Point] = []
        if rate:
            sys.stdout.write(f"storage faults: seed {seed}, rate {rate}\n")

    def fail(
        self, operation: str, fault: Fault, name: str = "", *, skip: int = 0, times: int = 1
    ) -> None:
        """Let an operation on a path that contains `name` fail, once it was let through `skip` times."""
        self._points.append(_Point(operation, name, skip, times, fault=fault))

    def run_before(
        self,
        operation: str,
        action: Callable[[], object],
        name: str = "",
        *,
        skip: int = 0,
        times: int = 1,
    ) -> None:
        """Do something else right before an operation."""
        self._points.append(_Point(operation, name, skip, times, action=action))

    def heal(self) -> None:
        """No faults from here on."""
        self.rate = 0.0
        self._points.clear()

    def count(self, operation: str, name: str = "") -> int:
        """How often an operation was asked for on paths that contain `name`."""
        return sum(operation == asked and name in path for asked, path in self.log)

    def read(self, path: str) -> bytes:
        return self._do("read", path, lambda: self.inner.read(path))

    def open_input(self, path: str) -> pa.NativeFile:
        return self._do("open_input", path, lambda: self.inner.open_input(path))

    def open_output(self, path: str) -> pa.NativeFile:
        return self._do("open_output", path, lambda: self.inner.open_output(path))

    def write_new(self, path: str, data: bytes) -> None:
        def prefix() -> None:
            self.inner.write_new(path, data[: len(data) // 2])

        self._do("write_new", path, lambda: self.inner.write_new(path, data), prefix)

    def publish(self, path: str, data: bytes) -> bool:
        return self._do("publish", path, lambda: self.inner.publish(path, data))

    def replace(self, path: str, data: bytes, *, durable: bool = True) -> None:
        self._do("replace", path, lambda: self.inner.replace(path, data, durable=durable))

    def replace_if(self, path: str, held: bytes, data: bytes) -> bool:
        """In the steps of a disk."""
        try:
            is_there = self.read(path) == held
        except NotFoundError:
            return False
        if not is_there:
            return False
        self.delete(path)
        return self.publish(path, data)

    def link(self, source: str, target: str, *, replace: bool = False) -> bool:
        """Named by its target."""
        return self._do("link", target, lambda: self.inner.link(source, target, replace=replace))

    def sync(self, path: str) -> None:
        self._do("sync", path, lambda: self.inner.sync(path))

    def exists(self, path: str) -> bool:
        return self._do("exists", path, lambda: self.inner.exists(path))

    def size(self, path: str) -> int:
        return self._do("size", path, lambda: self.inner.size(path))

    def list(self, path: str) -> list[FileStatus]:
        return self._do("list", path, lambda: self.inner.list(path))

    def delete(self, path: str) -> bool:
        return self._do("delete", path, lambda: self.inner.delete(path))

    def delete_all(self, paths: Iterable[str]) -> Sequence[str]:
        return [path for path in paths if self.delete(path)]

    def delete_dir(self, path: str) -> bool:
        return self.inner.delete_dir(path)

    def delete_empty_dir(self, path: str) -> bool:
        return self._do("delete_empty_dir", path, lambda: self.inner.delete_empty_dir(path))

    def moves_dirs(self) -> bool:
        return self.inner.moves_dirs()

    def move_dir(self, source: str, target: str) -> bool:
        """Named by its target."""
        return self._do("move_dir", target, lambda: self.inner.move_dir(source, target))

    def turn(self, path: str) -> contextlib.AbstractContextManager[bool]:
        """Never one: who uses this races with all others, as machines do with each other."""
        return contextlib.nullcontext(False)

    def _do(
        self,
        operation: str,
        path: str,
        perform: Callable[[], T],
        prefix: Callable[[], None] | None = None,
    ) -> T:
        self.log.append((operation, path))
        fault = self._fault(operation, path)
        if fault is None:
            return perform()
        if fault is Fault.AFTER:
            perform()
        if fault in (Fault.TORN, Fault.FULL) and prefix is not None:
            prefix()
        raise _injected(path, fault)

    def _fault(self, operation: str, path: str) -> Fault | None:
        for point in list(self._points):
            if point.meets(operation, path):
                if point.action is None:
                    return point.fault
                point.action()
        if self.rate and operation in self._operations and self._random.random() < self.rate:
            fault = self._random.choice(self._faults)
            return Fault.BEFORE if fault is Fault.TORN and operation in _APPEAR_WHOLE else fault
        return None


def _injected(path: str, fault: Fault) -> StorageError:
    code = errno.ENOSPC if fault is Fault.FULL else errno.EIO
    return StorageError(
        path,
        found=f"{os.strerror(code)} (errno {code}), injected {fault.value}",
        expected="a storage that takes the operation",
        action="Retry.",
    )
