"""`Catalog(uri=)`: a service chooses the barriers of sessions, and what is open does not need it any more."""

from __future__ import annotations

import os
import pickle
import random
import shutil
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

import widetable as wt
from tests.meta.service_process import Service, end_patience, serving
from tests.meta.test_failover import TABLES, Committing
from tests.support.faults.forked import in_a_child
from tests.support.models.hostile_values import hostile_values
from tests.support.tables.barrier_tables import NAME, new_table
from tests.widetable.cli.test_meta import fill
from widetable.operations.barriers.barrier_listing import ShownBarriers
from widetable.topology.meta_service import ServiceSession
from widetable.topology.session_request import SessionRequests
from widetable_meta import MetaClient

NOBODY = "http://127.0.0.1:1"
REPEATABLE = "RepeatableRead"


def rows(session: wt.Session) -> dict[str, list[dict[str, Any]]]:
    """Of all tables."""
    names = session.snapshot_ids()
    return {name: session.table(name).scan().to_arrow().to_pylist() for name in names}


def leases(warehouse: str | Path) -> set[str]:
    return {file.name for file in Path(warehouse).rglob("widetable-read-lease-*")}


def told(session: wt.Session) -> tuple[Any, ...]:
    """All that a session says."""
    ids = session.snapshot_ids()
    return session.barrier, session.revision, session.fell_back_from, ids, rows(session)


@pytest.mark.parametrize("consistency", [REPEATABLE, "ReadCommitted", "ReadUncommitted"])
@pytest.mark.parametrize("tables", [None, TABLES, ["db.x"]])
def test_it_reads_what_is_read_without(
    warehouse: str, service: Service, consistency: str, tables: list[str] | None
) -> None:
    embedded = wt.Catalog(warehouse, consistency=consistency)
    catalog = wt.Catalog(warehouse, consistency=consistency, uri=service.url)
    for _ in range(2):
        with catalog.session(tables) as by_uri, embedded.session(tables) as here:
            assert told(by_uri) == told(here)
    assert service.got("/v1/health")["sessions"] == 0
    assert leases(warehouse) == set()


def test_a_barrier_that_is_asked_for_is_read_or_refused_as_without(
    warehouse: str, service: Service
) -> None:
    embedded, catalog = wt.Catalog(warehouse), wt.Catalog(warehouse, uri=service.url)
    with catalog.session(["db.x"], as_of=10) as by_uri, embedded.session(["db.x"], as_of=10) as at:
        assert told(by_uri) == told(at)
        assert at.barrier == 10
    calls: list[dict[str, Any]] = [
        {"as_of": 30},
        {"as_of": 10, "consistency": "ReadUncommitted"},
        {"tables": []},
    ]
    for given in calls:
        refusals = []
        for each in (embedded, catalog):
            with pytest.raises(wt.WidetableError) as refused:
                each.session(**given)
            refusals.append((refused.type, str(refused.value)))
        assert refusals[0] == refusals[1]


def test_the_service_lets_go_once_this_process_holds_the_tables(
    warehouse: str, service: Service
) -> None:
    with wt.Catalog(warehouse, uri=service.url).session():
        assert service.got("/v1/health")["sessions"] == 0
        assert len(leases(warehouse)) == len(TABLES)
    assert leases(warehouse) == set()


def test_an_open_session_is_read_on_when_its_service_was_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    end_patience(monkeypatch)
    warehouse = fill(tmp_path)
    committing = Committing(warehouse)
    with serving(warehouse) as (service,):
        catalog = wt.Catalog(warehouse, uri=service.url)
        with catalog.session(TABLES) as session:
            before = told(session)
            service.kill()
            for _ in range(20):
                committing.step()
            for name in TABLES:
                table = wt.Catalog(warehouse).table(name)
                table.compact(full=True)
                table.expire_snapshots(1, 1, 0)
            assert told(session) == before
            with pytest.raises(wt.StorageError, match="no answer"):
                catalog.session(TABLES)
        for name in TABLES:  # they go now
            assert wt.Catalog(warehouse).table(name).expire_snapshots(1, 1, 0).ids


