"""One process of the workload `contention`: arguments writer|owner|sharer|maintainer and
TABLE …. An owner writes columns of its own into a partial-update table, a sharer those that all write.

A writer prints "ready" when it is warm, waits for a line on stdin, makes its commits as fast as they go, and prints as
JSON when they began and ended (epoch seconds), how many races each lost, what failed,
and the CPU seconds of all. A maintainer runs until its
stdin ends.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pyarrow as pa

import widetable as wt

COLUMNS = {"a": pa.int64(), "b": pa.string()}
SCHEMA = pa.schema(
    [pa.field("k", pa.int64(), nullable=False), ("a", pa.int64()), ("b", pa.string())]
)
# For owners and sharers: a pair of columns for each of so many writers.
PAIRS = 8
WIDE_SCHEMA = pa.schema(
    [
        pa.field("k", pa.int64(), nullable=False),
        *((f"{name}{n}", kind) for n in range(PAIRS) for name, kind in COLUMNS.items()),
    ]
)
KEYS = 100_000


def open_table(path: str) -> wt.Table:
    """The table of that warehouse."""
    return wt.Catalog(path).table("bench.contention")


def batch(rng: np.random.Generator, rows: int) -> pa.Table:
    keys = rng.integers(0, KEYS, rows)
    return pa.table({"k": keys, "a": keys * 2, "b": [f"b{key}" for key in keys]}, SCHEMA)


def _warm_up(rows: int) -> None:
    """Compiles what a commit needs, in a table of its own."""
    with TemporaryDirectory() as place:
        options = {"bucket": "1", "changelog-producer": "lookup"}
        table = wt.Catalog(place).create_table(
            "bench.warm", SCHEMA, primary_key=["k"], options=options
        )
        for number in range(3):
            table.write(batch(np.random.default_rng(number), rows))


def write(warehouse: str, number: int, commits: int, rows: int, suffix: str = "") -> None:
    """suffix: of the names of the two columns that it writes."""
    _warm_up(rows)
    table, rng = open_table(warehouse), np.random.default_rng(number)
    print("ready", flush=True)
    sys.stdin.readline()
    spans, lost, failed = [], [], []
    cpu_s = time.process_time()
    for identifier in range(commits):
        data = batch(rng, rows).rename_columns(["k", f"a{suffix}", f"b{suffix}"])
        began = time.time()
        try:
            lost.append(table.write(data, f"writer-{number}", identifier).retries)
        except wt.WidetableError as error:
            failed.append(str(error))
        spans.append((began, time.time()))
    table.wait_for_compactions()
    cpu_s = time.process_time() - cpu_s
    print(json.dumps({"spans": spans, "lost": lost, "failed": failed, "cpu_s": cpu_s}), flush=True)
    sys.stdin.read()  # the end of a process takes a while, too, and others may not be done


def maintain(warehouse: str) -> None:
    _warm_up(10)
    stop = threading.Event()
    table = open_table(warehouse)
    print("ready", flush=True)
    thread = threading.Thread(target=lambda: table.maintain(interval_millis=100, stop=stop))
    thread.start()
    sys.stdin.read()
    stop.set()
    thread.join()


if __name__ == "__main__":
    os.environ.setdefault("WIDETABLE_CACHE_DIR", str(Path(sys.argv[2]) / "caches"))
    role, place, numbers = sys.argv[1], sys.argv[2], [int(text) for text in sys.argv[3:]]
    if role == "maintainer":
        maintain(place)
    else:
        number, commits, rows = numbers
        suffixes = {"writer": "", "owner": str(number), "sharer": "0"}
        write(place, number, commits, rows, suffixes[role])
