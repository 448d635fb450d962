"""The key index of a cache: a read-only RocksDB from encoded key to row position.

    keys/      = one SST file, CURRENT, MANIFEST-*, and rocksdict-config.json, a link to /dev/null
    entry      = key (memcomparable.py) -> position, 4 bytes, little-endian

Built with SstFileWriter in key order and ingested: no memtable, no log, no compaction. rocksdict needs the following,
all measured or met (engine.md, section A): raw mode, or values are pickled; the options again for the column family
when opening, or bloom filter and block cache are silently not used; keys in a real list. It writes its configuration
whenever a database is opened, even to read, and never reads it: that must neither change a cache nor need space on the
disk. All files are opened with the index, so they may be unlinked while it is open. Filter and index blocks lie in the
block cache, so that `lookup.cache-max-memory-size` bounds them too.

RocksDB has its own threads and locks, which a forked child does not get: nothing is opened, built or closed during a
fork, and its threads end before one (it starts new ones when it needs them). What was open stays open in the child,
where nobody uses or closes it.

RocksDB checks each block that it reads. Raises CacheFault with the text of RocksDB for whatever it refuses: damage, a
full disk, keys that do not ascend.
"""

from __future__ import annotations

import contextlib
import glob
import os
import time
from collections import deque
from collections.abc import Iterator, Sequence
from typing import Final, cast

import numpy as np
import numpy.typing as npt
from rocksdict import (
    AccessType,
    BlockBasedOptions,
    Cache,
    DBCompressionType,
    Env,
    IngestExternalFileOptions,
    Options,
    Rdict,
    SstFileWriter,
)

from widetable.runtime.forked_child import BEFORE_FORK, UNFORKABLE
from widetable_lookup.cache_fault import CacheFault

KEYS: Final = "keys"
MAX_ROWS: Final = (1 << 32) - 1

_BLOOM_BITS_PER_KEY: Final = 10
_BLOCK_BYTES: Final = 4096
# Not needed to open a database read-only.
_CONFIGURATION: Final = "rocksdict-config.json"
_LEFT_OVER: Final = (_CONFIGURATION, "LOG", "LOCK", "IDENTITY", "OPTIONS-", ".log")
_END_SECONDS: Final = 2.0
_END_PAUSE_SECONDS: Final = 0.001
_MISSING: Final = MAX_ROWS.to_bytes(4, "little")


class KeyIndexWriter:
    """Builds the key index in a directory. Keys come in ascending order, each once."""

    def __init__(self, directory: str) -> None:
        self._directory = directory
        self._sst = f"{directory}/keys.sst"
        self._entries = 0
        with UNFORKABLE, _as_faults(directory):
            self._writer = SstFileWriter(_options(None))
            self._writer.open(self._sst)

    def add(self, keys: Sequence[bytes]) -> None:
        """Add the keys of the next rows."""
        positions = np.arange(self._entries, self._entries + len(keys), dtype="<u4")
        self._entries += len(keys)
        with _as_faults(self._directory):
            values = positions.view("V4").tolist()
            deque(map(self._writer.__setitem__, keys, values), maxlen=0)

    @property
    def size_bytes(self) -> int:
        return self._writer.file_size()

    def close(self) -> None:
        """Make the database; at least one key was added.

        The order matters: the SST file is completed; an empty database is made and ingests it without a copy; the files
        that only a writer needs are removed. The link keeps rocksdict from writing when the cache is opened to read.
        """
        path = f"{self._directory}/{KEYS}"
        with UNFORKABLE, _as_faults(self._directory):
            self._writer.finish()
            database = Rdict(path, _options(None))
            try:
                moving = IngestExternalFileOptions()
                moving.set_move_files(True)
                moving.set_allow_global_seqno(False)
                database.ingest_external_file([self._sst], moving)
            finally:
                database.close()
            for name in os.listdir(path):
                if name.startswith(_LEFT_OVER[:-1]) or name.endswith(_LEFT_OVER[-1]):
                    os.unlink(f"{path}/{name}")
            os.symlink(os.devnull, f"{path}/{_CONFIGURATION}")


class KeyIndex:
    """An open key index. Threads may share it."""

    def __init__(self, directory: str, block_cache: Cache) -> None:
        self._path = f"{directory}/{KEYS}"
        with UNFORKABLE, _as_faults(self._path):
            options = _options(block_cache)
            self._database = Rdict(
                self._path,
                options,
                column_families={"default": options},
                access_type=AccessType.read_only(False),
            )

    def positions(self, keys: list[bytes]) -> npt.NDArray[np.int64]:
        """Return the row of each key, -1 for none. keys: sorted, which is up to twice as fast.

        _MISSING stands for an absent key, and is no row: caches have at most MAX_ROWS. Invalid positions are detected
        only by their length; the caller checks that a row has the key.
        """
        typed_keys = cast("list[str | int | float | bytes | bool]", keys)
        with _as_faults(self._path):
            values = cast("list[bytes]", self._database.get(typed_keys, _MISSING))
        positions = np.frombuffer(b"".join(values), "<u4").astype(np.int64)
        if len(positions) != len(keys):
            raise CacheFault(f"{self._path}: values that are no positions")
        positions[positions == MAX_ROWS] = -1
        return positions

    def close(self) -> None:
        with UNFORKABLE, _as_faults(self._path):
            self._database.close()


def _end_threads() -> None:
    """End the threads of RocksDB, while nothing is open for writing."""
    environment = Env()
    environment.set_low_priority_background_threads(0)
    environment.set_high_priority_background_threads(0)
    give_up = time.monotonic() + _END_SECONDS
    while _has_threads() and time.monotonic() < give_up:
        time.sleep(_END_PAUSE_SECONDS)


def _has_threads() -> bool:
    """Return whether RocksDB has threads, recognised by their names; without /proc the answer is no."""
    for path in glob.iglob("/proc/self/task/*/comm"):
        with contextlib.suppress(OSError), open(path, "rb") as file:
            if file.read().startswith(b"rocksdb"):
                return True
    return False


BEFORE_FORK.append(_end_threads)


def _options(block_cache: Cache | None) -> Options:
    table = BlockBasedOptions()
    table.set_bloom_filter(_BLOOM_BITS_PER_KEY, False)
    table.set_block_size(_BLOCK_BYTES)
    table.set_cache_index_and_filter_blocks(True)
    if block_cache is not None:
        table.set_block_cache(block_cache)
    options = Options(raw_mode=True)
    options.set_block_based_table_factory(table)
    options.set_compression_type(DBCompressionType.none())
    options.create_if_missing(True)
    options.set_disable_auto_compactions(True)
    options.set_max_open_files(-1)
    options.set_max_file_opening_threads(1)
    options.set_skip_stats_update_on_db_open(True)
    options.set_keep_log_file_num(1)
    options.set_stats_dump_period_sec(0)
    options.set_stats_persist_period_sec(0)
    options.set_manifest_preallocation_size(_BLOCK_BYTES)
    return options


@contextlib.contextmanager
def _as_faults(path: str) -> Iterator[None]:
    """Raise CacheFault in place of the plain Exceptions of rocksdict."""
    try:
        yield
    except CacheFault:
        raise
    except Exception as cause:
        raise CacheFault(f"{path}: {cause}") from cause
