"""What Prometheus reads at /metrics: the requests of this instance, and how far the tables are, read when it asks.

    widetable_meta_requests_total{route, method, status}, widetable_meta_request_seconds{route, method}
    widetable_meta_sessions, widetable_meta_is_leader
    widetable_table_barrier_seconds{table}, widetable_table_freshness_seconds{table}: since the epoch; by the clock
    widetable_table_missing_writers{table}, widetable_common_barrier_seconds
    of every table: `table_gauges`

Raises what listing the tables raises. A table whose barriers cannot be read has `widetable_table_barriers_readable` 0;
the gauges of other tables are not affected, but the common barrier of all tables is then unknown.

Requests are counted in memory, for each instance; each scrape reads the tables again, in all instances alike. The route
is that of the program (`/v1/jobs/{job}`), not the requested path, so no caller makes new series; a request without a
route is `none`, an unknown method `other`.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from widetable import Catalog
from widetable_meta.barrier_gauges import barrier_gauges
from widetable_meta.leadership import Leadership
from widetable_meta.open_sessions import OpenSessions
from widetable_meta.table_gauges import TableGauges

_NO_ROUTE: Final = "none"
_METHODS: Final = frozenset({"GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH"})


class Measures:
    """The measures of one instance."""

    def __init__(
        self,
        catalog: Catalog,
        sessions: OpenSessions,
        leadership: Leadership,
    ) -> None:
        self._registry = CollectorRegistry()
        self.requests = Counter(
            "widetable_meta_requests",
            "Requests that were answered.",
            ["route", "method", "status"],
            registry=self._registry,
        )
        self.seconds = Histogram(
            "widetable_meta_request_seconds",
            "How long an answer took.",
            ["route", "method"],
            registry=self._registry,
        )
        self._now = _Now(catalog, sessions, leadership)
        self._tables = _Tables(TableGauges(catalog))

    def text(self) -> bytes:
        """Return all measures in the text format of Prometheus."""
        now = CollectorRegistry()
        now.register(self._now)
        now.register(self._tables)
        return generate_latest(self._registry) + generate_latest(now)


class _Tables(Collector):
    """The gauges of every table, at the time of a scrape."""

    def __init__(self, gauges: TableGauges) -> None:
        self._gauges = gauges

    def describe(self) -> Iterator[Metric]:
        """Yield nothing, so that no table is read before a scrape."""
        return iter(())

    def collect(self) -> Iterator[Metric]:
        """Yield one gauge of each kind."""
        return self._gauges.collect()


class _Now(Collector):
    """The gauges of the instance and of the barriers, at the time of a scrape."""

    def __init__(self, catalog: Catalog, sessions: OpenSessions, leadership: Leadership) -> None:
        self._catalog = catalog
        self._sessions = sessions
        self._leadership = leadership

    def describe(self) -> Iterator[Metric]:
        """Yield nothing, so that no table is read before a scrape."""
        return iter(())

    def collect(self) -> Iterator[Metric]:
        """Yield one gauge of each kind."""
        yield GaugeMetricFamily(
            "widetable_meta_sessions", "Sessions that are open here.", self._sessions.count()
        )
        yield GaugeMetricFamily(
            "widetable_meta_is_leader",
            "Whether this instance leads.",
            float(self._leadership.is_here),
        )
        yield from barrier_gauges(self._catalog)


class MeasuredRequests:
    """The layer around the application that counts requests by route, of which there are few."""

    def __init__(self, app: ASGIApp, measures: Measures) -> None:
        self._app = app
        self._measures = measures

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began, status = time.perf_counter(), 500

        async def noting(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self._app(scope, receive, noting)
        finally:
            route = getattr(scope.get("route"), "path", _NO_ROUTE)
            method = scope["method"] if scope["method"] in _METHODS else "other"
            self._measures.requests.labels(route, method, str(status)).inc()
            self._measures.seconds.labels(route, method).observe(time.perf_counter() - began)
