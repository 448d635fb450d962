"""Whether this instance leads, and what the leader does for all: it keeps the tables of FLIP-276 in `__meta`, and the
barrier that tables have in common from expiry.

One thread looks at the lease every second. Another one does the leader's work, at most a fifth of the time; the tables
in a process of its own, so that requests do not wait. What fails is logged and done again. Two that lead for a moment
do no harm: both write the same. Raises StorageError in `look`.

    _look_on    each second                            takes a lease that is free, learns who has it
    _keep_up    rebuild, keep; then a pause of         only while this one leads; a follower looks each second
                max(3 s, five times what it took)      whether it does
"""

from __future__ import annotations

import logging
import subprocess
import sys
import tempfile
import threading
import time
from typing import Final

from widetable import Topology
from widetable.connector import ServiceLease, WarningCode, warn

LOOK_SECONDS: Final = 1.0
UPKEEP_SECONDS: Final = 3.0
# Pauses are so many times as long as the work before them: a large warehouse does not keep a
# core busy.
_SHARE: Final = 5
_POLL_SECONDS: Final = 0.05
# A fault of ours too: the thread goes on.
_SURVIVED: Final = Exception
_log = logging.getLogger("widetable")


class Leadership:
    """Of one instance; all threads use it. url: its own."""

    def __init__(self, lease: ServiceLease, topology: Topology, warehouse: str, url: str) -> None:
        self._lease = lease
        self._warehouse = warehouse
        self._topology = topology
        self.url = url
        self._ended = threading.Event()
        self._leader: tuple[str | None, bool] = None, False
        self._threads: list[threading.Thread] = []

    @property
    def is_here(self) -> bool:
        """Whether this one leads, by the last look."""
        return self._leader[1]

    @property
    def leader_url(self) -> str | None:
        """Of who leads, by the last look; None where nobody does."""
        return self._leader[0]

    def look(self) -> None:
        """At once: takes over from a leader that is gone. Where the lease cannot be read, nobody
        is known to lead: what is to be passed on is refused, and this one stops doing the
        leader's work, until a look succeeds.
        """
        if self._ended.is_set():
            return
        try:
            found = self._lease.look()
        except BaseException:
            self._leader = None, False
            raise
        if found[1] and not self._leader[1]:
            _log.info("%s leads", self.url)
        self._leader = found

    def start(self) -> None:
        """Look for the first time, then again and again."""
        self.look()
        for name, run in (("leader", self._look_on), ("upkeep", self._keep_up)):
            thread = threading.Thread(target=run, name=f"widetable-meta-{name}", daemon=True)
            thread.start()
            self._threads.append(thread)

    def end(self, patience_seconds: float) -> None:
        """Give the lease back. patience_seconds: for what is being done."""
        self._ended.set()
        until = time.monotonic() + patience_seconds
        for thread in self._threads:
            thread.join(max(0.0, until - time.monotonic()))
        self._leader = None, False
        self._lease.release()

    def _look_on(self) -> None:
        while not self._ended.wait(LOOK_SECONDS):
            try:
                self.look()
            except _SURVIVED:
                warn(
                    _log,
                    WarningCode.LEADER_UNKNOWN,
                    "nobody knows who leads",
                    level=logging.ERROR,
                    exc_info=True,
                )

    def _rebuild(self) -> None:
        """In a process of its own: it looks at all snapshots, and requests would wait for the interpreter meanwhile."""
        command = [sys.executable, "-m", "widetable", "meta", "rebuild", self._warehouse]
        quiet = subprocess.DEVNULL
        with (
            tempfile.TemporaryFile() as said,
            subprocess.Popen(command, stdin=quiet, stdout=quiet, stderr=said) as process,
        ):
            while process.poll() is None and not self._ended.wait(_POLL_SECONDS):
                pass
            if process.poll() is None:
                process.terminate()
            if process.wait() and not self._ended.is_set():
                said.seek(0)
                text = said.read().decode(errors="replace").strip()
                warn(
                    _log,
                    WarningCode.META_BEHIND,
                    "the tables of __meta were not brought up to date: %s",
                    text,
                )

    def _keep_up(self) -> None:
        pause_seconds = 0.0
        while not self._ended.wait(pause_seconds):
            pause_seconds = LOOK_SECONDS
            if self.is_here:
                began = time.monotonic()
                try:
                    self._rebuild()
                    self._topology.keep()
                except _SURVIVED:
                    warn(
                        _log,
                        WarningCode.META_BEHIND,
                        "the tables of __meta were not brought up to date",
                        level=logging.ERROR,
                        exc_info=True,
                    )
                took_seconds = time.monotonic() - began
                pause_seconds = max(UPKEEP_SECONDS, _SHARE * took_seconds)
