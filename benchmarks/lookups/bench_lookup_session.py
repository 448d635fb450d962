"""A lookup session: the fixed cost of a call, and point reads.

Fixed cost: 1,000 keys a call, 90 % hits, 4 columns of 20, of a table of 1 M rows in 1, 4 and 16 buckets of five sorted
runs each (partial-update, lookup changelog); CPU of a call, median. Point reads: 1, 10 and 100 keys of a compacted
table of 1 M rows, all 20 columns, all pages of its cache checked before; wall, median; by one thread, and by threads
that share the session.
"""

from __future__ import annotations

import statistics
import time
from dataclasses import dataclass
from pathlib import Path
from threading import Thread

import numpy as np
import pyarrow as pa

import widetable as wt
from benchmarks.engine.wide_rows import wide_rows, wide_schema
from benchmarks.harness import Row, Size, scratch

COLUMNS, RUNS, KEYS, _SEED = 20, 5, 1_000, 7
_ASKED = ["c0", "c1", "c3", "c9"]
_TARGET_MILLIS = {1: 5.0, 4: 10.0, 16: 30.0}
_THREADS = (1, 2, 4, 16)
_OPTIONS = {
    "merge-engine": "partial-update",
    "changelog-producer": "lookup",
    "widetable.lookup-strategy": "lookup",
    "num-sorted-run.compaction-trigger": "9",
}


@dataclass(frozen=True)
class _SessionShape:
    """rows: of the table. warm: calls before those that count, so that kernels are compiled and pages checked."""

    rows: int
    buckets: tuple[int, ...]
    points: tuple[int, ...]
    warm: int
    calls: int


SHAPES = {
    Size.FULL: _SessionShape(1_000_000, (1, 4, 16), (1, 10, 100), 200, 101),
    Size.SHORT: _SessionShape(200_000, (1, 4), (1, 100), 100, 51),
    Size.TINY: _SessionShape(2_000, (2,), (1,), 2, 3),
}


def run(size: Size = Size.FULL) -> list[Row]:
    shape = SHAPES[size]
    is_full = size is Size.FULL
    with scratch("lookup_session") as work:
        rows = [_fixed_cost(work, buckets, shape, is_full=is_full) for buckets in shape.buckets]
        table = table_of_runs(work, 1, shape.rows, runs=1)
        with table.lookup_session() as session:
            session.lookup(np.arange(shape.rows))
            for keys in shape.points:
                for threads in _THREADS:
                    rows.append(_points(session, keys, threads, shape, is_full=is_full))
        return rows


def table_of_runs(warehouse: Path, buckets: int, rows: int, runs: int = RUNS) -> wt.Table:
    """A base with all keys below `rows`, and smaller runs of some of them above it."""
    schema = wide_schema(COLUMNS)
    table = wt.Catalog(str(warehouse)).create_table(
        f"bench.b{buckets}r{runs}",
        schema,
        primary_key=["k"],
        options=_OPTIONS | {"bucket": str(buckets)},
    )
    rng = np.random.default_rng(_SEED)
    table.write(wide_rows(schema, np.arange(rows), _SEED))
    table.compact(full=True)
    for number in range(1, runs):
        keys = np.sort(rng.choice(rows, max(rows // 4**number // 2, 1), replace=False))
        table.write(wide_rows(schema, keys, _SEED + number))
    table.wait_for_compactions()
    return table


def runs_of(table: wt.Table) -> int:
    """Sorted runs of a bucket, at most."""
    return max(len({file.level for file in split.files}) for split in table.scan().splits())


def _fixed_cost(work: Path, buckets: int, shape: _SessionShape, *, is_full: bool) -> Row:
    table = table_of_runs(work, buckets, shape.rows)
    rng = np.random.default_rng(_SEED)
    taken = []
    with table.lookup_session(_ASKED) as session:
        for number in range(shape.warm + shape.calls):
            keys = rng.integers(0, int(shape.rows / 0.9), min(KEYS, shape.rows))
            cpu = time.process_time()
            session.lookup(keys)
            if number >= shape.warm:
                taken.append(1e3 * (time.process_time() - cpu))
    median = statistics.median(taken)
    target = _TARGET_MILLIS.get(buckets, 0.0) if is_full else 0.0
    return Row(
        f"lookup session, {KEYS:,} keys, {buckets} buckets x {runs_of(table)} runs",
        f"{median:.1f} ms CPU a call",
        target=f"<= {target:g} ms" if target else "",
        ok=median <= target if target else None,
        details={"millis": taken},
    )


def _points(
    session: wt.LookupSession, keys: int, threads: int, shape: _SessionShape, *, is_full: bool
) -> Row:
    taken: list[float] = []

    def ask(seed: int) -> None:
        rng = np.random.default_rng(seed)
        for number in range(shape.warm + shape.calls):
            asked = pa.array(rng.integers(0, shape.rows, keys))
            began = time.perf_counter()
            found = session.lookup(asked)
            if number >= shape.warm:
                taken.append(1e3 * (time.perf_counter() - began))
            assert found.column("k").null_count == 0

    running = [Thread(target=ask, args=(seed,)) for seed in range(threads)]
    began = time.perf_counter()
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()
    seconds = time.perf_counter() - began
    median, calls = statistics.median(taken), threads * (shape.warm + shape.calls)
    by = "" if threads == 1 else f", {threads} threads"
    is_judged = is_full and threads <= 4
    return Row(
        f"lookup session, {keys} keys, all columns{by}",
        f"{median:.2f} ms a call, {calls / seconds:,.0f} calls/s",
        target="<= 1 ms" if is_judged else "",
        ok=median <= 1 if is_judged else None,
        details={"millis": taken},
    )
