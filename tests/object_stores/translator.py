"""An HTTP server on loopback that answers by asking another one: what a request means there, a function says."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple


class Asked(NamedTuple):
    """Names of headers in lower case."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes = b""


class Answered(NamedTuple):
    """Names of headers in lower case. Only a HEAD's has a content-length; others are counted."""

    status: int
    headers: dict[str, str]
    body: bytes = b""


@contextlib.contextmanager
def translator(translate: Callable[[Asked], Answered]) -> Iterator[int]:
    """The port, while it runs."""
    server = _Server(("127.0.0.1", 0), _Handler)
    server.translate = translate
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def ask(port: int, asked: Asked) -> Answered:
    """Of the server behind."""
    with contextlib.closing(HTTPConnection("127.0.0.1", port)) as connection:
        headers = {name: value for name, value in asked.headers.items() if name not in _OWN}
        connection.request(asked.method, asked.path, asked.body, headers)
        answer = connection.getresponse()
        found = {name.lower(): value for name, value in answer.getheaders()}
        return Answered(answer.status, found, answer.read())


_OWN = ("host", "connection", "transfer-encoding", "content-length", "date", "server")


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128  # whoever finds it full tries again after a second
    translate: Callable[[Asked], Answered]

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Clients that are killed are no news."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    # A body is sent behind its head: it would wait 40 ms for an answer.
    disable_nagle_algorithm = True
    server: _Server

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def _serve(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        headers = {name.lower(): value for name, value in self.headers.items()}
        answer = self.server.translate(Asked(self.command, self.path, headers, body))
        self.send_response_only(answer.status)
        for name, value in answer.headers.items():
            if name not in _OWN:
                self.send_header(name, value)
        length = answer.headers.get("content-length", "0")
        self.send_header(
            "Content-Length", length if self.command == "HEAD" else str(len(answer.body))
        )
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(answer.body)

    do_GET = do_PUT = do_HEAD = do_POST = do_DELETE = _serve
