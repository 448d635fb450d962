"""Aggregate functions: the contract of a function that merges one column of the records of a key, and its options.

Source: Paimon `FieldAggregator` and its subclasses; semantics.md section 8. Functions are pure and hold no state.

A function receives a `Fold`: the records of the keys that are merged, and the step of each record.
Engines choose the records and steps; so the same functions serve `aggregation` and the sequence
groups of `partial-update`. A function returns either the record that the value is from, so that
nothing is copied until all columns are gathered, or computed values.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum
from typing import Any, Final, Protocol, TypeAlias, TypeVar

from widetable.errors import InvalidError
from widetable.merge.fold import Fold, Rows
from widetable.merge.plan import Computed
from widetable.messages.error_code import ErrorCode
from widetable.schema.option import Option, parse_value
from widetable.schema.table_schema import TableSchema
from widetable.schema.types import DataField

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


def time_field(column: AggregateColumn) -> str | None:
    """Return the name of the field that orders values of merge_map_with_keytime; by default it is the last field."""
    if column.function != "merge_map_with_keytime":
        return None
    return column.get(TS_FIELD) or next(reversed(nested_fields(column)), None)


def is_limited(column: AggregateColumn) -> bool:
    """Whether the column is a list of nested_update with a limit."""
    return column.function == "nested_update" and column.get(COUNT_LIMIT) != COUNT_LIMIT.default


# int64[c]: the record that a column's value is from, -1 for null; or computed values.
Aggregated: TypeAlias = Rows | Computed


class Aggregate(Protocol):
    """The contract of one aggregate function."""

    @property
    def retracts(self) -> bool:
        """Whether the function supports retractions."""

    def grouping(self, column: AggregateColumn) -> Grouping:
        """Return when neighbouring records of this column may be merged."""

    def counts_again(self, column: AggregateColumn) -> bool:
        """Whether adding a record twice gives another value than adding it once."""

    def aggregate(self, fold: Fold, column: AggregateColumn) -> Aggregated:
        """Return the column's values for the keys of a fold; some piece of the window has the column. Raises
        InvalidError naming column and key for values that cannot be merged.

        Positions are by key of the fold; `Computed` is for all keys of the window, by
        `Fold.computed`. The fold has no retraction that the function does not support.
        """


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