def test_where_no_instance_answers_only_the_newest_rows_are_read(
    warehouse: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    end_patience(monkeypatch)
    catalog = wt.Catalog(warehouse, uri=[NOBODY, "http://127.0.0.1:2"])
    for consistency in (REPEATABLE, "ReadCommitted"):
        with pytest.raises(wt.StorageError, match="no answer"):
            catalog.session(consistency=consistency)
    with catalog.session(consistency="ReadUncommitted") as newest:
        assert (newest.barrier, newest.snapshot_ids()) == (None, {"db.x": 3, "db.y": 2})
    assert catalog.table("db.x").scan().count() == 1
    assert [job.name for job in catalog.topology().jobs()] == ["clicks", "q"]


def test_barriers_never_go_back_over_two_instances_of_which_one_is_killed(tmp_path: Path) -> None:
    warehouse = fill(tmp_path)
    committing = Committing(warehouse)
    with serving(warehouse, 2) as (first, second):
        catalogs = [
            wt.Catalog(warehouse, uri=[first.url, second.url]),
            wt.Catalog(warehouse, uri=(second.url, first.url)),
        ]
        seen = [0, 0]
        for at in range(40):
            if at == 20:
                first.kill()
            if at % 3 == 0:
                committing.step()
            with catalogs[at % 2].session(TABLES) as session:
                assert session.barrier is not None
                assert session.barrier >= max(seen)
                assert session.fell_back_from is None
                seen[at % 2] = session.barrier
                barriers = {row["p"] for of in rows(session).values() for row in of}
                assert barriers == {session.barrier}
        assert second.got("/v1/health")["sessions"] == 0


def test_only_a_revision_takes_it_back_and_is_told(tmp_path: Path) -> None:
    warehouse = fill(tmp_path)
    wt.Catalog(warehouse).writer("db.y", "q", ["p"]).complete(20)
    with serving(warehouse) as (service,):
        catalog = wt.Catalog(warehouse, uri=service.url)
        with catalog.session() as session:
            assert (session.barrier, session.revision) == (20, 0)
        catalog.revise("db.y", to=10)
        with catalog.session() as session:
            assert (session.barrier, session.revision) == (10, 1)
            assert session.fell_back_from == 20


class _Changed:
    """A client of the service, with something changed of how it is asked, or done once it has answered."""

    def __init__(
        self, url: str | list[str], *, as_of: int | None = None, then: Callable[[], object] = int
    ) -> None:
        self.client, self.as_of, self.then = MetaClient(url), as_of, then

    def session(
        self, tables: Sequence[str] | None = None, *, consistency: str, as_of: int | None = None
    ) -> ServiceSession:
        found = self.client.session(tables, consistency=consistency, as_of=as_of or self.as_of)
        self.then()
        return found


def asked(warehouse: str, client: _Changed, shown: ShownBarriers) -> SessionRequests:
    catalog, service = wt.Catalog(warehouse), client
    made: Any = service
    return SessionRequests(made, catalog._file_io, catalog.warehouse, catalog.table, shown)


def test_an_older_barrier_than_was_read_is_refused_without_a_revision(tmp_path: Path) -> None:
    warehouse, shown = fill(tmp_path), ShownBarriers()
    with serving(warehouse) as (service,):
        newest = asked(warehouse, _Changed(service.url), shown)
        behind = asked(warehouse, _Changed(service.url, as_of=10), shown)
        with newest.open(["db.x"], REPEATABLE, None) as session:
            assert session.barrier == 20
            shown.note(REPEATABLE, session)
        with pytest.raises(wt.NotFoundError, match="20, which was read before"):
            behind.open(["db.x"], REPEATABLE, None)
        with behind.open(["db.x"], REPEATABLE, 10) as session:  # as it is asked for
            assert session.barrier == 10
        assert service.got("/v1/health")["sessions"] == 0


def test_an_instance_that_ends_once_it_has_answered_is_followed_by_another(tmp_path: Path) -> None:
    warehouse = fill(tmp_path)
    with serving(warehouse, 3) as (first, second, third):
        ends = iter([first.terminate, second.kill])
        client = _Changed([first.url, second.url, third.url], then=lambda: next(ends, Path.cwd)())
        # Its leases went with the first one; the second one's are there, and hold nothing.
        for left in (2, 2):
            with asked(warehouse, client, ShownBarriers()).open(None, REPEATABLE, None) as session:
                assert session.barrier == 10
                assert len(rows(session)) == left


def test_a_service_of_another_warehouse_is_refused_by_name(tmp_path: Path) -> None:
    ours, theirs = fill(tmp_path / "ours"), fill(tmp_path / "theirs")
    shutil.copytree(ours, tmp_path / "copied")  # the same ids, names and rows
    other = wt.Catalog(tmp_path / "other")
    other.create_table(
        "db.z", {"id": "BIGINT"}, primary_key=["id"], options={"widetable.barrier-interval": "10 s"}
    )
    other.writer("db.z", "w").complete(10_000)
    with serving(theirs) as (service,):
        for warehouse in (ours, str(tmp_path / "copied")):
            catalog = wt.Catalog(warehouse, uri=service.url)
            for tables in (None, TABLES):
                with pytest.raises(wt.InvalidError) as refused:
                    catalog.session(tables)
                assert refused.value.subject == "uri"
                assert theirs in refused.value.found
                assert warehouse in refused.value.expected
        assert service.got("/v1/health")["sessions"] == 0
    with serving(tmp_path / "other") as (service,):
        catalog = wt.Catalog(ours, uri=service.url)
        with pytest.raises(wt.InvalidError, match="another warehouse"):
            catalog.session()
        with pytest.raises(wt.NotFoundError, match=str(tmp_path / "other")):
            catalog.session(TABLES)


def test_a_warehouse_is_the_same_by_another_path(
    warehouse: str, service: Service, tmp_path: Path
) -> None:
    (tmp_path / "mounted").symlink_to(warehouse)
    catalog = wt.Catalog(tmp_path / "mounted", uri=f"{service.url}/")
    with catalog.session() as session:
        assert session.barrier == 10


def test_what_is_staged_is_refused_by_a_service(tmp_path: Path) -> None:
    new_table(tmp_path, widetable__barrier_stage="true")
    wt.Catalog(tmp_path).writer(NAME, "w").complete(10)
    with serving(tmp_path) as (service,):
        catalog = wt.Catalog(tmp_path, uri=service.url)
        with pytest.raises(wt.UnsupportedError, match=r"widetable\.barrier-stage"):
            catalog.session(consistency="ReadCommitted")
        with catalog.session() as session:
            assert session.barrier == 10


def test_a_pickle_and_a_forked_child_ask_the_service_by_themselves(
    warehouse: str, service: Service
) -> None:
    catalog = wt.Catalog(warehouse, uri=[service.url])
    assert repr(catalog) == repr(wt.Catalog(warehouse))

    def opens() -> None:
        for each in (catalog, pickle.loads(pickle.dumps(catalog))):
            with each.session() as session:
                assert session.barrier == 10

    opens()
    child = in_a_child(opens)
    opens()
    assert os.waitpid(child, 0)[1] == 0
    opens()


def test_without_its_package_it_says_what_to_install(
    warehouse: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent = pickle.dumps(wt.Catalog(warehouse, uri=NOBODY))
    monkeypatch.setitem(sys.modules, "widetable_meta.client", None)
    with pytest.raises(wt.UnsupportedError, match=r"uri: .*pip install 'widetable\[meta\]'"):
        wt.Catalog(warehouse, uri=NOBODY)
    arrived = pickle.loads(sent)  # on a host that reads tables only
    assert arrived.table("db.x").scan().count() == 1
    with pytest.raises(wt.UnsupportedError, match="uri"):
        arrived.session()


@pytest.mark.parametrize(
    "uri", ["", "nonsense", "ftp://a", [], [7], 7, ["http://a"] * 2, "http://a:b", {"http://a": 1}]
)
def test_uris_that_are_none_are_refused_by_name(tmp_path: Path, uri: Any) -> None:
    with pytest.raises(wt.InvalidError) as refused:
        wt.Catalog(tmp_path, uri=uri)
    assert refused.value.subject == "uri"


def test_hostile_arguments_are_refused_as_they_are_without(
    warehouse: str, service: Service, rng: random.Random
) -> None:
    embedded, catalog = wt.Catalog(warehouse), wt.Catalog(warehouse, uri=service.url)

    def kind(catalog: wt.Catalog, given: dict[str, Any]) -> str:
        try:
            catalog.session(**given).close()
        except wt.WidetableError as error:
            return type(error).__name__
        return "opened"

    for name in ("tables", "consistency", "as_of"):
        # Anew for each: some can be read once only.
        ours, theirs = list(hostile_values()), list(hostile_values())
        for at in rng.sample(range(len(ours)), 40):
            found = kind(catalog, {"tables": ["db.x"], name: ours[at]})
            assert found == kind(embedded, {"tables": ["db.x"], name: theirs[at]}), (name, at)
    assert service.got("/v1/health")["sessions"] == 0
