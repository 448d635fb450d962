"""The engine gets the properties of the configuration and the job's own, and which tables a pattern names."""

from __future__ import annotations

import re
from fnmatch import fnmatchcase

import pytest
from hypothesis import given
from hypothesis import strategies as st

import widetable as wt
from widetable_cdc.embedded.connectors import connector_of
from widetable_cdc.embedded.engine_properties import (
    check_properties,
    engine_properties,
    table_expression,
)


def properties(**own: str) -> dict[str, str]:
    return engine_properties(
        connector_of("mariadb"), "widetable_shop", own, ["shop.*"], [], offsets="/o", history="/h"
    )


def test_the_job_decides_what_records_look_like() -> None:
    made = properties(**{"database.user": "repl", "max.batch.size": "10"})
    assert made["database.user"] == "repl"
    assert made["max.batch.size"] == "10"
    assert made["value.converter.replace.null.with.default"] == "false"
    assert made["provide.transaction.metadata"] == "true"
    assert (made["snapshot.mode"], made["topic.prefix"]) == ("initial", "widetable_shop")


@pytest.mark.parametrize(
    "name",
    [
        "name",
        "topic.prefix",
        "table.include.list",
        "offset.storage",
        "transforms",
        "value.converter.schemas.enable",
        "schema.history.internal",
        "schema.history.internal.file.filename",
        "provide.transaction.metadata",
        "signal.data.collection",
        "skipped.operations",
    ],
)
def test_what_the_job_sets_is_refused_by_its_name(name: str) -> None:
    with pytest.raises(wt.InvalidError, match=re.escape(f"source.properties.{name}")):
        check_properties({name: "x"})


def test_modes_of_the_copy() -> None:
    check_properties({"snapshot.mode": "no_data"})
    with pytest.raises(wt.InvalidError, match="'when_needed'"):
        check_properties({"snapshot.mode": "when_needed"})


@pytest.mark.parametrize(
    ("name", "words"),
    [("postgresql", "kind = 'postgresql'"), ("oracle", "apply_debezium"), ("", "'mariadb'")],
)
def test_other_connectors_are_refused_with_what_to_do(name: str, words: str) -> None:
    with pytest.raises(wt.UnsupportedError, match=r"source\.connector.*" + re.escape(words)):
        connector_of(name)


NAMES = st.text("ab_.*?,$", min_size=1, max_size=6)


@given(NAMES, st.lists(NAMES, max_size=2), st.text("ab_.,$", min_size=1, max_size=6))
def test_an_expression_names_what_the_patterns_do(
    pattern: str, exclude: list[str], name: str
) -> None:
    """Against `fnmatch`. Java's expressions are Python's, as far as they are used here."""
    expected = fnmatchcase(name, pattern) and not any(fnmatchcase(name, each) for each in exclude)
    expression = table_expression([pattern], exclude)
    assert "," not in expression
    assert (re.fullmatch(expression, name) is not None) == expected
