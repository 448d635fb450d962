"""Which service leads: one at a time, the next one when it has gone, and nobody is told of one that runs no more."""

from __future__ import annotations

import json
from pathlib import Path

from tests.widetable.topology.test_topology import HandClock
from widetable.storage.local import LocalFileIO
from widetable.topology.service_lease import LEASE_MILLIS, ServiceLease

IO = LocalFileIO(fsync=False)


def lease(warehouse: Path, url: str, clock: HandClock) -> ServiceLease:
    return ServiceLease(IO, str(warehouse), url, clock)


def file_of(warehouse: Path) -> Path:
    return warehouse / "__meta.db/service/widetable-meta-lease"


def of_another_host(warehouse: Path) -> None:
    """Whether its process has ended is not seen here."""
    held = json.loads(file_of(warehouse).read_text())
    file_of(warehouse).write_text(json.dumps({**held, "process": "another boot/1/2"}))


def test_one_leads_until_it_gives_it_back(tmp_path: Path) -> None:
    clock = HandClock()
    a, b = lease(tmp_path, "http://a:1", clock), lease(tmp_path, "http://b:1", clock)
    assert a.look() == ("http://a:1", True)
    assert b.look() == ("http://a:1", False)
    assert a.look() == ("http://a:1", True)
    a.release()
    assert b.look() == ("http://b:1", True)
    assert a.look() == ("http://b:1", False)
    b.release()
    assert not file_of(tmp_path).exists()


def test_one_of_another_host_leads_until_its_time_is_up(tmp_path: Path) -> None:
    clock = HandClock()
    a, b = lease(tmp_path, "http://a:1", clock), lease(tmp_path, "http://b:1", clock)
    a.look()
    of_another_host(tmp_path)
    clock.millis += LEASE_MILLIS - 1
    assert b.look() == ("http://a:1", False)
    clock.millis += 1
    assert b.look() == ("http://b:1", True)
    assert a.look() == ("http://b:1", False)
    a.release()  # is not its own any more
    assert b.look() == ("http://b:1", True)
    b.release()


def test_a_process_of_this_host_that_was_killed_leads_no_more(tmp_path: Path) -> None:
    clock = HandClock()
    a, b = lease(tmp_path, "http://a:1", clock), lease(tmp_path, "http://b:1", clock)
    a.look()
    held = json.loads(file_of(tmp_path).read_text())
    scope, pid, started = held["process"].rsplit("/", 2)
    file_of(tmp_path).write_text(
        json.dumps({**held, "process": f"{scope}/{pid}/{int(started) + 1}"})
    )
    assert b.look() == ("http://b:1", True)
    b.release()
    a.release()


def test_two_lives_under_one_url_are_two(tmp_path: Path) -> None:
    clock = HandClock()
    a, again = (lease(tmp_path, "http://a:1", clock) for _ in range(2))
    assert a.look() == ("http://a:1", True)
    assert again.look() == ("http://a:1", False)
    a.release()


def test_a_lease_that_was_deleted_or_damaged_is_taken_anew(tmp_path: Path) -> None:
    clock = HandClock()
    a, b = lease(tmp_path, "http://a:1", clock), lease(tmp_path, "http://b:1", clock)
    a.look()
    file_of(tmp_path).unlink()
    assert a.look() == ("http://a:1", True)
    file_of(tmp_path).write_text("{")
    assert b.look() == ("http://b:1", True)
    assert a.look() == ("http://b:1", False)
    b.release()
    a.release()
