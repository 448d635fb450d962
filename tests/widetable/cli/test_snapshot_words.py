"""A word of the command line means a snapshot or a tag, and says which where it could be both."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

import widetable as wt
from tests.support.programs.command_line import run


@pytest.fixture
def table(tmp_path: Path) -> wt.Table:
    """Four snapshots with a row each. The tags 2 and 20240131, as automatic ones are called, are of 1 and 3."""
    made = wt.Catalog(str(tmp_path)).create_table("db.t", {"k": "BIGINT"}, primary_key=["k"])
    for key in range(1, 5):
        made.write([{"k": key}])
    for name, snapshot_id in (("2", 1), ("20240131", 3), ("january", 3)):
        made.create_tag("made", snapshot_id)
        tags = Path(made.path, "tag")
        shutil.move(tags / "tag-made", tags / f"tag-{name}")
    return made


@pytest.mark.parametrize("mode", ["auto", "diff"])
@pytest.mark.parametrize(
    ("start", "end", "expected"),
    [
        ("tag:2", "4", [2, 3, 4]),
        ("snapshot:2", "4", [3, 4]),
        ("1", "tag:20240131", [2, 3]),
        ("1", "tag:january", [2, 3]),
        ("1", "january", [2, 3]),
        ("0", "snapshot:4", [1, 2, 3, 4]),
    ],
)
def test_ends_of_changes_say_what_they_are(
    table: wt.Table, mode: str, start: str, end: str, expected: list[int]
) -> None:
    done = run("changes", table.path, start, end, "--mode", mode)
    assert [json.loads(line)["k"] for line in done.stdout.splitlines()] == expected


@pytest.mark.parametrize(
    "words",
    [("changes", "PATH", "2", "4"), ("changes", "PATH", "1", "20240131"), ("audit", "PATH", "--from", "2")],
)  # fmt: skip
def test_a_number_that_is_a_tag_too_is_refused(table: wt.Table, words: tuple[str, ...]) -> None:
    done = run(*(table.path if word == "PATH" else word for word in words))
    word = words[-1] if words[-1] != "4" else "2"
    assert done.exit_code == 2
    assert f"Write tag:{word} or snapshot:{word}." in done.stderr


@pytest.mark.parametrize("word", ["snapshot:january", "snapshot:", "snapshot:-1", "snapshot:²"])
def test_the_id_of_a_snapshot_is_a_number(table: wt.Table, word: str) -> None:
    done = run("changes", table.path, word, "4")
    assert done.exit_code == 2
    assert done.stderr.startswith(f"InvalidError: START: found {word!r}")


@pytest.mark.parametrize("word", ["tag:", "tag:7", "tag:7/../7", "tag:snapshot:1"])
def test_a_tag_that_is_not_there_is_named(table: wt.Table, word: str) -> None:
    done = run("changes", table.path, word, "4")
    assert done.exit_code == 2
    assert "Error" in done.stderr.split(":")[0]
    assert done.stdout == ""


def test_an_audit_starts_from_a_tag_of_digits(table: wt.Table) -> None:
    assert run("audit", table.path, "--from", "tag:20240131").exit_code == 0
    assert run("audit", table.path, "--from", "snapshot:2").exit_code == 0
