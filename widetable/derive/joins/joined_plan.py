"""The definition of a table that holds a join: its source tables, join columns, columns and key. Pure.

    by key         the join key is the right table's primary key    keyed as the left table; inner or left
    many to many   it is not                   keyed (join key, rest of the left's key, rest of the right's); inner

The options `join.*` of the joined table store the definition. Its columns are the left table's, then those of the right
table that are no join key; columns that the tables gain later are not added. Rows of both tables must be findable by
the join key (`key_access`). Raises InvalidError for a definition that does not fit the tables, UnsupportedError for a
join that would need scans.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from enum import Enum

import pyarrow as pa

from widetable.acceptance.acceptance import Use, accept
from widetable.errors import InvalidError, UnsupportedError
from widetable.schema import join_options
from widetable.schema.derived_options import index_options
from widetable.schema.table_schema import TableSchema

LEFT = "left"


@dataclass(frozen=True)
class JoinDefinition:
    """A join. left, right: `db.name`. left_on, right_on: the compared columns, in the same order."""

    left: str
    right: str
    left_on: tuple[str, ...]
    right_on: tuple[str, ...]
    how: str
    max_matches: int

    def options(self) -> dict[str, str]:
        """Return the options that store the definition in the joined table."""
        pairs = zip(self.left_on, self.right_on, strict=True)
        return {
            join_options.LEFT.key: self.left,
            join_options.RIGHT.key: self.right,
            join_options.ON.key: ",".join(f"{left}={right}" for left, right in pairs),
            join_options.HOW.key: self.how,
            join_options.MAX_MATCHES.key: str(self.max_matches),
        }


class KeyAccess(Enum):
    """How rows are found by a join key."""

    KEY = "the whole primary key"
    PREFIX = "its leading columns"
    INDEX = "an index on it"


@dataclass(frozen=True)
class JoinedPlan:
    """A checked join. by_key: see the module docstring. left_columns, right_columns: the columns of each side, in the
    joined table's order. key, partition_by, columns: those of the joined table.
    """

    definition: JoinDefinition
    by_key: bool
    left_access: KeyAccess
    right_access: KeyAccess
    left_key: tuple[str, ...]
    left_columns: tuple[str, ...]
    right_columns: tuple[str, ...]
    key: tuple[str, ...]
    partition_by: tuple[str, ...]
    columns: pa.Schema

    @property
    def right_read_columns(self) -> tuple[str, ...]:
        """Return the columns that are read of the right table: the join key, then `right_columns`."""
        return (*self.definition.right_on, *self.right_columns)

    @property
    def is_left(self) -> bool:
        return self.definition.how == LEFT


def definition_of(schema: TableSchema) -> JoinDefinition | None:
    """Return the join that a table holds; None for other tables."""
    options = schema.typed_options
    left, right = options.get(join_options.LEFT), options.get(join_options.RIGHT)
    if left is None or right is None:
        return None
    pairs = [text.partition("=") for text in options.get(join_options.ON)]
    how, most = options.get(join_options.HOW), options.get(join_options.MAX_MATCHES)
    on = [(one.strip(), equals, other.strip()) for one, equals, other in pairs]
    if not on or not all(map(all, on)):
        raise _invalid(
            f"option {join_options.ON.key!r}",
            repr(schema.options.get(join_options.ON.key)),
            "left_column=right_column, more of them after a comma",
            "Create the table again, with the columns to join on.",
        )
    lefts, rights = tuple(each[0] for each in on), tuple(each[2] for each in on)
    return JoinDefinition(left, right, lefts, rights, how, most)


def join_plan(
    definition: JoinDefinition,
    left: TableSchema,
    right: TableSchema,
    out_columns: Collection[str] | None = None,
) -> JoinedPlan:
    """Plan a join. left, right: the schemas of the two tables. out_columns: the joined table's; None if it is new."""
    _check_on(definition, left, right)
    left_on, right_on = definition.left_on, definition.right_on
    others = [name for name in right.names if name not in right_on]
    left_columns = _common(left.names, out_columns)
    right_columns = _common(others, out_columns)
    _check_clash(definition, left_columns, right_columns)
    by_key = set(right_on) == set(right.primary_keys)
    if definition.how == LEFT and not by_key:
        raise UnsupportedError(
            f"option {join_options.HOW.key!r}",
            found=f"'left', and {right_on} is not the primary key of {definition.right}, {right.primary_keys}",
            expected="an inner join, or one on the right table's whole primary key",
            action="Use an inner join, or create the right table with the join key as its primary key.",
        )
    many_key = (*left_on, *_rest(left, left_on), *_rest(right, right_on))
    return JoinedPlan(
        definition,
        by_key,
        key_access(left, left_on, definition.left),
        key_access(right, right_on, definition.right),
        left.primary_keys,
        left_columns,
        right_columns,
        left.primary_keys if by_key else many_key,
        left.partition_keys if by_key else (),
        _columns(definition, left.arrow_schema(left_columns), right.arrow_schema(right_columns)),
    )


