"""What a table that holds a join is: which tables, joined on what, in which columns, under which key. Pure.

    by key         the join key is the right table's primary key    keyed as the left table; inner or left
    many to many   it is not                   keyed (join key, rest of the left's key, rest of the right's); inner

The definition lives in the options `join.*` of the table that holds it. Its columns are the left table's, then those of
the right table that are no join key; what the tables gain later is not among them. Both must be findable by the join
key (`way_to`). Raises InvalidError for a definition that does not fit the tables, UnsupportedError for a join that
could only be kept by scans.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from enum import Enum

import pyarrow as pa

from widetable.errors import InvalidError, UnsupportedError
from widetable.schema import join_options
from widetable.schema import options as opt
from widetable.schema.derived_options import index_options
from widetable.schema.table_schema import TableSchema

LEFT = "left"


@dataclass(frozen=True)
class JoinDefinition:
    """left, right: `db.name`. left_on, right_on: columns whose values are equal, in one order."""

    left: str
    right: str
    left_on: tuple[str, ...]
    right_on: tuple[str, ...]
    how: str
    max_matches: int

    def options(self) -> dict[str, str]:
        """As they stand in the table that holds the join."""
        pairs = zip(self.left_on, self.right_on, strict=True)
        return {
            join_options.LEFT.key: self.left,
            join_options.RIGHT.key: self.right,
            join_options.ON.key: ",".join(f"{left}={right}" for left, right in pairs),
            join_options.HOW.key: self.how,
            join_options.MAX_MATCHES.key: str(self.max_matches),
        }


class KeyWay(Enum):
    """How rows are found by a join key."""

    KEY = "the whole primary key"
    PREFIX = "its leading columns"
    INDEX = "an index on it"


@dataclass(frozen=True)
class JoinedPlan:
    """by_key: see the module text. left_columns, right_columns: of each side, in the joined table's order. key,
    partition_by, columns: of the joined table.
    """

    definition: JoinDefinition
    by_key: bool
    left_way: KeyWay
    right_way: KeyWay
    left_key: tuple[str, ...]
    left_columns: tuple[str, ...]
    right_columns: tuple[str, ...]
    key: tuple[str, ...]
    partition_by: tuple[str, ...]
    columns: pa.Schema

    @property
    def asked_of_right(self) -> tuple[str, ...]:
        """The columns that are read there: the join key's, too."""
        return (*self.definition.right_on, *self.right_columns)

    @property
    def is_left(self) -> bool:
        return self.definition.how == LEFT


def definition_of(schema: TableSchema) -> JoinDefinition | None:
    """The join that a table holds; None for other tables."""
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
            "Make the table again, with the columns that are equal.",
        )
    lefts, rights = tuple(each[0] for each in on), tuple(each[2] for each in on)
    return JoinDefinition(left, right, lefts, rights, how, most)


def join_plan(
    definition: JoinDefinition,
    left: TableSchema,
    right: TableSchema,
    wanted: Collection[str] | None = None,
) -> JoinedPlan:
    """left, right: schemas of the two tables. wanted: columns that the joined table has; None: it is made now."""
    _check_on(definition, left, right)
    left_on, right_on = definition.left_on, definition.right_on
    others = [name for name in right.names if name not in right_on]
    left_columns = _wanted(left.names, wanted)
    right_columns = _wanted(others, wanted)
    _check_clash(definition, left_columns, right_columns)
    by_key = set(right_on) == set(right.primary_keys)
    if definition.how == LEFT and not by_key:
        raise UnsupportedError(
            f"option {join_options.HOW.key!r}",
            found=f"'left', and {right_on} is not the primary key of {definition.right}, {right.primary_keys}",
            expected="an inner join, or one on the right table's whole primary key",
            action="Join inner, or make the right table with the join key as its primary key.",
        )
    many_key = (*left_on, *_rest(left, left_on), *_rest(right, right_on))
    return JoinedPlan(
        definition,
        by_key,
        way_to(left, left_on, definition.left),
        way_to(right, right_on, definition.right),
        left.primary_keys,
        left_columns,
        right_columns,
        left.primary_keys if by_key else many_key,
        left.partition_keys if by_key else (),
        _columns(definition, left.arrow_schema(left_columns), right.arrow_schema(right_columns)),
    )


