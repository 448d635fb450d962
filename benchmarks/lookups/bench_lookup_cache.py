"""What lookup caches take: disk against the bytes of the table's data files, memory of a process that looks rows up.

Tables of bench_lookup.py, by int and by text keys; all data files get a cache. Memory: how much anonymous memory a
process of its own grows at most while it looks up batches of random keys, after a lookup in another table has warmed
the kernels. Mapped pages of caches are the operating system's, not counted.
"""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import widetable as wt
from benchmarks.harness import PeakMemory, Row, Size, child_json, scratch
from benchmarks.lookups.bench_lookup import filled_table, keys_of
from widetable_lookup import cache_statistics

_SEED = 6


@dataclass(frozen=True)
class _CacheShape:
    """keys: of the table. batch: keys of a call."""

    keys: int
    batch: int
    calls: int


SHAPES = {
    Size.FULL: _CacheShape(2_000_000, 10_000, 50),
    Size.SHORT: _CacheShape(200_000, 10_000, 20),
    Size.TINY: _CacheShape(1_000, 100, 2),
}


def run(size: Size = Size.FULL) -> list[Row]:
    shape = SHAPES[size]
    kinds = ("text",) if size is Size.TINY else ("int", "text")
    with scratch("lookup_cache") as work:
        return [row for kind in kinds for row in _measured(work, kind, shape)]


def _measured(work: Path, kind: str, shape: _CacheShape) -> list[Row]:
    table = filled_table(work, kind, shape.keys)
    warm = filled_table(work / "warm", kind, 1_000)
    table_bytes = sum(file.file_size for split in table.scan().splits() for file in split.files)
    done = child_json(
        "benchmarks.lookups.bench_lookup_cache",
        *(table.path, warm.path, kind, shape.keys, shape.batch, shape.calls),
    )
    caches = cache_statistics(table.path)
    grown_bytes = done["peak"] - done["before"]
    name = f"{shape.keys:,} {kind} keys"
    return [
        Row(
            f"disk of lookup caches, {name}",
            f"{caches.disk_bytes / 2**20:.0f} MiB in {caches.caches}",
            f"table {table_bytes / 2**20:.0f} MiB",
            caches.disk_bytes / table_bytes,
        ),
        Row(
            f"memory of lookups, {name}",
            f"{grown_bytes / 2**20:.0f} MiB grown",
            f"rows of a call {done['rows'] / 2**20:.1f} MiB",
            grown_bytes / table_bytes,
            details=done,
        ),
    ]


def _child(path: str, warm: str, kind: str, count: int, batch: int, calls: int) -> dict[str, int]:
    """Bytes of anonymous memory before and at the peak, and of the largest answer."""
    table, rng = wt.Table.open(path), np.random.default_rng(_SEED)
    wt.Table.open(warm).lookup(keys_of(kind, np.arange(0, 1_000, 2)))
    largest = 0
    with PeakMemory() as memory:
        for _ in range(calls):
            found = table.lookup(keys_of(kind, rng.integers(0, count, batch) * 2))
            largest = max(largest, found.nbytes)
            assert not found.column("k").null_count
    return {"before": memory.before_bytes, "peak": memory.peak_bytes, "rows": largest}


if __name__ == "__main__":
    path, warm, kind = sys.argv[1:4]
    count, batch, calls = map(int, sys.argv[4:])
    print(json.dumps(_child(path, warm, kind, count, batch, calls)))
