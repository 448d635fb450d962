"""The lookup caches of this process: opens them, keeps them open, builds new ones (widetable.lsm.file_rows.Caches).

In: data files and their tables. Out: FileRows and CacheWriters, or None: a cache is a copy, so a fault is logged with
the directory of the cache, and the caller does without it. No error of a cache is raised.

Caches of all tables of a host share one directory and one budget. If tables allow different budgets, the largest one
counts of those tables that this process has used within their retention. At most `_MAX_OPEN` caches stay open; the
least recently used are closed.

    handles by place     the next `open` uses these; the one used last is the last
    handles by cache     these, and those that were removed from their place but still have users

    open: users + 1 ... close: users - 1      closed when it has no users and is in no place
"""

from __future__ import annotations

import ctypes
import os
import threading
import time
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from rocksdict import Cache

from widetable.format.data_file_meta import DataFileMeta
from widetable.lsm.file_rows import CachedFile, Caches
from widetable.messages.warning_code import WarningCode, warn
from widetable.runtime.forked_child import SharedByThreads
from widetable.schema import options as opt
from widetable.schema.options import TableOptions
from widetable.write.cache_writer import CacheWriter
from widetable.write.table_state import TableState
from widetable_lookup.cache_fault import LOGGER, CacheFault, NoCache
from widetable_lookup.cache_paths import cache_name, table_folder
from widetable_lookup.cache_space import CacheSpace, space_of_host
from widetable_lookup.cache_writer import CacheBuilder
from widetable_lookup.cached_rows import CachedRows
from widetable_lookup.opened_cache import OpenedCache

# Each takes two file descriptors and some 300 kB.
_MAX_OPEN: Final = 128
_TOUCH_SECONDS: Final = 60.0
# Seconds between two searches for expired caches, while lookups continue.
_SWEEP_SECONDS: Final = 600.0


def process_caches(options: TableOptions) -> Caches:
    """Return the caches of this process in the directory that the environment names now.

    options: of a table that will use them. There is one object for each process and directory; threads may share it.
    """
    caches = _DIRECTORIES.caches(space_of_host())
    caches.allow_memory(options.get(opt.LOOKUP_CACHE_MAX_MEMORY_SIZE))
    return caches


class _Directories(SharedByThreads):
    """The caches of this process by directory."""

    def __init__(self) -> None:
        self._caches: dict[str, ProcessCaches] = {}
        super().__init__()

    def _reset(self) -> None:
        # A forked process must not use what its parent has open, nor close it at its end.
        for caches in self._caches.values():
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(caches))
        self._caches = {}
        self._guard = threading.Lock()

    def caches(self, space: CacheSpace) -> ProcessCaches:
        with self._guard:
            caches = self._caches.get(space.directory)
            if caches is None:
                caches = self._caches[space.directory] = ProcessCaches(space)
            return caches


@dataclass
class _Handle:
    """An open cache. users: how many CachedRows have it; is_kept: whether the next `open` gets it too.

    touched_at: monotonic seconds, when its use was last recorded in the directory, which is not done at each lookup.
    """

    cache: OpenedCache
    users: int = 0
    is_kept: bool = True
    touched_at: float = field(default_factory=time.monotonic)


class _Budget(NamedTuple):
    """The budget that a table allows. until: monotonic seconds."""

    size_bytes: int
    until: float


