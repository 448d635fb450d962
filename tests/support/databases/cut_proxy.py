"""Stands between a client and a server of TCP on loopback and does what networks do.

    cut(where, after, how)   the connection that carries the byte number `after` from now on, in a direction, ends there
    refuse(), accept()       nobody listens; somebody does again
    stall(), heal()          connections are accepted, and no byte goes on; all goes on again

Directions: "up" to the server, "down" to the client. Ways of a cut: Cut.CLOSE, both sides see an end; Cut.RESET, both
see a reset; Cut.STALL, bytes are taken and none goes on, until `heal`. What is before the byte arrives: half a message,
as a rule.
"""

from __future__ import annotations

import contextlib
import enum
import select
import socket
import struct
import threading
from collections import Counter
from collections.abc import Iterator

Cut = enum.Enum("Cut", "CLOSE RESET STALL")


class _Pair:
    """A connection: both of its ends."""

    def __init__(self, client: socket.socket, server: socket.socket) -> None:
        self.ends = {"up": (client, server), "down": (server, client)}
        self.is_stalled = False

    def end(self, *, with_reset: bool = False) -> None:
        for each in self.ends["up"]:
            if with_reset:
                linger = struct.pack("ii", 1, 0)
                with contextlib.suppress(OSError):
                    each.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
            else:
                with contextlib.suppress(OSError):
                    each.shutdown(socket.SHUT_RDWR)
            each.close()


def _received(source: socket.socket) -> bytes:
    """Wait for bytes, in short waits: a call that waits keeps the connection open, and close would send nothing."""
    while source.fileno() >= 0:
        with contextlib.suppress(ValueError):
            if select.select([source], [], [], 0.02)[0]:
                return source.recv(1 << 16)
    return b""


class CutProxy:
    """port: of the proxy. carried: bytes by direction. cuts: how many were made."""

    def __init__(self, server_port: int) -> None:
        self._behind = server_port
        self._lock = threading.Condition()
        self._plan: tuple[str, int, Cut] | None = None
        self._pairs: set[_Pair] = set()
        self._is_stalled = False
        self._is_over = False
        self.carried: Counter[str] = Counter()
        self.cuts = 0
        self._listener = self._listening(0)
        self.port = int(self._listener.getsockname()[1])

    def cut(self, where: str, after: int, how: Cut) -> None:
        with self._lock:
            self._plan = (where, self.carried[where] + after, how)

    def refuse(self) -> None:
        self._listener.close()

    def accept(self) -> None:
        self._listener = self._listening(self.port)

    def stall(self) -> None:
        with self._lock:
            self._is_stalled = True

    def heal(self) -> None:
        """Let all bytes go on, those that waited as well, and make no cut."""
        with self._lock:
            self._plan, self._is_stalled = None, False
            for pair in self._pairs:
                pair.is_stalled = False
            self._lock.notify_all()

    def end(self) -> None:
        with self._lock:
            self._is_over = True
            self._lock.notify_all()
        self._listener.close()
        for pair in list(self._pairs):
            pair.end()

    def _listening(self, port: int) -> socket.socket:
        listener = socket.create_server(("127.0.0.1", port), backlog=64)
        listener.settimeout(0.05)
        threading.Thread(target=self._serve, args=(listener,), daemon=True).start()
        return listener

    def _serve(self, listener: socket.socket) -> None:
        while True:
            try:
                client, _ = listener.accept()
            except TimeoutError:
                continue
            except OSError:
                return
            client.settimeout(None)
            try:
                server = socket.create_connection(("127.0.0.1", self._behind))
            except OSError:
                client.close()
                continue
            pair = _Pair(client, server)
            with self._lock:
                self._pairs.add(pair)
            for where in ("up", "down"):
                threading.Thread(target=self._pump, args=(pair, where), daemon=True).start()

    def _pump(self, pair: _Pair, where: str) -> None:
        source, sink = pair.ends[where]
        with contextlib.suppress(OSError):
            while data := _received(source):
                head, how = self._before_cut(pair, where, data)
                sink.sendall(head)
                if how is not None and how is not Cut.STALL:
                    pair.end(with_reset=how is Cut.RESET)
                    break
                with self._lock:
                    while (pair.is_stalled or self._is_stalled) and not self._is_over:
                        self._lock.wait()
                sink.sendall(data[len(head) :])
        with self._lock:
            self._pairs.discard(pair)
        pair.end()

    def _before_cut(self, pair: _Pair, where: str, data: bytes) -> tuple[bytes, Cut | None]:
        """Count the bytes, and return those that go on at once, and the cut that follows them."""
        with self._lock:
            before = self.carried[where]
            self.carried[where] += len(data)
            if self._is_stalled or pair.is_stalled:
                return b"", Cut.STALL
            if self._plan is None:
                return data, None
            planned, place, how = self._plan
            if planned != where or place >= before + len(data):
                return data, None
            self._plan = None
            self.cuts += 1
            pair.is_stalled = how is Cut.STALL
            return data[: max(0, place - before)], how


@contextlib.contextmanager
def cut_proxy(server_port: int) -> Iterator[CutProxy]:
    proxy = CutProxy(server_port)
    try:
        yield proxy
    finally:
        proxy.end()
