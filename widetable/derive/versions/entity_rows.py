"""The rows of a training set, before features are added: the keys and times at which features are wanted.

    entities        user  at     label            on {"user": "id"}
                    7     10:05  1
                    8     null   0    ─► InvalidError: row 1

In: rows in any form that `write` takes, with the columns of the primary key and one column of times. Out: the rows as
Arrow, in their order, their keys in the table's types, and their times in microseconds since the epoch.

A time is a TIMESTAMP of any unit, or a DATE, which is its midnight. Without a zone it is UTC. Nanoseconds are rounded
down. Raises InvalidError for columns that are missing or come twice, for keys and times of another type, and for a null
time, with its row.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from widetable.acceptance.acceptance import Use, accept
from widetable.arguments import mapping, names, refused, text
from widetable.errors import InvalidError
from widetable.kernels.array_types import Positions
from widetable.kernels.arrow_buffers import fixed_values, one_array
from widetable.operations.queries.lookup_keys import key_rows
from widetable.schema.table_schema import TableSchema
from widetable.write.row_source import row_source

_DAY_MICROS: Final = 86_400_000_000
_TIMES: Final = "times: TIMESTAMP, with or without a zone, or DATE"


class EntityRows(NamedTuple):
    """The rows of a caller.

    rows: all columns, as they came. keys: one batch with the columns of the primary key. at_micros: int64[n].
    """

    rows: pa.Table
    keys: pa.RecordBatch
    at_micros: Positions


def entity_rows(entities: Any, at: str, on: Any, schema: TableSchema) -> EntityRows:
    """Read the rows of a caller. on: entity columns by their key columns, as in `lookup_join`; None: equal names."""
    accept(schema, Use.LOOK_UP)
    columns = key_columns(on, schema)
    fields = tuple(replace(schema.field(key), name=column) for column, key in columns.items())
    rows = _arrow_rows(entities, replace(schema, fields=fields))
    for name in (*columns, text(at, "at")):
        if rows.column_names.count(name) != 1:
            raise InvalidError(
                f"column {name!r} of entities",
                found="the column twice" if name in rows.column_names else "no such column",
                expected=f"the columns {', '.join(columns)} of the key, and {at} of the times",
                action="Add the column, or name others: `on` maps columns to the key, `at` names the times.",
            )
    keys = pa.Table.from_arrays([rows.column(name) for name in columns], list(columns.values()))
    return EntityRows(rows, key_rows(keys, schema), micros_of(rows.column(at), at))


def key_columns(on: Any, schema: TableSchema) -> dict[str, str]:
    """Return the key column of each entity column that holds one."""
    keys = schema.primary_keys
    if on is None:
        return {name: name for name in keys}
    if isinstance(on, list | tuple):
        chosen = {name: name for name in names(on, "on")}
    else:
        chosen = {column: text(key, f"on[{column!r}]") for column, key in mapping(on, "on").items()}
    if sorted(chosen.values()) != sorted(keys):
        raise refused(on, "on", f"a column for each of {', '.join(keys)}, the key, and no others")
    return chosen


def _arrow_rows(entities: Any, schema: TableSchema) -> pa.Table:
    """Return all rows as one table. Rows without a batch keep the types that they say they have."""
    source = row_source(entities, schema)
    batches = list(source.batches)
    if batches:
        return pa.Table.from_batches(batches)
    if source.columns is None:
        raise InvalidError(
            "entities",
            found="no rows, so the columns are unknown",
            expected="a row, or Arrow data or a frame, which have columns without rows too",
            action="Pass an empty Arrow table with the columns.",
        )
    declared = getattr(entities, "schema", None)
    if isinstance(declared, pa.Schema):
        return declared.empty_table()
    return pa.table(entities).slice(0, 0)


def micros_of(column: pa.ChunkedArray, name: str) -> Positions:
    """Return times in microseconds since the epoch. Raises InvalidError for another type, or a null, with its row."""
    times = one_array(column)
    kind = times.type
    if times.null_count:
        row = pc.index(times.is_null(), True).as_py()
        raise InvalidError(
            f"column {name!r} of entities",
            found=f"null in row {row} (counted from 0)",
            expected="a time in each row",
            action="Leave the row out, or give it a time.",
        )
    if pa.types.is_null(kind):
        return np.empty(0, np.int64)
    try:
        if pa.types.is_date(kind):
            return fixed_values(times.cast(pa.date32()), np.int32).astype(np.int64) * _DAY_MICROS
        if pa.types.is_timestamp(kind):
            if kind.unit == "ns":
                return fixed_values(times, np.int64) // 1000
            return fixed_values(times.cast(pa.timestamp("us", kind.tz)), np.int64)
    except pa.ArrowInvalid as cause:
        raise _no_times(name, f"a time that is out of range: {cause}") from cause
    raise _no_times(name, f"the type {kind}")


def _no_times(name: str, problem: str) -> InvalidError:
    return InvalidError(
        f"column {name!r} of entities",
        found=problem,
        expected=_TIMES,
        action="Convert the column.",
    )
