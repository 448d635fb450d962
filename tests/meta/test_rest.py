"""Each endpoint of the service, asked over a port: it answers what the embedded calls say."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
import requests
from prometheus_client.parser import text_string_to_metric_families

import widetable as wt
from tests.meta.service_process import Service, serving
from tests.support.faults.patience import PATIENCE_SECONDS
from tests.test_said_in_pages import table_rows
from tests.widetable.cli.test_meta import fill

ENDPOINTS = {
    ("POST", "/v1/jobs"),
    ("GET", "/v1/jobs"),
    ("POST", "/v1/jobs/{job}/running"),
    ("POST", "/v1/jobs/{job}/renew"),
    ("DELETE", "/v1/jobs/{job}"),
    ("POST", "/v1/writers/leave"),
    ("GET", "/v1/tables"),
    ("GET", "/v1/tables/{table}/barriers"),
    ("GET", "/v1/tables/{table}/lineage"),
    ("GET", "/v1/topology"),
    ("GET", "/v1/delays"),
    ("POST", "/v1/sessions"),
    ("PUT", "/v1/sessions/{id}"),
    ("DELETE", "/v1/sessions/{id}"),
    ("POST", "/v1/revisions"),
    ("GET", "/v1/revisions"),
    ("GET", "/v1/revisions/{number}"),
    ("GET", "/v1/health"),
    ("GET", "/v1/leader"),
    ("GET", "/metrics"),
}


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Jobs: clicks -> db.x -> q -> db.y, where q is one barrier behind; db.z is nobody's."""
    place = tmp_path_factory.mktemp("warehouse")
    path = fill(place)
    table = wt.Catalog(place).table("db.x")
    wt.Catalog(place).create_table(
        "db.z",
        dict.fromkeys(("id", "p", "q", "v"), "BIGINT"),
        primary_key=["id"],
        options=dict(table.schema.options),
    )
    return path


@pytest.fixture(scope="module")
def service(warehouse: str) -> Iterator[Service]:
    with serving(warehouse) as (one,):
        yield one


def in_json(value: Any) -> Any:
    return json.loads(json.dumps(value))


def test_what_is_there_is_told_as_embedded(service: Service, warehouse: str) -> None:
    topology = wt.Catalog(warehouse).topology()
    assert service.got("/v1/jobs") == in_json([asdict(job) for job in topology.jobs()])
    tables = service.got("/v1/tables")
    for found, expected in zip(tables, topology.tables(), strict=True):
        timeless = {**asdict(expected), "freshness_millis": found["freshness_millis"]}
        assert found == in_json(timeless)
    whole = service.got("/v1/topology")
    assert (whole["layers"], whole["common_barrier"]) == (topology.layers(), None)
    assert [job["name"] for job in whole["jobs"]] == ["clicks", "q"]
    assert [table["table"] for table in whole["tables"]] == ["db.x", "db.z", "db.y"]
    barriers = [asdict(one) for one in topology.barriers("db.y")]
    assert service.got("/v1/tables/db.y/barriers") == in_json(barriers)
    assert len(service.got("/v1/tables/db.x/barriers", limit=0)) == 1
    assert service.got("/v1/delays", barrier=10) == in_json(asdict(topology.delays(10)))
    newest = service.got("/v1/delays", limit=1)
    assert {one["barrier"] for one in newest["tables"]} == {20}


