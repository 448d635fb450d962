"""A process that is forked again and again while its threads write, scan, look up and compact:
`python -m tests.support.faults.forking_process FOLDER CHILDREN`.

Each child writes to a table of its parent and to one of its own, scans, looks up, and ends: by `sys.exit`, or at once.
One that has not ended after LIMIT_SECONDS hangs: its threads are printed. Exit code 0: all ended well, and the tables
keep their laws.
"""

from __future__ import annotations

import contextlib
import faulthandler
import os
import random
import signal
import sys
import threading
import time
import traceback
import warnings
from collections.abc import Callable
from typing import NoReturn

import pyarrow as pa

import widetable as wt

LIMIT_SECONDS = 1500
SCHEMA = pa.schema([pa.field("s", pa.string(), nullable=False), ("a", pa.int64())])
OPTIONS = {
    "bucket": "2",
    "changelog-producer": "lookup",
    "merge-engine": "partial-update",
    "num-sorted-run.compaction-trigger": "3",
    "widetable.fsync": "false",
    "widetable.lookup-strategy": "lookup",
    "snapshot.num-retained.min": "5",
    "snapshot.num-retained.max": "30",
    "snapshot.time-retained": "1 s",
}
KEYS = pa.table({"s": [f"key {k}" for k in range(100)]})


def create(folder: str, name: str, **options: str) -> wt.Table:
    return wt.Catalog(folder).create_table(
        f"db.{name}", SCHEMA, primary_key=["s"], options=OPTIONS | options
    )


def rows(number: int) -> pa.Table:
    keys = range(number % 7, number % 7 + 200)
    return pa.table({"s": [f"key {k}" for k in keys], "a": [number] * len(keys)}, SCHEMA)


def _child(folder: str, number: int, shared: wt.Table) -> None:
    table = wt.Table.open(shared.path)
    own = create(folder, f"own{number}")
    for written in (table, own):
        written.write(rows(number))
        assert _rows_of(written, lambda table: table.lookup(KEYS)) == len(KEYS)
        assert _rows_of(written, lambda table: table.scan().to_arrow()) >= 200
    own.wait_for_compactions()
    table.wait_for_compactions()


def _rows_of(table: wt.Table, read: Callable[[wt.Table], pa.Table]) -> int:
    """How many rows there are; read anew where the parent's writes expired the snapshot meanwhile."""
    while True:
        with contextlib.suppress(wt.NotFoundError):
            return int(read(table).num_rows)


def _run_child(folder: str, number: int, shared: wt.Table) -> NoReturn:
    is_right = False
    try:
        _child(folder, number, shared)
        is_right = True
    finally:
        if not is_right:
            traceback.print_exc()
            os._exit(1)
    if number % 4 > 1:
        os._exit(0)
    sys.exit(0)


def _end_of(child: int) -> int:
    """Its exit code."""
    end = time.monotonic() + LIMIT_SECONDS
    while time.monotonic() < end:
        pid, status = os.waitpid(child, os.WNOHANG)
        if pid:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.01)
    os.kill(child, signal.SIGUSR1)  # see faulthandler below
    time.sleep(2)
    os.kill(child, signal.SIGKILL)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


class _Threads:
    """Each does its work until the block ends; a lost race, and a snapshot that expired, are nothing."""

    def __init__(self, works: list[Callable[[int], object]]) -> None:
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=self._run, args=(work,)) for work in works]
        self.errors: list[BaseException] = []

    def _run(self, work: Callable[[int], object]) -> None:
        number = 0
        while not self._stop.is_set():
            try:
                with contextlib.suppress(wt.ConflictError, wt.NotFoundError):
                    work(number)
            except Exception as error:  # noqa: BLE001
                self.errors.append(error)
                return
            number += 1

    def __enter__(self) -> _Threads:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()


def main(folder: str, children: int) -> None:
    one, two = create(folder, "one"), create(folder, "two", **{"lookup-wait": "false"})
    for table in (one, two):
        table.write(rows(0))
    works: list[Callable[[int], object]] = [
        lambda number: one.write(rows(number)),
        lambda number: two.write(rows(number)),
        lambda number: (two.compact(full=True), two.expire_snapshots()),
        lambda number: wt.Table.open(one.path).scan().to_arrow(),
        lambda number: one.lookup(KEYS),
    ]
    faulthandler.register(signal.SIGUSR1, all_threads=True)
    numbers = random.Random(int(os.environ.get("WIDETABLE_SEED", "0")))
    ends: list[int] = []
    with _Threads(works) as threads:
        for number in range(children):
            time.sleep(numbers.random() * 0.2)
            child = os.fork()
            if child == 0:
                _run_child(folder, number, one if number % 2 else two)
            ends.append(_end_of(child))
    assert threads.errors == []
    assert ends == [0] * children, ends
    for table in (one, two):
        table.wait_for_compactions()
        report = table.audit()
        assert report.ok, report.findings


if __name__ == "__main__":
    warnings.simplefilter("ignore", DeprecationWarning)  # of forks beside threads
    main(sys.argv[1], int(sys.argv[2]))
