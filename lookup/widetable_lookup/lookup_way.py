"""How keys are found in one cache: by its key index, or by a search through its mapped key columns. Pure.

Measured (1 M rows, all in the page cache, microseconds per key while other work ran; only ratios matter):

    keys                            1,000    10,000   100,000
    one number       search, hits   0.9      0.19     0.04
                     index, hits    6        3.2      2.6
                     index, misses  0.9      0.72     0.88
    text             search         7        2.4      1.1       hits and misses alike
                     index, hits    6        3.8      3.1
                     index, misses  0.9      0.77     1.5

The search costs what the distance between two keys costs; the index costs the same per key, of which misses are cheap
because its bloom filter knows them. One number is searched faster than RocksDB answers in every case, with cold pages
too (1,000 keys at once: 27 ms against 270 ms): such keys get no index, which is most of the time that a cache takes to
build.
"""

from __future__ import annotations

from enum import Enum
from typing import Final

# Microseconds per key.
_INDEX_HIT: Final = 3.2
_INDEX_MISS: Final = 0.9
_SEARCH_PER_DOUBLING: Final = 0.4


class Way(Enum):
    """How to find keys."""

    INDEX = "index"
    SEARCH = "search"


def needs_index(*, is_number: bool) -> bool:
    """Whether a cache has a key index. is_number: the key is one signed column (key_columns.py)."""
    return not is_number


def choose(keys: int, rows: int, hit_share: float, *, has_index: bool) -> Way:
    """keys: to be found among so many rows. hit_share: of the keys, 0 to 1, as far as one can tell."""
    if not has_index:
        return Way.SEARCH
    index_micros = _INDEX_MISS + (_INDEX_HIT - _INDEX_MISS) * hit_share
    doublings = max(rows / max(keys, 1), 2.0)
    return Way.INDEX if doublings > 2.0 ** (index_micros / _SEARCH_PER_DOUBLING) else Way.SEARCH
