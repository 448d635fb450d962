"""One process of the workload `contention`: `python -m benchmarks.contention_process writer|maintainer TABLE …`.

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

SCHEMA = pa.schema(
    [pa.field("k", pa.int64(), nullable=False), ("a", pa.int64()), ("b", pa.string())]
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


def write(warehouse: str, number: int, commits: int, rows: int) -> None:
    _warm_up(rows)
    table, rng = open_table(warehouse), np.random.default_rng(number)
    print("ready", flush=True)
    sys.stdin.readline()
    spans, lost, failed = [], [], []
    cpu_s = time.process_time()
    for identifier in range(commits):
        data, began = batch(rng, rows), time.time()
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
    if sys.argv[1] == "writer":
        write(sys.argv[2], *map(int, sys.argv[3:]))
    else:
        maintain(sys.argv[2])
