"""Docstrings, names of modules and names of locals are plain English, as far as a program can tell."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.programs.parsed_source import parsed
from tests.test_style import PACKAGES, ROOT, sources

# A docstring is a sentence with a subject, or begins with a verb.
PREPOSITIONS = frozenset(
    (
        *(
            "of",
            "by",
            "as",
            "in",
            "at",
            "from",
            "with",
            "without",
            "for",
            "into",
            "up",
            "behind",
            "between",
            "after",
        ),
        *(
            "before",
            "under",
            "per",
            "over",
            "beside",
            "until",
            "upon",
            "through",
            "against",
            "beyond",
            "to",
            "on",
        ),
        *("out", "within", "above", "below", "about", "since", "among", "like"),
    )
)
FRAGMENTS = frozenset(("also", "likewise", "and", "or", "but", "none", "nothing", "same"))
# Participles say neither type nor role.
LOCALS = frozenset(("found", "asked", "held", "known"))
# Adverbs and participles that once named modules. `committed` and `uncompacted` describe what they hold.
MODULES = re.compile(
    r"^(seldom|newest|passed_over|parsed_back|planned_from|recorded|said_by_.*|asked_.*|sick_.*|far_.*)$"
)


def fragment(docstring: str) -> str | None:
    """Return why a docstring is not a sentence; None if it may be one."""
    words = [word.strip(".,:;").lower() for word in docstring.split()[:2]]
    if words[0] in PREPOSITIONS or words[0] in FRAGMENTS or words == ["the", "same"]:
        return f"begins with {' '.join(docstring.split()[:2])!r}"
    return None if len(docstring.split()) > 2 else f"is {docstring!r}"


def fragments(source: str) -> Iterator[str]:
    """Yield a line and a reason for each docstring that is not a sentence."""
    for node in ast.walk(parsed(source)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            docstring = ast.get_docstring(node)
            reason = fragment(docstring) if docstring else None
            if reason is not None:
                yield f"{getattr(node, 'lineno', 1)}: a docstring {reason}"


def participles(source: str) -> Iterator[str]:
    """Yield a line and a name for each local that is named by a participle."""
    functions = (
        node
        for node in ast.walk(parsed(source))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    )
    for node in (inner for function in functions for inner in ast.walk(function)):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and node.id in LOCALS:
            yield f"{node.lineno}: a local named {node.id}"


def faults(rule: str) -> list[str]:
    check = {"fragments": fragments, "participles": participles}[rule]
    paths = [path for path in sources(PACKAGES) if path.name != "__init__.py"]
    assert paths
    return sorted(
        {f"{path}:{fault}" for path in paths for fault in check((ROOT / path).read_text("utf-8"))}
    )


@pytest.mark.parametrize("rule", ["fragments", "participles"])
def test_words_are_plain(rule: str) -> None:
    assert faults(rule) == []


def test_no_module_is_named_by_an_adverb_or_participle() -> None:
    assert [path for path in sources(PACKAGES) if MODULES.match(path.stem)] == []


@pytest.mark.parametrize(
    "docstring", ["Of each user.", "The same, by name.", "By name.", "Also nothing.", "Rows."]
)
def test_a_fragment_is_seen(docstring: str) -> None:
    assert list(fragments(f'def f():\n    """{docstring}"""')) != []


@pytest.mark.parametrize(
    "docstring", ["Return the rows of a bucket.", "The rows are sorted by key."]
)
def test_a_sentence_passes(docstring: str) -> None:
    assert list(fragments(f'def f():\n    """{docstring}"""')) == []


def test_a_participle_is_seen() -> None:
    assert list(participles("def f():\n    found = 1\n    for held in x: pass")) != []
    assert list(participles("class C:\n    found: str\ndef f(found): return found")) == []


def test_the_path_of_a_module_is_a_noun_of_the_field() -> None:
    assert MODULES.match(Path("widetable/x/seldom.py").stem)
    assert not MODULES.match("rate_limited_log")