class ProcessCaches:
    """The caches of one process in one directory. Threads may share it."""

    def __init__(self, space: CacheSpace) -> None:
        self._space = space
        self._guard = threading.Lock()
        self._handles: OrderedDict[str, _Handle] = OrderedDict()
        self._by_cache: dict[OpenedCache, _Handle] = {}
        self._budgets: dict[str, _Budget] = {}
        self._memory_bytes = 0
        self._block_cache = Cache(0)
        self._swept_at = time.monotonic()

    def allow_memory(self, size_bytes: int) -> None:
        """Allow this size of the block cache; the largest requested size counts."""
        with self._guard:
            if size_bytes > self._memory_bytes:
                self._memory_bytes = size_bytes
                self._block_cache.set_capacity(size_bytes)

    def open(
        self, table: TableState, path: str, file: DataFileMeta, columns: Sequence[str]
    ) -> CachedFile | None:
        """Open the rows of a cache. Return None if there is no cache, or it was damaged, and is removed.

        file: the file that the cache must be a copy of. columns: of the table, without the key. The caller closes the
        rows. A budget of 0 turns caches off for the table.
        """
        if not table.options.get(opt.LOOKUP_CACHE_MAX_DISK_SIZE):
            return None
        self._sweep(table)
        place = self._place(table, path)
        handle = self._in_place(table, place) or self._opened(table, place, file)
        if handle is None:
            return None
        return CachedRows(handle.cache, table.schema, columns, self._release, self._damaged)

    def forget(self, table: TableState, paths: Iterable[str]) -> None:
        places = [self._place(table, path) for path in paths]
        with self._guard:
            handles = [self._handles.pop(place) for place in places if place in self._handles]
            surplus = [cache for handle in handles for cache in self._withdraw(handle)]
        _close(surplus)
        try:
            self._space.remove_all(places)
        except (CacheFault, OSError) as refusal:
            _warn(table.paths.root, self._space.directory, refusal)

    def writer(self, table: TableState, path: str) -> CacheWriter | None:
        """Return a builder of the cache of a data file. Return None if there is a cache, or no room for one.

        It is called for each data file that is written, or read whole. Another process may build the same cache: the
        one that is completed second is dropped.
        """
        budget_bytes = self._budget_bytes(table)
        if not table.options.get(opt.LOOKUP_CACHE_MAX_DISK_SIZE):
            return None
        place = self._place(table, path)
        if os.path.lexists(place):
            return None
        try:
            building = self._space.begin(place)
        except (CacheFault, OSError) as fault:
            _warn(path, self._space.directory, fault)
            return None
        return CacheBuilder(self._space, building, table, path, budget_bytes)

    def _place(self, table: TableState, path: str) -> str:
        root = table.paths.root
        name = cache_name(root, path, table.schema.id)
        return f"{self._space.directory}/{table_folder(root)}/{name}"

    def _budget_bytes(self, table: TableState) -> int:
        """Return the largest budget of this table and of those that were used so recently that their caches have not
        expired.
        """
        now = time.monotonic()
        size_bytes = table.options.get(opt.LOOKUP_CACHE_MAX_DISK_SIZE)
        until = now + table.options.get(opt.LOOKUP_CACHE_FILE_RETENTION) / 1000
        with self._guard:
            used = {root: each for root, each in self._budgets.items() if each.until >= now}
            self._budgets = {**used, table.paths.root: _Budget(size_bytes, until)}
            return max(each.size_bytes for each in self._budgets.values())

    # Handles

    def _in_place(self, table: TableState, place: str) -> _Handle | None:
        """Return the handle of a cache that is open and still in its place, with one more user.

        this process                        another process
        has the cache open                  evicts it: its bytes are freed when nobody has it open
        a minute later: not in its place
        closes it, opens what is there
        """
        with self._guard:
            handle = self._handles.get(place)
            if handle is None:
                return None
            self._handles.move_to_end(place)
            handle.users += 1
        if self._is_in_place(handle, table):
            return handle
        self._forget(handle.cache)
        self._release(handle.cache)
        return None

    def _is_in_place(self, handle: _Handle, table: TableState) -> bool:
        """Return whether the cache is still in its place; if not, its bytes should be freed, although they are
        right.
        """
        now = time.monotonic()
        retention_seconds = table.options.get(opt.LOOKUP_CACHE_FILE_RETENTION) / 1000
        if now - handle.touched_at < min(_TOUCH_SECONDS, retention_seconds / 4):
            return True
        handle.touched_at = now
        return self._touch(handle.cache)

    def _touch(self, cache: OpenedCache) -> bool:
        try:
            return self._space.touch(cache.place, cache.inode)
        except OSError as fault:
            _warn(cache.place, self._space.directory, fault)
            return False

    def _opened(self, table: TableState, place: str, file: DataFileMeta) -> _Handle | None:
        """Open a cache, with one more user. Return None too if others could have put a cache there; the builder logs
        that.

        The inode is read before the cache is opened: a damaged cache is removed only if it still has that inode.
        """
        try:
            if not self._space.is_safe():
                return None
            inode = os.stat(place).st_ino
        except OSError:
            return None
        try:
            opened = OpenedCache(place, table.schema, file, self._block_cache)
        except (CacheFault, OSError) as fault:
            self._remove(place, inode, fault)
            return None
        self._touch(opened)
        return self._kept(place, opened)

    def _kept(self, place: str, opened: OpenedCache) -> _Handle:
        """Return the handle of a place: this one, or that of a faster thread."""
        surplus = []
        with self._guard:
            handle = self._handles.get(place)
            if handle is None:
                handle = self._handles[place] = self._by_cache[opened] = _Handle(opened)
            else:
                surplus.append(opened)
            handle.users += 1
            while len(self._handles) > _MAX_OPEN:
                _, oldest = self._handles.popitem(last=False)
                surplus += self._withdraw(oldest)
        _close(surplus)
        return handle

    def _withdraw(self, handle: _Handle) -> list[OpenedCache]:
        """Withdraw the handle, so that nobody gets it any more, and return what is to be closed now."""
        handle.is_kept = False
        if handle.users:
            return []
        del self._by_cache[handle.cache]
        return [handle.cache]

    def _release(self, cache: OpenedCache) -> None:
        with self._guard:
            handle = self._by_cache[cache]
            handle.users -= 1
            surplus = [] if handle.is_kept else self._withdraw(handle)
        _close(surplus)

    def _forget(self, cache: OpenedCache) -> None:
        with self._guard:
            handle = self._handles.get(cache.place)
            if handle is not None and handle.cache is cache:
                del self._handles[cache.place]
                surplus = self._withdraw(handle)
            else:
                surplus = []
        _close(surplus)

    # Removal

    def _damaged(self, cache: OpenedCache, fault: CacheFault | OSError) -> None:
        self._forget(cache)
        self._remove(cache.place, cache.inode, fault)

    def _remove(self, place: str, inode: int, fault: CacheFault | OSError) -> None:
        if isinstance(fault, NoCache):
            LOGGER.info("lookup cache removed: %s", fault)
        elif not _is_gone(place, inode):
            warn(
                LOGGER, WarningCode.CACHE_REMOVED, "lookup cache removed, it is damaged: %s", fault
            )
        try:
            self._space.remove(place, inode)
        except (CacheFault, OSError) as refusal:
            _warn(place, self._space.directory, refusal)

    def _sweep(self, table: TableState) -> None:
        """Remove expired caches, every now and then."""
        budget_bytes = self._budget_bytes(table)
        with self._guard:
            now = time.monotonic()
            if now - self._swept_at < _SWEEP_SECONDS:
                return
            self._swept_at = now
        try:
            self._space.sweep(budget_bytes)
        except (CacheFault, OSError) as fault:
            warn(
                LOGGER,
                WarningCode.CACHES_NOT_SWEPT,
                "lookup caches in %s were not swept: %s",
                self._space.directory,
                fault,
            )


def _is_gone(place: str, inode: int) -> bool:
    """Return whether somebody removed the cache: missing files are then no damage."""
    try:
        return os.stat(place).st_ino != inode
    except OSError:
        return True


def _close(caches: Sequence[OpenedCache]) -> None:
    for cache in caches:
        try:
            cache.close()
        except CacheFault as fault:
            warn(LOGGER, WarningCode.CACHES_NOT_SWEPT, "lookup cache did not close: %s", fault)


def _warn(path: str, directory: str, fault: Exception) -> None:
    warn(LOGGER, WarningCode.NO_CACHE, "no lookup cache of %s in %s: %s", path, directory, fault)


_DIRECTORIES: Final = _Directories()
