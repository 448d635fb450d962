"""Rows by key: `table.lookup` and the lookup caches alone, on compacted tables of 1 M and 10 M keys x 20 columns.

Keys are int64 or texts of 16 bytes; of a table's range every other key is there, so misses fall between hits. Each
batch has new random keys. Warm: the median of calls in one process. Cold: the first call of a fresh process (imports
done, the caches on disk, their pages in memory). Cache alone: one data file's cache, sorted keys, all columns.
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import widetable as wt
from benchmarks.engine.wide_rows import wide_rows, wide_schema
from benchmarks.harness import Row, Size, child_json, scratch
from widetable.operations.handle.lookup_caches import caches_of

COLUMNS, TARGET_MICROS = 20, 1.0
_BUILD_ROWS, _SEED = 500_000, 4
_OPTIONS = {"bucket": "1", "write-only": "true", "widetable.lookup-strategy": "lookup"}


@dataclass(frozen=True)
class _LookupShape:
    """counts: keys of the tables. calls: for each size of a batch. is_fresh: each size in a process of its own."""

    counts: tuple[int, ...]
    kinds: tuple[str, ...]
    batches: tuple[int, ...]
    calls: int
    is_fresh: bool = True


SHAPES = {
    Size.FULL: _LookupShape((1_000_000, 10_000_000), ("int", "text"), (1_000, 10_000, 100_000), 7),
    Size.SHORT: _LookupShape((200_000,), ("int", "text"), (1_000, 10_000), 5),
    Size.TINY: _LookupShape((1_000,), ("text",), (100,), 2, is_fresh=False),
}


def run(size: Size = Size.FULL) -> list[Row]:
    shape = SHAPES[size]
    with scratch("lookup") as work:
        return [
            row
            for count in shape.counts
            for kind in shape.kinds
            for row in _measured(work, kind, count, shape, is_full=size is Size.FULL)
        ]


def keys_of(kind: str, numbers: np.ndarray) -> pa.Array:
    """The keys with these numbers: int64, or texts that sort like them."""
    if kind == "int":
        return pa.array(numbers, pa.int64())
    digits = numbers[:, None] // 10 ** np.arange(15, -1, -1) % 10
    texts = np.ascontiguousarray((digits + ord("0")).astype(np.uint8))
    offsets = np.arange(0, 16 * (len(numbers) + 1), 16, dtype=np.int32)
    return pa.StringArray.from_buffers(len(numbers), pa.py_buffer(offsets), pa.py_buffer(texts))


def filled_table(warehouse: Path, kind: str, count: int) -> wt.Table:
    """`count` rows with the even keys below 2 x count, in one sorted run of the bottom level."""
    key = pa.field("k", keys_of(kind, np.arange(0)).type, nullable=False)
    schema = wide_schema(COLUMNS).set(0, key)
    table = wt.Catalog(str(warehouse)).create_table(
        f"bench.{kind}{count}", schema, primary_key=["k"], options=_OPTIONS
    )
    rows = min(count, _BUILD_ROWS)
    values = wide_rows(wide_schema(COLUMNS), np.arange(rows), seed=_SEED)
    for start in range(0, count, rows):
        keys = keys_of(kind, np.arange(start, min(start + rows, count)) * 2)
        table.write(values.slice(0, len(keys)).set_column(0, key, keys))
    table.compact(full=True)
    return table


def _measured(
    work: Path, kind: str, count: int, shape: _LookupShape, *, is_full: bool
) -> list[Row]:
    table = filled_table(work, kind, count)
    start = time.perf_counter()
    table.lookup(keys_of(kind, np.linspace(0, count - 1, 500).astype(np.int64) * 2))
    details = {"first lookup, which builds the caches, s": time.perf_counter() - start}
    rows = []
    for what in ("hit", "miss", "cache"):
        micros = {
            batch: _calls((table.path, what, kind, count, batch, shape.calls), shape)
            for batch in shape.batches
        }
        end_to_end = what != "cache"
        name = f"lookup, {count:,} {kind} keys, " + (what if end_to_end else "hit, cache alone")
        if not all(micros.values()):
            rows.append(Row(name, "not measured: no lookup caches here"))
            continue
        warm = [statistics.median(calls[1:]) for calls in micros.values()]
        cold = [calls[0] * batch / 1e3 for batch, calls in micros.items()]
        sizes = "/".join(f"{batch:,}" for batch in shape.batches)
        rows.append(
            Row(
                name,
                f"{sizes} keys: " + "/".join(f"{each:.2f}" for each in warm) + " us/row",
                "cold: " + "/".join(f"{each:.0f}" for each in cold) + " ms a call",
                warm[-1],
                f"<= {TARGET_MICROS:.0f} us/row" if end_to_end else "",
                warm[-1] <= TARGET_MICROS if is_full and end_to_end else None,
                details | {"micros": micros},
            )
        )
    return rows


def _calls(work: tuple[str, str, str, int, int, int], shape: _LookupShape) -> list[float]:
    """What `_child` gives, in a fresh process if the shape says so."""
    if not shape.is_fresh:
        return _child(*work)
    micros: list[float] = child_json("benchmarks.lookups.bench_lookup", *work)["micros"]
    return micros


def _child(path: str, what: str, kind: str, count: int, batch: int, calls: int) -> list[float]:
    """Microseconds per row of each call; the first is cold: nothing of the package ran before it."""
    table, rng = wt.Table.open(path), np.random.default_rng(_SEED + batch)
    if what == "cache":
        return _cache_alone(table, batch, calls, rng)
    micros = []
    for _ in range(calls + 1):
        keys = keys_of(kind, rng.integers(0, count, batch) * 2 + (what == "miss"))
        start = time.perf_counter()
        found = table.lookup(keys)
        micros.append((time.perf_counter() - start) / batch * 1e6)
        assert found.column("k").null_count == (batch if what == "miss" else 0)
    return micros


def _cache_alone(table: wt.Table, batch: int, calls: int, rng: np.random.Generator) -> list[float]:
    """Each call opens the cache of the largest file, finds sorted keys of that file, and closes it; no call
    without caches.
    """
    state = table._state(table.schema)
    split = table.scan().splits()[0]
    file = max(split.files, key=lambda each: each.row_count)
    path = state.data_file(split.bucket, file.file_name)
    held = pq.read_table(path, columns=["k"]).column("k").combine_chunks()
    caches = caches_of(state)
    if caches is None:
        return []
    micros = []
    for _ in range(calls + 1):
        rows = np.sort(rng.choice(len(held), min(batch, len(held)), replace=False))
        keys = pa.record_batch([held.take(pa.array(rows))], ["k"])
        start = time.perf_counter()
        cache = caches.open(state, path, file, table.schema.names)
        assert cache is not None
        found = cache.find(keys)
        micros.append((time.perf_counter() - start) / len(rows) * 1e6)
        cache.close()
        assert len(found.hits) == len(rows)
    return micros


if __name__ == "__main__":
    arguments = sys.argv[1:]
    path, what, kind = arguments[:3]
    count, batch, calls = map(int, arguments[3:])
    print(json.dumps({"micros": _child(path, what, kind, count, batch, calls)}))
