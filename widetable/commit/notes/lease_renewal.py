"""Renews the leases of this process: one thread for all of them, started with the first.

A lease is renewed while its object is referenced and the lease is still ours. If no thread can be started, leases
expire, on which no safety depends; the next lease tries to start the thread again. A forked child begins without
leases. A failed renewal is logged and retried when it is next due. Raises nothing.
"""

from __future__ import annotations

import contextlib
import logging
import threading
import time
import weakref
from dataclasses import dataclass
from math import inf
from queue import Empty, SimpleQueue
from typing import Final, Protocol

from widetable.messages.warning_code import WarningCode, warn
from widetable.runtime.forked_child import SharedByThreads

# Four renewals in a row may fail.
_RENEWALS_PER_LEASE: Final = 6
_SHORTEST_SECONDS: Final = 0.05
# The longest timeout of a wait (threading.TIMEOUT_MAX is larger).
_LONGEST_WAIT_SECONDS: Final = 3600.0
_log = logging.getLogger("widetable")


class Renewable(Protocol):
    """A lease that can be renewed; it is referenced weakly here."""

    @property
    def duration_millis(self) -> int:
        """The time after which it expires if it is not renewed."""
        ...

    @property
    def is_ours(self) -> bool:
        """Whether this process has the lease."""
        ...

    def renew(self) -> bool:
        """Start the duration again."""
        ...


@dataclass(eq=False)
class _Entry:
    """A lease to renew. every_seconds: time between renewals. due_at: by the monotonic clock."""

    lease: weakref.ref[Renewable]
    every_seconds: float
    due_at: float


class LeaseRenewal(SharedByThreads):
    """The renewal thread of the process and its leases.

    The lock is not held during storage requests, as `renew` and `release` may take long. The thread sleeps until the
    first entry is due (`_wakes_at`); a lease that is due earlier wakes it by an item in `_earlier`.
    """

    def _reset(self) -> None:
        self._lock = threading.Lock()
        self._entries: list[_Entry] = []
        self._thread: threading.Thread | None = None
        self._wakes_at = inf
        self._earlier: SimpleQueue[None] = SimpleQueue()

    def start(self, lease: Renewable) -> None:
        """Renew a lease from now on."""
        every_seconds = max(lease.duration_millis / 1000 / _RENEWALS_PER_LEASE, _SHORTEST_SECONDS)
        entry = _Entry(weakref.ref(lease), every_seconds, time.monotonic() + every_seconds)
        with self._lock:
            self._entries.append(entry)
            is_earlier = entry.due_at < self._wakes_at
            self._run_thread()
        if is_earlier:
            self._earlier.put(None)

    def stop(self, lease: Renewable) -> None:
        """Stop renewing a lease; a renewal may be under way.

        That does no harm if the file is removed meanwhile: `LeaseFile` does not write it again.
        """
        with self._lock:
            self._entries = [entry for entry in self._entries if entry.lease() is not lease]

    def _run_thread(self) -> None:
        if self._thread is not None and self._thread.is_alive():
            return
        thread = threading.Thread(target=self._run, name="widetable-leases", daemon=True)
        try:
            thread.start()
        except RuntimeError as refusal:
            _log.info("leases are not renewed and will expire: %s", refusal)
        else:
            self._thread = thread

    def _run(self) -> None:
        while True:
            with self._lock:
                self._wakes_at = min((entry.due_at for entry in self._entries), default=inf)
                left_seconds = self._wakes_at - time.monotonic()
            with contextlib.suppress(Empty):
                self._earlier.get(timeout=min(max(left_seconds, 0), _LONGEST_WAIT_SECONDS))
            self._renew_due()

    def _renew_due(self) -> None:
        now = time.monotonic()
        with self._lock:
            due = [entry for entry in self._entries if entry.due_at <= now]
        over = [entry for entry in due if not _renewed(entry)]
        for entry in due:
            entry.due_at = now + entry.every_seconds
        with self._lock:
            self._entries = [entry for entry in self._entries if entry not in over]


def _renewed(entry: _Entry) -> bool:
    """Renew a lease; return False if it need not be renewed again."""
    lease = entry.lease()
    if lease is None or not lease.is_ours:
        return False
    try:
        lease.renew()
    except Exception:  # noqa: BLE001 - whatever a client raises: this thread renews other leases, too
        warn(
            _log,
            WarningCode.LEASE_NOT_RENEWED,
            "a lease was not renewed",
            level=logging.ERROR,
            exc_info=True,
        )
    return True


LEASE_RENEWAL: Final = LeaseRenewal()
