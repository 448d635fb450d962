"""Calls of a service by several URIs: of one that is gone the next one is asked.

Asked again, for `patience_seconds` in all, is what surely has not been done: no connection was made, or the answer says
Retry-After. What may have been done is asked again only where twice is as good as once. Raises the six kinds of error
as the service answers them; StorageError where none answers.

    answer                        is_undone   is_gone   asked again
    no connection was made        yes         yes       always
    broken, or too slow           no          yes       where twice is as good as once
    502                           no          yes       the same: the leader went in between
    an error with Retry-After     yes         no        always
    another error                 no          no        never: it is the answer

One after the other without a pause, then 0.2 s, and again, while patience lasts; at least once
each. A call of a session has one instance, and is not asked again.
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
from widetable_meta.error_form import RETRY_AFTER, error_of
from widetable_meta.unsent_request import is_unsent

PATIENCE_SECONDS: Final = 20.0
_CONNECT_SECONDS: Final = 2.0
_ANSWER_SECONDS: Final = 60.0
_PAUSE_SECONDS: Final = 0.2


class ServiceAnswer(NamedTuple):
    """body: of its JSON, None without one. uri: who has answered."""

    body: Any
    uri: str


class _Refusal(NamedTuple):
    """is_undone: nothing has been done. is_gone: nobody knows, as who was asked is gone."""

    error: WidetableError
    is_undone: bool
    is_gone: bool


class ServiceCalls:
    """Several threads may use it, each with connections of its own. uris: those of instances of
    one warehouse, as `service_urls` gives them; the one that answered last is asked first.
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
        """is_repeatable: twice is as good as once. seconds: for the answer, None for as long as it takes. uri: of the
        one instance that is asked.
        """
        until = time.monotonic() + self._patience_seconds
        asked = [uri] if uri is not None else list(self._uris)
        for at in count():
            found = self._asked(asked[at % len(asked)], method, path, body, query, seconds)
            if isinstance(found, ServiceAnswer):
                self._prefer(found.uri)
                return found
            if not (found.is_undone or (is_repeatable and found.is_gone)) or uri is not None:
                raise found.error
            if at % len(asked) == len(asked) - 1:
                if time.monotonic() + _PAUSE_SECONDS > until:
                    raise found.error
                time.sleep(_PAUSE_SECONDS)
        raise AssertionError("it goes round until it returns or raises")

    def _prefer(self, uri: str) -> None:
        """Ask first who has answered last."""
        if self._uris[0] != uri and uri in self._uris:
            self._uris = [uri, *(other for other in self._uris if other != uri)]

    def _asked(
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
        """Of this thread: it keeps its connections."""
        found: requests.Session | None = getattr(self._sessions, "session", None)
        if found is None:
            found = requests.Session()
            found.trust_env = False  # neither proxies nor passwords of the environment
            self._sessions.session = found
        return found


def _no_answer(uri: str, refusal: requests.RequestException) -> StorageError:
    error = StorageError(
        f"the service {uri}",
        found=f"no answer: {type(refusal).__name__}",
        expected="an instance that answers",
        action="Start it, or give the URI of another one; if the call changes something, look whether it was done.",
    )
    error.__cause__ = refusal
    return error


def _json(answer: requests.Response) -> Any:
    try:
        return answer.json()
    except ValueError:
        return None
