"""The sessions that clients have open here, each by an id that nobody can guess.

They are pinned by read leases of this process, so they end with it, and none outlives it; another instance does not
know them. One that is not renewed for LASTS_SECONDS is closed by a thread. Raises what `Catalog.session` raises,
NotFoundError for an id that is not open here, NotNowError where too many are open and once the service ends.

A session is opened outside of the lock, as that takes a look at each table. So there is counted
what is being opened, and whether the service ends is asked twice: before, and when it is put
among the others.

    open: room, opening 1      end: closes all      open: put is refused, closes its own      nothing is left
"""

from __future__ import annotations

import logging
import threading
import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from widetable import Catalog, NotFoundError, Session
from widetable.connector import WarningCode, check_published, now_millis, warn
from widetable_meta.error_form import NotNowError

LASTS_SECONDS: Final = 60.0
MOST_SESSIONS: Final = 1000
# How much longer than it should a session lasts that nobody renews.
_LOOK_SECONDS: Final = 0.5
# Of what is closed by a thread, which goes on.
_SURVIVED: Final = Exception
_log = logging.getLogger("widetable")


class Wanted(NamedTuple):
    """Of a session, as `Catalog.session` takes it. at_least: a barrier that it is not to be older than."""

    tables: Sequence[str] | None
    consistency: str
    as_of: int | None = None
    at_least: int | None = None


@dataclass
class OpenSession:
    """expires_millis: since the epoch; due_at: the same by the clock that never goes back."""

    id: str
    wanted: Wanted
    session: Session
    expires_millis: int
    due_at: float


class OpenSessions:
    """Of one instance; all threads use it. new_catalog: for each session one, as a catalog remembers what its sessions
    have shown, and those of other clients do not matter.
    """

    def __init__(
        self,
        new_catalog: Callable[[], Catalog],
        lasts_seconds: float = LASTS_SECONDS,
        most: int = MOST_SESSIONS,
    ) -> None:
        self._new_catalog = new_catalog
        self._lasts_seconds = lasts_seconds
        self._most = most
        self._lock = threading.Lock()
        self._open: dict[str, OpenSession] = {}
        self._opening = 0
        self._ended = threading.Event()

    def open(self, wanted: Wanted) -> OpenSession:
        """A new one, which lasts from when it is there, however long opening took."""
        with self._lock:
            self._check_room()
            self._opening += 1
        try:
            session = self._new_catalog().session(
                wanted.tables, consistency=wanted.consistency, as_of=wanted.as_of
            )
            check_published(session, wanted.consistency, "by a service")
            try:
                _check_not_older(session, wanted.at_least)
                made = OpenSession(uuid.uuid4().hex, wanted, session, 0, 0.0)
                self._put(made)
            except BaseException:
                session.close()
                raise
        finally:
            with self._lock:
                self._opening -= 1
        return made

    def renew(self, id: str) -> OpenSession:
        """It goes on for as long again."""
        with self._lock:
            found = self._open.get(id)
            if found is None:
                raise _not_open(id)
            self._start_time(found)
            return found

    def close(self, id: str) -> None:
        """Let go of what it reads."""
        with self._lock:
            found = self._open.pop(id, None)
        if found is None:
            raise _not_open(id)
        found.session.close()

    def listed(self) -> list[OpenSession]:
        """Those that are open, the oldest first."""
        with self._lock:
            return list(self._open.values())

    def count(self) -> int:
        """How many are open."""
        with self._lock:
            return len(self._open)

    def start(self) -> None:
        """Close from now on those that are not renewed."""
        threading.Thread(target=self._run, name="widetable-meta-sessions", daemon=True).start()

    def end(self) -> None:
        """Close all, and open no more."""
        self._ended.set()
        with self._lock:
            found = list(self._open.values())
            self._open.clear()
        _close(found)

    def close_overdue(self) -> None:
        """Those whose time is up."""
        now = time.monotonic()
        with self._lock:
            overdue = [one for one in self._open.values() if one.due_at <= now]
            for one in overdue:
                del self._open[one.id]
        _close(overdue)

    def _run(self) -> None:
        while not self._ended.wait(_LOOK_SECONDS):
            self.close_overdue()

    def _put(self, made: OpenSession) -> None:
        with self._lock:
            if self._ended.is_set():
                raise _ending()
            self._start_time(made)
            self._open[made.id] = made

    def _start_time(self, session: OpenSession) -> None:
        session.due_at = time.monotonic() + self._lasts_seconds
        session.expires_millis = now_millis() + int(self._lasts_seconds * 1000)

    def _check_room(self) -> None:
        if self._ended.is_set():
            raise _ending()
        if len(self._open) + self._opening >= self._most:
            raise NotNowError(
                "sessions of the service",
                found=f"{self._most} that are open",
                expected="fewer",
                action=f"Close those that are read; what nobody renews is closed after {self._lasts_seconds:g} s.",
            )


def _check_not_older(session: Session, at_least: int | None) -> None:
    if at_least is not None and session.barrier is not None and session.barrier < at_least:
        raise NotFoundError(
            f"a barrier from {at_least} on",
            found=f"{session.barrier}, the newest one",
            expected=f"{at_least} or a later one",
            action="Wait for it; where these tables were revised, or are others than before, ask without it.",
        )


def _close(sessions: Sequence[OpenSession]) -> None:
    """Nobody hears of an error: what is pinned runs out by itself."""
    for one in sessions:
        try:
            one.session.close()
        except _SURVIVED:
            warn(
                _log,
                WarningCode.SESSION_NOT_CLOSED,
                "a session runs out by itself",
                level=logging.ERROR,
                exc_info=True,
            )


def _not_open(id: str) -> NotFoundError:
    return NotFoundError(
        f"session {id[:64]!a}",
        found="none of that id that is open here",
        expected="one that this instance has opened, and that was renewed in time",
        action="Open another one: it shows the same barrier or a later one.",
    )


def _ending() -> NotNowError:
    return NotNowError(
        "the service",
        found="that it ends",
        expected="one that goes on",
        action="Ask another instance.",
    )
