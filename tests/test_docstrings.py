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
DONE: tuple[type, ...] = (
    wt.Catalog,
    wt.Table,
    wt.BarrierWriter,
    wt.LookupSession,
    wt.Session,
    wt.SessionTable,
    wt.ArrowRows,
    wt.TableScan,
    wt.ChangeFollower,
    wt.DeltaJoin,
)
# These raise nothing: what goes wrong is in the log, or nothing is asked of the storage.
NEVER_FAIL = {
    "Catalog.topology",
    "Table.wait_for_compactions",
    "LookupSession.close",
    "Session.snapshot_ids",
    "Session.close",
    "TableScan.loosened",
    "ChangeFollower.close",
}

KINDS = set(errors.__all__) - {"WidetableError"}
ORDER = ("Parameters", "Returns", "Yields", "Raises", "Notes", "Examples")
_HEADING = re.compile(r"^([A-Z][A-Za-z ]+)\n-{3,}$", re.MULTILINE)
_FLAGS = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS


class Call(NamedTuple):
    """A public method, as the class has it; function: what its signature is read from. Of a constructor, the class
    has the docstring.
    """

    owner: type
    name: str
    function: Callable[..., Any]
    docstring: str

    @property
    def label(self) -> str:
        return f"{self.owner.__name__}.{self.name}"

    @property
    def parameters(self) -> list[inspect.Parameter]:
        """Without self, cls or the table, which stands before the dot."""
        return list(inspect.signature(self.function).parameters.values())[1:]

    @property
    def sections(self) -> dict[str, str]:
        return sections_of(self.docstring)


def sections_of(docstring: str) -> dict[str, str]:
    """Heading to text; the text before the first heading is that of ""."""
    parts = _HEADING.split(docstring)
    return {"": parts[0], **dict(zip(parts[1::2], parts[2::2], strict=True))}


def calls() -> Iterator[Call]:
    for owner in DONE:
        of_class = inspect.getdoc(owner) or ""
        if "Parameters" in sections_of(of_class):
            yield Call(owner, "__init__", owner.__init__, of_class)  # type: ignore[misc]
        for name, member in vars(owner).items():
            function = getattr(member, "__func__", member)
            if not name.startswith("_") and inspect.isfunction(function):
                function = inspect.unwrap(function)
                yield Call(owner, name, function, inspect.getdoc(function) or "")


CALLS = list(calls())
each_class = pytest.mark.parametrize("owner", DONE, ids=lambda owner: owner.__name__)


@each_class
def test_a_docstring_begins_with_a_summary_and_orders_its_sections(owner: type) -> None:
    for call in calls_of(owner):
        summary, _, more = call.sections[""].partition("\n")
        assert summary.endswith("."), call.label
        assert not more.strip() or more.startswith("\n"), (
            f"{call.label}: no line behind the summary"
        )
        headings = [heading for heading in call.sections if heading]
        assert headings == [one for one in ORDER if one in headings], call.label


@each_class
def test_parameters_are_those_of_the_signature(owner: type) -> None:
    for call in calls_of(owner):
        described = [name for names, _ in parameters(call) for name in names]
        assert described == [parameter.name for parameter in call.parameters], call.label


@each_class
def test_defaults_are_those_of_the_signature(owner: type) -> None:
    for call in calls_of(owner):
        by_name = {parameter.name: parameter for parameter in call.parameters}
        for names, type_ in parameters(call):
            said = type_.partition(", default ")[2] or None
            found = {default_of(by_name[name]) for name in names}
            assert not type_ or found == {said}, f"{call.label}: {names}"


@each_class
def test_a_parameter_without_a_type_is_as_in_another_call(owner: type) -> None:
    """So are several with one description, which stand in one entry."""
    for call in calls_of(owner):
        text = call.sections.get("Parameters", "")
        for names, type_ in parameters(call):
            entry = ", ".join(names)
            assert type_ or f"{entry}\n    As in `" in text, f"{call.label}: {entry}"
            assert len(names) == 1 or not type_, f"{call.label}: {entry}"


@each_class
def test_a_result_is_described_where_there_is_one(owner: type) -> None:
    for call in calls_of(owner):
        has_result = inspect.signature(call.function).return_annotation not in ("None", None)
        described = [heading for heading in ("Returns", "Yields") if heading in call.sections]
        assert len(described) == has_result, call.label
        assert all(len(entries(call, heading)) == 1 for heading in described), call.label


@each_class
def test_errors_are_of_the_six_kinds(owner: type) -> None:
    for call in calls_of(owner):
        described = entries(call, "Raises")
        assert set(described) <= KINDS, call.label
        assert len(set(described)) == len(described), call.label
        assert bool(described) != (call.label in NEVER_FAIL), call.label


def calls_of(owner: type) -> list[Call]:
    found = [call for call in CALLS if call.owner is owner]
    assert found
    return found


def entries(call: Call, heading: str) -> list[str]:
    """What stands at the left edge of a section: `name : type`, or the type of a result or error."""
    lines = call.sections.get(heading, "").splitlines()
    return [line for line in lines if line and not line.startswith(" ")]


def parameters(call: Call) -> list[tuple[list[str], str]]:
    """Names and type of each entry; a type is "" where another call describes them."""
    found = [entry.partition(" : ") for entry in entries(call, "Parameters")]
    return [([name.lstrip("*") for name in names.split(", ")], said) for names, _, said in found]


def default_of(parameter: inspect.Parameter) -> str | None:
    """As docstrings write it; None: there is none."""
    value = parameter.default
    if value is inspect.Parameter.empty:
        return None
    if callable(value):
        return str(value.__name__)
    return f'"{value}"' if isinstance(value, str) else repr(value)


def examples_of(owner: type) -> str:
    return sections_of(inspect.getdoc(owner) or "").get("Examples", "")


EXAMPLES = [call for call in CALLS if "Examples" in call.sections and call.name != "__init__"]

# Examples of other classes run with those of their methods.
ALONE = [
    owner for owner in DONE if examples_of(owner) and owner not in {call.owner for call in EXAMPLES}
]


@pytest.mark.parametrize("owner", ALONE, ids=lambda owner: owner.__name__)
def test_examples_of_a_class_alone_run(
    owner: type, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run_examples(owner.__name__, examples_of(owner), {})


@pytest.mark.parametrize("call", EXAMPLES, ids=[call.label for call in EXAMPLES])
def test_examples_of_a_method_run(
    call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    names = run_examples(call.owner.__name__, examples_of(call.owner), {})
    run_examples(call.label, call.sections["Examples"], names)


def test_a_session_can_be_followed_from_the_docstrings_alone() -> None:
    shown = {call.label for call in EXAMPLES}
    wanted = {
        "Catalog.create_table",
        "Catalog.alter_table",
        "Catalog.writer",
        "Catalog.session",
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
    assert wanted - shown == set()


def run_examples(name: str, text: str, names: dict[str, Any]) -> dict[str, Any]:
    """Run them with these names; what they define is among the names that are returned."""
    test = doctest.DocTestParser().get_doctest(text, names, name, None, 0)
    assert test.examples, f"{name} has no example"
    said: list[str] = []
    runner = doctest.DocTestRunner(verbose=False, optionflags=_FLAGS)
    runner.run(test, out=said.append, clear_globs=False)
    assert said == [], "".join(said)
    return test.globs