def test_a_job_is_registered_runs_is_renewed_and_dropped(service: Service, warehouse: str) -> None:
    body = {"job": "totals", "sources": ["db.y"], "sinks": {"db.z": ["p"]}}
    status, job = service.ask("POST", "/v1/jobs", body)
    assert (status, job["state"], job["kind"]) == (201, "pending", "derived")
    assert job["sinks"] == [{"table": "db.z", "columns": ["p"]}]
    status, running = service.ask("POST", "/v1/jobs/totals/running")
    assert (status, running["state"]) == (200, "running")
    assert service.ask("POST", "/v1/jobs/totals/renew") == (200, running)
    found = {job.name: job for job in wt.Catalog(warehouse).topology().jobs()}
    assert found["totals"].run == running["run"]
    cycle = {"job": "back", "sources": ["db.z"], "sinks": {"db.x": ["q"]}}
    status, told = service.ask("POST", "/v1/jobs", cycle)
    assert (status, told["kind"]) == (409, "ConflictError")
    assert "db.z -> back -> db.x -> q -> db.y -> totals -> db.z" in told["message"]
    status, told = service.ask("POST", "/v1/jobs", {"job": "other", "sinks": {"db.z": ["p"]}})
    assert (status, "'totals'" in told["message"]) == (409, True)
    status, told = service.ask("DELETE", "/v1/jobs/totals")
    assert (status, "renews its registration" in told["message"]) == (409, True)
    dry = {"left": "totals", "tables": ["db.z"], "dry_run": True}
    assert service.ask("DELETE", "/v1/jobs/totals", force=True, dry_run=True) == (200, dry)
    assert service.ask("DELETE", "/v1/jobs/totals", force=True) == (200, {**dry, "dry_run": False})
    assert service.ask("DELETE", "/v1/jobs/totals", force=True)[0] == 404


def test_a_job_may_have_a_name_that_paths_are_made_of(service: Service) -> None:
    for name in ("a/b", "a/running", "50 %?#&"):
        assert service.ask("POST", "/v1/jobs", {"job": name, "sinks": {"db.z": ["v"]}})[0] == 201
        quoted = quote(name, safe="")
        assert service.ask("POST", f"/v1/jobs/{quoted}/running")[1]["name"] == name
        assert service.ask("DELETE", f"/v1/jobs/{quoted}", force=True)[1]["left"] == name


def test_a_session_holds_its_tables_until_it_is_closed(service: Service, warehouse: str) -> None:
    status, told = service.ask("POST", "/v1/sessions", {"tables": ["db.x", "db.y"]})
    assert (status, told["barrier"], told["revision"]) == (201, 10, 0)
    with wt.Catalog(warehouse).session(["db.x", "db.y"]) as embedded:
        ids = {name: one["snapshot_id"] for name, one in told["tables"].items()}
        assert ids == embedded.snapshot_ids()
    leases = Path(warehouse).rglob("widetable-read-lease-*")
    assert {lease.parents[1].name for lease in leases} == {"x", "y"}
    status, renewed = service.ask("PUT", f"/v1/sessions/{told['id']}")
    assert (status, renewed["expires"] >= told["expires"]) == (200, True)
    assert service.ask("DELETE", f"/v1/sessions/{told['id']}") == (204, None)
    assert list(Path(warehouse).rglob("widetable-read-lease-*")) == []
    for method in ("PUT", "DELETE"):
        status, error = service.ask(method, f"/v1/sessions/{told['id']}")
        assert (status, error["kind"]) == (404, "NotFoundError")


def test_a_session_is_as_it_is_wanted(service: Service) -> None:
    wanted = {"tables": ["db.x"], "as_of": 10}
    status, told = service.ask("POST", "/v1/sessions", wanted)
    assert (status, told["barrier"]) == (201, 10)
    assert service.ask("DELETE", f"/v1/sessions/{told['id']}")[0] == 204
    wanted = {"tables": ["db.x"], "consistency": "ReadUncommitted"}
    status, told = service.ask("POST", "/v1/sessions", wanted)
    assert (status, told["barrier"], told["revision"]) == (201, None, None)
    assert service.ask("DELETE", f"/v1/sessions/{told['id']}")[0] == 204
    refused = [
        ({"tables": ["db.x", "db.y"], "at_least": 20}, 404),
        ({"tables": ["db.y"], "as_of": 20}, 404),
        ({"tables": ["db.none"]}, 404),
        ({"tables": ["db.x"], "consistency": "Whatever"}, 400),
        ({"tables": []}, 400),
        ({"tables": ["db.x", "db.x"]}, 400),
        ({}, 404),  # db.z has no barrier
    ]
    for body, expected in refused:
        assert service.ask("POST", "/v1/sessions", body)[0] == expected, body
    assert service.got("/v1/health")["sessions"] == 0


