"""Errors as answers, and back: each kind has its status, and a client gets the error that was raised."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from fastapi import FastAPI

import widetable as wt
from widetable_meta.answering import answer_errors, error_answer
from widetable_meta.error_form import (
    STATUSES,
    NotNowError,
    error_body,
    error_of,
    fault_of_ours,
    headers_of,
    status_of,
)

EXPECTED = {
    wt.InvalidError: 400,
    wt.NotFoundError: 404,
    wt.ConflictError: 409,
    wt.UnsupportedError: 501,
    wt.DamagedError: 500,
    wt.StorageError: 503,
}


def error(kind: type[wt.WidetableError], subject: str = "s") -> wt.WidetableError:
    return kind(subject, found="f", expected="e", action="a")


def test_every_kind_has_a_status() -> None:
    assert STATUSES == EXPECTED
    assert set(STATUSES) == set(wt.WidetableError.__subclasses__())


@pytest.mark.parametrize("kind", EXPECTED)
def test_a_client_gets_what_was_raised(kind: type[wt.WidetableError]) -> None:
    raised = error(kind)
    found = error_of(json.loads(bytes(error_answer(raised).body)), "GET x")
    assert type(found) is kind
    assert str(found) == str(raised) == error_body(raised)["message"]
    assert headers_of(raised) == {}


def test_only_what_was_not_done_says_to_come_again() -> None:
    busy = error(NotNowError)
    assert (status_of(busy), headers_of(busy)) == (503, {"Retry-After": "1"})
    assert error_body(busy)["kind"] == "StorageError"


def test_texts_that_nobody_can_write_are_answered() -> None:
    body = bytes(error_answer(error(wt.InvalidError, "\ud800\0" + "x" * 10_000)).body)
    assert len(body) < 10_000
    assert json.loads(body)["subject"].startswith("\ud800\0x")


@pytest.mark.parametrize("body", [None, [], {"kind": "OSError"}, {"detail": "x"}, "x"])
def test_an_answer_of_somebody_else_is_a_storage_error(body: object) -> None:
    assert type(error_of(body, "GET x")) is wt.StorageError


def test_a_fault_says_nothing_of_what_it_was() -> None:
    assert "log" in str(fault_of_ours())


def test_a_fault_is_answered_without_its_traceback_and_left_to_the_log() -> None:
    app, sent = FastAPI(), list[Any]()
    answer_errors(app)

    @app.get("/")
    def divide() -> float:
        return 1 / 0

    async def receive() -> Any:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Any) -> None:
        sent.append(message)

    scope = {"type": "http", "method": "GET", "path": "/", "raw_path": b"/", "query_string": b""}
    scope |= {"headers": [], "http_version": "1.1", "scheme": "http", "server": ("x", 1)}
    with pytest.raises(ZeroDivisionError):  # the server logs it
        asyncio.run(app(scope, receive, send))
    assert sent[0]["status"] == 500
    told = json.loads(sent[1]["body"])
    assert told["kind"] == "StorageError"
    assert "Zero" not in str(told)
