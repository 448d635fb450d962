"""Which nulls of a write take effect: those by which a table has other rows than without them."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import widetable as wt
from widetable.merge.engine import engine_of

SCHEMA = pa.schema({"k": pa.int64(), "v": pa.int64(), "g": pa.int64()})
OF_NUMBERS = ("sum", "product", "max", "min", "last_value", "last_non_null_value")
FUNCTIONS = (*OF_NUMBERS, "first_value", "first_non_null_value", None)


def options_of(engine: str, function: str | None, group: str | None) -> dict[str, str]:
    found = {"bucket": "1", "merge-engine": engine, "write-only": "true"}
    if function is not None:
        found["fields.v.aggregate-function"] = function
    if group is not None:
        found[group] = "v" if "group" in group else "g"
    return found


GROUP = "fields.g.sequence-group"
CASES = [
    *[("aggregation", function, None) for function in FUNCTIONS],
    ("aggregation", "sum", "sequence.field"),
    ("aggregation", "last_value", "sequence.field"),
    *[("partial-update", function, GROUP) for function in FUNCTIONS if function != "first_value"],
    *[(engine, None, None) for engine in ("deduplicate", "first-row", "partial-update")],
]


def rows_of(
    catalog: wt.Catalog, name: str, options: dict[str, str], values: list[int | None]
) -> list[dict[str, object]]:
    table = catalog.create_table(name, SCHEMA, primary_key=["k"], options=options)
    for at, value in enumerate(values):
        table.write(pa.table({"k": [1], "v": [value], "g": [at]}, SCHEMA))
    found: list[dict[str, object]] = table.scan(["v"]).to_arrow().to_pylist()
    return found


@pytest.mark.parametrize(("engine", "function", "group"), CASES, ids=str)
def test_a_null_takes_effect_where_rows_are_others_with_it(
    tmp_path: Path, engine: str, function: str | None, group: str | None
) -> None:
    catalog, options = wt.Catalog(tmp_path), options_of(engine, function, group)
    without = rows_of(catalog, "db.without", options, [5])
    behind = rows_of(catalog, "db.behind", options, [5, None])
    before = rows_of(catalog, "db.before", options, [None, 5])
    is_seen = not without == behind == before
    schema = catalog.table("db.without").schema
    assert engine_of(schema).effective_nulls(schema, ["v"]) == ({"v"} if is_seen else set())


def test_a_null_that_orders_rows_takes_effect(tmp_path: Path) -> None:
    catalog = wt.Catalog(tmp_path)
    options = options_of("aggregation", "sum", "sequence.field")
    table = catalog.create_table("db.t", SCHEMA, primary_key=["k"], options=options)
    assert engine_of(table.schema).effective_nulls(table.schema, ["v", "g"]) == {"g"}


@pytest.mark.parametrize("default", [None, "last_non_null_value", "max"])
def test_a_null_in_a_part_of_a_sequence_takes_effect(tmp_path: Path, default: str | None) -> None:
    """Functions merge values, never the sequence (semantics.md: a partly null sequence writes its nulls)."""
    schema = pa.schema({"k": pa.int64(), "v": pa.int64(), "g": pa.int64(), "h": pa.int64()})
    options = options_of("partial-update", None, None) | {"fields.g,h.sequence-group": "v"}
    if default is not None:
        options["fields.default-aggregate-function"] = default
    table = wt.Catalog(tmp_path).create_table("db.t", schema, primary_key=["k"], options=options)
    table.write(pa.table({"k": [1], "v": [5], "g": [1], "h": [1]}, schema))
    table.write(pa.table({"k": [1], "v": [6], "g": [2], "h": [None]}, schema))
    assert table.scan(["g", "h"]).to_arrow().to_pylist() == [{"g": 2, "h": None}]
    assert engine_of(table.schema).effective_nulls(table.schema, ["h"]) == {"h"}
