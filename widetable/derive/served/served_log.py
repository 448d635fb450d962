"""Logs what a lookup session gave: kept in memory, and written in batches by a thread of its own.

    add ─► in memory ─► when there are 10,000 rows or 16 MiB, or after 10 s ─► one commit of the log
                        flush, close, the end of the process                ─► the same, at once

What is not written yet is lost when the process is killed: at most what was served in the last 10 s, or since the last
commit of a log that fails. A commit that fails is warned of and tried again with the next batch; its rows stay in
memory, and rows that were written by half are overwritten, for a row's key says which request it is of. Memory is
bounded: a request that would exceed it is written by its own caller first, and raises StorageError if that fails. So
no answer is given that is neither written nor in memory.

In: requests. Out: rows of the log. A forked child is a session of its own, without the requests of its parent. Raises
StorageError for a log that cannot be written.
"""

from __future__ import annotations

import logging
import threading
import time
import uuid
from collections.abc import Sequence
from typing import Final

import pyarrow as pa

from widetable.derive.served.log_rows import LogOrigin, log_rows
from widetable.derive.served.served_table import add_columns, name_in_log, value_column
from widetable.errors import StorageError
from widetable.messages.counted import counted
from widetable.messages.warning_code import WarningCode, warn
from widetable.operations.handle.open_table import OpenTable
from widetable.operations.windows.served_request import ServedRequest
from widetable.operations.writes.table_write import write
from widetable.runtime.forked_child import SharedByThreads
from widetable.runtime.worker_thread import Task, WorkerThread

# A batch is written when it has this many rows or bytes, or its first row is this old.
BATCH_ROWS: Final = 10_000
BATCH_BYTES: Final = 16 << 20
BATCH_SECONDS: Final = 10.0
# What is kept in memory, while the log cannot be written, or more slowly than requests come.
MOST_ROWS: Final = 100_000
MOST_BYTES: Final = 64 << 20
# How often the thread looks whether the process ends.
_LOOK_SECONDS: Final = 0.25
_log = logging.getLogger("widetable")


class ServedLog(SharedByThreads):
    """The log of one session; threads share it. It is a `RequestLog`."""

    def __init__(self, log: OpenTable, served: OpenTable) -> None:
        self._table = log
        self._served = name_in_log(served), served.branch
        self._keys = served.schema.primary_keys
        super().__init__()

    def _reset(self) -> None:
        self._session = str(uuid.uuid4())
        self._number = 0
        # Under the lock: the requests in memory, by their numbers, and their rows and bytes.
        self._lock = threading.Lock()
        self._waiting: list[tuple[int, ServedRequest]] = []
        self._rows = self._bytes = 0
        self._is_running = False
        self._is_due = threading.Event()
        # Held while requests are written; then they are forgotten.
        self._writing = threading.Lock()
        self._thread = WorkerThread("served-log")
        self._checked: set[tuple[str, pa.DataType]] = set()

    def check(self, keys: Sequence[pa.Field], values: Sequence[pa.Field]) -> None:
        """Make sure that the log has these columns; add those that it lacks."""
        fields = [pa.field(field.name, field.type) for field in keys]
        fields += [pa.field(value_column(field.name, self._keys), field.type) for field in values]
        columns = {(field.name, field.type) for field in fields}
        if not columns <= self._checked:
            add_columns(self._table, fields)
            self._checked |= columns

    def add(self, request: ServedRequest) -> None:
        """Keep a request in memory, and have it written."""
        rows = request.keys.num_rows
        if not rows:
            return
        # Answers that share memory count it each; `nbytes` would take longer than all the rest.
        size = request.keys.get_total_buffer_size() + request.values.get_total_buffer_size()
        # Read without the lock: the bound is not exact by the requests of as many threads.
        if self._rows + rows > MOST_ROWS or self._bytes + size > MOST_BYTES:
            self.flush()
        with self._lock:
            was_due = self._rows >= BATCH_ROWS or self._bytes >= BATCH_BYTES
            self._waiting.append((self._number, request))
            self._number += 1
            self._rows += rows
            self._bytes += size
            # Once only: a log that fails is not tried again with each request.
            if not was_due and (self._rows >= BATCH_ROWS or self._bytes >= BATCH_BYTES):
                self._is_due.set()
            if self._is_running:
                return
            self._is_running = True
        self._thread.submit(Task(self._run))

    def flush(self) -> None:
        """Write all requests in memory. Raises StorageError if that fails; they stay in memory then."""
        try:
            self._write()
        except Exception as cause:
            raise StorageError(
                f"served_log {self._table.path}",
                found=f"{counted(self._rows, 'row')} that cannot be written: {cause}",
                expected="a log that can be written",
                action="Correct the cause. The rows stay in memory and are tried again, until the process ends.",
            ) from cause

    def _write(self) -> None:
        with self._writing:
            with self._lock:
                requests = list(self._waiting)
                rows, size = self._rows, self._bytes
            if not requests:
                return
            table, branch = self._served
            origin = LogOrigin(self._session, table, branch, self._keys)
            write(self._table, log_rows(requests, origin))
            with self._lock:
                del self._waiting[: len(requests)]
                self._rows -= rows
                self._bytes -= size

    def _run(self) -> None:
        """Write batches until nothing is in memory. After a failure try again, as long as the process lives."""
        while True:
            is_last = not self._wait()
            try:
                self._write()
            except Exception as cause:  # noqa: BLE001 - it is tried again, and `flush` raises it
                self._warn(cause, is_last=is_last)
            with self._lock:
                if is_last or not self._waiting:
                    self._is_running = False
                    return

    def _wait(self) -> bool:
        """Wait until a batch is due; return False if the process ends."""
        end = time.monotonic() + BATCH_SECONDS
        while threading.main_thread().is_alive():
            left_seconds = end - time.monotonic()
            with self._lock:
                is_empty = not self._waiting
            if is_empty or left_seconds <= 0 or self._is_due.wait(min(left_seconds, _LOOK_SECONDS)):
                self._is_due.clear()
                return True
        return False

    def _warn(self, cause: Exception, *, is_last: bool) -> None:
        rows = counted(self._rows, "row")
        warn(
            _log,
            WarningCode.SERVED_LOG_NOT_WRITTEN,
            "%s: %s of the served log %s: %s",
            self._table.path,
            rows,
            "are lost" if is_last else "wait in memory",
            cause,
            level=logging.ERROR,
        )
