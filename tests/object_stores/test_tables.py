"""Tables in an object store are as on a disk: merge rules, operations, many writers, kills, a network that fails."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import widetable as wt
from tests.conformance import PASSED, load_cases, run_case
from tests.object_stores.faulty_proxy import Fault, FaultyProxy
from tests.object_stores.s3_server import environment
from widetable.cli.app import main

VECTORS = Path(__file__).resolve().parent.parent / "vectors"
OPTIONS = {
    "merge-engine": "partial-update",
    "bucket": "2",
    "changelog-producer": "lookup",
    "fields.a_at.sequence-group": "a",
    "fields.b_at.sequence-group": "b",
}
COLUMNS = {"k": "BIGINT", "a": "INT", "a_at": "BIGINT", "b": "STRING", "b_at": "BIGINT"}

# One commit per number, which it says once the commit is in.
WRITER = """
import sys
import widetable as wt
path, user, commits = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
table = wt.Table.open(path)
for number in range(commits):
    rows = {"k": [user * 1000 + number, 0], "a": [number, user], "a_at": [number, number]}
    table.write(rows, f"user-{user}", number)
    print(number, flush=True)
"""


def create(warehouse: str, options: dict[str, str] | None = None, file_io: Any = None) -> wt.Table:
    chosen = {**OPTIONS, **(options or {})}
    catalog = wt.Catalog(warehouse, file_io=file_io)
    return catalog.create_table("db.t", COLUMNS, primary_key=["k"], options=chosen)


def run_of_operations(table: wt.Table) -> list[object]:
    """What each of them gives."""
    for number in range(2):
        keys = list(range(number, number + 20))
        table.write({"k": keys, "a": [number] * 20, "a_at": [number] * 20})
        table.write({"k": keys[::2], "b": [f"b{number}"] * 10, "b_at": [number] * 10})
    table.create_tag("two")
    told: list[object] = [table.scan(filter="k > 5").to_arrow().sort_by("k").to_pylist()]
    table.compact(full=True)
    told.append(table.lookup([1, 7, 99]).to_pylist())
    table.write({"k": [1], "a": [99], "a_at": [99]})
    last = table.snapshots()[-1].id
    told += [table.changes(0, last).num_rows, table.changes(last - 2, last).to_pylist()]
    told.append(table.scan(tag="two").count())
    table.rollback(table.tags()["two"].id)
    told.append(table.scan().to_arrow().sort_by("k").to_pylist())
    told.append(len(table.expire_snapshots(1, 1, 0).ids) > 3)
    told.append(table.audit().findings)
    return told


def test_operations_give_what_they_give_on_a_disk(
    proxy: FaultyProxy, place: str, tmp_path: Path
) -> None:
    assert run_of_operations(create(place)) == run_of_operations(create(str(tmp_path)))
    assert wt.Catalog(place).list_tables() == ["db.t"]
    wt.Catalog(place).drop_table("db.t")
    assert wt.Catalog(place).list_tables() == []


@pytest.mark.parametrize(
    "case", load_cases(VECTORS)[::60], ids=lambda case: f"{case['area']}-{case['id']}"
)
def test_conformance(proxy: FaultyProxy, place: str, case: dict[str, Any]) -> None:
    """Some of the cases; all of them run on a disk."""

    def warehouses() -> AbstractContextManager[str]:
        return contextlib.nullcontext(f"{place}/{uuid.uuid4().hex}")

    outcome = run_case(case, warehouses)
    assert outcome.verdict == PASSED, outcome.detail


@contextlib.contextmanager
def writers(
    path: str, commits: int, count: int, variables: Mapping[str, str], program: str = WRITER
) -> Iterator[list[Any]]:
    """variables: of their environment, beside this process's."""
    started = [
        subprocess.Popen(
            [sys.executable, "-c", program, path, str(user), str(commits)],
            env={**os.environ, **variables},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for user in range(1, count + 1)
    ]
    try:
        yield started
    finally:
        for each in started:
            each.kill()
            each.communicate()


def test_no_commit_of_many_writers_is_lost_or_doubled_on_a_network_that_fails(
    proxy: FaultyProxy, place: str, rng: random.Random
) -> None:
    """One request in fifteen is refused, late, its answer is lost after it was carried out, or cut, or an old list."""
    table = create(place)
    faults = [fault for fault in Fault if fault is not Fault.LAX]
    proxy.plan = lambda method, path: rng.choice(faults) if rng.random() < 1 / 15 else None
    with writers(table.path, 4, 3, environment(proxy.server_port)) as started:
        ends = [each.communicate() for each in started]
        assert [each.returncode for each in started] == [0, 0, 0], ends
    proxy.plan = lambda method, path: None
    check_all_commits_are_in(table)


def check_all_commits_are_in(table: wt.Table) -> None:
    """Four of each of three writers."""
    found = {row["k"]: row["a"] for row in table.scan(columns=["k", "a"]).to_arrow().to_pylist()}
    expected = {user * 1000 + number: number for user in (1, 2, 3) for number in range(4)}
    assert {key: value for key, value in found.items() if key} == expected
    appends = [one for one in table.snapshots() if one.commit_kind == "APPEND"]
    commits = [(one.commit_user, one.commit_identifier) for one in appends]
    assert sorted(commits) == sorted((f"user-{u}", n) for u in (1, 2, 3) for n in range(4))
    assert table.audit().findings == ()


def test_what_killed_writers_said_is_there(
    proxy: FaultyProxy, place: str, rng: random.Random
) -> None:
    check_what_killed_writers_said(create(place), rng, environment(proxy.server_port))


def check_what_killed_writers_said(
    table: wt.Table, rng: random.Random, variables: Mapping[str, str], program: str = WRITER
) -> None:
    said: dict[int, int] = {}
    with writers(table.path, 100, 2, variables, program) as started:
        for user, each in enumerate(started, 1):
            for _ in range(rng.randrange(1, 4)):
                said[user] = int(each.stdout.readline())
            time.sleep(rng.random() / 5)
            each.send_signal(signal.SIGKILL)
    found = set(table.scan(columns=["k"]).to_arrow()["k"].to_pylist())
    for user, last in said.items():
        assert found >= {user * 1000 + number for number in range(last + 1)}
    table.maintain(once=True)
    assert table.audit().findings == ()
    table.write({"k": [5], "a": [5], "a_at": [5]})
    assert table.lookup([5], columns=["a"]).to_pylist() == [{"a": 5}]


def test_tables_are_copied_into_a_bucket_within_it_and_out_of_it(
    proxy: FaultyProxy, place: str, tmp_path: Path
) -> None:
    home = create(str(tmp_path))
    home.write({"k": [1, 2], "a": [7, 8], "a_at": [1, 1]})
    home.compact(full=True)
    home.write({"k": [2], "a": [9], "a_at": [2]})
    wt.Catalog(tmp_path).alter_table("db.t", add_columns=[pa.field("later", pa.int32())])
    home = wt.Catalog(tmp_path).table("db.t")
    expected = home.scan().to_arrow().sort_by("k")
    wt.Catalog(tmp_path).copy_table("db.t", "db.t", target_warehouse=place)
    wt.Catalog(place).copy_table("db.t", "db.copy")
    wt.Catalog(place).copy_table("db.copy", "db.back", target_warehouse=tmp_path)
    assert wt.Catalog(place).list_tables() == ["db.copy", "db.t"]
    for warehouse, name in ((place, "db.t"), (place, "db.copy"), (str(tmp_path), "db.back")):
        copy = wt.Catalog(warehouse).table(name)
        assert copy.scan().to_arrow().sort_by("k") == expected
        assert copy.audit().findings == ()
        assert copy.remove_orphan_files(0, dry_run=True).paths == ()
        copy.write({"k": [3], "a": [1], "a_at": [1]})
        assert copy.lookup([3], columns=["a"]).to_pylist() == [{"a": 1}]
    with pytest.raises(wt.InvalidError, match="a table or another directory"):
        wt.Catalog(place).copy_table("db.t", "db.copy")


def test_a_copy_that_fails_in_a_bucket_leaves_no_table(proxy: FaultyProxy, place: str) -> None:
    create(place).write({"k": [1], "a": [7], "a_at": [1]})
    proxy.refusal = (403, b"<Error><Code>AccessDenied</Code></Error>")
    proxy.plan = lambda method, path: (
        Fault.REFUSED if method == "PUT" and "/copy/schema/" in path else None
    )
    with pytest.raises(wt.StorageError, match="schema-0"):
        wt.Catalog(place).copy_table("db.t", "db.copy")
    proxy.plan = lambda method, path: None
    assert wt.Catalog(place).list_tables() == ["db.t"]
    before = {heard.path for heard in proxy.heard}
    copy = wt.Catalog(place).copy_table("db.t", "db.copy")
    assert copy.lookup([1], columns=["a"]).to_pylist() == [{"a": 7}]
    assert copy.remove_orphan_files(0, dry_run=True).paths == ()
    assert any("/copy/bucket-" in path for path in before), "data files were there"


def test_the_command_line_takes_urls(
    proxy: FaultyProxy, place: str, capsys: pytest.CaptureFixture[str]
) -> None:
    table = create(place)
    table.write({"k": [1], "a": [7], "a_at": [1]})
    for arguments in (["ls", place], ["inspect", table.path], ["audit", table.path]):
        assert main(arguments) == 0, capsys.readouterr()
    assert main(["read", table.path, "--format", "json"]) == 0
    assert '"a":7' in capsys.readouterr().out.replace(" ", "")


def test_what_was_served_out_of_a_bucket_is_logged_and_audited_there(
    proxy: FaultyProxy, place: str, capsys: pytest.CaptureFixture[str]
) -> None:
    table = create(place)
    table.write({"k": [1, 2], "a": [3, 4], "a_at": [1, 1]})
    with table.lookup_session(["a"], served_log="db.served") as session:
        session.lookup([1, 7])
        table.write({"k": [1], "a": [5], "a_at": [2]})
        session.move()
        session.lookup([1])
    report = table.audit_served("db.served")
    assert (report.requests, report.cells, report.differing, report.ok) == (2, 3, 0, True)
    assert main(["audit", table.path, "--served", f"{place}/db.db/served"]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "ok: 0 cells differ"


def test_samples_of_a_bucket_are_given_once(proxy: FaultyProxy, place: str) -> None:
    table = create(place)
    rule: dict[str, Any] = {"complete": ["a"], "columns": ["a"], "late": "correct", "timeout": 0}

    def given() -> list[tuple[Any, ...]]:
        batches = table.follow_samples("trainer", **rule)
        return [tuple(row.values()) for batch in batches for row in batch.to_pylist()]

    assert given() == []
    table.write({"k": [1, 2], "a": [3, 4], "a_at": [1, 1]})
    assert sorted(given()) == [(1, 3, 1, False, "+I"), (2, 4, 1, False, "+I")]
    table.write({"k": [1], "a": [5], "a_at": [2]})
    (appended,) = (each.id for each in table.snapshots()[-2:] if each.commit_kind == "APPEND")
    assert given() == [(1, 5, appended, True, "+U")]
    assert given() == []
