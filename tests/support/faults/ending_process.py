"""Processes that end in a chosen way while they compact behind their commits: this module with the argument FOLDER.

For each of WAYS a process is forked that writes to two tables in FOLDER/<way>/, one of each kind of WORK, and then ends
in this way. Its exit status is in FOLDER/<way>/status, what it said in FOLDER/<way>/said. What it compacts is held back
until its main thread has ended; where the process is killed, that is for ever.

    changelog     lookup-wait=false; the first compaction is about to write changelog, others wait for it
    old-levels    their compaction is about to publish
"""

from __future__ import annotations

import atexit
import faulthandler
import multiprocessing
import os
import signal
import sys
import threading
import time
import warnings
from collections.abc import Callable

import pyarrow as pa

import widetable as wt
from tests.support.faults.patience import PATIENCE_SECONDS
from widetable.storage.local import LocalFileIO

HANG_SECONDS = PATIENCE_SECONDS / 6
SCHEMA = pa.schema([pa.field("k", pa.int64(), nullable=False), ("a", pa.int64())])
KEYS = 40
THREADS = {"changelog": "widetable-lookup", "old-levels": "widetable-old-levels"}
WORK = {
    "changelog": {"lookup-wait": "false"},
    "old-levels": {
        "widetable.inline-compaction-size": "0 b",
        "num-sorted-run.compaction-trigger": "3",
    },
}


def create(folder: str, work: str) -> wt.Table:
    """The table for one kind of work."""
    options = {"changelog-producer": "lookup", "merge-engine": "partial-update", "bucket": "4"}
    options |= {"widetable.fsync": "false"} | WORK[work]
    return wt.Catalog(folder).create_table(f"db.{work}", SCHEMA, primary_key=["k"], options=options)


def path_of(folder: str, work: str) -> str:
    """Where that table is."""
    return f"{folder}/db.db/{work}"


def rows(number: int) -> pa.Table:
    return pa.table({"k": list(range(KEYS)), "a": [number] * KEYS}, SCHEMA)


class HoldingFileIO(LocalFileIO):
    """Holds back the threads behind commits. at: set when one has come so far."""

    def __init__(self, work: str) -> None:
        super().__init__(fsync=False)
        self.at = threading.Event()
        self._work = work

    def open_output(self, path: str) -> pa.NativeFile:
        if self._work == "changelog" and "/changelog-" in path:
            self._hold()
        return super().open_output(path)

    def publish(self, path: str, data: bytes) -> bool:
        if threading.current_thread().name == THREADS["old-levels"] and "/snapshot/" in path:
            self._hold()
        return super().publish(path, data)

    def _hold(self) -> None:
        self.at.set()
        while threading.main_thread().is_alive():
            time.sleep(0.005)


def write_with_work_under_way(folder: str) -> None:
    """Returns when a compaction of each kind is under way."""
    for work in WORK:
        file_io = HoldingFileIO(work)
        table = wt.Table.open(path_of(folder, work), file_io=file_io)
        number = 0
        while not file_io.at.is_set():
            table.write(rows(number), "job", number)
            number += 1
            # Once more would be to wait for what is held back, and that waits for the end.
            while _is_compacting(work) and not file_io.at.is_set():
                time.sleep(0.005)
        if work == "changelog":
            for more in range(number, number + 2):
                table.write(rows(more), "job", more)


def _is_compacting(work: str) -> bool:
    """Whether a thread behind the commits is at this kind of work; it ends when nothing is left."""
    return any(thread.name == THREADS[work] for thread in threading.enumerate())


def write_once_more(folder: str) -> None:
    for work in WORK:
        wt.Table.open(path_of(folder, work)).write(rows(100), "job", 100)


def _exit_in_main(folder: str) -> None:
    write_with_work_under_way(folder)
    sys.exit(0)


def _error_in_main(folder: str) -> None:
    write_with_work_under_way(folder)
    raise ZeroDivisionError("as tested")


def _exit_in_a_thread(folder: str) -> None:
    """The main thread ends first; the thread then writes on."""
    is_under_way = threading.Event()

    def run() -> None:
        write_with_work_under_way(folder)
        is_under_way.set()
        threading.main_thread().join()
        write_once_more(folder)
        sys.exit(0)

    threading.Thread(target=run).start()
    is_under_way.wait()


def _at_exit(folder: str) -> None:
    """A handler writes, when no thread would be waited for any more."""
    write_with_work_under_way(folder)
    atexit.register(write_once_more, folder)


def _forked_child(folder: str) -> None:
    child = os.fork()
    if child == 0:
        write_with_work_under_way(folder)
        sys.exit(0)
    assert os.waitpid(child, 0)[1] == 0


def _multiprocessing(start: str) -> Callable[[str], None]:
    def run(folder: str) -> None:
        multiprocessing.set_start_method(start, force=True)
        process = multiprocessing.Process(target=write_with_work_under_way, args=(folder,))
        process.start()
        process.join()
        assert process.exitcode == 0

    return run


def _terminated(folder: str) -> None:
    write_with_work_under_way(folder)
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(600)


def _exit_at_once(folder: str) -> None:
    write_with_work_under_way(folder)
    os._exit(7)


WAYS: dict[str, Callable[[str], None]] = {
    "end of the script": write_with_work_under_way,
    "sys.exit": _exit_in_main,
    "an error": _error_in_main,
    "sys.exit in a thread": _exit_in_a_thread,
    "a handler at exit": _at_exit,
    "a forked child": _forked_child,
    "multiprocessing fork": _multiprocessing("fork"),
    "multiprocessing spawn": _multiprocessing("spawn"),
    "SIGTERM": _terminated,
    "os._exit": _exit_at_once,
}
KILLED = {"SIGTERM": -signal.SIGTERM, "os._exit": 7}


def _way_of_this_process(folder: str) -> str | None:
    """Forks for each way; in the child, its way."""
    for work in WORK:  # load what they all need
        create(f"{folder}/warm", work).write(rows(0))
    for way in WAYS:  # one by one: threads of low priority get nowhere beside the others
        place = f"{folder}/{way}"
        for work in WORK:
            create(place, work)
        child = os.fork()
        if child == 0:
            said = os.open(f"{place}/said", os.O_WRONLY | os.O_CREAT)
            os.dup2(said, 2)
            os.setpgid(0, 0)
            return way
        status = _status_of(child)
        with open(f"{place}/status", "w", encoding="ascii") as file:
            file.write(str(status))
    return None


def _status_of(child: int) -> int:
    """Its exit status. One that hangs is ended, with all that it began; they say their stacks."""
    ended_pid, status = 0, 0
    give_up = time.monotonic() + HANG_SECONDS
    while not ended_pid:
        time.sleep(0.01)
        if time.monotonic() > give_up:
            os.killpg(child, signal.SIGABRT)
            give_up += HANG_SECONDS
        ended_pid, status = os.waitpid(child, os.WNOHANG)
    return os.waitstatus_to_exitcode(status)


if __name__ == "__main__":
    warnings.simplefilter("ignore", DeprecationWarning)  # of forks beside threads
    faulthandler.enable()
    own_way = _way_of_this_process(sys.argv[1])
    if own_way is not None:
        WAYS[own_way](f"{sys.argv[1]}/{own_way}")