def key_access(schema: TableSchema, columns: Sequence[str], table: str) -> KeyAccess:
    """Return how rows of a table are found by values of all these columns. table: its name, for the error."""
    names = set(columns)
    if names == set(schema.primary_keys):
        return KeyAccess.KEY
    if any(set(prefix) == names for prefix in key_prefixes(schema)):
        return KeyAccess.PREFIX
    if any(set(index.columns) == names for index in index_options(schema.options)):
        return KeyAccess.INDEX
    raise UnsupportedError(
        f"join key ({', '.join(columns)}) of {table}",
        found=f"a table with the primary key ({', '.join(schema.primary_keys)}), "
        f"partitioned by ({', '.join(schema.partition_keys)}), the bucket key ({', '.join(schema.bucket_keys)})",
        expected="an index on the join key, or the join key first in the primary key, the bucket key and all "
        "partition columns in it",
        action=f"Give {table} the option 'index.{','.join(columns)}' = <database>.<table>, or create it with the join "
        f"key first in its primary key and option 'bucket-key' = {','.join(columns)}.",
    )


def key_prefixes(schema: TableSchema) -> list[tuple[str, ...]]:
    """Return the leading parts of the key that determine the bucket of their rows, the shortest first."""
    trimmed = schema.trimmed_primary_key
    prefixes = [(*schema.partition_keys, *trimmed[:count]) for count in range(1, len(trimmed))]
    return [names for names in prefixes if set(schema.bucket_keys) <= set(names)]


def check_joined(plan: JoinedPlan, schema: TableSchema) -> None:
    """Raise InvalidError if the table does not fit the join, for example after it or a source was altered."""
    accept(schema, Use.JOIN)
    for what, actual, expected in (
        ("primary key", schema.primary_keys, plan.key),
        ("partition columns", schema.partition_keys, plan.partition_by),
    ):
        if actual != expected:
            raise _invalid(
                f"{what} of the joined table",
                f"({', '.join(actual)})",
                f"({', '.join(expected)})",
                "Create the table with DeltaJoin.create.",
            )
    _check_columns(plan, schema)
    if not plan.by_key:
        key_access(schema, plan.definition.left_on, "the joined table")


def _check_columns(plan: JoinedPlan, schema: TableSchema) -> None:
    for name in schema.names:
        if name not in plan.columns.names:
            raise _invalid(
                f"column {name!r} of the joined table",
                f"no such column in {plan.definition.left} or {plan.definition.right}",
                "columns of the two tables",
                "Add it to one of them, drop it here, or create the joined table again.",
            )
        actual, expected = schema.arrow_field(name).type, plan.columns.field(name).type
        if actual != expected:
            raise _invalid(
                f"column {name!r} of the joined table",
                f"the type {actual}",
                f"{expected}, as in the table that it comes from",
                "Change its type with Catalog.alter_table, or create the joined table again.",
            )


def _check_on(definition: JoinDefinition, left: TableSchema, right: TableSchema) -> None:
    sides = (
        (definition.left_on, left, definition.left),
        (definition.right_on, right, definition.right),
    )
    for names, schema, table in sides:
        for name in names:
            if name not in schema.by_name or names.count(name) > 1:
                raise _invalid(
                    f"option {join_options.ON.key!r}",
                    f"{name!r} of {table}, {'no such column' if name not in schema.by_name else 'twice'}",
                    f"columns of the table, each once: {', '.join(schema.names)}",
                    "Correct the name.",
                )
    for one, other in zip(definition.left_on, definition.right_on, strict=True):
        kinds = left.arrow_field(one).type, right.arrow_field(other).type
        if kinds[0] != kinds[1]:
            raise _invalid(
                f"option {join_options.ON.key!r}",
                f"{one!r} of type {kinds[0]} and {other!r} of type {kinds[1]}",
                "columns of one type",
                "Change the type of one of them, or join on other columns.",
            )


def _check_clash(
    definition: JoinDefinition, lefts: Collection[str], rights: Collection[str]
) -> None:
    for name in rights:
        if name in lefts:
            raise _invalid(
                f"column {name!r}",
                f"the same name in {definition.left} and in {definition.right}",
                "different names, unless the join compares the columns",
                "Rename the column in one of the two tables.",
            )


def _rest(schema: TableSchema, on: Collection[str]) -> tuple[str, ...]:
    return tuple(name for name in schema.primary_keys if name not in on)


def _common(names: Collection[str], chosen: Collection[str] | None) -> tuple[str, ...]:
    return tuple(name for name in names if chosen is None or name in chosen)


def _columns(definition: JoinDefinition, left: pa.Schema, right: pa.Schema) -> pa.Schema:
    if definition.how == LEFT:
        right = pa.schema([field.with_nullable(True) for field in right])
    return pa.schema([*left, *right])


def _invalid(subject: str, actual: str, expected: str, action: str) -> InvalidError:
    return InvalidError(subject, found=actual, expected=expected, action=action)
