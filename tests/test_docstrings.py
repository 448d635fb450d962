"""Docstrings of public calls are in NumPy's style, name what the signature names, and their examples run."""

from __future__ import annotations

import doctest
import inspect
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import widetable as wt
from widetable import errors

# Classes whose docstrings are done. The examples of a method go on from those of its class.
DONE: tuple[type, ...] = (wt.Table,)
# These raise nothing: what goes wrong is in the log, or nothing is asked of the storage.
NEVER_FAIL = {"Table.wait_for_compactions"}

KINDS = set(errors.__all__) - {"WidetableError"}
ORDER = ("Parameters", "Returns", "Yields", "Raises", "Notes", "Examples")
_HEADING = re.compile(r"^([A-Z][A-Za-z ]+)\n-{3,}$", re.MULTILINE)
_FLAGS = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS


class Call(NamedTuple):
    """A public method, as the class has it; function: what its signature is read from."""

    owner: type
    name: str
    function: Callable[..., Any]

    @property
    def label(self) -> str:
        return f"{self.owner.__name__}.{self.name}"

    @property
    def sections(self) -> dict[str, str]:
        return sections_of(inspect.getdoc(self.function) or "")


def sections_of(docstring: str) -> dict[str, str]:
    """Heading to text; the text before the first heading is that of ""."""
    parts = _HEADING.split(docstring)
    return {"": parts[0], **dict(zip(parts[1::2], parts[2::2], strict=True))}


def entries(section: str) -> list[str]:
    """What stands at the left edge: `name : type`, or the type of a result or error."""
    return [line for line in section.splitlines() if line and not line.startswith(" ")]


def calls() -> Iterator[Call]:
    for owner in DONE:
        for name, member in vars(owner).items():
            function = getattr(member, "__func__", member)
            if not name.startswith("_") and inspect.isfunction(function):
                yield Call(owner, name, inspect.unwrap(function))


CALLS = list(calls())
each_call = pytest.mark.parametrize("call", CALLS, ids=[call.label for call in CALLS])


@each_call
def test_a_docstring_begins_with_a_summary_and_orders_its_sections(call: Call) -> None:
    summary, _, more = call.sections[""].partition("\n")
    assert summary.endswith("."), summary
    assert not more.strip() or more.startswith("\n"), "a blank line follows the summary"
    headings = [heading for heading in call.sections if heading]
    assert headings == [heading for heading in ORDER if heading in headings]


@each_call
def test_parameters_are_those_of_the_signature(call: Call) -> None:
    _, *names = inspect.signature(call.function).parameters  # without self, cls or the table
    described = entries(call.sections.get("Parameters", ""))
    assert [entry.partition(" : ")[0] for entry in described] == names
    assert [entry for entry in described if not entry.partition(" : ")[2]] == []


@each_call
def test_defaults_are_those_of_the_signature(call: Call) -> None:
    _, *parameters = inspect.signature(call.function).parameters.values()
    described = entries(call.sections.get("Parameters", ""))
    for entry, parameter in zip(described, parameters, strict=True):
        said = entry.partition(", default ")[2] or None
        assert said == default_of(parameter), entry


def default_of(parameter: inspect.Parameter) -> str | None:
    """As docstrings write it; None: there is none."""
    value = parameter.default
    if value is inspect.Parameter.empty:
        return None
    if callable(value):
        return str(value.__name__)
    return f'"{value}"' if isinstance(value, str) else repr(value)


@each_call
def test_a_result_is_described_where_there_is_one(call: Call) -> None:
    has_result = inspect.signature(call.function).return_annotation not in ("None", None)
    described = [heading for heading in ("Returns", "Yields") if heading in call.sections]
    assert len(described) == has_result
    assert all(len(entries(call.sections[heading])) == 1 for heading in described)


@each_call
def test_errors_are_of_the_six_kinds(call: Call) -> None:
    described = entries(call.sections.get("Raises", ""))
    assert set(described) <= KINDS
    assert len(set(described)) == len(described)
    assert bool(described) != (call.label in NEVER_FAIL)


EXAMPLES = [call for call in CALLS if "Examples" in call.sections]


@pytest.mark.parametrize("owner", DONE, ids=lambda owner: owner.__name__)
def test_examples_of_a_class_run(
    owner: type, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    names = run_examples(owner.__name__, inspect.getdoc(owner) or "", {})
    assert names


@pytest.mark.parametrize("call", EXAMPLES, ids=[call.label for call in EXAMPLES])
def test_examples_of_a_method_run(
    call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    names = run_examples(call.owner.__name__, inspect.getdoc(call.owner) or "", {})
    run_examples(call.label, inspect.getdoc(call.function) or "", names)


def test_a_session_can_be_followed_from_the_docstrings_alone() -> None:
    shown = {call.label for call in EXAMPLES}
    wanted = {
        "Table.write",
        "Table.delete",
        "Table.delete_keys",
        "Table.scan",
        "Table.lookup",
        "Table.changes",
        "Table.follow",
        "Table.compact",
        "Table.create_tag",
        "Table.expire_snapshots",
    }
    if wt.Catalog in DONE:
        wanted |= {
            f"Catalog.{name}" for name in ("create_table", "alter_table", "writer", "session")
        }
    assert wanted - shown == set()


def run_examples(name: str, docstring: str, names: dict[str, Any]) -> dict[str, Any]:
    """Run them with these names; what they define is among the names that are returned."""
    text = sections_of(docstring).get("Examples", "")
    test = doctest.DocTestParser().get_doctest(text, names, name, None, 0)
    assert test.examples, f"{name} has no example"
    said: list[str] = []
    runner = doctest.DocTestRunner(verbose=False, optionflags=_FLAGS)
    runner.run(test, out=said.append, clear_globs=False)
    assert said == [], "".join(said)
    return test.globs
