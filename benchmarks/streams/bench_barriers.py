"""What barriers cost: the same appends with and without them, a barrier of a base and extras against a plain scan of
the same files, and the opening of a session.

Writes: one writer, 20 appends of so many rows into 1 bucket, each of which completes a barrier, without a changelog and
with that of `lookup`; in the end what is compacted behind commits is waited for, on both sides. The ratio is rows a
second with barriers to those without, per round; the worst append of each side stands beside. Scans: a base of one
file and 0, 10 and 100 files that a lagging writer added, planned and read, against a table without barriers with the
same rows in the same number of files. `bench_barriers_by_clock` has writers that go by the clock.
Sessions: ten tables of so many snapshots each, opened and closed, here and by the service, in another process; and what
all of them say of jobs and barriers, read by another process, which has seen none of it.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
import requests

import widetable as wt
from benchmarks.harness import Row, Size, paired, scratch

_BARRIERS: Final = {"widetable.barrier-interval": "10 ms"}
_APPENDS: Final = 20
COLUMNS: Final = 10
# rows of an append, rounds, extras of scans, snapshots of each of ten tables, openings
SHAPES: Final = {
    Size.FULL: (50_000, 15, (0, 10, 100), 10_000, 300),
    Size.SHORT: (20_000, 5, (0, 10, 100), 200, 50),
    Size.TINY: (100, 1, (0, 2), 3, 3),
}

_REBUILT: Final = """
import sys, time
import widetable as wt
began = time.perf_counter()
topology = wt.Catalog(sys.argv[1]).topology()
assert len(topology.tables()) == 10
counts = topology.rebuild()
print(time.perf_counter() - began)
assert counts["__meta.__META_BARRIER"] >= 10
"""


def run(size: Size = Size.FULL) -> list[Row]:
    rows, rounds, many_extras, snapshots, openings = SHAPES[size]
    with scratch("barriers") as work:
        found = [
            _writes(work / "writes", rows, rounds, "none"),
            _writes(work / "lookups", rows, rounds, "lookup"),
            *(_scans(work / f"scan-{extras}", extras, rows, rounds) for extras in many_extras),
            *_sessions(work / "sessions", snapshots, openings),
        ]
    return [replace(row, ok=None) for row in found] if size is Size.TINY else found


def make_table(
    warehouse: Path, name: str, barriers: bool, *, interval: str | None = None, **options: str
) -> wt.Table:
    columns = {"k": "BIGINT", **{f"c{i}": "BIGINT" for i in range(COLUMNS)}}
    given = {"bucket": "1", "widetable.fsync": "false", "merge-engine": "partial-update"}
    given |= {key.replace("_", "-"): value for key, value in options.items()}
    given |= _BARRIERS if barriers else {}
    given |= {"widetable.barrier-interval": interval} if interval else {}
    return wt.Catalog(warehouse).create_table(name, columns, primary_key=["k"], options=given)


def rows_of_append(number: int, rows: int) -> pa.Table:
    keys = np.arange(rows, dtype=np.int64) + number * rows // 2
    return pa.table({"k": keys, **{f"c{i}": keys + i for i in range(COLUMNS)}})


def _writes(work: Path, rows: int, rounds: int, producer: str) -> Row:
    worst: dict[bool, list[float]] = {True: [], False: []}
    runs = 0

    def appends(barriers: bool) -> float:
        nonlocal runs
        runs += 1
        name = f"bench.t{runs}"
        table = make_table(work, name, barriers, changelog_producer=producer)
        writer = wt.Catalog(work).writer(name, "w") if barriers else None
        took = []
        for number in range(_APPENDS):
            batch = rows_of_append(number, rows)
            began = time.perf_counter()
            if writer is None:
                table.write(batch, "w", number)
            else:
                writer.write(batch, number, barrier=10 * (number + 1), complete=True)
            took.append(time.perf_counter() - began)
        worst[barriers].append(max(took))
        began = time.perf_counter()
        table.wait_for_compactions()
        took.append(time.perf_counter() - began)
        wt.Catalog(work).drop_table(name)
        return sum(took)

    appends(True), appends(False)
    worst = {True: [], False: []}
    ours, theirs, ratio, _ = paired(lambda: appends(True), lambda: appends(False), rounds)
    slowest = {side: float(np.median(found)) for side, found in worst.items()}
    total = rows * _APPENDS
    return Row(
        f"append under barriers, changelog {producer}, rows/s",
        f"{total / ours / 1e6:.2f} M/s, worst append {slowest[True] * 1e3:.0f} ms",
        f"{total / theirs / 1e6:.2f} M/s, worst {slowest[False] * 1e3:.0f} ms without",
        ratio,
        ">= 0.90x",
        ratio >= 0.9,
        {"worst": [slowest[True], slowest[False]]},
    )


def _scans(work: Path, extras: int, rows: int, rounds: int) -> Row:
    """Writer b stays at the first barrier while a goes on; then its late rows are the extras."""
    table = make_table(work, "bench.barriers", True, write_only="true")
    plain = make_table(work, "bench.plain", False, write_only="true")
    catalog = wt.Catalog(work)
    others = [f"c{i}" for i in range(1, COLUMNS)]
    a, b = (
        catalog.writer("bench.barriers", "a", ["c0"]),
        catalog.writer("bench.barriers", "b", others),
    )
    batches = [
        rows_of_append(0, rows),
        *(rows_of_append(0, max(rows // 50, 1)) for _ in range(extras)),
    ]
    b.write(batches[0].select(["k", *others]), barrier=10)
    a.complete(10)
    a.write(batches[0].select(["k", "c0"]), barrier=20, complete=True)
    for batch in batches[1:]:
        b.write(batch.select(["k", *others]), barrier=10)
    b.complete(10)
    for batch in batches:
        plain.write(batch)

    def ours() -> float:
        began = time.perf_counter()
        found = table.scan(barrier=10).to_arrow()
        took = time.perf_counter() - began
        assert found.num_rows == rows
        return took

    def theirs() -> float:
        began = time.perf_counter()
        assert plain.scan().to_arrow().num_rows == rows
        return time.perf_counter() - began

    ours(), theirs()
    mine, other, ratio, _ = paired(ours, theirs, max(rounds, 3))
    return Row(
        f"scan of a barrier, {extras} extras",
        f"{mine * 1e3:.1f} ms",
        f"{other * 1e3:.1f} ms the same files",
        1 / ratio,
        "<= 1.2x" if extras == 10 else "",
        1 / ratio <= 1.2 if extras == 10 else None,
    )


def _sessions(work: Path, snapshots: int, openings: int) -> list[Row]:
    catalog = wt.Catalog(work)
    names = [f"bench.t{i}" for i in range(10)]
    writers = []
    for name in names:
        make_table(work, name, True, write_only="true")
        writers.append(catalog.writer(name, "w"))
        writers[-1].write(rows_of_append(0, 10), barrier=10, complete=True)
    few = max(snapshots // 10, 3)
    rebuilt = []
    for first, last, seconds in ((2, few, 10), (few + 1, snapshots, 30)):
        for writer in writers:
            for number in range(first, last + 1):
                writer.complete(10 * number)
        rebuilt.append(_rebuilt(work, last, seconds))
        for table in catalog.list_tables("__meta"):
            catalog.drop_table(table)
    took = []
    for _ in range(openings):
        began = time.perf_counter()
        with catalog.session(names):
            pass
        took.append(time.perf_counter() - began)
    p50, p99 = _percentiles(took)
    served = _percentiles(_by_rest(work, names, openings))
    tables = f"10 tables x {snapshots:,} snapshots"
    return [
        Row(
            f"open a session, {tables}",
            f"p50 {p50 * 1e3:.1f} ms, p99 {p99 * 1e3:.1f} ms",
            "",
            None,
            "p99 <= 50 ms",
            p99 <= 0.05,
            {"p50": p50, "p99": p99},
        ),
        Row(
            f"open and close a session by REST, {tables}",
            f"p50 {served[0] * 1e3:.1f} ms, p99 {served[1] * 1e3:.1f} ms",
            f"p50 {p50 * 1e3:.1f} ms, p99 {p99 * 1e3:.1f} ms embedded",
            None,
            "p99 <= 100 ms",
            served[1] <= 0.1,
            {"p50": served[0], "p99": served[1]},
        ),
        *rebuilt,
    ]


def _by_rest(work: Path, names: list[str], openings: int) -> list[float]:
    """Seconds of each opening and closing, on one connection."""
    command = [sys.executable, "-m", "widetable", "meta", "serve", str(work), "--port", "0"]
    took = []
    with subprocess.Popen([*command, "--json"], stdout=subprocess.PIPE, text=True) as service:
        try:
            assert service.stdout is not None
            url = json.loads("".join(service.stdout.readline() for _ in range(3)))["url"]
            with requests.Session() as connection:
                connection.trust_env = False
                for number in range(openings + 1):
                    began = time.perf_counter()
                    opened = connection.post(f"{url}/v1/sessions", json={"tables": names})
                    opened.raise_for_status()
                    path = f"{url}/v1/sessions/{opened.json()['id']}"
                    connection.delete(path).raise_for_status()
                    if number:  # the first one finds nothing kept
                        took.append(time.perf_counter() - began)
        finally:
            service.terminate()
    return took


def _percentiles(took: list[float]) -> tuple[float, float]:
    p50, p99 = (float(np.percentile(took, of)) for of in (50, 99))
    return p50, p99


def _rebuilt(work: Path, snapshots: int, seconds: int) -> Row:
    command = [sys.executable, "-c", _REBUILT, str(work)]
    took = float(subprocess.run(command, capture_output=True, check=True).stdout)
    return Row(
        f"topology and __meta anew, 10 tables x {snapshots:,} snapshots",
        f"{took:.2f} s",
        "",
        None,
        f"<= {seconds} s",
        took <= seconds,
        {"seconds": took},
    )
