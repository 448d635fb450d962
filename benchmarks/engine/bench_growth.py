"""What a micro-batch costs as the table grows: 100 K records with their lookup changelog, into 1 M and into 10 M keys.

Both tables hold the rows of two_groups.py in one bucket, fully compacted before the first batch. Keys are drawn from
the whole table. A pair is a batch into the small table and one of the same number into the large one; the ratio is the
median over the pairs. The first batches, which find no caches, are told apart.
"""

from __future__ import annotations

import statistics
import time
from pathlib import Path

import numpy as np

import widetable as wt
from benchmarks import two_groups
from benchmarks.harness import Row, Size, paired, scratch

TARGET = 1.5
_BUILD_ROWS, _SEED = 500_000, 3

# keys of the small table, of the large one, rows of a batch, pairs
SHAPES = {
    Size.FULL: (1_000_000, 10_000_000, 100_000, 9),
    Size.SHORT: (50_000, 500_000, 20_000, 5),
    Size.TINY: (500, 2_000, 200, 2),
}


def run(size: Size = Size.FULL) -> list[Row]:
    small_keys, large_keys, rows, pairs = SHAPES[size]
    with scratch("growth") as work:
        small = _Batches(filled_table(work / "small", small_keys), small_keys, rows)
        large = _Batches(filled_table(work / "large", large_keys), large_keys, rows)
        first = small.write(), large.write()
        small_s, large_s, ratio, seconds = paired(small.write, large.write, pairs)
    mean = statistics.mean(b for _, b in seconds) / statistics.mean(a for a, _ in seconds)
    return [
        Row(
            f"batch of {rows // 1000} K rows, {large_keys / small_keys:.0f}x the keys",
            f"{small_s:.2f} s at {small_keys:,} keys",
            f"{large_s:.2f} s at {large_keys:,} keys",
            ratio,
            f"<= {TARGET}",
            ratio <= TARGET if size is Size.FULL else None,
            {"pairs": seconds, "first": first, "ratio of means": mean},
        )
    ]


def filled_table(warehouse: Path, keys: int) -> wt.Table:
    """Keys 0 .. keys - 1 with full rows, compacted into the bottom level; then it makes a lookup changelog."""
    catalog, name = wt.Catalog(str(warehouse)), "bench.growth"
    options = two_groups.OPTIONS | {"changelog-producer": "none", "write-only": "true"}
    table = catalog.create_table(name, two_groups.schema(), primary_key=["k"], options=options)
    rng = np.random.default_rng(_SEED)
    for start in range(0, keys, _BUILD_ROWS):
        table.write(two_groups.base_rows(rng, np.arange(start, min(start + _BUILD_ROWS, keys))))
    table.compact(full=True)
    return catalog.alter_table(
        name,
        set_options={"changelog-producer": "lookup"},
        remove_options=["write-only"],
    )


class _Batches:
    """Commits of so many records into a table, keys drawn from all that it has."""

    def __init__(self, table: wt.Table, keys: int, rows: int) -> None:
        self._table, self._keys, self._rows = table, keys, rows
        self._rng = np.random.default_rng(_SEED)
        self._written = 0

    def write(self) -> float:
        """Seconds of one commit, with its changelog and what it leaves to be compacted behind it."""
        keys = self._rng.integers(0, self._keys, self._rows)
        rows = two_groups.commit(self._rng, self._rows, keys, self._written).to_arrow()
        self._written += self._rows
        start = time.perf_counter()
        self._table.write(rows)
        self._table.wait_for_compactions()
        return time.perf_counter() - start
