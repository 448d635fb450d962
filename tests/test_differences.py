"""Each difference that docs/differences-from-paimon.md states is shown by a test, which differences.py names.

`make test` runs one at least of each row; the others may need Java. No key and no id is stale.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache

import pytest

from tests.support.models import differences
from tests.support.models.differences import SHOWN_BY
from tests.support.programs.pages import ROOT
from tests.support.programs.parsed_source import parsed

PAGE = "docs/differences-from-paimon.md"
# Of what `make test` leaves out.
LEFT_OUT = {"interop", "slow"}
TESTS = sorted({test for tests in SHOWN_BY.values() for test in tests})


def rows() -> list[str]:
    """The first cell of each row of each table, and each line of "Not done", without backticks."""
    page = (ROOT / PAGE).read_text("utf-8").replace("`", "")
    before, _, not_done = page.partition("## Not done")
    cells = [
        line.split(" | ")[0].removeprefix("| ")
        for paragraph in before.split("\n\n")
        if paragraph.lstrip().startswith("| ")
        for line in paragraph.strip().splitlines()[2:]
    ]
    return cells + [line[2:] for line in not_done.splitlines() if line.startswith("- ")]


@cache
def module(path: str) -> ast.Module:
    return parsed((ROOT / path).read_text("utf-8"))


def marks(node: ast.AST) -> set[str]:
    """The x of each pytest.mark.x within."""
    return {
        inner.attr
        for inner in ast.walk(node)
        if isinstance(inner, ast.Attribute) and ast.unparse(inner.value) == "pytest.mark"
    }


def marks_of(test: str) -> set[str]:
    """Of a test and its module; raises StopIteration where there is no such test."""
    path, _, name = test.partition("::")
    body = module(path).body
    found = next(node for node in body if isinstance(node, ast.FunctionDef) and node.name == name)
    of_module = [node for node in body if isinstance(node, ast.Assign)]
    nodes: Iterator[ast.AST] = iter([*found.decorator_list, *of_module])
    return {mark for node in nodes for mark in marks(node)}


def test_every_table_of_the_page_is_read() -> None:
    lines = (ROOT / PAGE).read_text("utf-8").splitlines()
    heads = sum(line.startswith("|---") for line in lines)
    assert sum(line.startswith("|") for line in lines) - 2 * heads == len(rows()) - len(
        differences.NOT_DONE
    )
    parts = [part for name, part in vars(differences).items() if name.isupper() and name[0] != "_"]
    assert sum(map(len, parts)) == 2 * len(SHOWN_BY), "a key stands in two parts"


@pytest.mark.parametrize("row", rows())
def test_a_difference_is_shown_by_a_test(row: str) -> None:
    keys = [key for key in SHOWN_BY if key in row]
    assert len(keys) == 1, f"tests/support/models/differences.py has {keys} for it"
    assert any(not marks_of(test) & LEFT_OUT for test in SHOWN_BY[keys[0]]), "none runs always"


@pytest.mark.parametrize("key", SHOWN_BY)
def test_a_key_is_of_one_row(key: str) -> None:
    assert len([row for row in rows() if key in row]) == 1


@pytest.mark.parametrize("test", TESTS)
def test_a_test_that_is_named_is_there(test: str) -> None:
    path, _, name = test.partition("::")
    assert path.startswith("tests/")
    assert path.rpartition("/")[2].startswith("test_")
    assert name.startswith("test_")
    assert name in {node.name for node in module(path).body if isinstance(node, ast.FunctionDef)}
