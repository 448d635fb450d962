"""Passes requests that change something on to the leader; the instance that is asked answers all others.

A request that was passed on is marked, and is not passed on again: an instance that does not lead any more refuses it.
Only paths below /v1/ are passed on, unchanged; sessions stay where they were opened. If there is no leader, or it
cannot be reached, the answer is a StorageError with Retry-After: nothing has been done. If the leader ended while it
worked, the answer is 502 without Retry-After: the outcome is unknown.

    b is asked, a leads        b ─► a                        a's answer
    a is gone                  b ─► a: no connection         b looks, leads itself: it answers; or c leads: b ─► c
    a no longer leads          b ─► a, passed on already     a refuses: 503 with Retry-After
    a dies meanwhile           b ─► a, connection breaks     502

So a request goes through two instances at most, whatever each believes about the others.
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
from widetable.connector import ErrorCode
from widetable_meta.answering import error_answer
from widetable_meta.error_form import RETRY_AFTER, NotNowError
from widetable_meta.leadership import Leadership
from widetable_meta.request_body import BODY
from widetable_meta.unsent_request import is_unsent

FORWARDED: Final = "X-Widetable-Forwarded"
_READING: Final = frozenset({"GET", "HEAD", "OPTIONS"})
_BELOW: Final = b"/v1/"
_SESSIONS: Final = b"/v1/sessions"
# Seconds to connect, and to wait for the answer: a revision may take long.
_PATIENCE_SECONDS: Final = (2.0, 600.0)
_log = logging.getLogger("widetable")


class LeaderForwarding:
    """The layer around the application of an instance."""

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
        """Return the leader's answer; None: this instance leads by now.

        It runs in a thread, because it waits for another host. The lease is read for each such request, because the
        leader may have changed since the last look of the thread.
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
                return _forwarded(url, scope)
            except requests.RequestException as refusal:
                if not is_unsent(refusal):
                    return _unknown(url)
                _log.info("the leader %s is not reached: %s", url, refusal)
            self._leadership.look()
        return error_answer(_no_leader(self._leadership.leader_url))


def _is_for_the_leader(scope: Scope) -> bool:
    """Decide by method and path alone. Requests that only read are answered here, and those of sessions, which belong
    to their instance.
    """
    if scope["type"] != "http" or scope["method"] in _READING:
        return False
    path: bytes = scope["raw_path"]
    return path.startswith(_BELOW) and not path.startswith(_SESSIONS)


def _forwarded(url: str, scope: Scope) -> Response:
    """Send the request unchanged, with path and query in the bytes that came, so that a quoted slash in a name stays
    quoted.

    Only the content type of its headers is sent, and only content type and Retry-After of the answer are returned.
    """
    query = scope["query_string"].decode("ascii", "replace")
    with requests.Session() as session:
        session.trust_env = False  # no proxy between instances
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
        found="none" if url is None else f"{url}, which does not answer, or no longer leads",
        expected="an instance that leads",
        action="Ask again after some seconds, when another instance leads.",
    )


def _unknown(url: str) -> Response:
    error = StorageError(
        f"the leader {url}",
        found="that it ended before it answered",
        expected="an answer",
        action="Check whether the change was made, then ask again.",
        code=ErrorCode.SERVICE_UNREACHABLE,
    )
    return error_answer(error, HTTPStatus.BAD_GATEWAY)
