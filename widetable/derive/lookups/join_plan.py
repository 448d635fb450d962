"""The plan of a lookup join, made and checked before a row is read: the rules for all lookup joins.

In: the left rows' Arrow schema, the schema of the joined table (the dim), and the arguments of
`derive.lookup_join.lookup_join`. Out: a picklable plan. Pure.

The columns of the dim that `on` names decide how its rows are found, and how many matches a left row may have:

    the whole primary key                               one at most, by key
    leading columns of it, the bucket key among them    many, by prefix (partition columns always belong to it)
    the columns of an index (option index.<columns>)    many, by the index, at the snapshot that the index fits

Raises InvalidError for arguments of a wrong type, names that clash, key columns whose types a write would not cast to
the dim's, and an `on` that is none of the three; NotFoundError for missing columns; UnsupportedError for a dim without
a primary key, or with one that lacks its partition columns.

    dim: partitioned by p, primary key p, a, b, c, bucket key a
    on c, b, a, p           whole key        looked up as p, a, b, c, whatever the order of `on`
    on a, p                 prefix           also a, b, p; not b, p, which do not determine the bucket
    on a, b, c              whole key, with partitions=, which gives p
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import pyarrow as pa

from widetable.acceptance.acceptance import Use, accept
from widetable.arguments import mapping, names, refused, text
from widetable.derive.changes.join_partitions import JoinPartitions, parse_partitions
from widetable.derive.joins.joined_plan import key_prefixes
from widetable.errors import InvalidError, NotFoundError
from widetable.messages.error_code import ErrorCode
from widetable.schema.derived_options import IndexOption, index_options
from widetable.schema.table_schema import ROW_KIND_COLUMN, TableSchema
from widetable.schema.types import DataField, arrow_field, arrow_type
from widetable.write.safe_cast import key_cast

LEFT, INNER = "left", "inner"
REFUSE, KEY_ONLY = "refuse", "key-only"
# Two column names are the same if this function returns the same text for both.
SameName = Callable[[str], str]


@dataclass(frozen=True)
class JoinArguments:
    """Unchecked arguments of a join, as `widetable.lookup_join` describes them.

    Attributes
    ----------
    on : list of str, or dict of str to str
        The left columns, and the columns that they are compared with.
    columns : list of str or None
        The columns of the joined table.
    how : str
        "left" or "inner".
    prefix : str
        The prefix of the added columns.
    partitions : str or None
        The partitions that are joined.
    retractions : str
        How left rows with the kinds -U and -D are treated: "refuse" or "key-only".
    retry_batches : int
        In how many later batches rows without a match are retried.
    pending, pending_key : str or None
        The table in which they wait, and the column that tells them apart.
    """

    on: Any
    columns: Any = None
    how: Any = LEFT
    prefix: Any = ""
    partitions: Any = None
    retractions: Any = REFUSE
    retry_batches: Any = 0
    pending: Any = None
    pending_key: Any = None


@dataclass(frozen=True)
class JoinPlan:
    """A checked join. keys: pairs of a left column and the dim's column that it is compared with.

    columns: the dim's columns that are joined. added: their fields in the output. kind_column: the left column of row
    kinds, where retractions get nulls. schema_id: the dim's schema at planning. is_prefix: `on` is only a part of the
    key. index: the index that finds the rows, with the keys in its order.
    """

    keys: tuple[tuple[str, DataField], ...]
    columns: tuple[DataField, ...]
    added: tuple[pa.Field, ...]
    is_inner: bool
    partitions: JoinPartitions | None
    kind_column: str | None
    schema_id: int
    is_prefix: bool
    index: IndexOption | None

    @property
    def has_many(self) -> bool:
        """Return whether a left row may have more than one match."""
        return self.is_prefix or self.index is not None


def plan_join(
    left: pa.Schema, dim: TableSchema, given: JoinArguments, same_name: SameName = str
) -> JoinPlan:
    """Check the arguments and plan the join."""
    accept(dim, Use.LOOK_UP)
    how = _one_of(given.how, "how", (LEFT, INNER))
    prefix = text(given.prefix, "prefix")
    partitions = parse_partitions(given.partitions, dim)
    left_of = _pairs(given.on)
    way = _way(dim, list(left_of), without_partitions=partitions is not None)
    keys = tuple((left_of[n], _checked_key(left, left_of[n], dim, n)) for n in way.names)
    columns = _columns(dim, given.columns, way)
    added = tuple(
        arrow_field(column).with_name(prefix + column.name).with_nullable(True)
        for column in columns
    )
    _check_clash(left, columns, added, same_name)
    return JoinPlan(
        keys,
        columns,
        added,
        how == INNER,
        partitions,
        _kind_column(left, given.retractions, same_name),
        dim.id,
        way.is_prefix,
        way.by,
    )


class _Way(NamedTuple):
    """A way to find rows. names: the compared columns of the dim, in the order of the lookup. by: the index, if any."""

    names: tuple[str, ...]
    is_prefix: bool = False
    by: IndexOption | None = None


def _pairs(on: Any) -> dict[str, str]:
    """Return the left column of each named column of the dim."""
    pairs = mapping(on, "on") if isinstance(on, Mapping) else {n: n for n in names(on, "on")}
    left_of: dict[str, str] = {}
    for key, value in pairs.items():
        name = text(value, f"value of on[{key!r}]")
        if name in left_of:
            raise InvalidError(
                "on",
                found=f"the column {name} of the joined table twice",
                expected="each column once",
                action="Give the left column that it is compared with.",
            )
        left_of[name] = key
    return left_of


def _way(dim: TableSchema, columns: Sequence[str], *, without_partitions: bool) -> _Way:
    whole = dim.trimmed_primary_key if without_partitions else dim.primary_keys
    prefixes = [] if without_partitions else key_prefixes(dim)
    indexes = [] if without_partitions else index_options(dim.options)
    ways = [
        _Way(tuple(whole)),
        *(_Way(prefix, is_prefix=True) for prefix in prefixes),
        *(_Way(index.columns, by=index) for index in indexes),
    ]
    for way in ways:
        if set(way.names) == set(columns):
            return way
    rest = " without its partition columns" if without_partitions else ""
    shown = [
        f"its whole primary key{rest}: {', '.join(whole)}",
        *(f"leading columns of it: {', '.join(prefix)}" for prefix in prefixes),
        *(f"the columns of an index: {', '.join(index.columns)}" for index in indexes),
    ]
    raise InvalidError(
        "on",
        found=f"the columns {', '.join(columns) or 'none'} of the joined table",
        expected=f"each column once of {'; or '.join(shown)}",
        action="Name the left columns that hold these, as a list, or as a dict of left to joined columns; or declare "
        "an index: option index.<column> = <database>.<table>.",
    )


def _checked_key(left: pa.Schema, name: str, dim: TableSchema, key: str) -> DataField:
    if name not in left.names:
        raise NotFoundError(
            f"column {name!r}",
            found="no such column in the left rows",
            expected=f"one of {', '.join(left.names)}",
            action="Correct on=.",
            code=ErrorCode.COLUMN_NOT_FOUND,
        )
    field = dim.field(key)
    key_column(pa.nulls(0, left.field(left.names.index(name)).type), name, field)
    return field


def key_column(array: pa.Array, name: str, field: DataField) -> pa.Array:
    """Cast a left column to the type of the dim's column."""
    try:
        return key_cast(array, field, arrow_type(field.type))
    except InvalidError as wrong:
        raise InvalidError(
            f"column {name!r} of the left rows",
            found=wrong.found,
            expected=f"what column {field.name!r} of the joined table takes: {wrong.expected}",
            action="Cast the column before the join.",
        ) from wrong


