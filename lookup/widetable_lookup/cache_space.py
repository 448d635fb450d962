"""The directory of a host's caches: room for new ones, places for complete ones, and removal.

Processes share it (cache_paths.py has its grammar). A process that counts, places or removes caches takes the lock on
`lock`, and waits for it at most `_LOCK_SECONDS`. A cache is first renamed, then unlinked: processes that have it open
continue to read, and those that open it at that moment find nothing. The remains of a dead process are recognised by
its lock, which the kernel has released, whatever happened to process ids.

The budget counts complete caches and those that are being built, of all processes. A builder asks for room before it
writes more, so it may exceed the budget by what it writes between two requests (cache_writer.py); a complete cache
never exceeds it. Caches are counted only if it is not certain that there is room (counted_bytes.py).

If nobody chose the directory, it has a well-known name in a place where everybody can create it. It is used only if
this user owns it and nobody else can write to it (`is_safe`), because its content is trusted.

Raises CacheFault when the lock is not available, or the directory must not be used, OSError from the disk.

What a process leaves behind that dies during the life of a cache, and what the next count does with it:

    begun, written, sealed        .building, unlocked by the kernel: unlinked
    renamed to its place          a complete cache
    renamed away, not unlinked    .removed: unlinked

Unlinking may take long, so it is done after the lock is released: nobody opens names that end in .removed.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import stat
import time
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from widetable import InvalidError
from widetable.runtime.machine_clock import now_millis
from widetable_lookup.cache_fault import CacheFault
from widetable_lookup.cache_manifest import read_manifest
from widetable_lookup.cache_paths import (
    BUILDING,
    ENVIRONMENT,
    LOCK,
    REMOVED,
    directory_of_host,
    is_table_folder,
    temporary_name,
    temporary_state,
)
from widetable_lookup.counted_bytes import CountedBytes, read_account, write_account
from widetable_lookup.eviction import HeldCache, evict

_LOCK_SECONDS: Final = 5.0
_LOCK_PAUSE_SECONDS: Final = 0.002


class Building(NamedTuple):
    """A cache that is being built. path: its directory so far; place: where it will be; lock: an open descriptor.

    The lock is on the directory itself, so it stays with the directory through the rename.
    """

    path: str
    place: str
    lock: int


class _ManifestFacts(NamedTuple):
    """What the manifest of a cache says; it is read once."""

    disk_bytes: int
    retention_millis: int


class _DirectoryLock(NamedTuple):
    """The state of the process that has the lock. file: the open lock file; left: directories to unlink after the lock
    is released.
    """

    file: int
    left: list[str]

    def rename_away(self, place: str) -> None:
        """Rename a cache, if it exists, so that nobody opens it any more."""
        away = temporary_name(place, REMOVED)
        with contextlib.suppress(FileNotFoundError):
            os.rename(place, away)
            self.left.append(away)


class CacheSpace:
    """The directory of caches. Threads may share it. It creates nothing before the first cache."""

    def __init__(self, directory: str, *, is_chosen: bool) -> None:
        """is_chosen: the user chose the directory, and vouches for it; otherwise it is checked."""
        self.directory = directory
        self._is_chosen = is_chosen
        self._manifests: dict[tuple[str, int], _ManifestFacts] = {}

    def is_safe(self) -> bool:
        """Return whether the content of the directory may be trusted: whoever can write there may have put it there.

        False if the directory does not exist.
        """
        if self._is_chosen:
            return True
        try:
            status = os.lstat(self.directory)
        except FileNotFoundError:
            return False
        is_own = status.st_uid == os.getuid() and not stat.S_IMODE(status.st_mode) & 0o022
        return is_own and stat.S_ISDIR(status.st_mode)

    def begin(self, place: str) -> Building:
        """Create a directory for a cache that will lie at `place`.

        It is created and locked in one section of the lock; a count in between would take it for left over. The caller
        ends it by `publish` or `abandon`.
        """
        with self._locked():
            os.makedirs(os.path.dirname(place), mode=0o700, exist_ok=True)
            path = temporary_name(place, BUILDING)
            os.mkdir(path, 0o700)
            lock = os.open(path, os.O_RDONLY)
            fcntl.flock(lock, fcntl.LOCK_EX)
        return Building(path, place, lock)

    def abandon(self, building: Building) -> None:
        """Remove an unfinished cache."""
        shutil.rmtree(building.path, ignore_errors=True)
        os.close(building.lock)

    def make_room(self, budget_bytes: int, needed_bytes: int) -> bool:
        """Remove caches until so many more bytes have room, and return whether they have.

        If there would be no room even without caches, only expired ones are removed.
        """
        with self._locked() as turn:
            return self._has_room(turn, budget_bytes, needed_bytes)

    def sweep(self, budget_bytes: int) -> None:
        """Remove expired caches, remains of dead processes, and what exceeds the budget."""
        with self._locked() as turn:
            self._evict(turn, budget_bytes, 0)

    def publish(self, building: Building, budget_bytes: int, disk_bytes: int) -> bool:
        """Put a complete cache into its place. Return False if another one was there first, or there is no room: then
        the new cache is removed.

        disk_bytes: the space it takes. It is added once more to the granted bytes, because a process that counted
        meanwhile may have missed some of them. After either result `building` is finished; after an error the caller
        must call `abandon`.
        """
        with self._locked() as turn:
            fits = self._has_room(turn, budget_bytes, disk_bytes, is_written=True)
            # A rename onto a directory with files fails.
            is_placed = fits and not os.path.lexists(building.place)
            if is_placed:
                os.rename(building.path, building.place)
        if not is_placed:
            self.abandon(building)
            return False
        os.close(building.lock)
        return True

    def remove(self, place: str, inode: int) -> None:
        """Remove a cache if it still has this inode."""
        with self._locked() as turn, contextlib.suppress(FileNotFoundError):
            if os.stat(place).st_ino == inode:
                turn.rename_away(place)

    def remove_all(self, places: Sequence[str]) -> None:
        """Remove the caches at these places, if any."""
        there = [place for place in places if os.path.lexists(place)]
        if not there:
            return
        with self._locked() as turn:
            for place in there:
                turn.rename_away(place)

    def touch(self, place: str, inode: int) -> bool:
        """Record that a cache is used. Return False if it was removed from its place."""
        with contextlib.suppress(FileNotFoundError):
            if os.stat(place).st_ino == inode:
                os.utime(place)
                return True
        return False

    @contextlib.contextmanager
    def _locked(self) -> Iterator[_DirectoryLock]:
        """Take the lock of the directory, which is created if it does not exist. Raise CacheFault if it must not be
        used.

        The lock is requested repeatedly, because a wait in the kernel has no end. Do not request it again inside:
        another descriptor would wait for this one. After an error, the next count unlinks what is left.
        """
        with contextlib.suppress(FileExistsError):
            os.makedirs(self.directory, mode=0o700)
        if not self.is_safe():
            raise CacheFault(
                f"{self.directory}: not a directory that only its owner, this user, can write to"
            )
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW
        file = os.open(f"{self.directory}/{LOCK}", flags, 0o600)
        turn = _DirectoryLock(file, [])
        try:
            _lock(file, self.directory)
            yield turn
        finally:
            # Closing is not enough: a child that was forked meanwhile has the same lock open.
            fcntl.flock(file, fcntl.LOCK_UN)
            os.close(file)
        for path in turn.left:  # another process may unlink it at the same time
            shutil.rmtree(path, ignore_errors=True)

    def _has_room(
        self, turn: _DirectoryLock, budget_bytes: int, more_bytes: int, *, is_written: bool = False
    ) -> bool:
        """Return whether there is room, and count all caches only if that is not certain. is_written: a count sees
        these bytes.
        """
        account = read_account(turn.file)
        if account is not None and account.held_bytes + more_bytes <= budget_bytes:
            granted_bytes = account.held_bytes + more_bytes
            write_account(turn.file, account._replace(held_bytes=granted_bytes))
            return True
        return self._evict(turn, budget_bytes, 0 if is_written else more_bytes)

    def _evict(self, turn: _DirectoryLock, budget_bytes: int, needed_bytes: int) -> bool:
        """Count all caches, remove some, and return whether the budget holds."""
        caches: list[HeldCache] = []
        building_bytes = 0
        # Each process reads a manifest once. Caches that are gone are dropped together with the old dictionary.
        before, self._manifests = self._manifests, {}
        for table in (e.path for e in _entries(self.directory) if is_table_folder(e.name)):
            entries = _entries(table)
            if not entries:
                with contextlib.suppress(OSError):
                    os.rmdir(table)
            for entry in entries:
                state = temporary_state(entry.name)
                if state is None:
                    caches += self._stored_cache(entry, before)
                elif state == REMOVED or not _is_locked(entry.path):
                    turn.left.append(entry.path)
                else:
                    building_bytes += _disk_bytes(entry.path)
        choice = evict(caches, building_bytes + needed_bytes, budget_bytes, _now_millis())
        for cache in choice.remove:
            turn.rename_away(cache.path)
        gone_bytes = sum(cache.disk_bytes for cache in choice.remove)
        held_bytes = sum(cache.disk_bytes for cache in caches) - gone_bytes + building_bytes
        counted_bytes = held_bytes + (needed_bytes if choice.fits else 0)
        write_account(turn.file, CountedBytes(time.monotonic(), counted_bytes))
        return choice.fits

    def _stored_cache(
        self, entry: os.DirEntry[str], before: dict[tuple[str, int], _ManifestFacts]
    ) -> list[HeldCache]:
        """Return one cache, with the content of its manifest; a cache without a valid manifest counts as expired.

        A damaged or foreign cache gets a retention of -1, so that it is removed at once, whatever its last use.
        """
        try:
            status = os.stat(entry.path)
        except FileNotFoundError:
            return []
        key = entry.path, status.st_ino
        manifest = self._manifests[key] = before.get(key) or _manifest_facts(entry.path)
        last_used_millis = status.st_mtime_ns // 1_000_000
        return [
            HeldCache(entry.path, manifest.disk_bytes, last_used_millis, manifest.retention_millis)
        ]


def _now_millis() -> int:
    """Return the time. A clock that cannot be used is a fault of the cache only: the rows are in the data files."""
    try:
        return now_millis()
    except InvalidError as error:
        raise CacheFault(str(error)) from error


def space_of_host() -> CacheSpace:
    """Return the directory that the environment names now."""
    return CacheSpace(directory_of_host(), is_chosen=bool(os.environ.get(ENVIRONMENT)))


def count_caches(folder: str) -> tuple[int, int]:
    """Return (caches, their bytes on disk) of one table's folder; caches that are being built count with their
    bytes.
    """
    states = {entry.path: temporary_state(entry.name) for entry in _entries(folder)}
    paths = [path for path, state in states.items() if state != REMOVED]
    return sum(states[path] is None for path in paths), sum(map(_disk_bytes, paths))


def _manifest_facts(path: str) -> _ManifestFacts:
    try:
        manifest = read_manifest(path)
    except (CacheFault, OSError):
        return _ManifestFacts(_disk_bytes(path), -1)
    return _ManifestFacts(manifest.disk_bytes, manifest.source.retention_millis)


def _lock(file: int, directory: str) -> None:
    give_up = time.monotonic() + _LOCK_SECONDS
    while True:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            if time.monotonic() > give_up:
                raise CacheFault(
                    f"{directory}/{LOCK}: locked by another process for {_LOCK_SECONDS} s"
                ) from None
        time.sleep(_LOCK_PAUSE_SECONDS)


def _is_locked(path: str) -> bool:
    """Return whether the builder of the cache is alive."""
    try:
        file = os.open(path, os.O_RDONLY)
    except FileNotFoundError:
        return True
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return False
    except BlockingIOError:
        return True
    finally:
        os.close(file)


def _entries(directory: str) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(directory) as entries:
            return list(entries)
    except (FileNotFoundError, NotADirectoryError):
        return []


def _disk_bytes(path: str) -> int:
    """Return the size of all files below a directory that may be changing."""
    total = 0
    for folder, _, names in os.walk(path):
        for name in names:
            with contextlib.suppress(FileNotFoundError):
                total += os.lstat(f"{folder}/{name}").st_blocks * 512
    return total
