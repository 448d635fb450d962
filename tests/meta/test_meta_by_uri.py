"""`widetable meta .. --uri`: a service says what the tables of the warehouse say."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import pytest

import widetable as wt
from tests.meta.service_process import Service, end_patience, serving
from tests.support.models.hostile_values import TEXTS
from tests.support.programs.command_line import Ran, run
from tests.widetable.cli.test_meta import NAMES, fill, refused, told
from widetable.cli.meta_command import ACTIONS

NOBODY = "http://127.0.0.1:1"
OF_THE_TABLES = {"rebuild", "serve"}
# WAREHOUSE is the place of it, or of --uri.
LOOKS = (
    "show WAREHOUSE",
    "jobs WAREHOUSE",
    "tables WAREHOUSE",
    "lineage WAREHOUSE db.x",
    "lineage WAREHOUSE db.y",
    "barriers WAREHOUSE db.x",
    "barriers WAREHOUSE db.y --limit 1",
    "read WAREHOUSE db.x,db.y",
    "read WAREHOUSE db.y --barrier 10",
    "delay WAREHOUSE",
    "delay WAREHOUSE --barrier 10",
    "delay WAREHOUSE --limit 1",
    "leave WAREHOUSE db.x clicks --dry-run --force",
    "drop-job WAREHOUSE q --dry-run --force",
    "revise WAREHOUSE db.y --to 10 --dry-run",
    "revise WAREHOUSE db.y --full --dry-run",
)
REFUSED = (
    "lineage WAREHOUSE db.none",
    "barriers WAREHOUSE db.none",
    "read WAREHOUSE db.x,db.none",
    "read WAREHOUSE db.x,db.y --barrier 70",
    "read WAREHOUSE db.x,db.x",
    "delay WAREHOUSE --barrier 30",
    "leave WAREHOUSE db.x nobody",
    "drop-job WAREHOUSE nobody",
    "revise WAREHOUSE db.x --to 10",
    "revise WAREHOUSE db.y --to 30",
    "revise WAREHOUSE db.y",
    "delay WAREHOUSE --limit -1",
    "jobs WAREHOUSE --force",
)


def words(call: str, *place: str) -> list[str]:
    before, _, behind = call.partition("WAREHOUSE")
    return [*before.split(), *place, *behind.split()]


def without_time(ran: Ran) -> Ran:
    """How fresh a table is differs from call to call."""
    return Ran(
        ran.exit_code, re.sub(r'("freshness_millis": |\s+)\d{13}\b', "", ran.stdout), ran.stderr
    )


def test_all_that_the_service_has_an_answer_for_is_looked_at() -> None:
    assert {call.split()[0] for call in LOOKS} == set(ACTIONS) - OF_THE_TABLES


@pytest.mark.parametrize("format", [(), ("--json",)], ids=["text", "json"])
@pytest.mark.parametrize("call", LOOKS)
def test_it_prints_what_is_printed_without(
    warehouse: str, service: Service, call: str, format: tuple[str, ...]
) -> None:
    embedded = run("meta", *words(call, warehouse), *format)
    for place in (["--uri", service.url], ["--uri", NOBODY, "--uri", f"{service.url}/"]):
        by_uri = run("meta", *words(call, *place), *format)
        assert without_time(by_uri) == without_time(embedded)
    assert embedded.exit_code == 0, embedded
    assert not format or json.loads(embedded.stdout)


@pytest.mark.parametrize("call", REFUSED)
def test_it_refuses_what_is_refused_without(warehouse: str, service: Service, call: str) -> None:
    embedded = refused(*words(call, warehouse))
    assert refused(*words(call, "--uri", service.url)) == embedded
    assert len(embedded.splitlines()) == 1


def test_options_stand_in_front_of_names_and_behind_them(warehouse: str, service: Service) -> None:
    expected = told("lineage", warehouse, "db.y")
    assert told("--uri", service.url, "lineage", "db.y") == expected
    assert told("lineage", "db.y", "--uri", service.url) == expected
    assert told("leave", "--dry-run", warehouse, "db.x", "--force", "clicks")


@pytest.mark.parametrize("action", [action for action in NAMES if action not in OF_THE_TABLES])
def test_a_hostile_name_is_refused_in_one_line(service: Service, action: str) -> None:
    for at in range(len(NAMES[action])):
        for text in TEXTS:
            names = [*NAMES[action][:at], text, *NAMES[action][at + 1 :]]
            said = refused(action, "--uri", service.url, *names)
            assert said.startswith(("InvalidError: ", "NotFoundError: ")), said
            assert len(said.splitlines()) == 1


def test_what_is_to_be_done_is_done(tmp_path: Path) -> None:
    def done(warehouse: str, *place: str) -> list[str]:
        found = [
            told("revise", *place, "db.y", "--to", "10"),
            told("leave", *place, "db.x", "clicks", "--force"),
            told("drop-job", *place, "q", "--force"),
            told("jobs", *place),
        ]
        topology = wt.Catalog(warehouse).topology()
        assert topology.jobs() == []
        assert [one.version for one in topology.tables()] == [1, 2]
        return found

    embedded, asked = fill(tmp_path / "embedded"), fill(tmp_path / "asked")
    with serving(asked) as (service,):
        assert done(asked, "--uri", service.url) == done(embedded, embedded)


@pytest.mark.parametrize("action", sorted(set(ACTIONS) - OF_THE_TABLES))
def test_it_is_the_warehouse_or_the_service(warehouse: str, action: str) -> None:
    names = NAMES.get(action, [])
    both = refused(action, warehouse, *names, "--uri", NOBODY)
    assert f"both WAREHOUSE and --uri: {warehouse!r}" in both
    form = " ".join(["WAREHOUSE", "NAME", "WRITER"][: 1 + len(names)])
    expected = f"expected {form}, or {form.replace('WAREHOUSE', '--uri URL')}."
    assert expected in both
    neither = refused(action)
    assert "neither WAREHOUSE nor --uri" in neither
    assert expected in neither
    if names:
        assert "no NAME" in refused(action, "--uri", NOBODY)


@pytest.mark.parametrize("action", sorted(OF_THE_TABLES))
def test_what_no_service_does_has_no_such_option(warehouse: str, action: str) -> None:
    for place in ([], [warehouse]):
        said = refused(action, *place, "--uri", NOBODY)
        assert said.startswith(f"InvalidError: widetable meta {action}: found --uri; ")
    assert "found no WAREHOUSE; expected WAREHOUSE." in refused(action)


@pytest.mark.parametrize("uri", ["", "nonsense", "ftp://a", "http://[", "http://a:b", "\ud800"])
def test_uris_that_are_none_are_refused_by_name(uri: str) -> None:
    said = refused("jobs", "--uri", uri)
    assert said.startswith("InvalidError: --uri: ")
    assert "no name twice" in refused("jobs", "--uri", NOBODY, "--uri", NOBODY)


def test_where_no_instance_answers_it_is_a_storage_error(monkeypatch: pytest.MonkeyPatch) -> None:
    end_patience(monkeypatch)
    assert "StorageError: the service http://127.0.0.1:1: found no answer" in refused(
        "jobs", "--uri", NOBODY
    )


def test_without_its_package_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "widetable_meta.client", None)
    said = refused("jobs", "--uri", NOBODY)
    assert said.startswith("UnsupportedError: --uri: ")
    assert "pip install 'widetable[meta]'" in said
