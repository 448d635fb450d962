"""The directory of a host's caches: room for new ones, places for complete ones, and removal.

Processes share it (cache_paths.py has its grammar). Whoever counts, places or removes holds the lock on `lock`; nobody
waits for it longer than `_LOCK_SECONDS`. A cache leaves its place by a rename and is unlinked then: who has it open
goes on reading, and whoever opens it at that moment finds nothing. What a dead process left is known by its lock, which
the kernel took back, whatever became of process ids.

The budget counts caches and what is being built, of all processes. A builder asks for room before it writes more, so
each may exceed the budget by what it writes between two questions (cache_writer.py); in its place a cache never does.
They are counted where it is not known that there is room (counted_bytes.py).

Where nobody chose the directory it has a name that everybody knows, in a place where everybody can make one. It is
used only if it is this user's own and nobody else can write to it (`is_safe`): what others put there would be believed.

Raises CacheFault when the lock is not to be had, or the directory is not to be used, OSError from the disk.

What a process leaves that dies on the way of a cache, and what becomes of it when all are
counted next:

    begun, written, sealed        .building, unlocked by the kernel: unlinked
    renamed to its place          a complete cache
    renamed away, not unlinked    .removed: unlinked

Unlinking may take long, so it is done when the lock has been given back: names that end in
.removed nobody opens.
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

    The lock is on the directory itself, so it goes with it through the rename.
    """

    path: str
    place: str
    lock: int


class _Known(NamedTuple):
    """What the manifest of a cache said, which is read once."""

    disk_bytes: int
    retention_millis: int


class _DirectoryTurn(NamedTuple):
    """Of who has the lock. file: open; left: directories to unlink when it has been given back."""

    file: int
    left: list[str]

    def take_away(self, place: str) -> None:
        """Rename a cache, if it is there, so that nobody opens it any more."""
        away = temporary_name(place, REMOVED)
        with contextlib.suppress(FileNotFoundError):
            os.rename(place, away)
            self.left.append(away)


