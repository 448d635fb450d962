"""Rules of options and columns: what is rejected, by which error, and what it says."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from widetable.errors import InvalidError, UnsupportedError
from widetable.merge.engine import PartialMerge, engine_of
from widetable.schema.new_schema import new_schema
from widetable.schema.table_schema import TableSchema

LONG = pa.int64()
COLUMNS = [
    ("k", LONG),
    ("g", LONG),
    ("h", LONG),
    ("a", LONG),
    ("b", LONG),
    ("s", pa.string()),
    ("l", pa.list_(LONG)),
    ("v", pa.binary()),
]
GROUP = {"fields.g.sequence-group": "a,b"}
WHAT = "aggregate-function"
TWO = {"fields.g.sequence-group": "a", "fields.h.sequence-group": "b"}


def table(
    options: dict[str, str], engine: str = "partial-update", required: str = ""
) -> TableSchema:
    fields = [pa.field(name, kind, nullable=name != required) for name, kind in COLUMNS]
    return new_schema(
        pa.schema(fields), primary_key=["k"], options={"merge-engine": engine, **options}
    )


WRONG: list[tuple[str, dict[str, str], tuple[str, ...]]] = [
    ("partial-update", {"fields.g.sequence-group": "a,a1"}, ("fields.g.sequence-group", "a1")),
    ("partial-update", {"fields.g.sequence-group": "a, b"}, ("' b'",)),
    ("partial-update", {"fields.g.sequence-group": "k"}, ("'k'", "primary key")),
    ("partial-update", {"fields.g,k.sequence-group": "a"}, ("'k'", "primary key")),
    (
        "partial-update",
        {"fields.g.sequence-group": "a", "fields.h.sequence-group": "a"},
        ("'a'", "fields.h"),
    ),
    (
        "partial-update",
        {"ignore-delete": "true", "partial-update.remove-record-on-delete": "true"},
        ("ignore-delete", "remove-record-on-delete"),
    ),
    (
        "partial-update",
        {
            **GROUP,
            "partial-update.ignore-delete": "true",
            "partial-update.remove-record-on-sequence-group": "g",
        },
        ("ignore-delete", "remove-record-on-sequence-group"),
    ),
    (
        "partial-update",
        {**GROUP, "partial-update.remove-record-on-delete": "true"},
        ("remove-record-on-delete", "fields.g.sequence-group"),
    ),
    (
        "partial-update",
        {**GROUP, "partial-update.remove-record-on-sequence-group": "a"},
        ("remove-record-on-sequence-group", "'a'"),
    ),
    (
        "partial-update",
        {**GROUP, "partial-update.remove-record-on-sequence-group": " g"},
        ("' g'",),
    ),
    (
        "partial-update",
        {"fields.default-aggregate-function": "sum"},
        ("default-aggregate-function", "'g'"),
    ),
    ("partial-update", {"fields.a.aggregate-function": "summ"}, ("'summ'", "fields.a")),
    (
        "partial-update",
        {**GROUP, "fields.a.aggregate-function": "listagg"},
        ("listagg", "'a'", "STRING"),
    ),
    ("first-row", {"sequence.field": "g"}, ("sequence.field", "first-row")),
    ("first-row", {"changelog-producer": "full-compaction"}, ("changelog-producer", "first-row")),
    ("aggregation", {"fields.l.aggregate-function": "max"}, ("'l'", "max")),
    (
        "aggregation",
        {"fields.l.nested-key": "x", "fields.l.aggregate-function": "nested_update"},
        ("'l'",),
    ),
]


@pytest.mark.parametrize(("engine", "options", "said"), WRONG, ids=lambda value: str(value)[:70])
def test_wrong_options_are_named(
    engine: str, options: dict[str, str], said: tuple[str, ...]
) -> None:
    with pytest.raises(InvalidError) as raised:
        engine_of(table(options, engine))
    assert all(word in str(raised.value) for word in said), str(raised.value)


NOT_HONOURED: list[tuple[str, dict[str, str], str]] = [
    *[
        (engine, {"fields.g.sequence-group": "v", f"fields.v.{WHAT}": function}, function)
        for function in ("rbm32", "rbm64", "hll_sketch", "theta_sketch")
        for engine in ("aggregation", "partial-update")
    ],
    ("partial-update", {**GROUP, "fields.g,h.sequence-group": "s"}, "'g'"),
    ("partial-update", {"fields.g.sequence-group": "a", "fields.a.sequence-group": "b"}, "'a'"),
    ("partial-update", {**GROUP, "sequence.field": "a"}, "sequence.field"),
]


@pytest.mark.parametrize(
    ("engine", "options", "said"), NOT_HONOURED, ids=lambda value: str(value)[:70]
)
def test_what_is_not_honoured_is_refused(engine: str, options: dict[str, str], said: str) -> None:
    with pytest.raises(UnsupportedError) as raised:
        engine_of(table(options, engine))
    assert said in str(raised.value)


ACCEPTED: list[tuple[str, dict[str, str]]] = [
    ("partial-update", {"fields.a.aggregate-function": "last_non_null_value"}),
    ("partial-update", {"fields.default-aggregate-function": "last_non_null_value"}),
    ("partial-update", {"fields.k.aggregate-function": "sum"}),
    ("partial-update", {**GROUP, "fields.g.aggregate-function": "sum"}),
    ("partial-update", {"fields.g.sequence-group": "a,g"}),
    ("partial-update", {**GROUP, "sequence.field": "g"}),
    ("deduplicate", {"fields.a.aggregate-function": "no_such_function"}),
    ("deduplicate", {"fields.g.sequence-group": "no_such_column"}),
]


@pytest.mark.parametrize(("engine", "options"), ACCEPTED, ids=lambda value: str(value)[:70])
def test_what_paimon_accepts_without_effect(engine: str, options: dict[str, str]) -> None:
    assert engine_of(table(options, engine)).name == engine


COLUMN_SETS: list[tuple[str, dict[str, str], str, list[str]]] = [
    ("deduplicate", {}, "a b", ["'k'"]),
    ("deduplicate", {"sequence.field": "g,h"}, "k h a", ["'g'", "sequence.field"]),
    ("partial-update", {}, "a", ["'k'"]),
    ("partial-update", {}, "k a b", ["'l'", "NOT NULL"]),
    ("partial-update", GROUP, "k l a", ["'g'", "'b'", "(g, a, b)"]),
    ("partial-update", GROUP, "k l g a", ["'b'"]),
    ("partial-update", GROUP, "k l g", ["'a'", "'b'"]),
    ("partial-update", {"fields.g,h.sequence-group": "a"}, "k l g a", ["'h'"]),
]


@pytest.mark.parametrize(("engine", "options", "columns", "said"), COLUMN_SETS)
def test_columns_to_add_are_named(
    engine: str, options: dict[str, str], columns: str, said: list[str]
) -> None:
    schema = table(options, engine, required="l" if engine == "partial-update" else "")
    with pytest.raises(InvalidError) as raised:
        engine_of(schema).check_columns(schema, columns.split())
    assert all(word in str(raised.value) for word in said), str(raised.value)


@pytest.mark.parametrize("columns", ["k", "k s", "k g a b", "s b a g k", "k g h a b s l"])
def test_whole_groups_may_be_written(columns: str) -> None:
    schema = table(GROUP)
    engine_of(schema).check_columns(schema, columns.split())


def test_deduplicate_takes_any_columns_beside_the_key() -> None:
    schema = table({}, "deduplicate")
    engine_of(schema).check_columns(schema, ["k", "b"])


NEEDED: list[tuple[str, dict[str, Any], str, str]] = [
    ("deduplicate", {}, "b", "k b"),
    ("deduplicate", {"sequence.field": "h"}, "b", "k h b"),
    ("partial-update", TWO, "s", "k s"),
    ("partial-update", TWO, "a", "k g a"),
    ("partial-update", {**TWO, "sequence.field": "s"}, "b", "k h b s"),
    (
        "partial-update",
        {**TWO, "partial-update.remove-record-on-sequence-group": "h"},
        "s",
        "k h s",
    ),
    ("partial-update", {"fields.g,h.sequence-group": "a,b"}, "a g", "k g h a"),
]


@pytest.mark.parametrize(("engine", "options", "columns", "needed"), NEEDED)
def test_needed_columns(engine: str, options: dict[str, str], columns: str, needed: str) -> None:
    schema = table(options, engine)
    assert engine_of(schema).needed_columns(schema, columns.split()) == tuple(needed.split())


ON_DELETE = {"partial-update.remove-record-on-delete": "true"}
ON_GROUP = {**GROUP, "partial-update.remove-record-on-sequence-group": "g"}
MERGES: list[tuple[str, dict[str, str], tuple[str, str, bool]]] = [
    ("deduplicate", {}, ("always", "always", False)),
    ("deduplicate", {"sequence.field": "g"}, ("always", "always", True)),
    ("deduplicate", {"sequence.field": "g", "ignore-delete": "true"}, ("always", "always", False)),
    ("partial-update", {}, ("always", "always", False)),
    ("partial-update", {"ignore-delete": "true"}, ("always", "always", False)),
    ("partial-update", ON_DELETE, ("always", "with base", False)),
    ("partial-update", GROUP, ("always", "always", True)),
    ("partial-update", ON_GROUP, ("always", "with base", True)),
    ("partial-update", {"sequence.field": "g"}, ("never", "never", True)),
    ("partial-update", {**GROUP, "sequence.field": "s"}, ("never", "never", True)),
]


@pytest.mark.parametrize(("engine", "options", "expected"), MERGES)
def test_what_compaction_may_do(
    engine: str, options: dict[str, str], expected: tuple[str, str, bool]
) -> None:
    schema = table(options, engine)
    found = engine_of(schema)
    assert found.partial_merge(schema, has_deletes=False) is PartialMerge(expected[0])
    assert found.partial_merge(schema, has_deletes=True) is PartialMerge(expected[1])
    assert found.keeps_deletes(schema) is expected[2]
