"""One thread renews the leases of a process, for as long as somebody has them."""

from __future__ import annotations

import gc
import logging
import os
import threading

import pytest

from tests.support.faults.forked import in_a_child
from tests.support.faults.patience import wait_for
from widetable.commit.notes.lease_renewal import LeaseRenewal
from widetable.errors import StorageError


class Counted:
    """A lease of so many milliseconds that counts how often it was renewed, and fails at first."""

    def __init__(
        self,
        duration_millis: int = 300,
        failures: int = 0,
        error: Exception | None = None,
    ) -> None:
        self.duration_millis = duration_millis
        self.is_ours = True
        self.renewed = 0
        self.threads: set[str] = set()
        self._failures = failures
        self._error = error or StorageError(
            "x", found="no room", expected="room", action="Make room."
        )

    def renew(self) -> bool:
        self.renewed += 1
        self.threads.add(threading.current_thread().name)
        if self.renewed <= self._failures:
            raise self._error
        return True


def wait_for_others(renewal: LeaseRenewal) -> None:
    """Until a lease that is begun now has been renewed twice: what is due as often had its turn."""
    other = Counted()
    renewal.start(other)
    wait_for(lambda: other.renewed > 1)


def test_many_leases_have_one_thread() -> None:
    renewal = LeaseRenewal()
    leases = [Counted(duration) for duration in (100_000, 400, 300, 500)]
    for lease in leases:
        renewal.start(lease)
    wait_for(lambda: all(lease.renewed > 2 for lease in leases[1:]))
    assert set.union(*(lease.threads for lease in leases)) == {"widetable-leases"}
    assert leases[0].renewed == 0


def test_one_that_is_stopped_forgotten_or_lost_is_not_renewed() -> None:
    renewal = LeaseRenewal()
    stopped, lost, forgotten = Counted(), Counted(), Counted()
    seen = forgotten.threads
    for lease in (stopped, lost, forgotten):
        renewal.start(lease)
    wait_for(lambda: bool(seen))
    renewal.stop(stopped)
    lost.is_ours = False
    del forgotten, lease
    gc.collect()
    wait_for_others(renewal)
    seen.clear()
    before = stopped.renewed, lost.renewed
    wait_for_others(renewal)
    assert (stopped.renewed, lost.renewed) == before
    assert not seen


def test_one_that_fails_is_named_and_tried_again(caplog: pytest.LogCaptureFixture) -> None:
    renewal = LeaseRenewal()
    failing = Counted(failures=2)
    with caplog.at_level(logging.ERROR, logger="widetable"):
        renewal.start(failing)
        wait_for(lambda: failing.renewed > 3)
    assert caplog.text.count("no room") >= 2


def test_whatever_a_renewal_raises_the_others_go_on() -> None:
    renewal = LeaseRenewal()
    lease = Counted()
    renewal.start(Counted(failures=1000, error=RuntimeError("a client that is shut down")))
    renewal.start(lease)
    wait_for(lambda: lease.renewed > 2)
    assert lease.threads == {"widetable-leases"}


def test_without_a_thread_leases_run_out_until_one_can_be_started(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    renewal = LeaseRenewal()
    first, second = Counted(), Counted()

    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refuse)
        renewal.start(first)
    assert first.renewed == 0
    renewal.start(second)
    wait_for(lambda: first.renewed > 0 < second.renewed)


def test_a_forked_child_renews_its_own_leases_only() -> None:
    renewal = LeaseRenewal()
    lease = Counted()
    renewal.start(lease)
    wait_for(lambda: lease.renewed > 0)

    def in_child() -> None:
        lease.renewed = 0
        wait_for_others(renewal)
        assert lease.renewed == 0

    for _ in range(3):
        assert os.waitpid(in_a_child(in_child), 0)[1] == 0
    wait_for_others(renewal)
    assert lease.renewed > 1
