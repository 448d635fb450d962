"""Several services of one warehouse: one leads, another one takes over, and no writer waits for any of them."""

from __future__ import annotations

import contextlib
import os
import shutil
from pathlib import Path

import requests

import widetable as wt
from tests.meta.service_process import serving
from tests.support.faults.background import going_on
from tests.support.faults.patience import PATIENCE_SECONDS, wait_for
from tests.support.programs.tallies import Note
from tests.widetable.cli.test_meta import fill
from widetable_meta import MetaClient

OPENS = int(os.environ.get("WIDETABLE_OPENS", "40"))
OPENS_PER_KILL = 250
TABLES = ["db.x", "db.y"]


class Committing:
    """Two writers that complete one barrier after the other, as long as a block runs."""

    def __init__(self, warehouse: str) -> None:
        catalog = wt.Catalog(warehouse)
        topology = catalog.topology()
        topology.drop("clicks")
        topology.drop("q")
        self.writers = [catalog.writer(table, "w") for table in TABLES]
        self.barrier = 1000
        self.step()

    def step(self) -> None:
        for writer in self.writers:
            rows = {"id": [1], "p": [self.barrier]}
            result = writer.write(rows, barrier=self.barrier, complete=True)
            assert result.committed
        self.barrier += 10

    def wait_for_more(self) -> None:
        """Some commits from now on."""
        before = self.barrier
        wait_for(lambda: self.barrier > before + 20)


class Opening:
    """Sessions are opened one after the other; their barriers never go back."""

    def __init__(self) -> None:
        self.client = MetaClient("http://127.0.0.1:1")
        self.opens = self.barrier = 0
        self.has_failed = False

    def step(self) -> None:
        try:
            with self.client.session(TABLES, at_least=self.barrier) as session:
                assert session.barrier is not None
                assert session.barrier >= self.barrier
                self.barrier = session.barrier
        except BaseException:
            self.has_failed = True
            raise
        self.opens += 1

    def wait_for(self, opens: int) -> None:
        wait_for(lambda: self.has_failed or self.opens >= opens)


