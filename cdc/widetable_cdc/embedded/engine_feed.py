"""A running engine of Debezium, as a feed of batches.

    engine (threads of Java) ─► EngineBatch ─► a queue of two ─► take()

The engine waits while the queue is full. No record is marked as processed, so the engine's own file of offsets is never
written: a job writes it before the start, and keeps the truth in its tables. Raises StorageError when the engine has
ended by itself, InvalidError for properties that the engine refuses, and what `JavaMachine` raises.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from widetable import StorageError
from widetable_cdc.embedded.engine_batch import EngineBatch
from widetable_cdc.embedded.java_machine import JavaMachine

_QUEUED: Final = 2
_WAIT_SECONDS: Final = 0.2


class EngineFeed:
    """An engine that runs until `close`. One thread takes from it."""

    def __init__(self, machine: JavaMachine, properties: Mapping[str, str]) -> None:
        self._machine = machine
        self._queue: queue.Queue[EngineBatch] = queue.Queue(_QUEUED)
        self._closed = threading.Event()
        self._fault: list[BaseException | str] = []
        self._ended = threading.Event()
        self._engine = self._built(properties)
        thread = machine.java("java.lang.Thread")(self._engine)
        thread.setDaemon(True)
        thread.start()

    def take(self, seconds: float) -> EngineBatch | None:
        """Return the next batch; None if none came in time."""
        try:
            return self._queue.get(timeout=seconds) if seconds else self._queue.get_nowait()
        except queue.Empty:
            if self._ended.is_set() and self._queue.empty():
                raise self._error() from None
            return None

    def close(self) -> None:
        """End the engine, and forget the batches that nobody took."""
        self._closed.set()
        self._drain()
        if not self._ended.is_set():
            try:
                self._engine.close()
            except self._machine.java("java.lang.Exception"):
                # It ended by itself meanwhile, or never got as far as it could be closed.
                self._ended.wait(_WAIT_SECONDS)
        self._drain()

    def _drain(self) -> None:
        while True:
            try:
                self._queue.get_nowait()
            except queue.Empty:
                return

    def _built(self, properties: Mapping[str, str]) -> Any:
        given = self._machine.java("java.util.Properties")()
        for name, value in properties.items():
            given.setProperty(name, value)
        engine = self._machine.java("io.debezium.engine.DebeziumEngine")
        form = self._machine.java("io.debezium.engine.format.Json")
        builder = engine.create(form).using(given).notifying(self._machine.consumer(self._take))
        return builder.using(self._machine.completion(self._end)).build()

    def _take(self, records: Any) -> None:
        """Put a list of records into the queue. Runs in a thread of the engine."""
        try:
            batch = self._machine.batch(records)
        except BaseException as fault:
            self._fault.append(fault)
            self._ended.set()
            raise
        while not self._closed.is_set():
            try:
                self._queue.put(batch, timeout=_WAIT_SECONDS)
                break
            except queue.Full:
                continue

    def _end(self, success: bool, message: str) -> None:
        if not success:
            self._fault.append(message)
        self._ended.set()

    def _error(self) -> BaseException:
        fault = self._fault[0] if self._fault else "it ended without a message"
        if isinstance(fault, BaseException):
            return fault
        return StorageError(
            "Debezium's engine",
            found=fault.strip(),
            expected="an engine that reads the database until the job ends",
            action="Correct what the message names, and run the job again: it continues where it was.",
        )


def write_offset_file(machine: JavaMachine, path: Path, prefix: str, offset: str) -> None:
    """Write the engine's file of offsets: a map of Java from the connector's partition to JSON."""
    partition = f'["{prefix}",{{"server":"{prefix}"}}]'
    entries = machine.java("java.util.HashMap")()
    entries.put(machine.byte_array(partition.encode()), machine.byte_array(offset.encode()))
    output = machine.java("java.io.FileOutputStream")(str(path))
    objects = machine.java("java.io.ObjectOutputStream")(output)
    objects.writeObject(entries)
    objects.close()
