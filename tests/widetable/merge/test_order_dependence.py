"""In which columns the order of two adds counts, and whether two files may change places."""

from __future__ import annotations

import pyarrow as pa
import pytest

from widetable.merge.order_dependence import Values, depends_on_order, ordered_ids
from widetable.schema.new_schema import new_schema
from widetable.schema.table_schema import TableSchema

COLUMNS = pa.schema(
    [
        pa.field("k", pa.int64(), nullable=False),
        ("s", pa.int64()),
        ("a", pa.int64()),
        ("b", pa.int64()),
        ("f", pa.float64()),
        ("t", pa.string()),
    ]
)
PARTIAL = {"merge-engine": "partial-update"}
AGGREGATION = {"merge-engine": "aggregation"}


def schema_of(options: dict[str, str]) -> TableSchema:
    return new_schema(COLUMNS, primary_key=("k",), options={"bucket": "1", **options})


@pytest.mark.parametrize(
    ("options", "names"),
    [
        (PARTIAL, "s a b f t"),
        (PARTIAL | {"sequence.field": "s"}, "a b f t"),
        (PARTIAL | {"fields.s.sequence-group": "a,b"}, "s a b f t"),
        (
            PARTIAL | {"fields.s.sequence-group": "a", "fields.a.aggregate-function": "sum"},
            "b f t",
        ),
        (
            PARTIAL | {"fields.s.sequence-group": "a,b", "fields.a.aggregate-function": "max"},
            "s b f t",
        ),
        (
            PARTIAL | {"fields.s.sequence-group": "f", "fields.f.aggregate-function": "sum"},
            "s a b f t",
        ),
        (
            PARTIAL | {"fields.s.sequence-group": "s,a", "fields.a.aggregate-function": "min"},
            "b f t",
        ),
        (AGGREGATION, "s a b f t"),
        (AGGREGATION | {"fields.default-aggregate-function": "max"}, ""),
        (
            AGGREGATION
            | {
                "fields.a.aggregate-function": "sum",
                "fields.b.aggregate-function": "product",
                "fields.f.aggregate-function": "sum",
                "fields.t.aggregate-function": "listagg",
            },
            "s b f t",
        ),
        (AGGREGATION | {"sequence.field": "s", "fields.a.aggregate-function": "sum"}, "b f t"),
    ],
)
def test_columns_whose_value_depends_on_the_order(options: dict[str, str], names: str) -> None:
    schema = schema_of(options)
    assert ordered_ids(schema) == frozenset(schema.field(name).id for name in names.split())


@pytest.mark.parametrize("engine", ["deduplicate", "first-row"])
def test_where_rows_win_as_a_whole_every_order_counts(engine: str) -> None:
    ordered = ordered_ids(schema_of({"merge-engine": engine}))
    assert ordered is None
    nothing = Values(frozenset(), False)
    assert depends_on_order(nothing, nothing, ordered)


@pytest.mark.parametrize(
    ("one", "other", "depends"),
    [
        (Values(frozenset({1}), False), Values(frozenset({2}), False), False),
        (Values(frozenset({1}), False), Values(frozenset({1, 2}), False), True),
        (Values(frozenset({3}), False), Values(frozenset({3}), False), False),  # commutes
        (Values(frozenset({1}), True), Values(frozenset({2}), False), True),
        (Values(frozenset(), False), Values(None, False), False),
        (Values(frozenset({2}), False), Values(None, False), True),
        (Values(None, False), Values(None, False), True),
    ],
)
def test_files_may_change_places_where_no_ordered_column_is_in_both(
    one: Values, other: Values, depends: bool
) -> None:
    ordered = frozenset({1, 2})
    assert depends_on_order(one, other, ordered) is depends
    assert depends_on_order(other, one, ordered) is depends
