"""Public docstrings of `widetable_spark` are in NumPy's style, name what the signature names, and their examples run.

The rules are those of tests/test_docstrings.py. Examples run in the tests' Spark session, with the names `spark`, `wt`
and `widetable_spark`; those of a method go on from those of its class.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import widetable as wt
import widetable_spark
from tests.test_docstrings import (
    KINDS,
    ORDER,
    Call,
    default_of,
    entries,
    examples_of,
    parameters,
    run_examples,
    sections_of,
)

# These raise nothing: they return values that are there, or do nothing.
NEVER_FAIL = {
    "signed_count",
    "CommitProgress.__init__",
    "CommitProgressListener.onQueryStarted",
    "CommitProgressListener.onQueryTerminated",
    "WidetableDataSource.name",
}


class PublicFunction(Call):
    """A public function of the package: all of its parameters are the caller's."""

    @property
    def label(self) -> str:
        return self.name

    @property
    def parameters(self) -> list[inspect.Parameter]:
        return list(inspect.signature(self.function).parameters.values())


def calls() -> Iterator[Call]:
    for name in widetable_spark.__all__:
        public = getattr(widetable_spark, name)
        docstring = inspect.getdoc(public) or ""
        if not inspect.isclass(public):
            yield PublicFunction(object, name, public, docstring)
            continue
        if "Parameters" in sections_of(docstring):
            yield Call(public, "__init__", public.__init__, docstring)
        for method, member in vars(public).items():
            function = getattr(member, "__func__", member)
            if not method.startswith("_") and inspect.isfunction(function):
                yield Call(public, method, function, inspect.getdoc(function) or "")


CALLS = list(calls())
CLASSES = [
    each
    for each in map(widetable_spark.__dict__.get, widetable_spark.__all__)
    if inspect.isclass(each)
]
EXAMPLES = [call for call in CALLS if "Examples" in call.sections]
each_call = pytest.mark.parametrize("call", CALLS, ids=[call.label for call in CALLS])


@pytest.mark.parametrize("name", widetable_spark.__all__)
def test_everything_public_has_an_example(name: str) -> None:
    assert "Examples" in sections_of(inspect.getdoc(getattr(widetable_spark, name)) or "")


@each_call
def test_a_docstring_begins_with_a_summary_and_orders_its_sections(call: Call) -> None:
    summary, _, more = call.sections[""].partition("\n")
    assert summary.endswith(".")
    assert not more.strip() or more.startswith("\n"), "no line behind the summary"
    headings = [heading for heading in call.sections if heading]
    assert headings == [one for one in ORDER if one in headings]


@each_call
def test_parameters_and_defaults_are_those_of_the_signature(call: Call) -> None:
    signature = {parameter.name: parameter for parameter in call.parameters}
    assert [name for names, _ in parameters(call) for name in names] == list(signature)
    for names, type_ in parameters(call):
        entry = ", ".join(names)
        if type_:
            assert [default_of(signature[names[0]])] == [type_.partition(", default ")[2] or None]
            assert len(names) == 1, entry
        else:
            assert f"{entry}\n    As in `" in call.sections["Parameters"]


@each_call
def test_results_and_errors_are_described(call: Call) -> None:
    has_result = inspect.signature(call.function).return_annotation not in ("None", None)
    assert len(entries(call, "Returns")) == has_result
    errors = entries(call, "Raises")
    assert set(errors) <= KINDS
    assert len(set(errors)) == len(errors)
    assert bool(errors) != (call.label in NEVER_FAIL)


@pytest.mark.parametrize("call", EXAMPLES, ids=[call.label for call in EXAMPLES])
def test_examples_run(
    call: Call, jobs: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {"spark": jobs, "wt": wt, "widetable_spark": widetable_spark}
    if not isinstance(call, PublicFunction) and call.name != "__init__":
        names = run_examples(call.owner.__name__, examples_of(call.owner), names)
    run_examples(call.label, call.sections["Examples"], names)
