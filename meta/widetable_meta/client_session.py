"""A session that the service keeps for a client: tables at one barrier, kept from expiry while it is open.

A thread renews it. The session belongs to the instance that opened it. It ends if that instance ends, or if the client
sleeps for longer than a session lasts. Then the rows of its snapshots may expire. Reading them raises an error, and
never returns other rows. A scan by barrier may return other rows after a revision: it follows the revision that is
active then.

The session is renewed four times within its life time, so three answers may be missing. A failed renewal is tried again
at the next turn. Until the time that the service named last, the session counts as open. The clocks of the two hosts
should agree within seconds: the pauses are computed from that time, with at least half a second in all.
"""

from __future__ import annotations

import contextlib
import logging
import threading
from typing import Final

from pydantic import TypeAdapter

from widetable import NotFoundError, WidetableError
from widetable.connector import now_millis
from widetable_meta.answer_form import SessionAnswer
from widetable_meta.answer_value import value_of
from widetable_meta.service_calls import ServiceAnswer, ServiceCalls

_SESSION: Final = TypeAdapter(SessionAnswer)
_RENEWALS_PER_SESSION: Final = 4
_log = logging.getLogger("widetable")


class ClientSession:
    """A session that the service holds for a client: tables at one barrier.

    `MetaClient.session` makes it. It is a context manager, and a thread renews it until it is closed. Close it: a
    session that is only forgotten is renewed for as long as the process lives. Any client reads its snapshots. Where a
    table has no snapshot with exactly the rows of the barrier, `Table.scan(barrier=)` reads them, under the revision
    that is active then, which may be a later one than `revision`.
    """

    def __init__(self, calls: ServiceCalls, opened: ServiceAnswer) -> None:
        self._calls = calls
        self._uri = opened.uri
        self._told = value_of(_SESSION, opened.body)
        self._is_open = True
        self._ended = threading.Event()
        lasts_seconds = max((self.expires_millis - now_millis()) / 1000, 0.5)
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
        """The name under which the instance knows the session."""
        return self._told.id

    @property
    def barrier(self) -> int | None:
        """The barrier of all tables, in epoch milliseconds; None for `ReadUncommitted`."""
        return self._told.barrier

    @property
    def revision(self) -> int | None:
        """The number of the revision that the session follows, 0 before the first one; None for `ReadUncommitted`."""
        return self._told.revision

    @property
    def snapshot_ids(self) -> dict[str, int | None]:
        """Table to the snapshot that has exactly the rows of the session; None where no snapshot has."""
        return {name: told.snapshot_id for name, told in self._told.tables.items()}

    @property
    def warehouse(self) -> str:
        """The path of the warehouse, on the host of the service."""
        return self._told.warehouse

    @property
    def leases(self) -> dict[str, str | None]:
        """Table to the name of the read lease that keeps it, `service/widetable-read-lease-<name>` in the directory of
        the table; None for a table without a snapshot.
        """
        return {name: told.lease for name, told in self._told.tables.items()}

    @property
    def expires_millis(self) -> int:
        """When the service closes the session unless it is renewed, in epoch milliseconds of the service's clock."""
        return self._told.expires

    @property
    def is_open(self) -> bool:
        """Whether the service still keeps what the session shows, as of the last renewal."""
        return self._is_open

    def renew(self) -> None:
        """Renew the session now, besides what its thread does.

        Raises
        ------
        NotFoundError
            The session has ended.
        """
        try:
            answer = self._calls.call("PUT", f"sessions/{self.id}", uri=self._uri)
            self._told = value_of(_SESSION, answer.body)
        except NotFoundError:
            self._is_open = False
            raise

    def close(self) -> None:
        """Release what the session keeps. A second call does nothing, and so does one after the session has ended."""
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
                self._is_open = now_millis() < self.expires_millis