def _columns(dim: TableSchema, columns: Any, way: _Way) -> tuple[DataField, ...]:
    """Return the joined columns of the dim.

    By default these are all but the primary key; if a left row may have several matches, all but the compared columns.
    """
    if columns is None:
        compared = way.names if way.is_prefix or way.by else dim.primary_keys
        return tuple(field for field in dim.fields if field.name not in compared)
    return tuple(dim.field(name) for name in names(columns, "columns"))


def _check_clash(
    left: pa.Schema, columns: Sequence[DataField], added: Sequence[pa.Field], same_name: SameName
) -> None:
    seen: dict[str, str] = {}
    for name in left.names:
        if same_name(name) in seen:
            raise InvalidError(
                f"column {name!r} of the left rows",
                found=f"the column twice, or {seen[same_name(name)]!r}, which differs only in case",
                expected="each column once",
                action="Drop or rename one.",
            )
        seen[same_name(name)] = name
    for column, field in zip(columns, added, strict=True):
        if same_name(field.name) in seen:
            raise InvalidError(
                f"column {column.name!r}",
                found=f"the left rows already have a column {seen[same_name(field.name)]!r}",
                expected="names that the left rows do not have",
                action="Pass prefix=, such as prefix='dim_', or the columns= that you need.",
            )
        seen[same_name(field.name)] = field.name


def _kind_column(left: pa.Schema, retractions: Any, same_name: SameName) -> str | None:
    """Return the left column of row kinds, or None.

    A -U cannot be joined with the values that its +I was joined with. So such rows are refused, or get nulls.
    """
    chosen = _one_of(retractions, "retractions", (REFUSE, KEY_ONLY))
    kind = same_name(ROW_KIND_COLUMN)
    name: str | None = next((n for n in left.names if same_name(n) == kind), None)
    if name is None:
        return None
    if chosen == REFUSE:
        raise InvalidError(
            f"column {name!r}",
            found="left rows that may retract rows which were joined with other values",
            expected="rows without row kinds",
            action="Drop the column if all rows are inserts. In Spark, retractions='key-only' passes on -U and -D with "
            "nulls in the joined columns; that suits sinks that remove by key, but not sums. For sums keep the joined "
            "columns in the table itself (option widen.<foreign key>): its changelog retracts the values that it "
            "wrote, and an aggregation table sums them (docs/replace-a-three-stream-join.md).",
        )
    return name


def _one_of(value: Any, name: str, choices: Sequence[str]) -> str:
    if isinstance(value, str) and value in choices:
        return value
    raise refused(value, name, " or ".join(map(repr, choices)))
