"""Warnings of a command: behind its result, not beside its error, in the log of one that runs on."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest

import widetable as wt
from tests.command_line import run
from tests.read_only_disk import make_read_only
from widetable.cli import reports
from widetable.errors import StorageError
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
