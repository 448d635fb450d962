"""Hypothesis strategies for columns that functions fill: types, options, and values whose sums and products are exact.

An entry of merge_map_with_keytime always has a row: one without removes what is older, and is seen while it is alone.
"""

from __future__ import annotations

import decimal
from collections.abc import Mapping
from typing import Any, Final

import pyarrow as pa
from hypothesis import strategies as st

from tests.support.models.aggregate_model import TAKE_BACK
from widetable.schema.table_schema import TableSchema

_ROW: Final = pa.struct([("id", pa.int32()), ("s", pa.int64()), ("v", pa.string())])
ROWS: Final = pa.list_(pa.field("element", _ROW))
TIMED: Final = pa.map_(pa.string(), pa.struct([("v", pa.int32()), ("ts", pa.string())]))
_LIST: Final = pa.list_(pa.field("element", pa.int32()))
_MAP: Final = pa.map_(pa.string(), pa.int32())
_CHOICES: Final = ("last_value", "last_non_null_value", "first_value", "first_not_null_value")
_ORDERED: Final = (*_CHOICES, "max", "min")

# Arrow type -> functions that take it.
FUNCTIONS: Final[Mapping[pa.DataType, tuple[str, ...]]] = {
    pa.int32(): (*_ORDERED, "sum"),
    pa.int64(): (*_ORDERED, "sum", "product"),
    pa.float64(): (*_ORDERED, "sum", "product"),
    pa.decimal128(12, 2): (*_ORDERED, "sum"),
    pa.decimal128(38, 10): (*_ORDERED, "sum"),
    pa.string(): (*_ORDERED, "listagg"),
    pa.bool_(): (*_ORDERED, "bool_and", "bool_or"),
    pa.binary(): _ORDERED,
    pa.date32(): _ORDERED,
    pa.timestamp("us"): _ORDERED,
    _LIST: (*_CHOICES, "collect", "collect"),
    _MAP: (*_CHOICES, "merge_map", "merge_map"),
    ROWS: ("nested_update", "nested_partial_update", "first_value", "collect"),
    TIMED: ("merge_map_with_keytime", "last_value"),
}
_VALUES: Final[Mapping[pa.DataType, st.SearchStrategy[Any]]] = {
    ROWS: st.lists(
        st.none()
        | st.fixed_dictionaries(
            {
                "id": st.none() | st.integers(0, 2),
                "s": st.none() | st.integers(0, 3),
                "v": st.none() | st.sampled_from(["a", "b"]),
            }
        ),
        max_size=3,
    ),
    TIMED: st.lists(
        st.tuples(
            st.sampled_from(["p", "q"]),
            st.fixed_dictionaries(
                {"v": st.integers(0, 2), "ts": st.none() | st.sampled_from(["1", "2", "30"])}
            ),
        ),
        max_size=2,
        unique_by=lambda pair: pair[0],
    ),
}
_SUMMED: Final[Mapping[pa.DataType, st.SearchStrategy[Any]]] = {
    pa.int32(): st.integers(-3, 3),
    pa.int64(): st.sampled_from([-(2**53) - 1, -1, 0, 1, 2**53 + 1]),
    pa.float64(): st.sampled_from([-1.5, 0.0, 0.25, 2.0]),
    pa.decimal128(12, 2): st.sampled_from([decimal.Decimal(n).scaleb(-2) for n in (-101, 0, 7)]),
    pa.decimal128(38, 10): st.sampled_from(
        [decimal.Decimal(n).scaleb(-10, decimal.Context(40)) for n in (-(10**30), -1, 2**70)]
    ),
}
_MULTIPLIED: Final[Mapping[pa.DataType, st.SearchStrategy[Any]]] = {
    pa.int64(): st.sampled_from([-1, 1, 2]),
    pa.float64(): st.sampled_from([-2.0, 0.5, 1.0, 4.0]),
}


@st.composite
def filled_field(
    draw: st.DrawFn, name: str, options: dict[str, str], *, retracts: bool
) -> pa.Field:
    """A column with a function. retracts: retractions will come, so none of the functions may refuse them."""
    kind = draw(st.sampled_from(list(FUNCTIONS)))
    function = draw(st.sampled_from(FUNCTIONS[kind]))
    if retracts and function == "first_value":
        # A row that a retraction made has null there, which is then the first value or not: docs/decisions/0031.
        function = "first_non_null_value"
    options[f"fields.{name}.aggregate-function"] = function
    own: dict[str, str] = {}
    if function in ("listagg", "collect") and draw(st.booleans()):
        own["distinct"] = "true"
    if function == "listagg" and draw(st.booleans()):
        own["list-agg-delimiter"] = draw(st.sampled_from(["a", "-", ";;"]))
    is_nested = function in ("nested_update", "nested_partial_update")
    if is_nested and (function != "nested_update" or draw(st.booleans())):
        own["nested-key"] = draw(st.sampled_from(["id", "id,v"]))
        if function == "nested_update" and draw(st.booleans()):
            own["nested-sequence-field"] = "s"
    if function == "nested_update" and draw(st.booleans()):
        own["count-limit"] = draw(st.sampled_from(["0", "1", "2", "4"]))
    if retracts and (function not in TAKE_BACK or draw(st.integers(0, 4)) == 0):
        own["ignore-retract"] = "true"
    options |= {f"fields.{name}.{key}": value for key, value in own.items()}
    return pa.field(name, kind)


def function_of(schema: TableSchema, name: str) -> str | None:
    return schema.options.get(f"fields.{name}.aggregate-function")


def filled_values(schema: TableSchema, name: str) -> st.SearchStrategy[Any] | None:
    """Values of a column that its function can take; None: any of its type."""
    kind, function = schema.arrow_schema([name]).field(0).type, function_of(schema, name)
    if function == "sum":
        return _SUMMED[kind]
    if function == "product":
        return _MULTIPLIED[kind]
    return _VALUES.get(_plain(kind))


def has_irreversible(schema: TableSchema) -> bool:
    """Whether a retraction is an error."""
    return any(
        (function := function_of(schema, name)) is not None
        and function not in TAKE_BACK
        and schema.options.get(f"fields.{name}.ignore-retract") != "true"
        for name in schema.names
    )


def takes_back(schema: TableSchema, name: str) -> bool:
    """Whether a retraction does something to a column of an aggregation table."""
    ordering = (*schema.primary_keys, *schema.sequence_fields, schema.options.get("rowkind.field"))
    function = function_of(schema, name) or "last_non_null_value"
    ignores = schema.options.get(f"fields.{name}.ignore-retract") == "true"
    return name not in ordering and function in TAKE_BACK and not ignores


def collected(schema: TableSchema) -> list[str]:
    """Columns of `collect` that take values back: not in a commit that adds to the same key, too."""
    return [
        name
        for name in schema.names
        if function_of(schema, name) == "collect"
        and schema.options.get(f"fields.{name}.ignore-retract") != "true"
    ]


def _plain(kind: pa.DataType) -> pa.DataType:
    """The type as it stands in this module: a table's own has other names for its parts."""
    return next((each for each in _VALUES if _shape(each) == _shape(kind)), kind)


def _shape(kind: pa.DataType) -> str:
    if pa.types.is_struct(kind):
        return f"struct({', '.join(_shape(kind.field(i).type) for i in range(kind.num_fields))})"
    if pa.types.is_map(kind):
        return f"map({_shape(kind.key_type)}, {_shape(kind.item_type)})"
    return f"list({_shape(kind.value_type)})" if pa.types.is_list(kind) else str(kind)
