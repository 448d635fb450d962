"""The client: the same values and errors as embedded, by whichever instance answers."""

from __future__ import annotations

import http.server
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import widetable as wt
from tests.meta.service_process import Service, serving
from tests.support.faults.patience import wait_for
from tests.support.models.hostile_values import hostile_values
from tests.widetable.cli.test_meta import fill
from widetable_meta import MetaClient

NOBODY = "http://127.0.0.1:1"


@pytest.fixture
def client(service: Service) -> MetaClient:
    """Whose first instance is not there."""
    return MetaClient([NOBODY, service.url])


def test_values_are_those_of_the_topology(client: MetaClient, warehouse: str) -> None:
    topology = wt.Catalog(warehouse).topology()
    assert client.jobs() == topology.jobs()
    assert [one.missing for one in client.tables()] == [one.missing for one in topology.tables()]
    assert [one.writers for one in client.tables()] == [one.writers for one in topology.tables()]
    assert client.barriers("db.y") == topology.barriers("db.y")
    assert client.barriers("db.x", limit=1) == topology.barriers("db.x", 1)
    assert client.barriers("db.x") == topology.barriers("db.x")
    assert client.delays() == topology.delays()
    assert client.delays(limit=1) == topology.delays(limit=1)
    assert client.delays(10) == topology.delays(10)
    assert client.layers() == topology.layers() == [["db.x"], ["db.y"]]
    assert client.common_barrier() == topology.common_barrier() == 10
    for table in ("db.x", "db.y"):
        assert client.upstream(table) == topology.upstream(table)
        assert client.downstream(table) == topology.downstream(table)
    of_numpy: Any = np.int64(10)
    assert client.delays(of_numpy) == client.delays(10)
    assert client.revisions() == topology.revisions() == []


