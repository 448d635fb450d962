"""What every command says it did, to people and to programs; and that a dry run of what removes something removes
nothing.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import widetable as wt
from tests.support.programs.command_line import Ran, run
from tests.support.tables.branched import create, put
from tests.support.tables.fixture_tables import ROOT
from tests.support.tables.joined import joined_at
from widetable.cli.commands import COMMANDS
from widetable.operations.inspection.inspected_names import NAMES

# In an order in which each finds what it needs; PATH is the table, LOG an append table, ROOT the directory.
CALLS = """
    init ROOT/new.db/t 'id BIGINT' --key id
    ls ROOT
    schema PATH
    write PATH ROOT/rows.jsonl
    delete PATH k=9
    update LOG k=1 --set v=c --dry-run
    update LOG k=2 --null v
    sort LOG k,v --order linear
    compact PATH
    rescale PATH 3
    copy PATH ROOT/copies.db/t
    alter PATH --set snapshot.num-retained.min=1
    partition list PATH
    tag create PATH first
    tag list PATH
    branch create PATH side --tag first
    branch list PATH
    branch fast-forward PATH side --dry-run --replace
    branch drop PATH side
    tag delete PATH first
    consumer list PATH
    consumer delete PATH totals
    inspect PATH
    inspect PATH --what files
    explain PATH 1
    audit PATH
    doctor PATH
    repair PATH
    rollback PATH --snapshot 1 --dry-run
    maintain PATH --once --quiet
    expire PATH --retain-min 1 --retain-max 2 --time-retained '0 s'
    orphans PATH --older-than '0 s'
    join add ROOT/db.db/again --left db.a --right db.b --on u
    join run ROOT/db.db/again --once --quiet
    meta show ROOT
    warmup
