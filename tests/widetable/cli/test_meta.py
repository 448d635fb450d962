"""The command of jobs and tables under barriers, on clicks -> x -> q -> y, where q is one barrier behind."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import widetable as wt
from tests.support.faults.unheard_of import unheard_of
from tests.support.models.hostile_values import TEXTS
from tests.support.programs.command_line import run
from tests.widetable.topology.test_topology import catalog_of
from widetable.cli.meta_command import ACTIONS
from widetable.topology.topology import Topology

NAMES = {
    "lineage": ["db.x"],
    "barriers": ["db.y"],
    "read": ["db.x,db.y"],
    "leave": ["db.y", "q"],
    "drop-job": ["q"],
    "revise": ["db.y"],
}


def fill(warehouse: Path) -> str:
    """Complete up to 20 in x, up to 10 in y."""
    catalog = catalog_of(warehouse, "db.x", "db.y")
    topology = catalog.topology()
    topology.register("q", sources=["db.x"], sinks={"db.y": ["p"]})
    topology.running("q")
    clicks, q = catalog.writer("db.x", "clicks"), catalog.writer("db.y", "q", ["p"])
    for barrier in (10, 20):
        clicks.write({"id": [1], "p": [1]}, barrier=barrier, complete=True)
    q.write({"id": [1], "p": [1]}, barrier=10, complete=True)
    return str(warehouse)


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Of tests that only look."""
    return fill(tmp_path_factory.mktemp("warehouse"))


def told(*arguments: str) -> str:
    result = run("meta", *arguments)
    assert (result.exit_code, result.stderr) == (0, ""), result.stderr
    return result.stdout


def in_json(*arguments: str) -> Any:
    return json.loads(told(*arguments, "--format", "json"))


