"""Answers in JSON that every client can read, and errors as answers. The text is plain ASCII, so that names with lone
surrogates can be sent.

    WidetableError           the status of its kind (`error_form`), its parts
    a malformed request      400, InvalidError naming the first place: body.sinks, query.limit
    no such path, method     404, 405, ..., as NotFoundError or InvalidError
    any other error          500, without its text: that is in the log of the service
"""

from __future__ import annotations

import json
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from widetable import InvalidError, NotFoundError, WidetableError
from widetable.connector import arguments
from widetable_meta.error_form import error_body, fault_of_ours, headers_of, status_of


class PlainJson(JSONResponse):
    """A JSON answer in ASCII."""

    def render(self, content: Any) -> bytes:
        """Return the content as JSON."""
        return json.dumps(content, allow_nan=False, separators=(",", ":")).encode("ascii")


def error_answer(error: WidetableError, status: int | None = None) -> PlainJson:
    """Return an error as an answer. status: in place of the status of its kind."""
    return PlainJson(error_body(error), status or status_of(error), headers_of(error))


def answer_errors(app: FastAPI) -> None:
    """Make the application answer every error that is raised in it."""
    app.add_exception_handler(WidetableError, _of_an_error)
    app.add_exception_handler(RequestValidationError, _of_a_request)
    app.add_exception_handler(HTTPException, _of_no_route)
    app.add_exception_handler(Exception, _of_a_fault)


async def _of_an_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, WidetableError)
    return error_answer(error)


async def _of_a_request(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    first = error.errors()[0]
    place = ".".join(str(part) for part in first["loc"])
    return error_answer(arguments.refused(first.get("input"), place, str(first["msg"])))


async def _of_no_route(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    kind = NotFoundError if error.status_code == HTTPStatus.NOT_FOUND else InvalidError
    refusal = kind(
        f"{request.method} {request.url.path[:200]!a}",
        found=str(error.detail),
        expected="a request that /openapi.json lists",
        action="Correct it.",
    )
    answer = error_answer(refusal, error.status_code)
    answer.headers.update(error.headers or {})
    return answer


async def _of_a_fault(request: Request, error: Exception) -> Response:
    """Answer an unexpected error. The server logs it afterwards."""
    return error_answer(fault_of_ours(), HTTPStatus.INTERNAL_SERVER_ERROR)