class CacheSpace:
    """Thread-safe. Nothing is made before the first cache is."""

    def __init__(self, directory: str, *, is_chosen: bool) -> None:
        """is_chosen: somebody chose the directory, and says that it is safe; else it has to look so."""
        self.directory = directory
        self._is_chosen = is_chosen
        self._known: dict[tuple[str, int], _Known] = {}

    def is_safe(self) -> bool:
        """Whether what lies in the directory may be read and written: whoever may write there could have put it there.
        False where there is none yet.
        """
        if self._is_chosen:
            return True
        try:
            found = os.lstat(self.directory)
        except FileNotFoundError:
            return False
        is_own = found.st_uid == os.getuid() and not stat.S_IMODE(found.st_mode) & 0o022
        return is_own and stat.S_ISDIR(found.st_mode)

    def begin(self, place: str) -> Building:
        """A directory of one's own for a cache that will lie at `place`.

        Made and locked in one section of the lock: whoever counts in between would take it for
        left over. Whoever begins ends it by `publish` or `abandon`.
        """
        with self._locked():
            os.makedirs(os.path.dirname(place), mode=0o700, exist_ok=True)
            path = temporary_name(place, BUILDING)
            os.mkdir(path, 0o700)
            lock = os.open(path, os.O_RDONLY)
            fcntl.flock(lock, fcntl.LOCK_EX)
        return Building(path, place, lock)

    def abandon(self, building: Building) -> None:
        """Remove what was built so far."""
        shutil.rmtree(building.path, ignore_errors=True)
        os.close(building.lock)

    def make_room(self, budget_bytes: int, needed_bytes: int) -> bool:
        """Let go of what must go for so many bytes more. Whether they have room then.

        Where there would be no room even without caches only what has expired goes.
        """
        with self._locked() as turn:
            return self._granted(turn, budget_bytes, needed_bytes)

    def sweep(self, budget_bytes: int) -> None:
        """Let go of what has expired, of what dead processes left, and of what is over the budget."""
        with self._locked() as turn:
            self._evict(turn, budget_bytes, 0)

    def publish(self, building: Building, budget_bytes: int, disk_bytes: int) -> bool:
        """Put a complete cache into its place. False: another was there first, or there is no room; it is gone then.
        disk_bytes: that it takes. They are added once more to what was granted: whoever counted meanwhile may not have
        seen all of them.

        The caller's `building` is done with in both cases; where an error is raised it is not,
        and `abandon` is left to do.
        """
        with self._locked() as turn:
            fits = self._granted(turn, budget_bytes, disk_bytes, is_written=True)
            # A rename onto a directory that holds files fails.
            is_placed = fits and not os.path.lexists(building.place)
            if is_placed:
                os.rename(building.path, building.place)
        if not is_placed:
            self.abandon(building)
            return False
        os.close(building.lock)
        return True

    def remove(self, place: str, inode: int) -> None:
        """Remove a cache if it is still the one with this inode."""
        with self._locked() as turn, contextlib.suppress(FileNotFoundError):
            if os.stat(place).st_ino == inode:
                turn.take_away(place)

    def remove_all(self, places: Sequence[str]) -> None:
        """Remove the caches that lie there, if any."""
        there = [place for place in places if os.path.lexists(place)]
        if not there:
            return
        with self._locked() as turn:
            for place in there:
                turn.take_away(place)

    def touch(self, place: str, inode: int) -> bool:
        """Note that a cache is used. False when it has lost its place."""
        with contextlib.suppress(FileNotFoundError):
            if os.stat(place).st_ino == inode:
                os.utime(place)
                return True
        return False

    @contextlib.contextmanager
    def _locked(self) -> Iterator[_DirectoryTurn]:
        """A turn in the directory, which is made where there is none. Raises CacheFault for one that is not to be
        used.

        Taken by asking again and again, as a wait in the kernel has no end. Not to be asked for
        again inside: another descriptor would wait for this one. Where an error ends it, what is
        left is unlinked by who counts next.
        """
        with contextlib.suppress(FileExistsError):
            os.makedirs(self.directory, mode=0o700)
        if not self.is_safe():
            raise CacheFault(
                f"{self.directory}: not a directory that only its owner, this user, can write to"
            )
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW
        file = os.open(f"{self.directory}/{LOCK}", flags, 0o600)
        turn = _DirectoryTurn(file, [])
        try:
            _lock(file, self.directory)
            yield turn
        finally:
            # Closing is not enough: a child that was forked meanwhile has the same lock open.
            fcntl.flock(file, fcntl.LOCK_UN)
            os.close(file)
        for path in turn.left:  # which somebody else may do at the same time
            shutil.rmtree(path, ignore_errors=True)

    def _granted(
        self, turn: _DirectoryTurn, budget_bytes: int, more_bytes: int, *, is_written: bool = False
    ) -> bool:
        """As `_evict`, which is not asked where there is room for sure. is_written: who counts finds these bytes."""
        account = read_account(turn.file)
        if account is not None and account.held_bytes + more_bytes <= budget_bytes:
            granted_bytes = account.held_bytes + more_bytes
            write_account(turn.file, account._replace(held_bytes=granted_bytes))
            return True
        return self._evict(turn, budget_bytes, 0 if is_written else more_bytes)

    def _evict(self, turn: _DirectoryTurn, budget_bytes: int, needed_bytes: int) -> bool:
        """Counts all. Whether the budget holds."""
        held: list[HeldCache] = []
        building_bytes = 0
        # Manifests are read once per cache and process; what is not met again is forgotten with
        # the old dictionary.
        known, self._known = self._known, {}
        for table in (e.path for e in _entries(self.directory) if is_table_folder(e.name)):
            entries = _entries(table)
            if not entries:
                with contextlib.suppress(OSError):
                    os.rmdir(table)
            for entry in entries:
                state = temporary_state(entry.name)
                if state is None:
                    held += self._held(entry, known)
                elif state == REMOVED or not _is_locked(entry.path):
                    turn.left.append(entry.path)
                else:
                    building_bytes += _disk_bytes(entry.path)
        choice = evict(held, building_bytes + needed_bytes, budget_bytes, _now_millis())
        for cache in choice.remove:
            turn.take_away(cache.path)
        gone_bytes = sum(cache.disk_bytes for cache in choice.remove)
        held_bytes = sum(cache.disk_bytes for cache in held) - gone_bytes + building_bytes
        counted_bytes = held_bytes + (needed_bytes if choice.fits else 0)
        write_account(turn.file, CountedBytes(time.monotonic(), counted_bytes))
        return choice.fits

    def _held(
        self, entry: os.DirEntry[str], before: dict[tuple[str, int], _Known]
    ) -> list[HeldCache]:
        """One cache, with what its manifest says; one without a right manifest has expired.

        A damaged or foreign one has a retention of -1, so that it goes at once, whatever its
        last use.
        """
        try:
            found = os.stat(entry.path)
        except FileNotFoundError:
            return []
        key = entry.path, found.st_ino
        known = self._known[key] = before.get(key) or _known_of(entry.path)
        last_used_millis = found.st_mtime_ns // 1_000_000
        return [HeldCache(entry.path, known.disk_bytes, last_used_millis, known.retention_millis)]


def _now_millis() -> int:
    """A clock that nobody can go by is no reason not to read: the rows are in the data files."""
    try:
        return now_millis()
    except InvalidError as error:
        raise CacheFault(str(error)) from error


def space_of_host() -> CacheSpace:
    """The directory that the environment names now."""
    return CacheSpace(directory_of_host(), is_chosen=bool(os.environ.get(ENVIRONMENT)))


def count_caches(folder: str) -> tuple[int, int]:
    """(caches, their bytes on disk) of one table's folder; what is being built counts for its bytes."""
    states = {entry.path: temporary_state(entry.name) for entry in _entries(folder)}
    held = [path for path, state in states.items() if state != REMOVED]
    return sum(states[path] is None for path in held), sum(map(_disk_bytes, held))


def _known_of(path: str) -> _Known:
    try:
        manifest = read_manifest(path)
    except (CacheFault, OSError):
        return _Known(_disk_bytes(path), -1)
    return _Known(manifest.disk_bytes, manifest.source.retention_millis)


def _lock(file: int, directory: str) -> None:
    give_up = time.monotonic() + _LOCK_SECONDS
    while True:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            if time.monotonic() > give_up:
                raise CacheFault(
                    f"{directory}/{LOCK}: held by another process for {_LOCK_SECONDS} s"
                ) from None
        time.sleep(_LOCK_PAUSE_SECONDS)


def _is_locked(path: str) -> bool:
    """Whether whoever builds here is alive."""
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
    """Of all files below a directory that may be changing."""
    total = 0
    for folder, _, names in os.walk(path):
        for name in names:
            with contextlib.suppress(FileNotFoundError):
                total += os.lstat(f"{folder}/{name}").st_blocks * 512
    return total
