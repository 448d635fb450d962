"""Errors as the service answers them: a status, and a JSON object from which a client makes the error again. Pure.

    {"kind": one of the six kinds of widetable/errors.py, "message": the error in one text,
     "subject": .., "found": .., "expected": .., "action": .., "code": a stable code, as in docs/errors.md}

A client may repeat a call that was answered with Retry-After, here or elsewhere: nothing has been done.

    ConflictError       409    the client raises the same kind with the same four parts
    NotNowError         503    Retry-After: 1; the client raises StorageError
    StorageError        503    without Retry-After: something may have been done
    other JSON or text  -      the client raises StorageError: something else answers, such as a proxy
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
# The longest part of an error, which may quote a request.
_LONGEST_TEXT: Final = 2000
_PARTS: Final = ("subject", "found", "expected", "action")


class NotNowError(StorageError):
    """A StorageError of the service itself: nothing has been done, and the call may be repeated at once."""


def kind_of(error: WidetableError) -> type[WidetableError]:
    """Return which of the six kinds an error is; a subclass counts as its kind."""
    return next(kind for kind in STATUSES if isinstance(error, kind))


def status_of(error: WidetableError) -> HTTPStatus:
    """Return the status of the answer."""
    return STATUSES[kind_of(error)]


def headers_of(error: WidetableError) -> dict[str, str]:
    """Return the headers of the answer."""
    return {RETRY_AFTER: str(RETRY_AFTER_SECONDS)} if isinstance(error, NotNowError) else {}


def error_body(error: WidetableError) -> dict[str, str]:
    """Return the JSON object of the answer."""
    parts = {name: _cut(getattr(error, name)) for name in _PARTS}
    message = kind_of(error)(parts.pop("subject"), **parts)
    return {
        "kind": kind_of(error).__name__,
        "message": str(message),
        "subject": message.subject,
        **parts,
        "code": error.code,
    }


def fault_of_ours() -> StorageError:
    """Return the error that stands for an unexpected exception, whose traceback only the log of the service has."""
    return StorageError(
        "the service",
        found="an error of its own, which its log shows",
        expected="an answer",
        action="Report it with the log of the service.",
    )


def error_of(body: Any, answered: str) -> WidetableError:
    """Return the error of a JSON body. answered: which instance gave which status, for a body that has no error."""
    if isinstance(body, dict) and body.get("kind") in _KINDS:
        subject, actual, expected, action = (str(body.get(name, "")) for name in _PARTS)
        kind, code = _KINDS[body["kind"]], str(body.get("code") or "") or None
        return kind(subject, found=actual, expected=expected, action=action, code=code)
    return StorageError(
        answered,
        found="an answer that does not come from a service of this warehouse",
        expected="JSON with kind and message",
        action="Check the URI, and proxies on the way.",
    )


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST_TEXT else f"{text[:_LONGEST_TEXT]}.."
