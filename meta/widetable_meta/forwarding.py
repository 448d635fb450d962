"""Passes on to the leader what changes something; all else is answered by whoever is asked.

A request that was passed on says so, and is not passed on again: an instance that does not lead any more refuses it.
Only paths below /v1/ are passed on, as they stand; sessions stay where they were opened. Where there is no leader, or
it cannot be reached, the answer is a StorageError with Retry-After: nothing has been done. Where it went while it was
at it, the answer is 502 without: nobody knows.

    b is asked, a leads        b ─► a                        a's answer
    a is gone                  b ─► a: no connection         b looks, leads itself: it answers; or c leads: b ─► c
    a leads no more            b ─► a, passed on already     a refuses: 503 with Retry-After
    a dies at it               b ─► a, connection breaks     502

A request so goes through two instances at most, whatever each believes of the others.
"""

from __future__ import annotations

import logging
from http import HTTPStatus
from typing import Final

import requests
from fastapi import Response
from fastapi.concurrency import run_in_threadpool
from starlette.types import ASGIApp, Receive, Scope, Send

from widetable import StorageError, WidetableError
from widetable_meta.answering import error_answer
from widetable_meta.error_form import RETRY_AFTER, NotNowError
from widetable_meta.leadership import Leadership
from widetable_meta.request_body import BODY
from widetable_meta.unsent_request import is_unsent

FORWARDED: Final = "X-Widetable-Forwarded"
_LOOKS: Final = frozenset({"GET", "HEAD", "OPTIONS"})
_BELOW: Final = b"/v1/"
_SESSIONS: Final = b"/v1/sessions"
# To connect, and for the answer: a revision takes its time.
_PATIENCE_SECONDS: Final = (2.0, 600.0)
_log = logging.getLogger("widetable")


class ToTheLeader:
    """Around the application of an instance."""

    def __init__(self, app: ASGIApp, leadership: Leadership) -> None:
        self._app = app
        self._leadership = leadership

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if not _is_for_the_leader(scope) or self._leadership.is_here:
            await self._app(scope, receive, send)
            return
        answer = await run_in_threadpool(self._passed_on, scope)
        if answer is None:
            await self._app(scope, receive, send)
        else:
            await answer(scope, receive, send)

    def _passed_on(self, scope: Scope) -> Response | None:
        """The leader's answer; None where this instance leads by now. In a thread, as it waits
        for another host. The lease is read for each such request: who leads may have changed
        since the last look of the thread.
        """
        try:
            self._leadership.look()
        except WidetableError as error:
            return error_answer(error)
        for _ in range(2):
            url = self._leadership.leader_url
            if self._leadership.is_here:
                return None
            if url is None or _header(scope, FORWARDED) is not None:
                break
            try:
                return _asked(url, scope)
            except requests.RequestException as refusal:
                if not is_unsent(refusal):
                    return _unknown(url)
                _log.info("the leader %s is not reached: %s", url, refusal)
            self._leadership.look()
        return error_answer(_no_leader(self._leadership.leader_url))


def _is_for_the_leader(scope: Scope) -> bool:
    """By method and path alone: what only looks, and sessions, which are their instance's, are
    answered here.
    """
    if scope["type"] != "http" or scope["method"] in _LOOKS:
        return False
    path: bytes = scope["raw_path"]
    return path.startswith(_BELOW) and not path.startswith(_SESSIONS)


def _asked(url: str, scope: Scope) -> Response:
    """The request as it stands: path and query in the bytes that came, so that a quoted slash in
    a name stays one. Of its headers the content type alone goes along, of the answer's that and
    Retry-After.
    """
    query = scope["query_string"].decode("ascii", "replace")
    with requests.Session() as session:
        session.trust_env = False  # no proxy stands between instances
        answer = session.request(
            scope["method"],
            f"{url}{scope['raw_path'].decode('ascii', 'replace')}{f'?{query}' if query else ''}",
            data=scope[BODY],
            headers={
                "Content-Type": _header(scope, "Content-Type") or "application/json",
                FORWARDED: "1",
            },
            timeout=_PATIENCE_SECONDS,
            allow_redirects=False,
        )
    passed = {name: answer.headers[name] for name in (RETRY_AFTER,) if name in answer.headers}
    kind = answer.headers.get("Content-Type")
    return Response(answer.content, answer.status_code, passed, kind)


def _header(scope: Scope, name: str) -> str | None:
    wanted = name.lower().encode()
    for key, value in scope["headers"]:
        if key == wanted:
            return str(value.decode("latin-1"))
    return None


def _no_leader(url: str | None) -> NotNowError:
    return NotNowError(
        "the leader of the services",
        found="none" if url is None else f"{url}, which does not answer, or leads no more",
        expected="an instance that leads",
        action="Ask again: another one leads after some seconds.",
    )


def _unknown(url: str) -> Response:
    error = StorageError(
        f"the leader {url}",
        found="that it went before it had answered",
        expected="an answer",
        action="Look whether it was done, then ask again.",
    )
    return error_answer(error, HTTPStatus.BAD_GATEWAY)
