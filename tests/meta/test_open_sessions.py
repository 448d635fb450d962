"""Sessions that are open at an instance: they end with their time, are bounded, and leave nothing behind."""

from __future__ import annotations

import time
from functools import partial
from pathlib import Path

import pytest

import widetable as wt
from tests.support.faults.patience import wait_for
from tests.widetable.cli.test_meta import fill
from widetable_meta.error_form import NotNowError
from widetable_meta.open_sessions import OpenSessions, Wanted

WANTED = Wanted(["db.x", "db.y"], "RepeatableRead")


def leases(warehouse: Path) -> int:
    return len(list(warehouse.rglob("widetable-read-lease-*")))


def test_one_that_nobody_renews_is_closed(tmp_path: Path) -> None:
    fill(tmp_path)
    sessions = OpenSessions(partial(wt.Catalog, tmp_path), lasts_seconds=0.05)
    sessions.start()
    opened = sessions.open(WANTED)
    wait_for(lambda: sessions.count() == 0)
    wait_for(lambda: leases(tmp_path) == 0)
    with pytest.raises(wt.NotFoundError, match="Open another session"):
        sessions.renew(opened.id)
    sessions.end()


def test_one_that_is_renewed_goes_on(tmp_path: Path) -> None:
    fill(tmp_path)
    sessions = OpenSessions(partial(wt.Catalog, tmp_path), lasts_seconds=1000)
    opened = sessions.open(WANTED)
    due_at, expires_millis = opened.due_at, opened.expires_millis
    assert expires_millis - time.time() * 1000 > 900_000
    assert sessions.renew(opened.id).due_at > due_at
    assert opened.expires_millis >= expires_millis
    sessions.close_overdue()
    assert [one.id for one in sessions.listed()] == [opened.id]
    assert leases(tmp_path) == 2
    sessions.end()
    assert leases(tmp_path) == 0


def test_there_are_so_many_at_most(tmp_path: Path) -> None:
    fill(tmp_path)
    sessions = OpenSessions(partial(wt.Catalog, tmp_path), most=2)
    first, _ = sessions.open(WANTED), sessions.open(WANTED)
    with pytest.raises(NotNowError, match="2 open sessions"):
        sessions.open(WANTED)
    sessions.close(first.id)
    with pytest.raises(wt.NotFoundError):
        sessions.open(Wanted(["db.none"], "RepeatableRead"))
    sessions.open(WANTED)
    sessions.end()


def test_one_that_is_older_than_what_was_read_is_let_go(tmp_path: Path) -> None:
    fill(tmp_path)
    sessions = OpenSessions(partial(wt.Catalog, tmp_path))
    with pytest.raises(wt.NotFoundError, match="a barrier of at least 20: found 10"):
        sessions.open(WANTED._replace(at_least=20))
    assert (sessions.count(), leases(tmp_path)) == (0, 0)
    assert sessions.open(WANTED._replace(at_least=10)).session.barrier == 10
    sessions.end()


def test_none_is_opened_once_it_ends(tmp_path: Path) -> None:
    fill(tmp_path)
    sessions = OpenSessions(partial(wt.Catalog, tmp_path))
    sessions.end()
    with pytest.raises(NotNowError, match="it ends"):
        sessions.open(WANTED)
    assert leases(tmp_path) == 0


def test_what_only_this_process_could_read_is_refused(tmp_path: Path) -> None:
    wt.Catalog(tmp_path).create_table(
        "db.staged",
        {"id": "BIGINT"},
        primary_key=["id"],
        options={"widetable.barrier-interval": "10 ms", "widetable.barrier-stage": "true"},
    )
    writer = wt.Catalog(tmp_path).writer("db.staged", "w")
    writer.write({"id": [1]}, barrier=10, complete=True)
    sessions = OpenSessions(lambda: wt.Catalog(tmp_path))
    with pytest.raises(wt.UnsupportedError, match=r"barrier-stage, and ReadCommitted by a service"):
        sessions.open(Wanted(["db.staged"], "ReadCommitted"))
    assert sessions.count() == 0
    assert list(tmp_path.rglob("widetable-read-lease-*")) == []
    opened = sessions.open(Wanted(["db.staged"], "RepeatableRead"))
    assert opened.session.barrier == 10
    sessions.end()
