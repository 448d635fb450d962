"""The address at which Prometheus reads the gauges of a job, while the job runs.

Each scrape reads the state of the job anew, in a session of its own: a job that hangs does not hide what it holds. If
the server or the warehouse does not answer, the one gauge `widetable_cdc_readable` is 0. Raises InvalidError for an
address that is none, or that another process listens on.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Final

from prometheus_client import CollectorRegistry, start_http_server
from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from widetable import InvalidError, WidetableError
from widetable_cdc.jobs.config import SyncConfig
from widetable_cdc.measures.job_gauges import job_gauges
from widetable_cdc.running.sync import Sync

_LOCAL: Final = "127.0.0.1"
_PORTS: Final = range(65_536)


@contextlib.contextmanager
def metrics_endpoint(config: SyncConfig, address: str) -> Iterator[int]:
    """Listen at an address while the block runs.

    address: PORT, on this machine alone, or HOST:PORT. Port 0 takes a free one. Yields the port.
    """
    host, port = _parts_of(address)
    registry = CollectorRegistry()
    registry.register(_JobCollector(config))
    try:
        server, thread = start_http_server(port, host, registry)
    except OSError as cause:
        raise InvalidError(
            f"address {address!r}",
            found=f"an address on which nobody can listen: {cause.strerror or cause}",
            expected="a free port of this machine",
            action="Choose another one.",
        ) from cause
    try:
        yield int(server.server_port)
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class _JobCollector(Collector):
    """Reads the state of a job when a scrape comes."""

    def __init__(self, config: SyncConfig) -> None:
        self._config = config

    def describe(self) -> Iterator[Metric]:
        """Yield nothing, so that no state is read before a scrape."""
        return iter(())

    def collect(self) -> Iterator[Metric]:
        """Yield the gauges."""
        try:
            status = Sync(self._config).status()
        except WidetableError:
            status = None  # the job itself warns
        yield from job_gauges(self._config.name, status)


def _parts_of(address: str) -> tuple[str, int]:
    host, _, port = address.rpartition(":")
    if not port.isdecimal() or int(port) not in _PORTS:
        raise InvalidError(
            f"address {address!r}",
            found="no port",
            expected="PORT or HOST:PORT, such as 9187 or 0.0.0.0:9187",
            action="Correct the address.",
        )
    return host or _LOCAL, int(port)
