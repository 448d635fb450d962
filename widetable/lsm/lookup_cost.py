"""Scan a data file for keys, look them up in its cache, or build the cache first: what costs least. Pure.

Times are CPU time per row and column, measured (docs/facts/engine.md section A: 1 M rows of 60 columns), and what an
object store lets one wait. Only ratios matter. A cache that is there is always used: its mapped rows cost less than
Parquet even where every row is asked for. Building one costs more than any single scan, so it pays only when lookups
come again, which nobody knows. So it is built when scans of the file have cost as much as it would: then at most twice
the time is spent that the best choice would have taken, whatever comes. It is not built for a batch that is a large
part of the file: the file is merged into another one soon.

    file of 1 M rows, 60 columns, all wanted      build 1405 ms
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

# Per row: its key decoded and compared. Per row and column: decoded; stored in a cache. Per
# row: indexed there.
_KEY_MICROS: Final = 0.01
_DECODE_MICROS: Final = 0.015
_STORE_MICROS: Final = 0.0045
_INDEX_MICROS: Final = 0.21
# Opening and closing a new RocksDB, and putting it in place.
_NEW_CACHE_MICROS: Final = 25_000.0

# About how large row groups are, and a value in them.
_ROW_GROUP_BYTES: Final = 16 << 20
_ROW_GROUP_ROWS: Final = 128 << 10
_VALUE_BYTES: Final = 9
# Of a file in an object store: the footer, and what is found by it.
_FAR_MICROS: Final = 60_000.0

# Files of which a batch wants more than this share are not worth a cache.
_LARGE_SHARE: Final = 0.25


class Choice(Enum):
    """What to do with one data file."""

    SCAN = "scan"
    LOOKUP = "lookup"
    BUILD_THEN_LOOKUP = "build, then lookup"


@dataclass(frozen=True)
class FileLookup:
    """One data file, and what is asked of it.

    rows: of the file. keys: to look for in it, all batches together. columns: that are wanted. stored_columns: that the
    file has, which is what a cache holds. scanned_micros: what scans of the file have cost before, by `scan_micros`.
    is_far: reading the file is requests to a store.
    """

    rows: int
    keys: int
    columns: int
    stored_columns: int
    has_cache: bool
    can_build: bool
    scanned_micros: float = 0.0
    is_far: bool = False


def settled(strategy: str, *, has_cache: bool, can_build: bool) -> Choice | None:
    """The choice where it does not depend on costs, and so not on what the file holds; None where it does.

    strategy: of option `widetable.lookup-strategy`; `lookup` scans only where no cache can be.
    """
    if strategy == SCAN_STRATEGY:
        return Choice.SCAN
    if has_cache:
        return Choice.LOOKUP
    if not can_build:
        return Choice.SCAN
    return Choice.BUILD_THEN_LOOKUP if strategy == LOOKUP_STRATEGY else None


def choose(lookup: FileLookup, strategy: str) -> Choice:
    """strategy: see `settled`."""
    choice = settled(strategy, has_cache=lookup.has_cache, can_build=lookup.can_build)
    if choice is not None:
        return choice
    return Choice.BUILD_THEN_LOOKUP if _building_pays(lookup) else Choice.SCAN


def _building_pays(lookup: FileLookup) -> bool:
    if lookup.keys > _LARGE_SHARE * lookup.rows:
        return False
    return lookup.scanned_micros + scan_micros(lookup) >= build_micros(lookup)


def scan_micros(lookup: FileLookup) -> float:
    """The key column, and the other columns of the row groups that have keys: at worst each key is in its own."""
    row_bytes = _VALUE_BYTES * max(lookup.stored_columns, 1)
    group_rows = min(_ROW_GROUP_ROWS, _ROW_GROUP_BYTES // row_bytes + 1)
    decoded = min(lookup.rows, lookup.keys * group_rows)
    decoding = lookup.rows * _KEY_MICROS + decoded * lookup.columns * _DECODE_MICROS
    return decoding + (_FAR_MICROS if lookup.is_far else 0.0)


def build_micros(lookup: FileLookup) -> float:
    """All columns decoded and stored, and the keys indexed."""
    per_row = lookup.stored_columns * (_DECODE_MICROS + _STORE_MICROS) + _INDEX_MICROS
    return _NEW_CACHE_MICROS + lookup.rows * per_row + (_FAR_MICROS if lookup.is_far else 0.0)
