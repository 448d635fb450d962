"""Errors as the service answers them: a status, and one JSON object, from which a client makes the error again. Pure.

    {"kind": one of the six kinds of widetable/errors.py, "message": the error in one text,
     "subject": .., "found": .., "expected": .., "action": ..}

A client may call again, here or elsewhere, what was answered with Retry-After: nothing has been done.

    ConflictError       409    the same kind with the same four parts, raised by the client
    NotNowError         503    Retry-After: 1; to the client it is a StorageError
    StorageError        503    without: something may have been done
    no JSON of ours     -      StorageError at the client: something stands between
"""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any, Final

from widetable import (
    ConflictError,
    DamagedError,
    InvalidError,
    NotFoundError,
    StorageError,
    UnsupportedError,
    WidetableError,
)

STATUSES: Final[Mapping[type[WidetableError], HTTPStatus]] = {
    InvalidError: HTTPStatus.BAD_REQUEST,
    NotFoundError: HTTPStatus.NOT_FOUND,
    ConflictError: HTTPStatus.CONFLICT,
    UnsupportedError: HTTPStatus.NOT_IMPLEMENTED,
    DamagedError: HTTPStatus.INTERNAL_SERVER_ERROR,
    StorageError: HTTPStatus.SERVICE_UNAVAILABLE,
}
RETRY_AFTER: Final = "Retry-After"
RETRY_AFTER_SECONDS: Final = 1
_KINDS: Final = {kind.__name__: kind for kind in STATUSES}
# Of a part: an error may quote what somebody has sent.
_LONGEST_TEXT: Final = 2000
_PARTS: Final = ("subject", "found", "expected", "action")


class NotNowError(StorageError):
    """A StorageError of the service itself: nothing has been done, and it may be called again at once."""


def kind_of(error: WidetableError) -> type[WidetableError]:
    """Which of the six it is: a class of ours below one of them is answered as that one."""
    return next(kind for kind in STATUSES if isinstance(error, kind))


def status_of(error: WidetableError) -> HTTPStatus:
    """Of the answer."""
    return STATUSES[kind_of(error)]


def headers_of(error: WidetableError) -> dict[str, str]:
    """Of the answer."""
    return {RETRY_AFTER: str(RETRY_AFTER_SECONDS)} if isinstance(error, NotNowError) else {}


def error_body(error: WidetableError) -> dict[str, str]:
    """What is answered."""
    parts = {name: _cut(getattr(error, name)) for name in _PARTS}
    message = kind_of(error)(parts.pop("subject"), **parts)
    return {
        "kind": kind_of(error).__name__,
        "message": str(message),
        "subject": message.subject,
        **parts,
    }


def fault_of_ours() -> StorageError:
    """In place of an exception that nobody expected; its traceback stands in the log of the service alone."""
    return StorageError(
        "the service",
        found="a fault of its own, which its log shows",
        expected="an answer",
        action="Report it with the log of the service.",
    )


def error_of(body: Any, answered: str) -> WidetableError:
    """The error that a body says. answered: who answered what, for a body that says none."""
    if isinstance(body, dict) and body.get("kind") in _KINDS:
        subject, found, expected, action = (str(body.get(name, "")) for name in _PARTS)
        return _KINDS[body["kind"]](subject, found=found, expected=expected, action=action)
    return StorageError(
        answered,
        found="an answer that no service of this warehouse gives",
        expected="JSON with kind and message",
        action="Check the URI, and what stands between.",
    )


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST_TEXT else f"{text[:_LONGEST_TEXT]}.."
