"""Warnings of a command: behind its result, not beside its error, in the log of one that runs on."""

from __future__ import annotations

import errno
import json
import logging
import os
from pathlib import Path
from typing import Any

import pytest

import widetable as wt
from tests.support.faults.read_only_disk import make_read_only
from tests.support.programs.command_line import run
from widetable.cli.actions import reports
from widetable.errors import StorageError
from widetable.storage import local
from widetable.storage.local import LocalFileIO

_log = logging.getLogger("widetable")


@pytest.fixture
def table(tmp_path: Path) -> wt.Table:
    options = {"snapshot.num-retained.min": "1"}
    made = wt.Catalog(str(tmp_path)).create_table(
        "db.t", {"k": "BIGINT"}, primary_key=["k"], options=options
    )
    for key in range(3):
        made.write([{"k": key}])
    return made


def _warns(monkeypatch: pytest.MonkeyPatch, error: Exception | None) -> None:
    def command(**_: Any) -> int:
        _log.warning("a file is left\naside")
        if error is not None:
            raise error
        return 0

    monkeypatch.setattr(reports, "audit", command)


_REFUSED = StorageError("a", found="b", expected="c", action="D.")


def test_warnings_of_what_is_done_are_printed(monkeypatch: pytest.MonkeyPatch) -> None:
    _warns(monkeypatch, None)
    done = run("audit", "PATH")
    assert (done.exit_code, done.stderr) == (0, "a file is left\\x0aaside\n")


def test_an_error_stands_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    _warns(monkeypatch, _REFUSED)
    done = run("audit", "PATH")
    assert (done.exit_code, done.stderr) == (2, "StorageError: a: found b; expected c. D.\n")


def test_debug_shows_the_warnings_before_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    _warns(monkeypatch, _REFUSED)
    error, warning, *trace = run("audit", "PATH", "--debug").stderr.splitlines()
    assert (error.partition(":")[0], warning) == ("StorageError", "a file is left\\x0aaside")
    assert trace[0].startswith("Traceback")


def test_the_next_command_does_not_print_warnings_of_the_last(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with monkeypatch.context() as patched:
        _warns(patched, _REFUSED)
        run("audit", "PATH")
    assert run("--version").stderr == ""
    _warns(monkeypatch, None)
    assert len(run("audit", "PATH").stderr.splitlines()) == 1


@pytest.mark.parametrize(
    "words",
    [
        ("expire", "TABLE", "--retain-min", "1", "--retain-max", "1"),
        ("maintain", "TABLE", "--once"),
        ("copy", "TABLE", "ROOT/db.db/copy"),
        ("rollback", "TABLE", "--snapshot", "1", "--yes"),
        ("tag", "create", "TABLE", "x"),
        ("delete", "TABLE", "true"),
    ],
    ids=" ".join,
)
def test_on_a_read_only_disk_there_is_one_line_of_error(
    table: wt.Table, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    given = [word.replace("TABLE", table.path).replace("ROOT", str(tmp_path)) for word in words]
    with monkeypatch.context() as patched:
        make_read_only(patched)
        done = run(*given)
        with_warnings = run(*given, "--debug")
    assert done.exit_code == 2
    assert len(done.stderr.splitlines()) == 1, done.stderr
    assert "Error: " in done.stderr
    assert "left" not in with_warnings.stderr.partition("Traceback")[0]


def test_what_is_not_there_is_not_refused_by_a_read_only_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "dir").mkdir()
    disk = LocalFileIO()
    with monkeypatch.context() as patched:
        make_read_only(patched)
        assert not disk.delete(str(tmp_path / "none"))
        assert not disk.delete(str(tmp_path / "file" / "none"))
        assert not disk.delete_empty_dir(str(tmp_path / "none"))
        with pytest.raises(StorageError, match="Read-only"):
            disk.delete(str(tmp_path / "file"))
        with pytest.raises(StorageError, match="Read-only"):
            disk.delete_empty_dir(str(tmp_path / "dir"))


def test_a_disk_that_is_full_after_the_commit_is_one_line_that_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = wt.Catalog(tmp_path).create_table(
        "db.l", {"k": "BIGINT"}, primary_key=["k"], options={"changelog-producer": "lookup"}
    )
    open_output = LocalFileIO.open_output

    def full(file_io: LocalFileIO, path: str, *args: Any, **how: Any) -> Any:
        if "changelog-" in path:
            raise local._refused(path, OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)))
        return open_output(file_io, path, *args, **how)

    monkeypatch.setattr(LocalFileIO, "open_output", full)
    rows = tmp_path / "rows.json"
    rows.write_text('{"k": 1}\n')
    done = run("write", made.path, str(rows))
    assert (done.exit_code, done.stdout) == (0, "1 row in 1 file, snapshot 1\n")
    (line,) = done.stderr.splitlines()
    assert "the append is committed" in line
    assert "No space left" in line
    assert "nothing was committed" not in line


@pytest.mark.parametrize("producer", ["lookup", "full-compaction"])
def test_changes_says_how_many_commits_wait_for_their_changelog(
    tmp_path: Path, producer: str
) -> None:
    options = {"changelog-producer": producer, "write-only": "true"}
    made = wt.Catalog(tmp_path).create_table(
        "db.w", {"k": "BIGINT"}, primary_key=["k"], options=options
    )
    for key in range(3):
        made.write([{"k": key}])
    done = run("changes", made.path, "0", "3")
    run_it = f"changelog: widetable maintain --once {made.path}\n"
    one = f"WT-W803 1 commit waits for its {run_it}"
    assert (done.exit_code, done.stdout, done.stderr) == (
        0,
        "",
        f"WT-W803 3 commits wait for their {run_it}",
    )
    assert run("changes", made.path, "1", "2").stderr == one
    for other in (("0", "3", "--mode", "delta"), ("0", "0")):
        assert run("changes", made.path, *other).stderr == ""
    run("maintain", "--once", made.path)
    last = made.snapshots()[-1].id
    done = run("changes", made.path, "0", str(last))
    assert (len(done.stdout.splitlines()), done.stderr) == (3, "")
    made.write([{"k": 9}])
    done = run("changes", made.path, "0", str(last + 1))
    assert (len(done.stdout.splitlines()), done.stderr) == (3, one)


def test_changes_of_a_table_that_needs_no_compaction_say_nothing(table: wt.Table) -> None:
    assert run("changes", table.path, "0", "3").stderr == ""


def test_doctor_does_not_expect_more_files_than_there_are(tmp_path: Path) -> None:
    options = {"changelog-producer": "lookup", "write-only": "true"}
    made = wt.Catalog(tmp_path).create_table(
        "db.w", {"k": "BIGINT"}, primary_key=["k"], options=options
    )
    for key in range(2):
        made.write([{"k": key}])
    for path in Path(made.path, "snapshot").glob("snapshot-*"):
        body = json.loads(path.read_text())
        body["timeMillis"] -= 2 * 3_600_000
        path.write_text(json.dumps(body))
    (finding,) = wt.Table.open(made.path).doctor().findings
    assert finding.found == "2 level-0 files, and nobody compacts"
    assert finding.expected == "a maintainer or writer that compacts them"
