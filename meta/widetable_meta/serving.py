"""Runs one instance of the service until the process receives SIGTERM or SIGINT, which end it within seconds.

Running requests are finished, sessions are closed, and the lease is released. Raises StorageError for a port that is
not available, InvalidError for an invalid host, and what the first look at the warehouse raises.

    listen      a port that is taken is an error before anything else begins; connections wait from now on
    start       first look at the lease, threads
    said(url)   clients may connect: a request that comes before the server runs is answered later
    run         until a signal
    end         sessions, lease; also if one of the steps has failed
"""

from __future__ import annotations

import signal
import socket
from collections.abc import Callable
from types import FrameType
from typing import Final

import uvicorn

from widetable import InvalidError, StorageError
from widetable.connector import arguments
from widetable_meta.application import Instance
from widetable_meta.service_url import service_url

_LARGEST_PORT: Final = 65_535
# The most connections and requests at a time; the server answers more with 503.
_MAX_AT_ONCE: Final = 256
_END_SECONDS: Final = 5
_ANYWHERE: Final = frozenset({"0.0.0.0", "::", ""})


def serve(
    warehouse: str, host: str, port: int, url: str | None, said: Callable[[str], None]
) -> None:
    """Serve until a signal. port: 0 for a free one. url: the URL that other instances use; None: that of host and port.
    said: receives the URL as soon as clients may connect.
    """
    arguments.whole_number(port, "--port", least=0, most=_LARGEST_PORT)
    with _listening(host, port) as listener:
        own_url = (
            _own_url(host, listener.getsockname()[1]) if url is None else service_url(url, "--url")
        )
        instance = Instance(warehouse, own_url)
        config = uvicorn.Config(
            instance.application,
            log_config=None,
            access_log=False,
            limit_concurrency=_MAX_AT_ONCE,
            timeout_graceful_shutdown=_END_SECONDS,
            server_header=False,
        )
        server = uvicorn.Server(config)
        _end_by_signals(server)
        try:
            instance.start()
            said(own_url)
            server.run([listener])
        finally:
            instance.end()


def _end_by_signals(server: uvicorn.Server) -> None:
    """Ignore signals at the end. The server handles them while it runs, and raises them again when it has ended."""

    def end(number: int, frame: FrameType | None) -> None:
        server.should_exit = True

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, end)


def _listening(host: str, port: int) -> socket.socket:
    name = arguments.text(host, "--host")
    try:
        family, *_, address = socket.getaddrinfo(name, port, type=socket.SOCK_STREAM)[0]
    except (socket.gaierror, UnicodeError, ValueError) as refusal:
        raise InvalidError(
            "--host",
            found=f"{name[:200]!a}: {refusal}",
            expected="a name or address of this machine",
            action="Correct the host.",
        ) from refusal
    try:
        listener = socket.create_server(address, family=family)
    except OSError as refusal:
        raise StorageError(
            f"port {port} of {name[:200]!a}",
            found=f"that it is not available: {refusal.strerror or refusal}",
            expected="a free port",
            action="Choose another one by --port, or end the process that listens there.",
        ) from refusal
    # Connections inherit it. Head and body of an answer are sent separately, and would wait for each other (40 ms).
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listener


def _own_url(host: str, port: int) -> str:
    """Return the URL of this instance. A service that listens everywhere has the name of its host; IPv6 addresses stand
    in brackets.
    """
    name = socket.gethostname() if host in _ANYWHERE else host
    return f"http://[{name}]:{port}" if ":" in name else f"http://{name}:{port}"
