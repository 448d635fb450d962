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

from typing import Any, NamedTuple

import pyarrow as pa

from widetable.acceptance.acceptance import Use, accept
from widetable.arguments import mapping, names, refused, text
from widetable.kernels.array_types import Positions
from widetable.operations.queries.entity_rows import entity_times, given_rows, one_column
from widetable.operations.queries.lookup_keys import key_rows
from widetable.operations.windows.time_micros import time_micros
from widetable.schema.table_schema import TableSchema


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
    rows = given_rows(entities, schema, {key: column for column, key in columns.items()})
    own = [one_column(rows, name) for name in columns]
    keys = pa.Table.from_arrays(own, list(columns.values()))
    times = time_micros(entity_times(rows, text(at, "at")))
    return EntityRows(rows, key_rows(keys, schema), times)


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