def test_a_table_goes_back_and_its_revision_is_told(tmp_path: Path) -> None:
    warehouse = fill(tmp_path)
    with serving(warehouse) as (service,):
        assert service.got("/v1/revisions") == []
        for body in ({"table": "db.y"}, {"table": "db.y", "to": 10, "full": True}):
            assert service.ask("POST", "/v1/revisions", body)[0] == 400
        status, told = service.ask(
            "POST", "/v1/revisions", {"table": "db.y", "to": 10, "dry_run": True}
        )
        assert (status, told["number"], told["jobs"]) == (200, None, ["q"])
        status, told = service.ask("POST", "/v1/revisions", {"table": "db.y", "full": True})
        assert (status, told["number"], told["to"]) == (200, 1, None)
        one = {"number": 1, "table": "db.y", "to": None, "tables": ["db.y"], "is_active": True}
        assert service.got("/v1/revisions") == [one]
        assert service.got("/v1/revisions/1") == one
        assert [one] == in_json([asdict(r) for r in wt.Catalog(warehouse).topology().revisions()])
        assert service.ask("GET", "/v1/revisions/2")[0] == 404
        status, told = service.ask("POST", "/v1/sessions", {"tables": ["db.x"]})
        assert (status, told["revision"]) == (201, 1)
        leave = {"table": "db.x", "writer": "clicks"}
        status, error = service.ask("POST", "/v1/writers/leave", leave)
        assert (status, error["kind"]) == (409, "ConflictError")  # it runs in this process
        left = {"left": "clicks", "tables": ["db.x"], "dry_run": False}
        assert service.ask("POST", "/v1/writers/leave", {**leave, "force": True}) == (200, left)
        assert service.ask("POST", "/v1/writers/leave", {**leave, "force": True})[0] == 404


def test_health_and_leader_are_told(service: Service) -> None:
    health = service.got("/v1/health")
    assert health["version"] == wt.__version__
    assert (health["status"], health["url"], health["is_leader"]) == ("ok", service.url, True)
    assert service.got("/v1/leader") == {"url": service.url, "is_here": True}


def test_openapi_lists_every_endpoint_and_form(service: Service) -> None:
    told = service.got("/openapi.json")
    listed = {(method.upper(), path) for path, of in told["paths"].items() for method in of}
    assert listed == ENDPOINTS
    schemas = told["components"]["schemas"]
    assert {"Job", "TableProgress", "TableBarrier", "Delays", "RevisionResult"} <= schemas.keys()
    assert {"SessionAnswer", "SessionRequest", "ErrorAnswer"} <= schemas.keys()
    errors = told["paths"]["/v1/jobs"]["post"]["responses"]
    assert errors["409"]["content"]["application/json"]["schema"]["$ref"].endswith("/ErrorAnswer")


def test_metrics_are_those_that_the_page_lists(service: Service) -> None:
    text = requests.get(f"{service.url}/metrics", timeout=PATIENCE_SECONDS).text
    served = [line.split()[2] for line in text.splitlines() if line.startswith("# HELP ")]
    listed = [row[0].strip("`") for row in table_rows("docs/meta-service.md", "metric")]
    assert sorted(served) == sorted(listed)


def test_metrics_are_read_by_prometheus(service: Service) -> None:
    service.got("/v1/jobs")
    service.ask("GET", "/v1/nothing/of/that/name")
    answer = requests.get(f"{service.url}/metrics", timeout=PATIENCE_SECONDS)
    assert answer.headers["content-type"].startswith("text/plain")
    families = {one.name: one for one in text_string_to_metric_families(answer.text)}
    values = {
        (sample.name, *(sample.labels[name] for name in sorted(sample.labels))): sample.value
        for family in families.values()
        for sample in family.samples
    }
    assert values["widetable_table_barrier_seconds", "db.x"] == 0.02
    assert values["widetable_table_missing_writers", "db.y"] == 1
    assert values["widetable_table_level0_files", "db.x"] == 2
    assert values["widetable_table_readable", "db.z"] == 1
    assert values["widetable_meta_is_leader",] == 1
    assert values["widetable_meta_sessions",] == 0
    assert values["widetable_meta_requests_total", "GET", "/v1/jobs", "200"] >= 1
    assert values["widetable_meta_requests_total", "GET", "none", "404"] >= 1
    assert values["widetable_meta_request_seconds_count", "GET", "/v1/jobs"] >= 1
