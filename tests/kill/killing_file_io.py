"""A local disk that kills its own process (SIGKILL, no clean-up) at a named point of a commit.

Points: before_publish, after_publish (the snapshot is there, nobody knows), torn_file (half of a manifest is
written), before_hint, and changelog_begun (a changelog file is opened) for those who write any. The point is reached on
the call number that the caller chooses.
"""

from __future__ import annotations

import os
import signal

import pyarrow as pa

from widetable.storage.local import LocalFileIO

POINTS = ("before_publish", "after_publish", "torn_file", "before_hint")
CHANGELOG_POINTS = ("changelog_begun",)


def kill_now() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


class KillingFileIO(LocalFileIO):
    def __init__(self, point: str, call: int) -> None:
        """point: where to die; a word that is none of the points for nowhere."""
        super().__init__(fsync=False)
        self._point = point
        self._left = call

    def _reached(self, point: str) -> bool:
        if point != self._point:
            return False
        self._left -= 1
        return self._left < 0

    def publish(self, path: str, data: bytes) -> bool:
        if "/snapshot/" in path and self._reached("before_publish"):
            kill_now()
        done = super().publish(path, data)
        if "/snapshot/" in path and self._reached("after_publish"):
            kill_now()
        return done

    def open_output(self, path: str) -> pa.NativeFile:
        out = super().open_output(path)
        if "/changelog-" in path and self._reached("changelog_begun"):
            kill_now()
        return out

    def write_new(self, path: str, data: bytes) -> None:
        if "/manifest/" in path and self._reached("torn_file"):
            super().write_new(path, data[: len(data) // 2])
            kill_now()
        super().write_new(path, data)

    def replace(self, path: str, data: bytes, *, durable: bool = True) -> None:
        if self._reached("before_hint"):
            kill_now()
        super().replace(path, data, durable=durable)


class DiesAtPublish(LocalFileIO):
    """Kills its process before the write of that number by which a name comes to be, or gets other bytes; those of
    hints, marks and leases are not counted.
    """

    def __init__(self, number: int) -> None:
        super().__init__(fsync=False)
        self.left = number

    def publish(self, path: str, data: bytes) -> bool:
        self._die(path)
        return super().publish(path, data)

    def replace(self, path: str, data: bytes, *, durable: bool = True) -> None:
        self._die(path)
        super().replace(path, data, durable=durable)

    def link(self, source: str, target: str, *, replace: bool = False) -> bool:
        self._die(target)
        return super().link(source, target, replace=replace)

    def _die(self, path: str) -> None:
        if not any(name in path for name in ("-lease-", "had-snapshots", "LATEST", "EARLIEST")):
            self.left -= 1
            if self.left < 0:
                kill_now()


class DiesAtWrite(DiesAtPublish):
    """The same, and before data files, manifests, the hint and deletions, too."""

    def open_output(self, path: str) -> pa.NativeFile:
        self._die(path)
        return super().open_output(path)

    def write_new(self, path: str, data: bytes) -> None:
        self._die(path)
        super().write_new(path, data)

    def delete(self, path: str) -> bool:
        self._die(path)
        return super().delete(path)