""".strip().splitlines()
# They write rows or a script, in formats of their own.
# cdc needs a database: tests/cdc/test_page.py.
OTHERS = {"read", "pit", "changes", "completion", "cdc"}
REMOVING = {
    "branch drop PATH side --dry-run": "branch side would be deleted",
    "consumer delete PATH totals --dry-run": "consumer totals would be deleted",
    "delete PATH k=1 --dry-run": "1 row would be deleted",
    "expire PATH --dry-run --retain-min 1 --retain-max 1 --time-retained 0s": "1 snapshot would expire: 1 to 1",
    "orphans PATH --dry-run --older-than 0s": "1 file would be removed, 5 B",
    "repair PATH --dry-run": "nothing to repair",
    "rollback PATH --snapshot 1 --dry-run": "nothing is changed yet; run it with --yes",
    "tag delete PATH first --dry-run": "tag first would be deleted",
}


@pytest.fixture
def words(tmp_path: Path) -> dict[str, str]:
    """A table with two snapshots, a tag, a branch, a consumer, a file of nobody."""
    joined_at("inner", tmp_path)
    table = create(tmp_path)
    put(table, {1: "a"})
    put(table, {2: "b"})
    list(table.follow(consumer_id="totals", timeout=0))
    log = wt.Catalog(tmp_path).create_table("db.log", {"k": "BIGINT", "v": "STRING"})
    log.write([{"k": 1, "v": "a"}, {"k": 2, "v": "b"}])
    (tmp_path / "rows.jsonl").write_text('{"k": 9, "v": "c"}\n')
    return {"PATH": table.path, "ROOT": str(tmp_path), "LOG": log.path}


def words_of(call: str, words: dict[str, str]) -> list[str]:
    return [
        re.sub("PATH|ROOT|LOG", lambda found: words[found[0]], word.strip("'"))
        for word in re.findall(r"'[^']*'|\S+", call)
    ]


def ran(call: str, words: dict[str, str]) -> str:
    done = run(*words_of(call, words))
    assert done.exit_code == 0, (call, done)
    return done.stdout


def test_every_command_has_both_formats() -> None:
    assert {call.split()[0] for call in CALLS} == COMMANDS.keys() - OTHERS
    for name, command in COMMANDS.items():
        offered: dict[str, Any] = dict(command.arguments)
        choices = offered.get("--format", {}).get("choices", ())
        assert name in ("completion", "write") or {"table", "json"} <= {*choices}, name
        assert name in OTHERS or "--json" in offered, name


def test_every_command_says_what_it_did_to_people(words: dict[str, str]) -> None:
    for call in CALLS:
        said = ran(call, words)
        assert said or call.startswith("ls "), call
        assert not said.startswith("{"), call
        assert not re.search(r"\d bytes", said), f"{call}: a size that nobody reads in {said}"


def test_every_command_says_what_it_did_to_programs(words: dict[str, str]) -> None:
    for call in CALLS:
        assert isinstance(json.loads(ran(f"{call} --json", words)), dict), call


@pytest.mark.parametrize("call", REMOVING)
def test_a_dry_run_removes_nothing(words: dict[str, str], call: str) -> None:
    ran("tag create PATH first", words)
    ran("branch create PATH side --tag first", words)
    Path(words["PATH"], "bucket-0", "data-of-nobody-0.parquet").write_bytes(b"12345")
    before = {path: path.read_bytes() for path in Path(words["PATH"]).rglob("*") if path.is_file()}
    assert REMOVING[call] in ran(call, words)
    after = {path: path.read_bytes() for path in Path(words["PATH"]).rglob("*") if path.is_file()}
    assert after == before


@pytest.mark.parametrize("call", ["tag", "branch", "consumer"])
def test_a_dry_run_misses_what_is_not_there(words: dict[str, str], call: str) -> None:
    action = "drop" if call == "branch" else "delete"
    for extra in ([], ["--dry-run"]):
        missed = run(call, action, words["PATH"], "nobody", *extra)
        assert (missed.exit_code, missed.stderr.partition(":")[0]) == (2, "NotFoundError")


@pytest.mark.parametrize(
    "call",
    [
        "tag create PATH t --dry-run",
        "tag list PATH --dry-run",
        "branch create PATH b --dry-run",
        "consumer list PATH --dry-run",
        "repair PATH --yes --dry-run",
        "rollback PATH --snapshot 1 --yes --dry-run",
        "join run PATH --json",
    ],
)
def test_words_that_change_nothing_are_refused(words: dict[str, str], call: str) -> None:
    done = run(*words_of(call, words))
    assert (done.exit_code, done.stderr.partition(":")[0]) == (2, "InvalidError")
    table = wt.Table.open(words["PATH"])
    assert (table.tags(), table.branches(), table.snapshots()[-1].id) == ({}, [], 2)


def test_tables_are_listed_by_warehouse_and_database(words: dict[str, str]) -> None:
    expected = ["db.a", "db.b", "db.t"]
    for path in ("ROOT", "ROOT/", "ROOT/db.db", "ROOT/db.db/", "file://ROOT/db.db"):
        found = ran(f"ls {path}", words).splitlines()
        assert [name for name in found if name in expected] == expected
    for path in ("PATH", "ROOT/db.db/nothing", "ROOT/no.db", "ROOT/nowhere"):
        missed = run(*words_of(f"ls {path}", words))
        assert missed.stderr.startswith("NotFoundError")


def test_rows_as_columns_of_text(words: dict[str, str]) -> None:
    put(wt.Table.open(words["PATH"]), {7: "two\nlines", 100: None})
    lines = ran("read PATH --format table", words).splitlines()
    assert lines[0].split() == ["k", "v"]
    assert sorted(tuple(line.split(maxsplit=1)) for line in lines[1:]) == [
        ("1", "a"),
        ("100", "-"),
        ("2", "b"),
        ("7", r"two\x0alines"),
    ]
    assert ran("read PATH --format table --limit 0", words) == "k  v\n"
    changes = ran("changes PATH 0 1 --format table", words).splitlines()
    assert [line.split() for line in changes] == [["k", "v", "_row_kind"], ["1", "a", "+I"]]


WITHOUT_TABLE = {"init", "ls", "doctor", "copy", "join", "meta", "completion", "warmup"}


@pytest.mark.parametrize("path", ["ROOT", "ROOT/db.db", "ROOT/db.db/"])
def test_a_warehouse_in_place_of_a_table_is_said(words: dict[str, str], path: str) -> None:
    """To every command that takes a table."""
    asked = [
        re.sub("PATH|LOG", path, call) for call in CALLS if call.split()[0] not in WITHOUT_TABLE
    ]
    for call in (*asked, f"read {path}", f"changes {path} 0 1", f"copy {path} ROOT/x.db/t"):
        done = run(*words_of(call, words))
        assert done.exit_code == 2, call
        assert "found a database or warehouse" in done.stderr, (call, done)
        assert "widetable ls" in done.stderr


def test_a_table_without_snapshots_has_none_to_choose(words: dict[str, str]) -> None:
    ran("init ROOT/new.db/t 'id BIGINT' --key id", words)
    for call in ("read ROOT/new.db/t --snapshot 1", "tag create ROOT/new.db/t x"):
        done = run(*words_of(call, words))
        assert done.stderr.endswith("it has none yet. Write to it first.\n"), call


@pytest.mark.parametrize("place", ["ROOT/{}", "file://ROOT/{}", "file:ROOT/{}", "~/{}", "{}"])
def test_files_are_named_as_tables_are(
    words: dict[str, str], place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", words["ROOT"])
    monkeypatch.chdir(words["ROOT"])
    ran(f"write PATH {place.format('rows.jsonl')}", words)
    ran(f"read PATH --output {place.format('out.csv')} --format csv", words)
    ran(f"changes PATH 0 1 --output {place.format('changes.json')}", words)
    assert Path(words["ROOT"], "out.csv").read_text().startswith('"k","v"\n')
    assert Path(words["ROOT"], "changes.json").exists()
    there = run(*words_of(f"read PATH --output {place.format('out.csv')}", words))
    assert "which exists already" in there.stderr
    elsewhere = run(*words_of("write PATH s3://bucket/rows.jsonl", words))
    assert elsewhere.stderr.startswith("UnsupportedError: path 's3://bucket/rows.jsonl'")


def test_a_working_directory_that_has_gone_is_said(
    words: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    for call in ("schema .", "ls .", "doctor .", "copy PATH a.db/t", "init a.db/t 'k INT' --key k"):
        done = run(*words_of(call, words))
        assert (done.exit_code, done.stderr.partition(":")[0]) == (2, "NotFoundError"), call
    assert run("schema", words["PATH"]).exit_code == 0


LOOKS = """
    schema PATH
    read PATH --limit 5 --format table
    read PATH --limit 5
    changes PATH 0 1
    inspect PATH
    explain PATH 7
    audit PATH --json
    doctor PATH --deep
    repair PATH
    rollback PATH --snapshot 1
    tag list PATH
    branch list PATH
    consumer list PATH
    expire PATH --dry-run
    orphans PATH --dry-run
    delete PATH true --dry-run
    copy PATH ROOT/copies.db/t
