"""Stands in front of an HTTP server on loopback and does to some requests what networks and stores do.

    Fault.REFUSED       `refusal`, 503 SlowDown unless a test says another, and nothing reaches the server
    Fault.BROKEN        the connection ends before the server hears of it
    Fault.LOST_ANSWER   the server carries it out, the connection ends without an answer
    Fault.CUT           half of the answer's body, then the end of the connection
    Fault.LAX           the request goes on without its conditions, as to a store that does not know them
    Fault.LATE          the answer takes its time
    Fault.STALE         a list is answered as it was when it was last asked for; others go on

`plan`: asked for each request with its method and path; None: nothing happens to it. `heard`: all that were asked.
"""

from __future__ import annotations

import contextlib
import enum
import threading
import time
from collections.abc import Callable, Iterator
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple

Fault = enum.Enum("Fault", "REFUSED BROKEN LOST_ANSWER CUT LAX LATE STALE")
_LATE_SECONDS = 0.2
Plan = Callable[[str, str], Fault | None]


class Heard(NamedTuple):
    """A request; names of headers in lower case."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes


class FaultyProxy(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128  # whoever finds it full tries again after a second
    plan: Plan = staticmethod(lambda method, path: None)
    refusal = (503, b"<Error><Code>SlowDown</Code></Error>")

    def __init__(self, server_port: int) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.server_port_behind = server_port
        self.heard: list[Heard] = []
        self.lists: dict[str, bytes] = {}

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Connections that we end are no news."""


@contextlib.contextmanager
def faulty_proxy(server_port: int) -> Iterator[FaultyProxy]:
    proxy = FaultyProxy(server_port)
    thread = threading.Thread(target=proxy.serve_forever, daemon=True)
    thread.start()
    try:
        yield proxy
    finally:
        proxy.shutdown()
        proxy.server_close()
        thread.join()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = (
        True  # a body is sent behind its head: it would wait 40 ms for an answer
    )
    server: FaultyProxy

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def _serve(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        told = {name.lower(): value for name, value in self.headers.items()}
        self.server.heard.append(Heard(self.command, self.path, told, body))
        fault = self.server.plan(self.command, self.path)
        if fault is Fault.BROKEN:
            self.close_connection = True
            return
        if fault is Fault.REFUSED:
            status, answered = self.server.refusal
            self._answer(status, {}, answered)
            return
        headers = dict(self.headers.items())
        if fault is Fault.LAX:
            headers = {n: v for n, v in headers.items() if not n.lower().startswith(_CONDITIONS)}
        behind = HTTPConnection("127.0.0.1", self.server.server_port_behind)
        behind.request(self.command, self.path, body, headers)
        answer = behind.getresponse()
        data = answer.read()
        behind.close()
        if fault is Fault.LOST_ANSWER:
            self.close_connection = True
            return
        if fault is Fault.LATE:
            time.sleep(_LATE_SECONDS)
        kept = {n: v for n, v in answer.getheaders() if n.lower() not in _OWN}
        if "list-type=" in self.path:
            before = self.server.lists.get(self.path, data)
            self.server.lists[self.path] = data
            if fault is Fault.STALE:
                data = before
                kept = {n: v for n, v in kept.items() if n.lower() != "content-length"}
        self._answer(answer.status, kept, data, cut=fault is Fault.CUT)

    def _answer(
        self, status: int, headers: dict[str, str], data: bytes, *, cut: bool = False
    ) -> None:
        self.send_response_only(status)
        for name, value in headers.items():
            self.send_header(name, value)
        if "content-length" not in {name.lower() for name in headers}:
            self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data[: len(data) // 2] if cut else data)
        self.close_connection = cut or self.close_connection

    do_GET = do_PUT = do_HEAD = do_POST = do_DELETE = _serve


_OWN = ("connection", "transfer-encoding", "date", "server")
_CONDITIONS = ("if-", "x-goog-if-")
