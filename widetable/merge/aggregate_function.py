"""Aggregate functions: the contract of a function that merges one column of the records of a key, and its options.

Source: Paimon `FieldAggregator` and its subclasses; semantics.md section 8. Functions are pure and hold no state.

A function is one `Aggregate`, which its own module makes and `aggregate_functions` lists. Its traits say all that other
modules need to know of it; no other module compares its name (docs/decisions/0067).

A function receives a `Fold`: the records of the keys that are merged, and the step of each record.
Engines choose the records and steps; so the same functions serve `aggregation` and the sequence
groups of `partial-update`. A function returns either the record that the value is from, so that
nothing is copied until all columns are gathered, or computed values.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any, Final, NamedTuple, TypeAlias, TypeVar

import pyarrow as pa

from widetable.errors import InvalidError
from widetable.kernels.array_types import Mask
from widetable.merge.fold import Fold, Rows
from widetable.merge.plan import Computed
from widetable.merge.window import Window
from widetable.messages.error_code import ErrorCode
from widetable.schema.option import Option, parse_value
from widetable.schema.table_schema import TableSchema
from widetable.schema.types import DataField, DataType

T = TypeVar("T")

# Options of a column, by the part of the key behind `fields.<column>.`.
IGNORE_RETRACT: Final = Option[bool]("ignore-retract", "boolean", False, "", "")
DISTINCT: Final = Option[bool]("distinct", "boolean", False, "", "")
DELIMITER: Final = Option[str]("list-agg-delimiter", "text", ",", "", "")
NESTED_KEY: Final = Option[tuple[str, ...]]("nested-key", "names", (), "", "")
NESTED_SEQUENCE: Final = Option[tuple[str, ...]]("nested-sequence-field", "names", (), "", "")
NULL_STRATEGY: Final = Option[str](
    "nested-key-null-strategy", "enum", "merge", "", "", choices=("merge", "ignore", "error")
)
COUNT_LIMIT: Final = Option[int]("count-limit", "integer", 2**31 - 1, "elements", "")
TS_FIELD: Final = Option[str | None]("ts-field", "text", None, "", "")
COLUMN_OPTIONS: Final[tuple[Option[Any], ...]] = (
    IGNORE_RETRACT,
    DISTINCT,
    DELIMITER,
    NESTED_KEY,
    NESTED_SEQUENCE,
    NULL_STRATEGY,
    COUNT_LIMIT,
    TS_FIELD,
)


class Grouping(Enum):
    """When neighbouring records may be merged into one without the older records (docs/decisions/0031).

    ANY: always, in any order. LAST: always, as long as the last record stays the last. ADDS: unless one is a
    retraction; in any order. IN_ORDER: unless one is a retraction, or late. NEVER: only together with all older
    records.
    """

    ANY = "any"
    LAST = "last"
    ADDS = "adds"
    IN_ORDER = "in order"
    NEVER = "never"


class Retraction(Enum):
    """What a retraction does to a column, and which records of a commit stay apart because of it (docs/decisions/0003,
    0031).

    REFUSED: the function supports no retraction. MERGED: nothing stays apart, as a collapsed record has the same
    effect. LAST: a value that is retracted last stays apart. BEFORE_ADDS: retracted values stay apart from adds before
    them; an add behind them replaces them. APART: they stay apart from adds on both sides.
    """

    REFUSED = "refused"
    MERGED = "merged"
    LAST = "last"
    BEFORE_ADDS = "before adds"
    APART = "apart"


@dataclass(frozen=True)
class AggregateColumn:
    """A column with its function, and the options of both. option: the key that assigns the function; empty for the
    engine's own default.
    """

    schema: TableSchema
    field: DataField
    function: str
    option: str = ""

    @property
    def name(self) -> str:
        return self.field.name

    def get(self, option: Option[T]) -> T:
        """Return the value of `fields.<column>.<option>`. Raises InvalidError for a text that is no such value."""
        full = replace(option, key=f"fields.{self.name}.{option.key}")
        text = self.schema.options.get(full.key)
        return option.default if text is None else parse_value(full, text)

    def values(self) -> tuple[Any, ...]:
        """Return the values of all options. Raises InvalidError for the first text that is no value of its option."""
        return tuple(self.get(option) for option in COLUMN_OPTIONS)


def nested_fields(column: AggregateColumn) -> dict[str, DataField]:
    """Return the fields of the rows in an ARRAY or MAP column, by name; other columns have none."""
    kind = column.field.type
    rows = kind.element if kind.root == "ARRAY" else kind.value
    return {} if rows is None else {each.name: each for each in rows.fields}


class ColumnType(NamedTuple):
    """The types of columns that a function takes, in words and as a test."""

    words: str
    takes: Callable[[DataType], bool]


def of_roots(words: str, *roots: str) -> ColumnType:
    """Return the column type of all types with these roots."""
    return ColumnType(words, lambda kind: kind.root in roots)


# int64[c]: the record that a column's value is from, -1 for null; or computed values.
Aggregated: TypeAlias = Rows | Computed
Test: TypeAlias = Callable[[AggregateColumn], bool]
# Returns the values of single records in normal form, in the same type.
NormalForm: TypeAlias = Callable[[Fold, AggregateColumn, pa.Array], pa.Array]
# Returns bool[m] by position in `Window.order`: records that must not be collapsed with the record before them. The
# mask that it takes marks the retractions.
Boundaries: TypeAlias = Callable[[Window, AggregateColumn, Mask], Mask]


def always(column: AggregateColumn) -> bool:
    """Return True: a trait that no option of the column changes."""
    return True


def never(column: AggregateColumn) -> bool:
    """Return False: a trait that no option of the column changes."""
    return False


def none(column: AggregateColumn) -> None:
    """Return None: the column has none of what a trait describes."""


@dataclass(frozen=True, kw_only=True)
class Aggregate:
    """One aggregate function. A trait that a function may not forget has no default.

    column_type: what it takes. aggregate: returns the column's values for the keys of a fold; some piece of the window
    has the column. Positions are by key of the fold; `Computed` is for all keys of the window, by `Fold.computed`. The
    fold has no retraction that the function does not support. It raises InvalidError naming column and key for values
    that cannot be merged.

    grouping: when neighbouring records may be merged. retraction: what a retraction does. by_order: whether a late
    record gives another value than the record in order. nulls_count: whether null is a value like any other.
    counts_again: whether adding a record twice gives another value than adding it once. tells_apart: whether the value
    depends on which elements are equal. normal_form: how a single record is brought into normal form; it returns None
    for a column whose records always are (docs/decisions/0001). boundaries: what keeps records apart besides
    retractions; None for nothing.

    required: options of the column that the function needs. time_field: returns the name of the field that orders
    values, None where none does.
    """

    column_type: ColumnType
    aggregate: Callable[[Fold, AggregateColumn], Aggregated]
    grouping: Callable[[AggregateColumn], Grouping]
    retraction: Retraction
    by_order: Test
    nulls_count: bool
    counts_again: Test
    tells_apart: Test
    normal_form: Callable[[AggregateColumn], NormalForm | None]
    boundaries: Boundaries | None
    required: tuple[Option[Any], ...] = ()
    time_field: Callable[[AggregateColumn], str | None] = none


def unmergeable(fold: Fold, column: AggregateColumn, record: int, finding: str) -> InvalidError:
    """Return the error for a record that cannot be merged."""
    return InvalidError(
        f"column {column.name!r}, function {column.function!r}",
        found=f"{finding}, for the key {fold.window.printed_key(int(fold.rows[record]))}",
        expected=f"a value of type {column.field.type}",
        action="Correct the records before they are written. If they are committed, widetable explain shows which "
        "commit wrote them: change the column to a wider type (widetable alter --type), remove the key (widetable "
        "delete --rewrite), or roll the table back.",
        code=ErrorCode.SUM_OVERFLOW,
    )
