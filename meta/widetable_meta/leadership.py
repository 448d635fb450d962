"""Whether this instance leads, and what the leader does for all: it keeps the tables of FLIP-276 in `__meta` up to
date, and the barriers that tables have in common from expiry.

One thread looks at the lease every second. Another one does the work of the leader, at most a fifth of the time; the
tables are rebuilt in a separate process, so that requests do not wait. Failures are logged, and the work is repeated.
Two instances that lead for a moment do no harm: both write the same. `look` raises StorageError.

    _look_on    each second                            takes a free lease, learns who has it
    _keep_up    rebuild, keep; then a pause of         only while this instance leads; a follower looks each second
                max(3 s, five times the work)          whether it does
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

REFRESH_SECONDS: Final = 1.0
UPKEEP_SECONDS: Final = 3.0
# The ratio of a pause to the work before it, so that a large warehouse does not keep a core busy.
_SHARE: Final = 5
_POLL_SECONDS: Final = 0.05
# Includes our own faults: the thread continues.
_SURVIVED: Final = Exception
_log = logging.getLogger("widetable")


class Leadership:
    """The leadership of one instance, shared by its threads. url: its own URL."""

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
        """Whether this instance leads, by the last look."""
        return self._leader[1]

    @property
    def leader_url(self) -> str | None:
        """The URL of the leader, by the last look; None: no instance leads."""
        return self._leader[0]

    def look(self) -> None:
        """Look now, and take over from a leader that is gone.

        If the lease cannot be read, no leader is known: requests for the leader are refused, and this instance stops
        the work of the leader, until a look succeeds.
        """
        if self._ended.is_set():
            return
        try:
            leader = self._lease.look()
        except BaseException:
            self._leader = None, False
            raise
        if leader[1] and not self._leader[1]:
            _log.info("%s leads", self.url)
        self._leader = leader

    def start(self) -> None:
        """Check the lease once, then repeatedly in a thread."""
        self.look()
        for name, run in (("leader", self._look_on), ("upkeep", self._keep_up)):
            thread = threading.Thread(target=run, name=f"widetable-meta-{name}", daemon=True)
            thread.start()
            self._threads.append(thread)

    def end(self, patience_seconds: float) -> None:
        """Release the lease. patience_seconds: how long to wait for running work."""
        self._ended.set()
        until = time.monotonic() + patience_seconds
        for thread in self._threads:
            thread.join(max(0.0, until - time.monotonic()))
        self._leader = None, False
        self._lease.release()

    def _look_on(self) -> None:
        while not self._ended.wait(REFRESH_SECONDS):
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
        """Rebuild the tables in a separate process: it reads all snapshots, and requests would wait for the
        interpreter.
        """
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
            pause_seconds = REFRESH_SECONDS
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
