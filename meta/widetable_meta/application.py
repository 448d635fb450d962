"""One instance of the service: its routes, and the threads beside it. `start` raises what the storage raises.

    request ─► MeasuredRequests ─► WholeBody ─► LeaderForwarding ─► routes: /v1 (`rest`), / (`page`), /metrics

The order matters: each request is counted, including refused ones; a body is complete before the request may be passed
on to the leader, which needs all of it. One thread looks who leads, one does the work of the leader, and one closes
sessions. Requests that read tables run in the thread pool of the server.
"""

from __future__ import annotations

from functools import partial
from typing import Final

from fastapi import APIRouter, FastAPI, Response
from starlette.middleware import Middleware

from widetable import Catalog, Topology
from widetable.connector import ServiceLease, locate
from widetable_meta.answering import PlainJson, answer_errors
from widetable_meta.forwarding import LeaderForwarding
from widetable_meta.leadership import Leadership
from widetable_meta.measures import MeasuredRequests, Measures
from widetable_meta.open_sessions import OpenSessions
from widetable_meta.page import page_router
from widetable_meta.request_body import WholeBody
from widetable_meta.rest import VERSION, rest_router

_METRICS_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
# How much of the time in which a service ends the leader's work may take to stop.
_END_SECONDS: Final = 3.0


class Instance:
    """One instance. url: the URL that other instances use. `serving` makes, starts and ends it once."""

    def __init__(self, warehouse: str, url: str) -> None:
        file_io, root = locate(warehouse)
        catalog = Catalog(root, file_io=file_io)
        topology = Topology(catalog, for_others=True)
        self.sessions = OpenSessions(partial(Catalog, root, file_io=file_io))
        self.leadership = Leadership(ServiceLease(file_io, root, url), topology, root, url)
        self.measures = Measures(catalog, self.sessions, self.leadership)
        self.application = self._application(catalog, topology)

    def start(self) -> None:
        """Start the threads. From now on the instance leads if no other one does."""
        self.sessions.start()
        self.leadership.start()

    def end(self) -> None:
        """Release the lease, and close all sessions."""
        self.sessions.end()
        self.leadership.end(_END_SECONDS)

    def _application(self, catalog: Catalog, topology: Topology) -> FastAPI:
        app = FastAPI(
            title="widetable meta",
            version=VERSION,
            description="Jobs, tables and barriers of a warehouse, and sessions over its tables.",
            docs_url=None,  # these pages fetch scripts
            redoc_url=None,
            redirect_slashes=False,
            default_response_class=PlainJson,
            middleware=[
                Middleware(MeasuredRequests, measures=self.measures),
                Middleware(WholeBody),
                Middleware(LeaderForwarding, leadership=self.leadership),
            ],
        )
        answer_errors(app)
        app.include_router(rest_router(catalog, topology, self.sessions, self.leadership))
        app.include_router(page_router(catalog.warehouse, topology, self.sessions, self.leadership))
        app.include_router(_metrics_router(self.measures))
        return app


def _metrics_router(measures: Measures) -> APIRouter:
    router = APIRouter()

    @router.get("/metrics", response_class=Response)
    def metrics() -> Response:
        """What Prometheus reads."""
        return Response(measures.text(), media_type=_METRICS_TYPE)

    return router
