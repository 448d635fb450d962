"""Reads the body of a request as a whole before anything else looks at it, up to MAX_BYTES; a longer one is refused.

ASGI: https://asgi.readthedocs.io/en/latest/specs/www.html

So the memory for each request that the server admits at a time is bounded by MAX_BYTES and one chunk. The length in a
header is not trusted; received bytes are counted. A caller that goes away before the end of the body gets no answer,
and nothing is done.
"""

from __future__ import annotations

from http import HTTPStatus
from typing import Final

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from widetable import InvalidError
from widetable_meta.answering import error_answer

MAX_BYTES: Final = 1_000_000
BODY: Final = "widetable.body"


class WholeBody:
    """Puts the body into the scope, under BODY, and gives it to the routes once more."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        body = bytearray()
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                return
            body += message.get("body", b"")
            if len(body) > MAX_BYTES:
                await error_answer(_too_long(), HTTPStatus.REQUEST_ENTITY_TOO_LARGE)(
                    scope, receive, send
                )
                return
            if not message.get("more_body", False):
                break
        scope[BODY] = bytes(body)
        is_read = False

        # The routes receive the body as if nobody had read it: once, then what comes after it.
        async def again() -> Message:
            nonlocal is_read
            if is_read:
                return await receive()
            is_read = True
            return {"type": "http.request", "body": scope[BODY], "more_body": False}

        await self._app(scope, again, send)


def _too_long() -> InvalidError:
    return InvalidError(
        "the body of the request",
        found=f"more than {MAX_BYTES} bytes",
        expected=f"{MAX_BYTES} at most",
        action="Send a smaller request.",
    )
