"""A table of 10,000 buckets with two level-0 files in each: planning a scan and one maintainer's round, which compacts
them all, each in a process of its own; and commits on top of 1,000 to 100,000 snapshots.

Of the snapshots most are copies of one with other ids: a commit looks for the newest, and reads what that names.
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from pathlib import Path

import widetable as wt
from benchmarks.harness import PeakMemory, Row, child_json, scratch

BUCKETS, ROWS = 10_000, 100_000
PLAN_SECONDS, PLAN_MIB, ROUND_MIB = 2.0, 256, 512
SNAPSHOTS, SAMPLES, GROWTH = (1_000, 10_000, 100_000), 50, 1.5
_COLUMNS = {"k": "BIGINT", "v": "BIGINT"}
_OPTIONS = {
    "write-only": "true",
    "widetable.fsync": "false",
    "num-sorted-run.compaction-trigger": "2",
}


def run() -> list[Row]:
    with scratch("many_buckets") as work:
        catalog = wt.Catalog(str(work))
        table = catalog.create_table(
            "bench.buckets",
            _COLUMNS,
            primary_key=["k"],
            options={**_OPTIONS, "bucket": str(BUCKETS)},
        )
        for number in range(2):
            table.write({"k": list(range(ROWS)), "v": [number] * ROWS})
        plan = child_json(__name__, "plan", table.path)
        done = child_json(__name__, "round", table.path)
        commits = _commits(catalog)
    return [
        _row(
            "plan",
            plan,
            f"<= {PLAN_SECONDS:g} s, {PLAN_MIB} MiB",
            plan["seconds"] <= PLAN_SECONDS and plan["mib"] <= PLAN_MIB,
        ),
        _row("round of a maintainer", done, f"{ROUND_MIB} MiB", done["mib"] <= ROUND_MIB),
        commits,
    ]


def _row(what: str, found: dict[str, float], target: str, ok: bool) -> Row:
    text = f"{found['seconds']:.1f} s, {found['cpu']:.1f} s CPU, {found['mib']:.0f} MiB grown"
    return Row(f"{what}, {BUCKETS:,} buckets", text, target=target, ok=ok, details=found)


def _commits(catalog: wt.Catalog) -> Row:
    table = catalog.create_table(
        "bench.snapshots", _COLUMNS, primary_key=["k"], options={**_OPTIONS, "bucket": "1"}
    )
    cpu: dict[int, float] = {}
    for size in SNAPSHOTS:
        _commit(table, -size)
        _fill(table, size)
        wt.Table.open(table.path)
        cpu[size] = statistics.median(_commit(table, size + each) for each in range(SAMPLES))
    growth = cpu[SNAPSHOTS[-1]] / cpu[SNAPSHOTS[0]]
    return Row(
        "commit, 1,000 -> 100,000 snapshots, CPU",
        ", ".join(f"{size:,}: {cpu[size] * 1e3:.1f} ms" for size in SNAPSHOTS),
        ratio=growth,
        target=f"<= {GROWTH:g}x",
        ok=growth <= GROWTH,
        details={str(size): seconds for size, seconds in cpu.items()},
    )


def _fill(table: wt.Table, size: int) -> None:
    """Copies of the newest snapshot up to that id."""
    folder = Path(table.path, "snapshot")
    newest = table.snapshots()[-1].id
    body = json.loads((folder / f"snapshot-{newest}").read_text())
    for id in range(newest + 1, size + 1):
        (folder / f"snapshot-{id}").write_text(json.dumps(body | {"id": id}))
    (folder / "LATEST").write_text(str(size))


def _commit(table: wt.Table, key: int) -> float:
    with table.new_writer(["k", "v"]) as writer:
        writer.write({"k": [key], "v": [key]})
        messages = writer.finish()
    start = time.process_time()
    table.commit_append(messages)
    return time.process_time() - start


def _child(what: str, path: str) -> None:
    table = wt.Table.open(path)
    with PeakMemory() as memory:
        start, cpu = time.perf_counter(), time.process_time()
        if what == "plan":
            assert len(table.scan().splits()) == BUCKETS
        else:
            assert table.maintain(once=True).compactions
        seconds, cpu = time.perf_counter() - start, time.process_time() - cpu
    grown = (memory.peak_bytes - memory.before_bytes) / 2**20
    print(json.dumps({"seconds": seconds, "cpu": cpu, "mib": grown}))


if __name__ == "__main__":
    _child(*sys.argv[1:])
