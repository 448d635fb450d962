"""Docstrings of public names are in NumPy's style, name what the signature names, and their examples run."""

from __future__ import annotations

import dataclasses
import doctest
import inspect
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import widetable as wt
import widetable_cdc
import widetable_meta
from tests.meta.service_process import serving
from widetable import connector, errors

Owner = type | Callable[..., Any]

# Public names, in order. The examples of a method go on from those of its class, those of a function from Table's.
OWNERS: tuple[Owner, ...] = (
    *(getattr(wt, name) for name in wt.__all__),
    *(getattr(widetable_meta, name) for name in widetable_meta.__all__),
    *(getattr(widetable_cdc, name) for name in widetable_cdc.__all__),
)
# What engines build on; the files of some have no room for sections. A decorator, which its own module describes.
BRIEF = {"check_published", "held_leases", "kernel"}
OF_THE_CONNECTOR = [
    function
    for name in connector.__all__
    if inspect.isfunction(function := getattr(connector, name)) and name not in BRIEF
]
# Enumerations, a decorator, and what schemas are made of: their own modules and pages describe them.
BRIEF_CLASSES = {"ErrorCode", "Option", "TableSchema", "WarningCode", "derived_value"}
CLASSES_OF_THE_CONNECTOR = [
    each
    for name in connector.__all__
    if inspect.isclass(each := getattr(connector, name)) and name not in BRIEF_CLASSES
]
# These raise nothing: what goes wrong is in the log, or nothing is asked of the storage. So do methods of results.
NEVER_FAIL = {
    "BatchLoader.close",
    "Catalog.topology",
    "ClientSession.close",
    "Table.wait_for_compactions",
    "Session.snapshot_ids",
    "Session.close",
    "Sync.close",
    "TableScan.loosened",
    "TorchRows.close",
    "ChangeFollower.close",
    "WidetableError.__init__",
}
# What a service of a warehouse answers, so one has to run.
OF_A_SERVICE: tuple[Owner, ...] = (widetable_meta.MetaClient, widetable_meta.ClientSession)

KINDS = set(errors.__all__) - {"WidetableError"}
ORDER = ("Parameters", "Attributes", "Returns", "Yields", "Raises", "Notes", "Examples")
_HEADING = re.compile(r"^([A-Z][A-Za-z ]+)\n-{3,}$", re.MULTILINE)
_FLAGS = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS


class Call(NamedTuple):
    """A public function, or a method as the class has it; function: what its signature is read from. The docstring of
    a constructor is that of the class.
    """

    owner: Owner
    name: str
    function: Callable[..., Any]
    docstring: str

    @property
    def label(self) -> str:
        return f"{self.owner.__name__}.{self.name}"

    @property
    def parameters(self) -> list[inspect.Parameter]:
        """Without self, cls or the table, which stands before the dot."""
        is_method = inspect.isclass(self.owner)
        parameters = list(inspect.signature(self.function).parameters.values())
        is_static = is_method and isinstance(vars(self.owner).get(self.name), staticmethod)
        return parameters[int(is_method and not is_static) :]

    @property
    def sections(self) -> dict[str, str]:
        return sections_of(self.docstring)


def sections_of(docstring: str) -> dict[str, str]:
    """Heading to text; the text before the first heading is that of ""."""
    parts = _HEADING.split(docstring)
    return {"": parts[0], **dict(zip(parts[1::2], parts[2::2], strict=True))}


def calls() -> Iterator[Call]:
    for owner in OWNERS:
        docstring = inspect.getdoc(owner) or ""
        if not inspect.isclass(owner):
            yield Call(owner, owner.__name__, owner, docstring)
            continue
        if "Parameters" in sections_of(docstring):
            yield Call(owner, "__init__", owner.__init__, docstring)
        for name, member in vars(owner).items():
            function = getattr(member, "__func__", member)
            if not name.startswith("_") and inspect.isfunction(function):
                function = inspect.unwrap(function)
                yield Call(owner, name, function, inspect.getdoc(function) or "")


CALLS = list(calls())
CLASSES = [owner for owner in OWNERS if inspect.isclass(owner)]
RESULTS = [owner for owner in CLASSES if dataclasses.is_dataclass(owner)]
WITH_CALLS = list(dict.fromkeys(call.owner for call in CALLS))


def name_of(owner: Owner) -> str:
    return owner.__name__


each_class = pytest.mark.parametrize("owner", WITH_CALLS, ids=name_of)