def refused(*arguments: str) -> str:
    result = run("meta", *arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    return result.stderr


def test_show_has_jobs_tables_and_what_is_complete_in_all(warehouse: str) -> None:
    lines = [line.split() for line in told("show", warehouse).splitlines()]
    assert lines[:3] == [
        ["job", "kind", "state", "sources", "sinks"],
        ["clicks", "root", "running", "-", "db.x"],
        ["q", "derived", "running", "db.x", "db.y(p)"],
    ]
    assert [line[:5] for line in lines[5:7]] == [
        ["db.x", "0", "Root", "20", "10"],
        ["db.y", "1", "Intermediate", "10", "10"],
    ]
    assert [line[-1] for line in lines[5:7]] == ["clicks", "q"]
    assert lines[-1] == ["complete", "in", "all", "tables:", "10"]
    found = in_json("show", warehouse)
    assert found["common_barrier"] == 10
    assert found == {
        **in_json("jobs", warehouse),
        "tables": found["tables"],
        "common_barrier": 10,
    }
    assert [table["table"] for table in in_json("tables", warehouse)["tables"]] == ["db.x", "db.y"]
    assert "clicks" not in told("tables", warehouse).splitlines()[0]


def test_lineage_has_both_directions(warehouse: str) -> None:
    x = {"table": "db.x", "written_by": ["clicks"]}
    y = {"table": "db.y", "written_by": ["q"]}
    assert in_json("lineage", warehouse, "db.x") == {"upstream": [], "table": x, "downstream": [y]}
    assert in_json("lineage", warehouse, "db.y") == {"upstream": [x], "table": y, "downstream": []}
    assert [line.split() for line in told("lineage", warehouse, "db.y").splitlines()[1:]] == [
        ["upstream", "db.x", "clicks"],
        ["table", "db.y", "q"],
    ]


def test_barriers_are_those_of_the_topology(warehouse: str) -> None:
    lines = [line.split() for line in told("barriers", warehouse, "db.y").splitlines()]
    assert [line[:2] for line in lines[1:]] == [["10", "true"], ["20", "false"]]
    assert (lines[1][-1], lines[2][-1]) == ("-", "q")
    found = wt.Catalog(warehouse).topology().barriers("db.y")
    assert [tuple(row.values()) for row in in_json("barriers", warehouse, "db.y")["barriers"]] == [
        (
            one.barrier,
            one.is_complete,
            one.is_exact,
            one.base_id,
            one.extra_files,
            one.hidden_files,
            one.snapshot_id,
            one.changelog_snapshot_id,
            list(one.missing),
        )
        for one in found
    ]
    assert len(in_json("barriers", warehouse, "db.x", "--limit", "1")["barriers"]) == 2


def test_tables_are_read_together_by_snapshots_that_any_client_knows(warehouse: str) -> None:
    found = in_json("read", warehouse, "db.x,db.y")
    assert (found["barrier"], found["revision"]) == (10, 0)
    with wt.Catalog(warehouse).session(["db.x", "db.y"]) as session:
        ids = session.snapshot_ids()
    assert {row["table"]: row["snapshot_id"] for row in found["tables"]} == ids
    assert in_json("read", warehouse, "db.x")["barrier"] == 20
    assert in_json("read", warehouse, "db.x", "--barrier", "10")["barrier"] == 10
    assert in_json("read", warehouse, "db.x, db.y") == found
    lines = told("read", warehouse, "db.x,db.y").splitlines()
    assert lines[1].split() == ["db.x", str(ids["db.x"])]
    assert lines[-1].startswith("at barrier 10;")
    assert "missing: q" in refused("read", warehouse, "db.y", "--barrier", "20")


def test_delays_are_those_of_the_topology(warehouse: str) -> None:
    found = in_json("delay", warehouse, "--barrier", "10")
    (delay,) = wt.Catalog(warehouse).topology().delays(10).jobs
    assert [row["share_millis"] for row in found["jobs"]] == [delay.share_millis]
    assert [(row["table"], row["slowest_job"]) for row in found["tables"]] == [
        ("db.x", None),
        ("db.y", "q"),
    ]
    assert {row["barrier"] for row in in_json("delay", warehouse)["tables"]} == {10, 20}
    newest = in_json("delay", warehouse, "--limit", "1")
    assert [(row["barrier"], row["table"]) for row in newest["tables"]] == [(20, "db.x")]
    assert newest["jobs"] == []
    lines = told("delay", warehouse, "--barrier", "10").splitlines()
    assert [line.split()[:2] for line in (lines[2], lines[5])] == [["10", "db.y"], ["10", "q"]]


def test_what_has_ended_leaves_and_a_dry_run_leaves_it(tmp_path: Path) -> None:
    warehouse = fill(tmp_path)
    asked = ("drop-job", warehouse, "q", "--dry-run")
    would = in_json(*asked)
    assert (would["left"], would["tables"], would["dry_run"]) == ("q", ["db.y"], True)
    assert [(row["barrier_before"], row["barrier"]) for row in would["barriers"]] == [(10, 10)]
    said = told("leave", warehouse, "db.x", "clicks", "--dry-run")
    assert said.startswith("clicks would leave db.x\ndb.x would be complete up to 20; it has no")
    assert [job["name"] for job in in_json("jobs", warehouse)["jobs"]] == ["clicks", "q"]
    alone = "; it has no writer any more: it stays at this barrier, and keeps sessions over several tables there, "
    alone += "until a writer joins\n"
    assert told("leave", warehouse, "db.x", "clicks") == (
        "clicks has left db.x\n"
        "db.x is complete up to 20; in common with the tables that jobs connect with it: 10" + alone
    )
    assert told("drop-job", warehouse, "q") == (
        "q has left db.y\n"
        "db.y is complete up to 10; in common with the tables that jobs connect with it: 10" + alone
    )
    assert in_json("jobs", warehouse) == {"jobs": [], "lost": []}
    assert in_json("rebuild", warehouse)["tables"]["__meta.__META_TABLE_VERSION"] == 2
    assert "__meta.__META_ETL_SINK: 0 rows" in told("rebuild", warehouse).splitlines()
    topology = Topology(wt.Catalog(warehouse), for_others=True)
    topology.register("goes on", sinks={"db.y": None})
    topology.running("goes on")
    assert "renews its registration" in refused("drop-job", warehouse, "goes on")
    told("drop-job", warehouse, "goes on", "--force")


def test_a_table_goes_back_and_is_told_with_its_jobs(tmp_path: Path) -> None:
    warehouse = fill(tmp_path)
    words = ("revise", warehouse, "db.y", "--to", "10")
    assert in_json(*words, "--dry-run")["number"] is None
    lines = [line.split() for line in told(*words, "--dry-run").splitlines()]
    assert lines == [
        ["table", "barrier", "to", "commits", "records"],
        ["db.y", "10", "10", "0", "0"],
        [],
        ["jobs", "that", "would", "restart:", "q"],
    ]
    assert told(*words).splitlines()[-1] == "jobs that restart: q"
    assert in_json("tables", warehouse)["tables"][1]["version"] == 2
    found = in_json("revise", warehouse, "db.y", "--full")
    assert (found["number"], found["to"], found["jobs"]) == (2, None, ["q"])
    assert wt.Catalog(warehouse).table("db.y").scan().count() == 0


@pytest.mark.parametrize(
    ("arguments", "found"),
    [
        (("lineage", "W"), "no NAME"),
        (("leave", "W", "db.y"), "'db.y'"),
        (("jobs", "W", "db.y"), "'db.y'"),
        (("show", "W", "--force"), "--force"),
        (("lineage", "W", "db.y", "--limit", "1"), "--limit"),
        (("barriers", "W", "db.y", "--barrier", "10"), "--barrier"),
        (("delay", "W", "--limit", "-1"), "-1"),
        (("delay", "W", "--barrier", "30"), "no table"),
        (("revise", "W", "db.y"), "neither --to nor --full"),
        (("revise", "W", "db.y", "--to", "10", "--full"), "both --to and --full"),
        (("revise", "W", "db.y", "--to", "20"), "complete up to 10"),
        (("jobs", "W", "--to", "20"), "--to"),
        (("show", "W/db.db/x"), "no database"),
        (("serve-it", "W"), "wrong arguments"),
    ],
    ids=lambda given: " ".join(given) if isinstance(given, tuple) else "",
)
def test_words_that_do_not_fit_are_refused(
    warehouse: str, arguments: tuple[str, ...], found: str
) -> None:
    assert found in refused(*(word.replace("W", warehouse, 1) for word in arguments))


def lines_of(warehouse: str, action: str) -> Iterator[list[str]]:
    """With a hostile text in each place."""
    words = [action, warehouse, *NAMES.get(action, [])]
    for text in TEXTS:
        for at in range(1, len(words)):
            yield [*words[:at], text, *words[at + 1 :]]


@pytest.mark.parametrize("action", ACTIONS)
def test_a_hostile_name_is_refused_in_one_line(
    warehouse: str, action: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # ".." is among the texts, and is this test's own: what lies beside tmp_path is another's.
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    for words in lines_of(warehouse, action):
        result = run("meta", *words)
        assert (result.exit_code, result.stdout) == (2, ""), ascii(words)[:200]
        assert len(result.stderr.splitlines()) == 1
    assert len(wt.Catalog(warehouse).topology().jobs()) == 2


def test_serving_without_its_packages_says_what_to_install(
    warehouse: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "widetable_meta.serving", None)  # as if it was not there
    said = refused("serve", warehouse)
    assert "pip install 'widetable[meta]'" in said


def test_a_dead_sole_writer_is_said_to_be_one_with_the_command_that_lets_it_go(
    tmp_path: Path,
) -> None:
    fill(tmp_path)
    unheard_of(tmp_path, "db.db/x", "clicks", 5)
    jobs = run("meta", "jobs", str(tmp_path))
    assert (jobs.exit_code, "last seen 5 min ago" in jobs.stdout) == (0, True)
    assert run("doctor", str(tmp_path / "db.db/x")).exit_code == 0
    unheard_of(tmp_path, "db.db/x", "clicks", 15)
    command = f"widetable meta leave {tmp_path} db.x clicks"
    for action in ("show", "jobs", "tables"):
        result = run("meta", action, str(tmp_path))
        assert result.exit_code == 1, action
        assert "last seen 15 min ago" in result.stdout
        assert "clicks of db.x: last seen 15 min ago" in result.stdout
        assert result.stdout.rstrip().endswith(command)
        (lost,) = json.loads(run("meta", action, str(tmp_path), "--format", "json").stdout)["lost"]
        assert (lost["writer"], lost["command"]) == ("clicks", command)
    table = wt.Catalog(tmp_path).table("db.x")
    (finding,) = table.doctor().findings
    assert finding.found == "barrier 20, last seen 15 min ago"
    assert finding.command == command
    assert "last seen 15 min ago" in table.inspect().warnings[0]
    would = run("meta", *command.split()[2:], "--dry-run")
    assert "db.x would be complete up to 20" in would.stdout
    left = run("meta", *command.split()[2:])
    assert (left.exit_code, "it has no writer any more" in left.stdout) == (0, True)
    assert run("meta", "show", str(tmp_path)).exit_code == 0
    assert table.doctor().ok


def test_a_leave_says_how_far_the_table_comes_without_the_writer(tmp_path: Path) -> None:
    catalog = catalog_of(tmp_path, "db.x")
    first, second = catalog.writer("db.x", "first", ["p"]), catalog.writer("db.x", "second", [])
    first.write({"id": [1], "p": [1]}, barrier=30, complete=True)
    second.complete(10)
    first._release()
    second._release()
    said = told("leave", str(tmp_path), "db.x", "second", "--dry-run")
    assert said == "second would leave db.x\ndb.x would be complete up to 30, before 10\n"
    assert told("leave", str(tmp_path), "db.x", "second") == (
        "second has left db.x\n"
        "db.x is complete up to 30, before 10; in common with the tables that jobs connect with it: 30, before 10\n"
    )
