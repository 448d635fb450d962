"""The sessions that clients have open in this instance, each under an id that nobody can guess.

Read leases of this process pin them, so they end with it; other instances do not know them. A thread closes a session
that is not renewed for LASTS_SECONDS. Raises what `Catalog.session` raises, NotFoundError for an id that is not open
here, NotNowError when too many are open and when the service ends.

A session is opened outside of the lock, because that reads each table. So sessions that are being opened are counted,
and the end of the service is checked twice: before opening, and when the session is added.

    open: room, opening 1      end: closes all      open: refused, closes its own session      nothing is left
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
MAX_SESSIONS: Final = 1000
# How much longer than its life time a session may last that nobody renews.
_CHECK_SECONDS: Final = 0.5
# Errors of closing, after which the thread continues.
_SURVIVED: Final = Exception
_log = logging.getLogger("widetable")


class Wanted(NamedTuple):
    """The request of a session, in the terms of `Catalog.session`. at_least: the oldest barrier that it may have."""

    tables: Sequence[str] | None
    consistency: str
    as_of: int | None = None
    at_least: int | None = None


@dataclass
class OpenSession:
    """An open session. expires_millis: epoch milliseconds. due_at: the same moment by the monotonic clock."""

    id: str
    wanted: Wanted
    session: Session
    expires_millis: int
    due_at: float


class OpenSessions:
    """The sessions of one instance, shared by its threads. new_catalog: makes a catalog for each session, because a
    catalog remembers what its sessions have shown, and those of other clients do not matter.
    """

    def __init__(
        self,
        new_catalog: Callable[[], Catalog],
        lasts_seconds: float = LASTS_SECONDS,
        most: int = MAX_SESSIONS,
    ) -> None:
        self._new_catalog = new_catalog
        self._lasts_seconds = lasts_seconds
        self._most = most
        self._lock = threading.Lock()
        self._open: dict[str, OpenSession] = {}
        self._opening = 0
        self._ended = threading.Event()

    def open(self, wanted: Wanted) -> OpenSession:
        """Open a session. Its life time begins when it is open, however long opening took."""
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
        """Extend the session by its life time."""
        with self._lock:
            session = self._open.get(id)
            if session is None:
                raise _not_open(id)
            self._start_time(session)
            return session

    def close(self, id: str) -> None:
        """Close the session, and release what it reads."""
        with self._lock:
            opened = self._open.pop(id, None)
        if opened is None:
            raise _not_open(id)
        opened.session.close()

    def listed(self) -> list[OpenSession]:
        """Return the open sessions, the oldest first."""
        with self._lock:
            return list(self._open.values())

    def count(self) -> int:
        """Return the number of open sessions."""
        with self._lock:
            return len(self._open)

    def start(self) -> None:
        """Start the thread that closes sessions which are not renewed."""
        threading.Thread(target=self._run, name="widetable-meta-sessions", daemon=True).start()

    def end(self) -> None:
        """Close all sessions, and refuse new ones."""
        self._ended.set()
        with self._lock:
            sessions = list(self._open.values())
            self._open.clear()
        _close(sessions)

    def close_overdue(self) -> None:
        """Close the sessions whose time is over."""
        now = time.monotonic()
        with self._lock:
            overdue = [one for one in self._open.values() if one.due_at <= now]
            for one in overdue:
                del self._open[one.id]
        _close(overdue)

    def _run(self) -> None:
        while not self._ended.wait(_CHECK_SECONDS):
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
                found=f"{self._most} open sessions",
                expected="fewer open sessions",
                action=f"Close sessions; the service closes one that is not renewed for {self._lasts_seconds:g} s.",
            )


def _check_not_older(session: Session, at_least: int | None) -> None:
    if at_least is not None and session.barrier is not None and session.barrier < at_least:
        raise NotFoundError(
            f"a barrier of at least {at_least}",
            found=f"{session.barrier}, the newest one",
            expected=f"{at_least} or a later one",
            action="Wait for it; if the tables were revised, or are not the same as before, ask without at_least.",
        )


def _close(sessions: Sequence[OpenSession]) -> None:
    """Close sessions and log errors: a pin that is not released expires by itself."""
    for one in sessions:
        try:
            one.session.close()
        except _SURVIVED:
            warn(
                _log,
                WarningCode.SESSION_NOT_CLOSED,
                "a session was not closed; it expires by itself",
                level=logging.ERROR,
                exc_info=True,
            )


def _not_open(id: str) -> NotFoundError:
    return NotFoundError(
        f"session {id[:64]!a}",
        found="no open session of that id",
        expected="a session that this instance opened, and that was renewed in time",
        action="Open another session: it shows the same barrier or a later one.",
    )


def _ending() -> NotNowError:
    return NotNowError(
        "the service",
        found="that it ends",
        expected="a running instance",
        action="Ask another instance.",
    )