def test_all_barriers_are_all_or_none(client: MetaClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("widetable_meta.client.MAX_BARRIERS", 2)
    assert len({one.barrier for one in client.delays(limit=2).tables}) == 2
    for ask in (client.delays, lambda: client.barriers("db.x")):
        with pytest.raises(wt.InvalidError, match="limit: found no limit, and 2 barriers or more"):
            ask()
    assert len(client.barriers("db.y")) == 2  # one that is complete
    with pytest.raises(wt.InvalidError, match="limit"):
        client.delays(limit=3)


def test_a_job_lives_by_it(client: MetaClient, warehouse: str) -> None:
    job = client.register("a b", sources=["db.x"], sinks={"db.y": ["q"]})
    assert job.sinks == (wt.JobSink("db.y", ("q",)),)
    running = client.running("a b")
    assert client.renew("a b") == running
    assert running in wt.Catalog(warehouse).topology().jobs()
    with pytest.raises(wt.ConflictError, match="that job 'a b' writes"):
        client.register("other", sinks={"db.y": ["q"]})
    with pytest.raises(wt.ConflictError, match="renews its registration"):
        client.drop("a b")
    assert client.drop("a b", force=True, dry_run=True) == ["db.y"]
    assert client.drop("a b", force=True) == ["db.y"]
    with pytest.raises(wt.NotFoundError, match="job 'a b'"):
        client.renew("a b")
    client.leave("db.x", "clicks", force=True, dry_run=True)
    with pytest.raises(wt.NotFoundError):
        client.leave("db.x", "nobody")
    assert client.revise("db.y", to=10, dry_run=True).jobs == ("q",)
    with pytest.raises(wt.InvalidError, match="no job makes"):
        client.revise("db.x", to=10)


def test_a_session_is_read_while_it_is_open(client: MetaClient, warehouse: str) -> None:
    with client.session(["db.x", "db.y"], at_least=10) as session:
        assert (session.barrier, session.revision, session.is_open) == (10, 0, True)
        table = wt.Catalog(warehouse).table("db.x")
        assert table.scan(barrier=session.barrier).to_arrow().num_rows == 1
        assert session.snapshot_ids == {"db.x": 2, "db.y": 2}
        assert session.warehouse == warehouse
        for name, lease in session.leases.items():
            held = Path(warehouse, name.replace("db.", "db.db/"), "service")
            assert (held / f"widetable-read-lease-{lease}").exists()
        before = session.expires_millis
        session.renew()
        assert session.expires_millis >= before
    assert not session.is_open
    session.close()
    with pytest.raises(wt.NotFoundError, match="Open another session"):
        session.renew()
    with pytest.raises(wt.NotFoundError, match="a barrier of at least 20"):
        client.session(["db.x", "db.y"], at_least=20)


def test_a_session_that_has_gone_with_its_instance_is_told(tmp_path: Path) -> None:
    warehouse = fill(tmp_path)
    with serving(warehouse, 2) as (first, second):
        client = MetaClient([first.url, second.url])
        session = client.session(["db.x", "db.y"])
        assert first.got("/v1/health")["sessions"] == 1
        first.kill()
        with pytest.raises(wt.StorageError, match="no answer"):
            session.renew()
        session.close()
        with client.session(["db.x", "db.y"], at_least=session.barrier) as again:
            assert again.barrier == session.barrier
            assert client.leader() in (None, first.url, second.url)
        wait_for(lambda: client.leader() == second.url)


def test_where_nobody_answers_it_is_a_storage_error() -> None:
    client = MetaClient([NOBODY, "http://127.0.0.1:2"], patience_seconds=0)
    with pytest.raises(wt.StorageError, match="no answer"):
        client.jobs()


class Answering(http.server.BaseHTTPRequestHandler):
    """Somebody else's."""

    status = 200
    body = b"<html>"
    asked = 0

    def do_GET(self) -> None:
        type(self).asked += 1
        self.send_response(self.status)
        self.send_header("Content-Length", str(len(self.body)))
        self.end_headers()
        self.wfile.write(self.body)

    do_POST = do_GET

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing."""


@contextmanager
def somebody(status: int, body: bytes) -> Iterator[tuple[str, type[Answering]]]:
    kind = type("Given", (Answering,), {"status": status, "body": body})
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), kind) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}", kind
        finally:
            server.shutdown()
            thread.join()


@pytest.mark.parametrize(
    ("status", "body"),
    [(200, b"<html>"), (200, b'{"jobs": 1}'), (404, b"no"), (302, b""), (500, b"[]")],
)
def test_an_answer_of_somebody_else_is_a_storage_error(status: int, body: bytes) -> None:
    with somebody(status, body) as (url, _), pytest.raises(wt.StorageError):
        MetaClient(url).jobs()
    with somebody(status, body) as (url, _), pytest.raises(wt.StorageError):
        MetaClient(url).session()


def test_what_may_have_been_done_is_not_asked_again() -> None:
    body = b'{"kind": "StorageError", "subject": "s", "found": "f", "expected": "e", "action": "a"}'
    with somebody(502, body) as (url, kind):
        client = MetaClient([url, NOBODY], patience_seconds=0)
        with pytest.raises(wt.StorageError, match="s: found f"):
            client.revise("db.y", to=10)
        assert kind.asked == 1
        with pytest.raises(wt.StorageError, match="no answer"):
            client.jobs()


@pytest.mark.parametrize(
    "uris",
    [
        [],
        "",
        "nonsense",
        "ftp://a",
        "http://",
        "http://[",
        ["http://a"] * 2,
        7,
        [7],
        "http://a?b",
        "http://a:b",
    ],
)
def test_uris_that_are_none_are_refused(uris: Any) -> None:
    with pytest.raises(wt.InvalidError):
        MetaClient(uris)


def test_hostile_values_are_refused_as_they_are_embedded(client: MetaClient) -> None:
    calls: dict[str, Any] = {
        "as_of": lambda value: client.session(["db.x"], as_of=value),
        "tables": lambda value: client.session(value),
        "job": lambda value: client.running(value),
        "sinks": lambda value: client.register("none", sinks=value),
        "table": lambda value: client.barriers(value),
        "to": lambda value: client.revise("db.y", to=value, dry_run=True),
        "barrier": lambda value: client.delays(value),
        "limit": lambda value: client.barriers("db.y", value),
        "upstream": lambda value: client.upstream(value),
    }
    for name, call in calls.items():
        for value in hostile_values():
            try:
                found = call(value)
            except wt.WidetableError:
                continue
            if name in ("as_of", "tables"):
                found.close()
