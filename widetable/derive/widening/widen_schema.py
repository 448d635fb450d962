"""The columns of a widened table: the option `widen.<fk>` adds columns of the dimension to the fact.

In: the columns and options of the caller, and the tables of the warehouse. Out: what has to be added: the widened
columns in the dim's types, `_widen_<fk>` BIGINT, and the sequence group of both. Existing columns must have these
types. Raises InvalidError for a dim with another key or types and for tables that widen each other, NotFoundError for a
missing dim.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias

import pyarrow as pa

from widetable.commit.barriers.barrier_table import one_interval
from widetable.errors import InvalidError, NotFoundError
from widetable.schema.barrier_options import BARRIER_INTERVAL
from widetable.schema.derived_options import WidenOption, widen_options
from widetable.schema.options import TableOptions
from widetable.schema.table_schema import TableSchema

# It returns the newest schema of a table by `db.name`, or raises NotFoundError.
SchemaOf: TypeAlias = Callable[[str], TableSchema]


def widened_columns(
    name: str,
    fields: pa.Schema,
    options: Mapping[str, str],
    schema_of: SchemaOf,
    typed: TableOptions,
) -> tuple[list[pa.Field], dict[str, str]]:
    """Return (columns to add at the end, options to add). name: `db.name` of the fact. options: those that may widen
    it. typed: all its options.

        fields id, cust    widen.cust = db.dim(city as c_city)
        columns c_city STRING, _widen_cust BIGINT    option fields._widen_cust.sequence-group = c_city

    An option of the caller is not changed.
    """
    added: list[pa.Field] = []
    groups: dict[str, str] = {}
    for widen in widen_options(options):
        check_acyclic(name, widen, schema_of)
        dim = schema_of(widen.table)
        check_one_interval(widen, name, typed, dim)
        wanted = wanted_columns(widen, fields, dim)
        added += [field for field in wanted if field.name not in fields.names]
        groups.setdefault(f"fields.{widen.sequence}.sequence-group", ",".join(widen.columns))
    return added, {key: value for key, value in groups.items() if key not in options}


def check_one_interval(
    widen: WidenOption, fact: str, options: TableOptions, dim: TableSchema
) -> None:
    """Refuse a dim that is not under the barriers of the fact, if the fact has any: the dim is read as of these."""
    interval = options.get(BARRIER_INTERVAL)
    if interval is not None:
        intervals = {fact: interval, widen.table: dim.typed_options.get(BARRIER_INTERVAL)}
        one_interval(f"option {widen.key!r}", intervals)


def check_acyclic(name: str, widen: WidenOption, schema_of: SchemaOf) -> None:
    """Raise InvalidError if tables widen each other in a circle; the error names the whole circle.

    A circle would never end: each round of one table is a change for the next.
    """
    waiting: list[tuple[str, ...]] = [(widen.table,)]
    seen: set[str] = set()
    while waiting:
        path = waiting.pop()
        if path[-1] == name:
            raise _wrong(
                widen,
                f"a circle: {' is widened from '.join((name, *path))}",
                "tables that do not widen each other",
            )
        if path[-1] not in seen:
            seen.add(path[-1])
            further = widen_options(schema_of(path[-1]).options)
            waiting += [(*path, each.table) for each in further]


def wanted_columns(widen: WidenOption, fields: pa.Schema, dim: TableSchema) -> list[pa.Field]:
    """Return the columns that a fact with these fields needs for the option.

    Raises InvalidError if one has another type, or if the dim's key is not one column; NotFoundError for a column that
    the dim does not have.
    """
    types = {field.name: field.type for field in fields}
    key = dim.primary_keys
    if len(key) != 1:
        raise _wrong(
            widen, f"{widen.table} with the key {', '.join(key)}", "a dim whose key is one column"
        )
    key_type = dim.arrow_schema(key).field(0).type
    if types.get(widen.column) not in (None, key_type):
        raise _wrong(
            widen,
            f"{widen.column!r} of type {types[widen.column]}",
            f"{key_type}, the type of {key[0]!r} of {widen.table}",
        )
    for theirs in widen.columns.values():
        if theirs not in dim.by_name:
            raise NotFoundError(
                f"option {widen.key!r}",
                found=f"the column {theirs!r}, which {widen.table} does not have",
                expected=f"some of {', '.join(dim.names)}",
                action="Correct the option, or add the column again.",
            )
    wanted = [pa.field(own, dim.arrow_field(theirs).type) for own, theirs in widen.columns.items()]
    wanted.append(pa.field(widen.sequence, pa.int64()))
    for field in wanted:
        if types.get(field.name, field.type) != field.type:
            raise _wrong(
                widen,
                f"{field.name!r} of type {types[field.name]}",
                f"{field.type}, the type in {widen.table}",
            )
    return wanted


def _wrong(widen: WidenOption, actual: str, expected: str) -> InvalidError:
    return InvalidError(
        f"option {widen.key!r}", found=actual, expected=expected, action="Correct the option."
    )
