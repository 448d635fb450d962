"""docs/glossary.md: each word once, in order, with a module that is there; and whoever needs it finds it."""

from __future__ import annotations

from tests.support.programs.pages import ROOT

PAGE = (ROOT / "docs" / "glossary.md").read_text("utf-8")
TABLES = [
    [line.strip("|").split("|") for line in part.splitlines() if line.startswith("| ")][1:]
    for part in PAGE.split("\n## ")[1:]
]
ROWS = [[cell.strip() for cell in cells] for table in TABLES for cells in table]


def test_each_row_has_a_word_a_sentence_and_a_module_that_is_there() -> None:
    for word, meaning, module, _ in ROWS:
        assert word
        assert meaning[0].isupper(), word
        assert meaning.endswith("."), word
        assert (ROOT / "widetable" / module.strip("`")).is_file(), word


def test_each_word_stands_once_and_in_order() -> None:
    words = [row[0] for row in ROWS]
    assert len(words) == len(set(words)) >= 40
    for table in TABLES:
        found = [cells[0].strip() for cells in table]
        assert found == sorted(found)


def test_readers_and_contributors_are_led_to_it() -> None:
    for name in ("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "docs/index.md"):
        assert "glossary.md" in (ROOT / name).read_text("utf-8"), name
