"""Runs one instance of the service until the process is told to end: by SIGTERM or SIGINT, which end it in seconds.

What is being answered is finished, sessions are closed, the lease is given back. Raises StorageError for a port that
cannot be had, InvalidError for a host that is none, and what the first look at the warehouse raises.

    listen      a port that is taken is an error before anything is begun; from here on connections wait
    start       first look at the lease, threads
    said(url)   who waits for it may connect: a request that comes before the server runs is answered then
    run         until a signal
    end         sessions, lease; also where one of the steps has failed
"""

from __future__ import annotations

import signal
import socket
from collections.abc import Callable
from types import FrameType
from typing import Final

import uvicorn

from widetable import InvalidError, StorageError
from widetable.connector import text, whole_number
from widetable_meta.application import Instance
from widetable_meta.service_url import service_url

_LARGEST_PORT: Final = 65_535
# Of connections and requests; more are answered 503 by the server itself.
_MOST_AT_ONCE: Final = 256
_END_SECONDS: Final = 5
_ANYWHERE: Final = frozenset({"0.0.0.0", "::", ""})


def serve(
    warehouse: str, host: str, port: int, url: str | None, said: Callable[[str], None]
) -> None:
    """port: 0 for one that is free. url: under which other instances reach this one; None: that of host and port.
    said: is given the URL as soon as it is answered there.
    """
    whole_number(port, "--port", least=0, most=_LARGEST_PORT)
    with _listening(host, port) as listener:
        own_url = (
            _own_url(host, listener.getsockname()[1]) if url is None else service_url(url, "--url")
        )
        instance = Instance(warehouse, own_url)
        config = uvicorn.Config(
            instance.application,
            log_config=None,
            access_log=False,
            limit_concurrency=_MOST_AT_ONCE,
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
    """The server takes signals over while it runs, and raises them anew once it has ended: then they do no more."""

    def end(number: int, frame: FrameType | None) -> None:
        server.should_exit = True

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, end)


def _listening(host: str, port: int) -> socket.socket:
    name = text(host, "--host")
    try:
        family, *_, address = socket.getaddrinfo(name, port, type=socket.SOCK_STREAM)[0]
    except (socket.gaierror, UnicodeError, ValueError) as refusal:
        raise InvalidError(
            "--host",
            found=f"{name[:200]!a}: {refusal}",
            expected="a name or address of this machine",
            action="Correct it.",
        ) from refusal
    try:
        listener = socket.create_server(address, family=family)
    except OSError as refusal:
        raise StorageError(
            f"port {port} of {name[:200]!a}",
            found=f"that it cannot be had: {refusal.strerror or refusal}",
            expected="a free port",
            action="Choose another one by --port, or end what listens there.",
        ) from refusal
    # Connections inherit it: head and body of an answer are sent apart, and would wait for each other (40 ms).
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listener


def _own_url(host: str, port: int) -> str:
    """A service that listens everywhere is reached by the name of its host; an address of IPv6
    stands in brackets.
    """
    name = socket.gethostname() if host in _ANYWHERE else host
    return f"http://[{name}]:{port}" if ":" in name else f"http://{name}:{port}"
