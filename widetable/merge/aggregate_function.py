"""An aggregate function: what becomes of one column over the records of a key. The contract, and what a column says.

Source: Paimon `FieldAggregator` and its subclasses; semantics.md section 8. Functions are pure and hold no state.

A function sees a `Fold`: the records of keys that are merged, and what each does to the column.
Which these are, engines decide; so the same functions serve `aggregation` and the sequence
groups of `partial-update`. It gives either the record that the value is from, so that nothing
is copied until all columns are gathered, or values.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum
from typing import Any, Final, Protocol, TypeAlias, TypeVar

from widetable.errors import InvalidError
from widetable.merge.fold import Fold, Rows
from widetable.merge.plan import Computed
from widetable.schema.option import Option, parse_value
from widetable.schema.table_schema import TableSchema
from widetable.schema.types import DataField

T = TypeVar("T")

# Options of a column, by what comes behind `fields.<column>.`.
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
    """When neighbouring records may become one without what is older (docs/decisions/0031).

    ANY: always, and their order does not count. LAST: always, as long as the last one stays the last. ADDS: unless one
    is a retraction; their order does not count. IN_ORDER: unless one is a retraction, or late. NEVER: only from the
    oldest on.
    """

    ANY = "any"
    LAST = "last"
    ADDS = "adds"
    IN_ORDER = "in order"
    NEVER = "never"


@dataclass(frozen=True)
class AggregateColumn:
    """A column with its function, and the options of both. option: the key that says so; empty for a function that the
    engine itself gives.
    """

    schema: TableSchema
    field: DataField
    function: str
    option: str = ""

    @property
    def name(self) -> str:
        return self.field.name

    def get(self, option: Option[T]) -> T:
        """The value of `fields.<column>.<option>`. Raises InvalidError for a text that is none."""
        full = replace(option, key=f"fields.{self.name}.{option.key}")
        text = self.schema.options.get(full.key)
        return option.default if text is None else parse_value(full, text)

    def values(self) -> tuple[Any, ...]:
        """Of all options. Raises InvalidError for the first text that is none."""
        return tuple(self.get(option) for option in COLUMN_OPTIONS)


def nested_fields(column: AggregateColumn) -> dict[str, DataField]:
    """By name: the fields of the rows that an ARRAY or MAP has; of other columns none."""
    kind = column.field.type
    rows = kind.element if kind.root == "ARRAY" else kind.value
    return {} if rows is None else {each.name: each for each in rows.fields}


def time_field(column: AggregateColumn) -> str | None:
    """The name of the field that orders values of merge_map_with_keytime, the last where no option says."""
    if column.function != "merge_map_with_keytime":
        return None
    return column.get(TS_FIELD) or next(reversed(nested_fields(column)), None)


def is_limited(column: AggregateColumn) -> bool:
    """Whether it is a list of nested_update with a limit."""
    return column.function == "nested_update" and column.get(COUNT_LIMIT) != COUNT_LIMIT.default


# int64[c]: the record that a column's value is from, -1 for null; or values.
Found: TypeAlias = Rows | Computed


class Aggregate(Protocol):
    """One function."""

    @property
    def retracts(self) -> bool:
        """Whether a retraction has a meaning."""

    def grouping(self, column: AggregateColumn) -> Grouping:
        """Of this column."""

    def counts_again(self, column: AggregateColumn) -> bool:
        """Whether an add that comes twice makes another value than one that comes once."""

    def found(self, fold: Fold, column: AggregateColumn) -> Found:
        """The column's values for the keys of a fold; some piece of the window has the column. Raises InvalidError
        naming column and key for what cannot be merged.

        Positions are by key of the fold; `Computed` is for all keys of the window, by
        `Fold.computed`. Retractions that the function cannot take back are not in the fold.
        """


def failed(fold: Fold, column: AggregateColumn, record: int, found: str) -> InvalidError:
    """For a record that cannot be merged."""
    return InvalidError(
        f"column {column.name!r}, function {column.function!r}",
        found=f"{found}, for the key {fold.window.printed_key(int(fold.rows[record]))}",
        expected=f"a value of type {column.field.type}",
        action="Correct the records before they are written. Of commits that are in widetable explain shows what they "
        "wrote: change the column to a wider type (widetable alter --type), take the key out (widetable delete "
        "--rewrite), or roll the table back.",
    )