def test_case_18_the_leader_is_killed_while_sessions_are_opened(
    tmp_path: Path, tally: Note
) -> None:
    warehouse = fill(tmp_path)
    committing, opening, kills = Committing(warehouse), Opening(), 0
    with contextlib.ExitStack() as stack:
        services = stack.enter_context(serving(warehouse, 2))
        opening.client = MetaClient([service.url for service in services])
        stack.enter_context(going_on(committing.step, 0.01))
        with going_on(opening.step, 0.001):
            for kill_at in range(OPENS // 2 % OPENS_PER_KILL, OPENS, OPENS_PER_KILL):
                opening.wait_for(kill_at)
                (leader,) = (service for service in services if service.leads())
                leader.kill()
                kills += 1
                committing.wait_for_more()
                services.remove(leader)
                (other,) = services
                wait_for(other.leads)
                if kill_at + OPENS_PER_KILL < OPENS:
                    services += stack.enter_context(serving(warehouse))
                    opening.client = MetaClient([service.url for service in services])
            opening.wait_for(OPENS)
        committing.wait_for_more()
        with opening.client.session(TABLES, at_least=opening.barrier) as session:
            assert session.barrier is not None
            assert session.barrier > opening.barrier
    assert opening.opens >= OPENS
    assert kills >= 1
    tally(opens=opening.opens, kills=kills)
    assert all(wt.Catalog(warehouse).table(name).audit().ok for name in TABLES)


def test_jobs_go_on_while_all_services_are_down(tmp_path: Path) -> None:
    warehouse = fill(tmp_path)
    committing = Committing(warehouse)
    with serving(warehouse) as (service,), going_on(committing.step, 0.01):
        service.kill()
        committing.wait_for_more()
        with serving(warehouse) as (third,), MetaClient(third.url).session(TABLES) as session:
            assert session.barrier is not None
            assert session.barrier > 1020


def test_a_follower_answers_and_passes_on_what_changes_something(tmp_path: Path) -> None:
    warehouse = fill(tmp_path)
    with serving(warehouse, 2) as (leader, follower):
        assert not follower.leads()
        known = {"url": leader.url, "is_here": False}
        wait_for(lambda: follower.got("/v1/leader") == known)  # it looks once a moment
        assert follower.got("/v1/jobs") == leader.got("/v1/jobs")
        status, session = follower.ask("POST", "/v1/sessions", {"tables": TABLES})
        assert (status, follower.got("/v1/health")["sessions"]) == (201, 1)
        assert leader.ask("PUT", f"/v1/sessions/{session['id']}")[0] == 404
        status, job = follower.ask("POST", "/v1/jobs", {"job": "new", "sinks": {"db.y": ["v"]}})
        assert (status, job["name"]) == (201, "new")
        counted = 'widetable_meta_requests_total{method="POST",route="/v1/jobs",status="201"} 1'
        assert counted in requests.get(f"{leader.url}/metrics", timeout=PATIENCE_SECONDS).text
        status, error = follower.ask("POST", "/v1/jobs", {"job": "bad", "sinks": {"db.y": ["v"]}})
        assert (status, error["kind"]) == (409, "ConflictError")
        status, error = follower.ask("DELETE", "/v1/jobs/new", dry_run=True, force=True)
        assert (status, error["dry_run"]) == (200, True)
        answer = requests.post(
            f"{follower.url}/v1/jobs/q/renew",
            headers={"X-Widetable-Forwarded": "1"},  # is not passed on again
            timeout=PATIENCE_SECONDS,
        )
        assert (answer.status_code, answer.headers["Retry-After"]) == (503, "1")
        assert answer.json()["kind"] == "StorageError"
        leader.kill()
        # The first call takes over: nobody has to wait for the next look.
        assert follower.ask("POST", "/v1/jobs/new/running")[0] == 200
        assert follower.leads()


def taken_away(directory: Path) -> None:
    """As a whole, while a service writes into it."""
    directory.rename(directory.with_name("gone"))
    shutil.rmtree(directory.with_name("gone"), ignore_errors=True)


def test_the_leader_makes_the_tables_of_meta_anew(tmp_path: Path) -> None:
    warehouse = fill(tmp_path)
    catalog = wt.Catalog(warehouse)

    def sinks() -> list[tuple[object, ...]]:
        if len(catalog.list_tables("__meta")) < 7:
            return []
        rows = catalog.table("__meta.__META_ETL_SINK").scan().to_arrow().to_pylist()
        return sorted(tuple(row.values()) for row in rows)

    expected = [("db.x", "clicks"), ("db.y", "q")]
    with serving(warehouse) as (service,):
        wait_for(lambda: sinks() == expected)
        service.ask("POST", "/v1/jobs", {"job": "new", "sinks": {"db.y": ["v"]}})
        service.ask("POST", "/v1/jobs/new/running")
        taken_away(tmp_path / "__meta.db")  # the lease too
        wait_for(lambda: sinks() == sorted([*expected, ("db.y", "new")]))
        wait_for(service.leads)


def test_sigterm_ends_it_and_leaves_nothing_behind(tmp_path: Path) -> None:
    warehouse = fill(tmp_path)
    with serving(warehouse, 2) as (leader, follower):
        for service in (leader, follower):
            assert service.ask("POST", "/v1/sessions", {"tables": TABLES})[0] == 201
        assert leader.terminate() == 0
        assert len(list(tmp_path.rglob("widetable-read-lease-*"))) == len(TABLES)
        wait_for(follower.leads)
        assert follower.terminate() == 0
        assert list(tmp_path.rglob("widetable-read-lease-*")) == []
        assert not (tmp_path / "__meta.db/service/widetable-meta-lease").exists()