""".strip().splitlines()
THEIRS = sorted(path for path in ROOT.glob("*/*.db/*") if path.is_dir())


@pytest.mark.parametrize("theirs", THEIRS, ids=lambda path: f"{path.parts[-3]}.{path.name}")
def test_tables_of_others_are_looked_at(theirs: Path, tmp_path: Path) -> None:
    """What is not honoured is refused, by an error of the package."""
    words = {"PATH": str(theirs), "ROOT": str(tmp_path)}
    frames = [f"inspect PATH --what {name}{format}" for name in NAMES for format in ("", " --json")]
    refused = [call for call in (*LOOKS, *frames) if _is_strange(run(*words_of(call, words)))]
    assert refused == []


def _is_strange(done: Ran) -> bool:
    kinds = ("InvalidError", "NotFoundError", "UnsupportedError")
    return bool(done.stderr) and not done.stderr.startswith(kinds)


# audit --served


def test_audit_of_what_was_served(tmp_path: Path) -> None:
    table = create(tmp_path)
    put(table, {1: "v1", 2: "v2"})
    with table.lookup_session(["v"], served_log="db.served") as session:
        session.lookup([1, 2, 3])
    log = wt.Table.open(Path(table.path).parent / "served")
    for name in ("db.served", log.path):
        right = run("audit", table.path, "--served", name)
        assert right.exit_code == 0
        assert "1 request, 3 keys: 3 cells compared" in right.stdout
        assert right.stdout.splitlines()[-1] == "ok: 0 cells differ"
    row = log.scan(filter="k = 2").to_arrow()
    log.write(row.set_column(row.column_names.index("v"), "v", pa.array(["w"])))
    wrong = run("audit", table.path, "--served", "db.served")
    assert wrong.exit_code == 1
    assert "key {'k': 2}, column v: served 'w', offline 'v2' (request 0" in wrong.stdout
    assert wrong.stdout.splitlines()[-1] == "1 cell differs"
    unnamed = run("audit", table.path, "--served", "db.served", "--findings", "0")
    assert "and 1 more" in unnamed.stdout
    put(table, {3: "v3"})
    table.expire_snapshots(num_retained_min=1, num_retained_max=1, time_retained_millis=1)
    gone = run("audit", table.path, "--served", "db.served")
    assert gone.exit_code == 1
    reason = "it has expired, and no tag keeps it"
    assert f"not compared: 1 request of snapshot 1: {reason}" in gone.stdout
    body = json.loads(run("audit", table.path, "--served", "db.served", "--json").stdout)
    assert (body["ok"], body["gone_requests"], body["differing"]) == (False, 1, 0)


def test_audit_of_what_was_served_where_nothing_is(tmp_path: Path) -> None:
    table = create(tmp_path)
    put(table, {1: "v1"})
    assert run("audit", table.path, "--served", "db.none").exit_code == 2
    assert run("audit", table.path, "--served", table.path).exit_code == 2
    both = run("audit", table.path, "--served", "db.none", "--from", "1")
    assert (both.exit_code, "--from" in both.stderr) == (2, True)
