"""A session that the service holds for a client: tables at one barrier, kept from expiry while it is open.

A thread renews it. It lives in the instance that has opened it: when that goes, or the client sleeps for longer than a
session lasts, it has ended. Then the rows of its barrier may expire, which reading them tells by an error, never by
other rows.
"""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Mapping
from typing import Any, Final

from widetable import NotFoundError, WidetableError
from widetable_meta.service_calls import ServiceAnswer, ServiceCalls

_RENEWALS_PER_SESSION: Final = 4
_log = logging.getLogger("widetable")


class ClientSession:
    """Made by `MetaClient.session`; a context manager. `Table.scan(barrier=)` reads its barrier, any client its
    snapshots.
    """

    def __init__(self, calls: ServiceCalls, opened: ServiceAnswer) -> None:
        self._calls = calls
        self._uri = opened.uri
        self._told: Mapping[str, Any] = opened.body
        self._is_open = True
        self._ended = threading.Event()
        lasts_seconds = max(self.expires_millis / 1000 - time.time(), 0.5)
        self._thread = threading.Thread(
            target=self._renew_on,
            args=(lasts_seconds / _RENEWALS_PER_SESSION,),
            name="widetable-meta-session",
            daemon=True,
        )
        self._thread.start()

    def __enter__(self) -> ClientSession:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"ClientSession(barrier {self.barrier}, {len(self.snapshot_ids)} tables)"

    @property
    def id(self) -> str:
        """By which the instance knows it."""
        return str(self._told["id"])

    @property
    def barrier(self) -> int | None:
        """Of all its tables; None for `ReadUncommitted`."""
        found: int | None = self._told["barrier"]
        return found

    @property
    def revision(self) -> int | None:
        """That it goes by, 0 before the first; None for `ReadUncommitted`."""
        found: int | None = self._told["revision"]
        return found

    @property
    def snapshot_ids(self) -> dict[str, int | None]:
        """By which any client reads the same rows; None where no snapshot has just these."""
        return {name: told["snapshot_id"] for name, told in self._told["tables"].items()}

    @property
    def expires_millis(self) -> int:
        """When the service closes it, unless it is renewed; since the epoch, by the service's clock."""
        return int(self._told["expires"])

    @property
    def is_open(self) -> bool:
        """Whether what it shows is still held, by the last renewal."""
        return self._is_open

    def renew(self) -> None:
        """Now, besides what the thread does. Raises NotFoundError once it has ended."""
        try:
            self._told = self._calls.call("PUT", f"sessions/{self.id}", uri=self._uri).body
        except NotFoundError:
            self._is_open = False
            raise

    def close(self) -> None:
        """Let go of what it holds; of one that has ended nothing is left. May be called twice."""
        if self._ended.is_set():
            return
        self._ended.set()
        self._is_open = False
        with contextlib.suppress(WidetableError):  # the service closes it when nobody renews it
            self._calls.call("DELETE", f"sessions/{self.id}", uri=self._uri)

    def _renew_on(self, every_seconds: float) -> None:
        while not self._ended.wait(every_seconds):
            try:
                self.renew()
            except NotFoundError:
                return
            except WidetableError as refusal:
                _log.info("a session was not renewed: %s", refusal)
                self._is_open = time.time() * 1000 < self.expires_millis