@pytest.mark.parametrize("owner", CLASSES, ids=name_of)
def test_a_class_and_its_properties_begin_with_a_sentence(owner: type) -> None:
    check_sections(owner.__name__, inspect.getdoc(owner) or "")
    for name, member in vars(owner).items():
        if isinstance(member, property) and not name.startswith("_"):
            paragraph = (inspect.getdoc(member) or "").partition("\n\n")[0]
            assert paragraph.endswith("."), f"{owner.__name__}.{name}"


@pytest.mark.parametrize("owner", RESULTS, ids=name_of)
def test_attributes_are_the_fields_of_a_result(owner: type) -> None:
    text = sections_of(inspect.getdoc(owner) or "").get("Attributes", "")
    described = [(names.split(", "), type_) for names, type_ in entries_of(text)]
    fields = {field.name: str(field.type) for field in dataclasses.fields(owner)}
    assert sorted(name for names, _ in described for name in names) == sorted(fields)
    for names, type_ in described:
        for name in names:
            assert type_.endswith(" or None") == fields[name].endswith(" | None"), name


@each_class
def test_a_docstring_begins_with_a_summary_and_orders_its_sections(owner: Owner) -> None:
    for call in calls_of(owner):
        check_sections(call.label, call.docstring)


def check_sections(label: str, docstring: str) -> None:
    sections = sections_of(docstring)
    summary, _, more = sections[""].partition("\n")
    assert summary.endswith("."), label
    assert not more.strip() or more.startswith("\n"), f"{label}: no line behind the summary"
    headings = [heading for heading in sections if heading]
    assert headings == [one for one in ORDER if one in headings], label


@each_class
def test_parameters_are_those_of_the_signature(owner: Owner) -> None:
    for call in calls_of(owner):
        described = [name for names, _ in parameters(call) for name in names]
        assert described == [parameter.name for parameter in call.parameters], call.label


@each_class
def test_defaults_are_those_of_the_signature(owner: Owner) -> None:
    for call in calls_of(owner):
        by_name = {parameter.name: parameter for parameter in call.parameters}
        for names, type_ in parameters(call):
            described = type_.partition(", default ")[2] or None
            defaults = {default_of(by_name[name]) for name in names}
            assert not type_ or defaults == {described}, f"{call.label}: {names}"


@each_class
def test_a_parameter_without_a_type_is_as_in_another_call(owner: Owner) -> None:
    """So are several with one description, which stand in one entry."""
    for call in calls_of(owner):
        text = call.sections.get("Parameters", "")
        for names, type_ in parameters(call):
            entry = ", ".join(names)
            assert type_ or f"{entry}\n    As in `" in text, f"{call.label}: {entry}"
            assert len(names) == 1 or not type_, f"{call.label}: {entry}"


@each_class
def test_a_result_is_described_where_there_is_one(owner: Owner) -> None:
    for call in calls_of(owner):
        has_result = inspect.signature(call.function).return_annotation not in ("None", None)
        described = [heading for heading in ("Returns", "Yields") if heading in call.sections]
        assert len(described) == has_result, call.label
        assert all(len(entries(call, heading)) == 1 for heading in described), call.label


@pytest.mark.parametrize("function", OF_THE_CONNECTOR, ids=name_of)
def test_a_function_of_the_connector_is_described(function: Owner) -> None:
    of_table = getattr(wt.Table, function.__name__, None) is function  # described without the table
    call = Call(function, function.__name__, function, inspect.getdoc(function) or "")
    expected = call.parameters[int(of_table) :]
    check_sections(call.label, call.docstring)
    described = parameters(call)
    assert [name for names, _ in described for name in names] == [p.name for p in expected]
    by_name = {parameter.name: parameter for parameter in expected}
    for names, type_ in described:
        default = type_.partition(", default ")[2] or None
        assert not type_ or {default_of(by_name[name]) for name in names} == {default}
    has_result = inspect.signature(function).return_annotation != "None"
    assert len({"Returns", "Yields"} & set(call.sections)) == has_result
    assert set(entries(call, "Raises")) <= KINDS


@pytest.mark.parametrize("owner", CLASSES_OF_THE_CONNECTOR, ids=name_of)
def test_a_class_of_the_connector_is_described(owner: type) -> None:
    docstring = inspect.getdoc(owner) or ""
    check_sections(owner.__name__, docstring)
    if dataclasses.is_dataclass(owner):
        described = entries_of(sections_of(docstring).get("Attributes", ""))
        names = [field.name for field in dataclasses.fields(owner) if field.name[0] != "_"]
        assert sorted(n for entry, _ in described for n in entry.split(", ")) == sorted(names)
    for name, member in vars(owner).items():
        function = getattr(member, "__func__", member)
        if inspect.isfunction(function) and name[0] != "_":
            check_method(Call(owner, name, function, inspect.getdoc(function) or ""))


