"""Chooses the cheapest way to find keys in a data file: scan it, use its cache, or build the cache first. Pure.

Costs are measured CPU times per row and column (docs/facts/engine.md section A: 1 M rows of 60 columns), and the
latency of an object store. Only ratios matter. An existing cache is always used: its mapped rows cost less than Parquet
even if every row is requested. Building one costs more than any single scan, so it pays only if lookups repeat, which
is not known in advance. So it is built when scans of the file have cost as much as it would: then the total time is at
most twice that of the best choice, whatever follows. It is not built for a batch that is a large part of the file: the
file is merged into another one soon.

    file of 1 M rows, 60 columns, all requested   build 1405 ms
    scan for 1 key     38 ms                      built at the 38th such lookup
            10 keys   290 ms                                   5th
           100        910 ms (every row group)                 2nd
       300,000        910 ms                      never: more than a quarter of the rows
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Final

SCAN_STRATEGY: Final = "scan"
LOOKUP_STRATEGY: Final = "lookup"

# Per row: decode and compare its key. Per row and column: decode it; store it in a cache. Per row:
# index it there.
_KEY_MICROS: Final = 0.01
_DECODE_MICROS: Final = 0.015
_STORE_MICROS: Final = 0.0045
_INDEX_MICROS: Final = 0.21
# Opening and closing a new RocksDB, and putting it in place.
_NEW_CACHE_MICROS: Final = 25_000.0

# Approximate sizes of a row group, and of a value in it.
_ROW_GROUP_BYTES: Final = 16 << 20
_ROW_GROUP_ROWS: Final = 128 << 10
_VALUE_BYTES: Final = 9
# The latency of a file in an object store: its footer, then its columns.
_REMOTE_MICROS: Final = 60_000.0

# A file of which a batch requests more than this share is not worth a cache.
_LARGE_SHARE: Final = 0.25


class Choice(Enum):
    """The way to find keys in one data file."""

    SCAN = "scan"
    LOOKUP = "lookup"
    BUILD_THEN_LOOKUP = "build, then lookup"


@dataclass(frozen=True)
class FileLookup:
    """A lookup in one data file.

    rows: of the file. keys: number of keys to find in it, in all batches. columns: number of requested columns.
    stored_columns: number of columns of the file, all of which a cache stores. scanned_micros: cost of earlier scans of
    the file, by `scan_micros`. is_remote: the file is in an object store.
    """

    rows: int
    keys: int
    columns: int
    stored_columns: int
    has_cache: bool
    can_build: bool
    scanned_micros: float = 0.0
    is_remote: bool = False


def settled(strategy: str, *, has_cache: bool, can_build: bool) -> Choice | None:
    """Return the choice if it does not depend on costs, and so not on the content of the file; else None.

    strategy: of option `widetable.lookup-strategy`; `lookup` scans only if no cache can be built.
    """
    if strategy == SCAN_STRATEGY:
        return Choice.SCAN
    if has_cache:
        return Choice.LOOKUP
    if not can_build:
        return Choice.SCAN
    return Choice.BUILD_THEN_LOOKUP if strategy == LOOKUP_STRATEGY else None


def choose(lookup: FileLookup, strategy: str) -> Choice:
    """Return the cheapest choice. strategy: see `settled`."""
    choice = settled(strategy, has_cache=lookup.has_cache, can_build=lookup.can_build)
    if choice is not None:
        return choice
    return Choice.BUILD_THEN_LOOKUP if _building_pays(lookup) else Choice.SCAN


def _building_pays(lookup: FileLookup) -> bool:
    if lookup.keys > _LARGE_SHARE * lookup.rows:
        return False
    return lookup.scanned_micros + scan_micros(lookup) >= build_micros(lookup)


def scan_micros(lookup: FileLookup) -> float:
    """Return the cost of decoding the key column, and the other columns of at most one row group per key."""
    row_bytes = _VALUE_BYTES * max(lookup.stored_columns, 1)
    group_rows = min(_ROW_GROUP_ROWS, _ROW_GROUP_BYTES // row_bytes + 1)
    decoded = min(lookup.rows, lookup.keys * group_rows)
    decoding = lookup.rows * _KEY_MICROS + decoded * lookup.columns * _DECODE_MICROS
    return decoding + (_REMOTE_MICROS if lookup.is_remote else 0.0)


def build_micros(lookup: FileLookup) -> float:
    """Return the cost of decoding and storing all columns, and of indexing the keys."""
    per_row = lookup.stored_columns * (_DECODE_MICROS + _STORE_MICROS) + _INDEX_MICROS
    latency = _REMOTE_MICROS if lookup.is_remote else 0.0
    return _NEW_CACHE_MICROS + lookup.rows * per_row + latency
