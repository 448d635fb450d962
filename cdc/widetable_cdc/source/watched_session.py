"""Calls that wait for a server only as long as it is at work on them.

    call ─► a thread does it ─► its result
                │ nothing for `silence_seconds`: ask in another session whether the server's process is at work
                ▼
            at work ─► wait on, and ask again          idle, gone, or no answer ─► end the connection: the call fails

A network that drops packets ends a call by the keepalives of the session. One that takes the bytes and brings no
answer (a proxy that hangs, a server that stands still) does not, and a statement that decodes the log or reads a table
may take hours without a byte. Only the server knows which of the two it is.

Raises psycopg.OperationalError for a call that was given up, which `server_errors` knows.
"""

from __future__ import annotations

import os
import socket
import stat
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final, TypeVar

import psycopg
from psycopg.abc import PQGen
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from widetable.connector import Task, WorkerThread

T = TypeVar("T")
_FOLDER: Final = "/proc/self/fd" if os.path.isdir("/proc/self/fd") else "/dev/fd"
_AT_WORK: Final = """
SELECT state = 'active' AND wait_event IS DISTINCT FROM 'ClientRead' AND wait_event IS DISTINCT FROM 'ClientWrite'
FROM pg_stat_activity WHERE pid = %s
"""
_MOST_PROBE_SECONDS: Final = 5.0


class WatchedSession:
    """The calls of one session, one at a time.

    conninfo: of the session. Its `tcp_user_timeout`, in milliseconds, is how long a silent server is waited for before
    it is asked. pid: of the server's process, once it is known.
    """

    def __init__(self, conninfo: str) -> None:
        self.pid: int | None = None
        self._conninfo = conninfo
        given = conninfo_to_dict(conninfo)
        self.silence_seconds = int(str(given["tcp_user_timeout"])) / 1000
        # To connect takes ADBC two connections and some questions.
        self._connect_seconds = 3 * int(str(given["connect_timeout"])) + self.silence_seconds
        self._thread = WorkerThread("cdc-session")
        self._before = _open_sockets()
        self._sockets: list[socket.socket] = []

    def call(self, work: Callable[[], T]) -> T:
        """Do the work, and return what it returns or raise what it raises."""
        task = Task(work)
        self._thread.submit(task)
        try:
            seconds = self._connect_seconds if self.pid is None else self.silence_seconds
            while not task.wait(seconds):
                if not self._is_at_work():
                    self._end()
                    task.wait(_MOST_PROBE_SECONDS)
                    raise psycopg.OperationalError(
                        f"no answer for {seconds:g} s, and the server is not at work on one"
                    )
        except BaseException:
            # Nobody will take the result of a call that an interrupt has left.
            if not task.is_done:
                self._end()
            raise
        return task.result()

    def connected(self, pid: int) -> None:
        """Note the sockets that the session has opened, and its process at the server."""
        self.pid = pid
        self._sockets = self._opened()

    def end_with(self, work: Callable[[], None]) -> None:
        """Do the work when the last call has ended. Nobody waits for it or gets its errors."""
        self.close()
        self._thread.submit(Task(work))

    def close(self) -> None:
        """Let go of the sockets. The client has closed its own."""
        for each in self._sockets:
            each.close()
        self._sockets = []

    def _is_at_work(self) -> bool:
        if self.pid is None:
            return False
        seconds = max(2, round(min(self.silence_seconds, _MOST_PROBE_SECONDS)))
        return _is_working(make_conninfo(self._conninfo, connect_timeout=seconds), self.pid)

    def _end(self) -> None:
        """End the connection below the client, which wakes up from its wait."""
        self._sockets = self._sockets or self._opened()
        for each in self._sockets:
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
        self.close()

    def _opened(self) -> list[socket.socket]:
        """Return own handles of the sockets to the server that were opened since the session began.

        A handle of our own keeps the number from being given to another file. Other threads may have opened sockets
        meanwhile, but hardly to a port of the server.
        """
        ports = {int(each) for each in _ports(self._conninfo)}
        return [
            each
            for number, _ in sorted(_open_sockets() - self._before)
            if (each := _of(number, ports))
        ]


class _Probe(psycopg.Connection[tuple[Any, ...]]):
    """A session that does not wait."""

    def wait(self, gen: PQGen[T], interval: float = 0.1, timeout: float | None = None) -> T:
        return super().wait(gen, interval, _MOST_PROBE_SECONDS if timeout is None else timeout)


def _is_working(conninfo: str, pid: int) -> bool:
    """Ask the server whether its process is at work on a statement."""
    try:
        with _Probe.connect(conninfo, autocommit=True) as connection:
            row = connection.execute(_AT_WORK, (pid,)).fetchone()
    except psycopg.Error as error:
        # A server that refuses one more session is there, and says nothing about the others.
        return "FATAL" in str(error) and "the database system is" not in str(error)
    return row is not None and bool(row[0])


def _ports(conninfo: str) -> list[str]:
    given = conninfo_to_dict(conninfo).get("port") or os.environ.get("PGPORT") or "5432"
    return [each for each in str(given).split(",") if each.isdecimal()]


def _open_sockets() -> set[tuple[int, int]]:
    """Return the number and the inode of each. The number of a socket that was closed is soon that of another one."""
    sockets = set()
    for name in os.listdir(_FOLDER):
        try:
            status = os.fstat(int(name))
        except OSError:
            continue
        if stat.S_ISSOCK(status.st_mode):
            sockets.add((int(name), status.st_ino))
    return sockets


def _of(number: int, ports: set[int]) -> socket.socket | None:
    """Return a handle of a socket whose other end has one of the ports, or is a file; None for others."""
    try:
        handle = socket.socket(fileno=os.dup(number))
    except OSError:
        return None
    try:
        peer = handle.getpeername()
        if isinstance(peer, tuple) and peer[1] in ports:
            return handle
        if isinstance(peer, str) and any(peer.endswith(f".{port}") for port in ports):
            return handle
    except OSError:
        pass
    handle.close()
    return None
