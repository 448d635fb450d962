"""`widetable join`: makes a joined table and keeps it, until it is told to stop."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pyarrow as pa
import pytest

import widetable as wt
from tests.support.faults.patience import PATIENCE_SECONDS
from tests.support.programs.command_line import run
from tests.support.tables.fixture_tables import ROOT
from tests.support.tables.joined import joined_at


def test_a_joined_table_is_made_and_kept(tmp_path: Path) -> None:
    joined_at("inner", tmp_path)
    path = f"{tmp_path}/db.db/again"
    sources = ("--left", "db.a", "--right", "db.b", "--on", "u")
    ran = run("join", "add", path, *sources, "--how", "left", "--max-matches", "5")
    assert (ran.exit_code, ran.stdout) == (0, f"{path}\n")
    table = wt.Table.open(path)
    assert table.schema.options["join.max-matches"] == "5"
    ran = run("join", "run", path, "--once", "--quiet")
    assert ran.stdout == "snapshots 1 and 1: 1 row added, 0 removed\n"
    assert table.scan().to_arrow().num_rows == 1


def test_a_joiner_runs_until_it_is_told_to_stop(tmp_path: Path) -> None:
    joined = joined_at("inner", tmp_path)
    command = [sys.executable, "-m", "widetable", "join", "run", joined.out.path]
    process = subprocess.Popen(
        [*command, "--interval", "10 ms"], cwd=ROOT, env=dict(os.environ), stderr=subprocess.PIPE
    )
    try:
        joined.write_b(("+I", 7, "Anna"))
        deadline = time.monotonic() + PATIENCE_SECONDS
        while joined.rows != [(7, 1, 10, "Anna")]:
            assert time.monotonic() < deadline
            assert process.poll() is None
            time.sleep(0.05)
        process.send_signal(signal.SIGTERM)
        _, said = process.communicate(timeout=PATIENCE_SECONDS)
    finally:
        process.kill()
    assert process.returncode == 0
    assert b"1 row added, 0 removed" in said


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("run", "db.db/a", "--once"), "holds no join"),
        (
            ("run", "db.db/out", "--left", "db.a"),
            "--left of join run: found an argument of join add",
        ),
        (
            ("add", "db.db/new", "--left", "db.a", "--right", "db.b"),
            "--on of join add: found no value",
        ),
        (("add", "db.db/new", "--once"), "--once of join add: found an argument of join run"),
        (("add", "new", "--left", "db.a", "--right", "db.b", "--on", "u"), "<warehouse>/<db>.db"),
        (
            ("add", "db.db/new", "--left", "db.a", "--right", "db.b", "--on", "u=a=b"),
            "no such column",
        ),
        (
            ("add", "db.db/new", "--left", "db.a", "--right", "db.b", "--on", "u=u, u=n"),
            "--on: found 'u' twice",
        ),
        (("keep", "db.db/out"), "invalid choice"),
    ],
)
def test_words_that_do_not_fit_are_refused(
    tmp_path: Path, words: tuple[str, ...], said: str
) -> None:
    joined_at("inner", tmp_path)
    action, path, *others = words
    ran = run("join", action, f"{tmp_path}/{path}", *others)
    assert (ran.exit_code, ran.stdout) == (2, "")
    assert said in ran.stderr
    assert len(ran.stderr.splitlines()) == 1


def test_an_idle_joiner_commits_nothing(tmp_path: Path) -> None:
    joined = joined_at("inner", tmp_path)
    before = len(joined.out.snapshots())
    for _ in range(2):
        run("join", "run", joined.out.path, "--once", "--quiet")
    assert len(joined.out.snapshots()) == before
    joined.a.write(pa.table({"u": [1], "o": [1], "amt": [1]}))
    run("join", "run", joined.out.path, "--once", "--quiet")
    assert len(joined.out.snapshots()) == before + 1
