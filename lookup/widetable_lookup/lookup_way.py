"""The choice how keys are found in one cache: by its key index, or by a search in its mapped key columns. Pure.

Measured (1 M rows, texts 2 M, all in the page cache, microseconds per key, on two days; only ratios matter):

    keys                             100     1,000    10,000   100,000
    one number      search           2.4     0.9      0.19     0.04        hits and misses alike
                    index, hits      70      15       3.3      2.5
                    index, misses    2.9     0.9      0.72     0.88
    text            search           3.0     1.7      0.87     0.53        hits and misses alike
                    index, hits      7.8     6.2      4.3      3.1
                    index, misses    1.6     1.2      1.1      1.0

The cost of the search grows with the distance between two keys. The index costs more for each hit (and much more while
its blocks are not in the block cache, as with the few keys above), but little for a miss: its bloom filter finds it.
One number is searched faster than RocksDB answers in every case, with cold pages too (1,000 keys at once: 27 ms against
270 ms): such keys get no index, which is most of the time that a cache takes to build.
"""

from __future__ import annotations

import math
from enum import Enum
from typing import Final

# Microseconds per key; of the search, for each doubling of the distance between two keys.
_INDEX_HIT: Final = 3.2
_INDEX_MISS: Final = 0.9
_SEARCH_PER_DOUBLING: Final = 0.1


class Way(Enum):
    """How to find keys."""

    INDEX = "index"
    SEARCH = "search"


def choose(keys: int, rows: int, hit_share: float, *, has_index: bool) -> Way:
    """Choose the way. keys: the number of keys to find among so many rows; hit_share: the known share of hits, 0 to 1.

    With 1 M rows the index is used for 100 keys if at most 18 of 100 hit, for 1,000 if 4 do, for 10,000 never.
    """
    if not has_index:
        return Way.SEARCH
    index_micros = _INDEX_MISS + (_INDEX_HIT - _INDEX_MISS) * hit_share
    search_micros = _SEARCH_PER_DOUBLING * math.log2(max(rows / max(keys, 1), 2.0))
    return Way.INDEX if index_micros < search_micros else Way.SEARCH