def check_method(call: Call) -> None:
    """Check that the parameters and the result of a method are described."""
    check_sections(call.label, call.docstring)
    described = [name for names, _ in parameters(call) for name in names]
    wanted = [parameter.name for parameter in call.parameters]
    assert described == wanted, call.label
    has_result = inspect.signature(call.function).return_annotation not in ("None", None)
    assert len({"Returns", "Yields"} & set(call.sections)) == has_result, call.label
    assert set(entries(call, "Raises")) <= KINDS, call.label


@each_class
def test_errors_are_of_the_six_kinds(owner: Owner) -> None:
    for call in calls_of(owner):
        described = entries(call, "Raises")
        assert set(described) <= KINDS, call.label
        assert len(set(described)) == len(described), call.label
        if owner not in RESULTS:
            assert bool(described) != (call.label in NEVER_FAIL), call.label


def calls_of(owner: Owner) -> list[Call]:
    return [call for call in CALLS if call.owner is owner]


def lines_at_edge(text: str) -> list[str]:
    """Return the lines of a section that begin an entry: `name : type`, or the type of a result or error."""
    return [line for line in text.splitlines() if line and not line.startswith(" ")]


def entries(call: Call, heading: str) -> list[str]:
    return lines_at_edge(call.sections.get(heading, ""))


def entries_of(text: str) -> list[tuple[str, str]]:
    """Return names and type of each entry; a type is "" where another call describes them."""
    parts = [line.partition(" : ") for line in lines_at_edge(text)]
    return [(names, type_) for names, _, type_ in parts]


def parameters(call: Call) -> list[tuple[list[str], str]]:
    """Return the names of each entry as a list, with their type."""
    described = entries_of(call.sections.get("Parameters", ""))
    return [([name.lstrip("*") for name in names.split(", ")], type_) for names, type_ in described]


def default_of(parameter: inspect.Parameter) -> str | None:
    """Return the default as docstrings write it; None: there is none."""
    value = parameter.default
    if value is inspect.Parameter.empty:
        return None
    if callable(value):
        return str(value.__name__)
    return f'"{value}"' if isinstance(value, str) else repr(value)


def examples_of(owner: Owner) -> str:
    return sections_of(inspect.getdoc(owner) or "").get("Examples", "")


EXAMPLES = [call for call in CALLS if "Examples" in call.sections and call.name != "__init__"]

# Examples of other classes run with those of their methods.
ALONE = [
    owner
    for owner in CLASSES
    if examples_of(owner) and owner not in {call.owner for call in EXAMPLES}
]


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, str]]:
    """A directory whose `warehouse` has a service, and the URL of the service."""
    directory = tmp_path_factory.mktemp("served")
    options = {"widetable.barrier-interval": "1 s"}
    columns = {"id": "BIGINT", "city": "STRING"}
    catalog = wt.Catalog(directory / "warehouse")
    catalog.create_table("shop.visits", columns, primary_key=["id"], options=options)
    with serving(str(directory / "warehouse")) as (service,):
        yield directory, service.url


@pytest.fixture
def begun(
    owner: Owner,
    request: pytest.FixtureRequest,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> dict[str, Any]:
    """The names that the examples of a class define, in a working directory of their own."""
    names: dict[str, Any] = {}
    directory = tmp_path
    if owner in OF_A_SERVICE:
        directory, names["url"] = request.getfixturevalue("served")
    monkeypatch.chdir(directory)
    of_class = owner if inspect.isclass(owner) else wt.Table
    return run_examples(of_class.__name__, examples_of(of_class), names)


@pytest.mark.parametrize("owner", ALONE, ids=name_of)
def test_examples_of_a_class_alone_run(begun: dict[str, Any]) -> None:
    assert begun


@pytest.mark.parametrize(
    ("owner", "call"),
    [(call.owner, call) for call in EXAMPLES],
    ids=[call.label for call in EXAMPLES],
)
def test_examples_of_a_call_run(call: Call, begun: dict[str, Any]) -> None:
    run_examples(call.label, call.sections["Examples"], begun)


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
        "lookup_join.lookup_join",
        "Topology.register",
        "MetaClient.session",
    }
    assert wanted - shown == set()


def run_examples(name: str, text: str, names: dict[str, Any]) -> dict[str, Any]:
    """Run the examples with these names; return the names with those that the examples define."""
    test = doctest.DocTestParser().get_doctest(text, names, name, None, 0)
    assert test.examples, f"{name} has no example"
    failures: list[str] = []
    runner = doctest.DocTestRunner(verbose=False, optionflags=_FLAGS)
    runner.run(test, out=failures.append, clear_globs=False)
    assert failures == [], "".join(failures)
    return test.globs
