"""The rows for which features are asked: entity keys, times, and whatever else the caller has in them.

In: rows as the caller gives them, the columns of the entity, and the column with the time. Out: the rows as Arrow,
unchanged, beside the keys in the table's types and the times in microseconds. Raises InvalidError for rows of another
form, a missing column, a key that does not fit its type, and a null time.

    entities   user 7, event_timestamp 12:30, label a        on {"user": "id"}
    given      the same
    keys       id 7
    times      12:30 in microseconds since 1970; a time without a zone is UTC
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, NamedTuple

import pyarrow as pa

from widetable.arguments import mapping, names, text
from widetable.errors import InvalidError
from widetable.kernels.array_types import Positions
from widetable.kernels.arrow_buffers import one_array
from widetable.messages.counted import counted
from widetable.operations.queries.lookup_keys import rows_of
from widetable.operations.windows.tile_rows import checked_micros
from widetable.schema.table_schema import TableSchema
from widetable.write.row_source import row_source

_FORMS: Final = "Arrow data, or a frame"


class TimedEntities(NamedTuple):
    """given: the caller's rows. keys: the entity's columns, in the types of the table; nulls stay. times: one each."""

    given: pa.Table
    keys: pa.RecordBatch
    times: Positions


def entity_rows(
    entities: Any, schema: TableSchema, entity: Sequence[str], at: str, on: Any
) -> TimedEntities:
    """Convert rows that have a time each. on: the caller's columns to those of the table; other names are equal."""
    chosen = entity_columns(entity, on)
    given = given_rows(entities, schema, chosen)
    keys = entity_keys(given, schema, chosen)
    return TimedEntities(given, keys, checked_micros(entity_times(given, text(at, "at"))))


def key_table(
    keys: Any, schema: TableSchema, entity: Sequence[str], on: Any
) -> tuple[pa.Table, pa.RecordBatch]:
    """Convert the keys of a session: rows with columns, or the values of an entity of one column."""
    chosen = entity_columns(entity, on)
    single = next(iter(chosen.values())) if len(chosen) == 1 else None
    given = given_rows(keys, schema, chosen, single)
    return given, entity_keys(given, schema, chosen)


def entity_keys(given: pa.Table, schema: TableSchema, chosen: Mapping[str, str]) -> pa.RecordBatch:
    """Return the columns of the entity in the types of the table. chosen: key columns to the caller's columns."""
    columns = {key: one_column(given, name) for key, name in chosen.items()}
    return rows_of(pa.table(columns), schema, tuple(chosen), lambda _: tuple(chosen))


def entity_columns(entity: Sequence[str], on: Any) -> dict[str, str]:
    """Return the caller's column for each column of the entity."""
    is_list = isinstance(on, list | tuple)
    given = {name: name for name in names(on, "on")} if is_list else mapping(on, "on")
    chosen = {text(key, f"on[{name!r}]"): name for name, key in given.items()}
    for key, name in chosen.items():
        if key not in entity:
            raise InvalidError(
                "on",
                found=f"column {name!r} for {key!r}",
                expected=f"a column for each of {', '.join(entity)}, by the caller's name",
                action="Correct the argument.",
            )
    return {key: chosen.get(key, key) for key in entity}


def given_rows(
    entities: Any, schema: TableSchema, chosen: Mapping[str, str], single: str | None = None
) -> pa.Table:
    """Return the caller's rows. chosen: key columns to the caller's columns. Python's values are converted as writes
    convert them, Arrow's keep their types.
    """
    fields = tuple(replace(schema.field(key), name=name) for key, name in chosen.items())
    source = row_source(entities, replace(schema, fields=fields), single)
    batches = list(source.batches)
    if batches:
        return pa.Table.from_batches(batches)
    declared = getattr(entities, "schema", None)
    if isinstance(declared, pa.Schema):
        return declared.empty_table()
    if source.columns is None:
        raise InvalidError(
            "entities",
            found="no rows, so the columns are unknown",
            expected=f"a row, or {_FORMS} with columns",
            action="Pass an empty Arrow table with the columns.",
        )
    empty = {name: pa.array([], pa.null()) for name in source.columns}
    for key, name in chosen.items():
        if name in empty:
            empty[name] = pa.array([], schema.arrow_field(key).type)
    return pa.table(empty)


def one_column(given: pa.Table, name: str) -> pa.ChunkedArray:
    """Return a column of the caller's rows. Raises InvalidError where there is none, or more than one."""
    count = given.column_names.count(name)
    if count != 1:
        raise InvalidError(
            f"column {name!r} of the entities",
            found="no such column" if not count else f"{counted(count, 'column')} of this name",
            expected=f"one; the columns are {', '.join(given.column_names) or 'none'}",
            action="Name the column, by `on` or `at`, or add it.",
        )
    return given.column(name)


def entity_times(given: pa.Table, at: str) -> pa.Array:
    """Return the column of times, without nulls: TIMESTAMP or DATE."""
    column = one_array(one_column(given, at))
    if column.null_count and len(column):
        row = int(column.is_null().to_numpy(zero_copy_only=False).argmax())
        raise InvalidError(
            f"column {at!r} of the entities",
            found=f"null in row {row}",
            expected="a time in each row",
            action="Leave the row out, or give it a time.",
        )
    if pa.types.is_null(column.type):
        return column.cast(pa.timestamp("us"))
    if not (pa.types.is_timestamp(column.type) or pa.types.is_date(column.type)):
        raise InvalidError(
            f"column {at!r} of the entities",
            found=f"the type {column.type}",
            expected="a timestamp, or a date, which is its midnight; without a zone it is UTC",
            action="Convert the column to timestamps.",
        )
    return column
