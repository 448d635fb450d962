"""Calls of a service at several URLs: if one instance is gone, the next one is asked.

A call is repeated, for `patience_seconds` in all, if it certainly has not been carried out: no connection was made, or
the answer has Retry-After. A call that may have been carried out is repeated only if it is repeatable. Raises the six
kinds of error as the service answers them; StorageError if no instance answers.

    answer                        is_undone   is_gone   asked again
    no connection was made        yes         yes       always
    broken, or too slow           no          yes       if repeatable
    502                           no          yes       if repeatable: the leader ended in between
    an error with Retry-After     yes         no        always
    another error                 no          no        never: it is the answer

Instances are asked one after the other without a pause, then after 0.2 s again, while patience lasts; each at least
once. A call of a session has one instance, and is not repeated.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from itertools import count
from typing import Any, Final, NamedTuple

import requests

from widetable import StorageError, WidetableError
from widetable.connector import ErrorCode
from widetable_meta.error_form import RETRY_AFTER, error_of
from widetable_meta.unsent_request import is_unsent

PATIENCE_SECONDS: Final = 20.0
_CONNECT_SECONDS: Final = 2.0
_ANSWER_SECONDS: Final = 60.0
_PAUSE_SECONDS: Final = 0.2


class ServiceAnswer(NamedTuple):
    """An answer. body: its JSON, None without one. uri: the instance that answered."""

    body: Any
    uri: str


class _Refusal(NamedTuple):
    """A failed call. is_undone: nothing has been done. is_gone: the instance is gone, so the outcome is unknown."""

    error: WidetableError
    is_undone: bool
    is_gone: bool


class ServiceCalls:
    """The calls of a client. Threads may share it; each has its own connections. uris: instances of one warehouse, from
    `service_urls`; the one that answered last is asked first.
    """

    def __init__(self, uris: Sequence[str], patience_seconds: float) -> None:
        self._uris = list(uris)
        self._patience_seconds = patience_seconds
        self._sessions = threading.local()

    def __repr__(self) -> str:
        return f"ServiceCalls({self._uris!r})"

    def call(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | None = None,
        query: Mapping[str, Any] | None = None,
        *,
        is_repeatable: bool = True,
        seconds: float | None = _ANSWER_SECONDS,
        uri: str | None = None,
    ) -> ServiceAnswer:
        """Send a request. is_repeatable: sending it twice does no harm. seconds: how long to wait for the answer; None:
        without limit. uri: the only instance to ask.
        """
        until = time.monotonic() + self._patience_seconds
        instances = [uri] if uri is not None else list(self._uris)
        for at in count():
            outcome = self._request(
                instances[at % len(instances)], method, path, body, query, seconds
            )
            if isinstance(outcome, ServiceAnswer):
                self._prefer(outcome.uri)
                return outcome
            if not (outcome.is_undone or (is_repeatable and outcome.is_gone)) or uri is not None:
                raise outcome.error
            if at % len(instances) == len(instances) - 1:
                if time.monotonic() + _PAUSE_SECONDS > until:
                    raise outcome.error
                time.sleep(_PAUSE_SECONDS)
        raise AssertionError("the loop ends only by a return or an error")

    def _prefer(self, uri: str) -> None:
        """Ask the instance first that answered last."""
        if self._uris[0] != uri and uri in self._uris:
            self._uris = [uri, *(other for other in self._uris if other != uri)]

    def _request(
        self,
        uri: str,
        method: str,
        path: str,
        body: Mapping[str, Any] | None,
        query: Mapping[str, Any] | None,
        seconds: float | None,
    ) -> ServiceAnswer | _Refusal:
        try:
            answer = self._session().request(
                method,
                f"{uri}/v1/{path}",
                json=body,
                params=query,
                timeout=(_CONNECT_SECONDS, seconds),
                allow_redirects=False,
            )
        except requests.RequestException as refusal:
            return _Refusal(_no_answer(uri, refusal), is_unsent(refusal), is_gone=True)
        if answer.ok:
            return ServiceAnswer(_json(answer) if answer.content else None, uri)
        error = error_of(_json(answer), f"{method} {uri}/v1/{path}")
        is_gone = answer.status_code == HTTPStatus.BAD_GATEWAY
        return _Refusal(error, RETRY_AFTER in answer.headers, is_gone)

    def _session(self) -> requests.Session:
        """Return the connections of this thread."""
        session: requests.Session | None = getattr(self._sessions, "session", None)
        if session is None:
            session = requests.Session()
            session.trust_env = False  # neither proxies nor passwords of the environment
            self._sessions.session = session
        return session


def _no_answer(uri: str, refusal: requests.RequestException) -> StorageError:
    error = StorageError(
        f"the service {uri}",
        found=f"no answer: {type(refusal).__name__}",
        expected="an instance that answers",
        action="Start it, or give the URI of another one; if the call changes something, check whether it was done.",
        code=ErrorCode.SERVICE_UNREACHABLE,
    )
    error.__cause__ = refusal
    return error


def _json(answer: requests.Response) -> Any:
    try:
        return answer.json()
    except ValueError:
        return None