def way_to(schema: TableSchema, columns: Sequence[str], table: str) -> KeyWay:
    """How rows of a table are found by these columns, all of them given. table: its name."""
    wanted = set(columns)
    if wanted == set(schema.primary_keys):
        return KeyWay.KEY
    if any(set(prefix) == wanted for prefix in key_prefixes(schema)):
        return KeyWay.PREFIX
    if any(set(index.columns) == wanted for index in index_options(schema.options)):
        return KeyWay.INDEX
    raise UnsupportedError(
        f"join key ({', '.join(columns)}) of {table}",
        found=f"a table with the primary key ({', '.join(schema.primary_keys)}), "
        f"partitioned by ({', '.join(schema.partition_keys)}), the bucket key ({', '.join(schema.bucket_keys)})",
        expected="an index on the join key, or the join key first in the primary key, the bucket key and all "
        "partition columns in it",
        action=f"Give {table} the option 'index.{','.join(columns)}' = <database>.<table>, or make it with the join "
        f"key first in its primary key and option 'bucket-key' = {','.join(columns)}.",
    )


def key_prefixes(schema: TableSchema) -> list[tuple[str, ...]]:
    """Parts of the key that say in which bucket their rows are, the shortest first."""
    trimmed = schema.trimmed_primary_key
    found = [(*schema.partition_keys, *trimmed[:count]) for count in range(1, len(trimmed))]
    return [names for names in found if set(schema.bucket_keys) <= set(names)]


def check_joined(plan: JoinedPlan, schema: TableSchema) -> None:
    """Raises InvalidError for a table that cannot hold the join: made otherwise, or altered since, or its sources."""
    options = schema.typed_options
    is_plain = {
        opt.MERGE_ENGINE.key: options.get(opt.MERGE_ENGINE) == "deduplicate",
        opt.SEQUENCE_FIELD.key: not options.get(opt.SEQUENCE_FIELD),
        opt.ROWKIND_FIELD.key: options.get(opt.ROWKIND_FIELD) is None,
        opt.IGNORE_DELETE.key: not options.get(opt.IGNORE_DELETE),
    }
    for key, is_right in is_plain.items():
        if not is_right:
            raise _invalid(
                f"option {key!r}",
                f"{schema.options.get(key)!r} of a table that holds a join",
                "the last row of a key to win, and deletes to delete",
                "Leave the option out.",
            )
    for what, found, expected in (
        ("primary key", schema.primary_keys, plan.key),
        ("partition columns", schema.partition_keys, plan.partition_by),
    ):
        if found != expected:
            raise _invalid(
                f"{what} of the joined table",
                f"({', '.join(found)})",
                f"({', '.join(expected)})",
                "Make the table with DeltaJoin.create.",
            )
    _check_columns(plan, schema)
    if not plan.by_key:
        way_to(schema, plan.definition.left_on, "the joined table")


def _check_columns(plan: JoinedPlan, schema: TableSchema) -> None:
    for name in schema.names:
        if name not in plan.columns.names:
            raise _invalid(
                f"column {name!r} of the joined table",
                f"no such column in {plan.definition.left} or {plan.definition.right}",
                "columns of the two tables",
                "Add it there, drop it here, or make the joined table again.",
            )
        found, expected = schema.arrow_field(name).type, plan.columns.field(name).type
        if found != expected:
            raise _invalid(
                f"column {name!r} of the joined table",
                f"the type {found}",
                f"{expected}, as in the table that it comes from",
                "Change its type with Catalog.alter_table, or make the joined table again.",
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
                    f"columns of it, each once: {', '.join(schema.names)}",
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
                f"it in {definition.left} and in {definition.right}",
                "columns of two names, unless they are joined on",
                "Rename the column in one of the two tables.",
            )


def _rest(schema: TableSchema, on: Collection[str]) -> tuple[str, ...]:
    return tuple(name for name in schema.primary_keys if name not in on)


def _wanted(names: Collection[str], wanted: Collection[str] | None) -> tuple[str, ...]:
    return tuple(name for name in names if wanted is None or name in wanted)


def _columns(definition: JoinDefinition, left: pa.Schema, right: pa.Schema) -> pa.Schema:
    if definition.how == LEFT:
        right = pa.schema([field.with_nullable(True) for field in right])
    return pa.schema([*left, *right])


def _invalid(subject: str, found: str, expected: str, action: str) -> InvalidError:
    return InvalidError(subject, found=found, expected=expected, action=action)
