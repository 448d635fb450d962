"""All versions of the rows of a table, as far as its history and its snapshots go: for feature stores.

    key  columns  _from  _snapshot  _place  _deleted  _time         as the history table has them (history_columns)

In: a table. Out: an Arrow table, the versions of a key in the order of snapshots and places; keys are those that the
table has now. Memory: the result. Raises NotFoundError where versions are missing between history and snapshots, and
what scans and lookups raise.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from widetable.derive.versions.event_micros import event_micros
from widetable.derive.versions.held_past import held_past
from widetable.derive.versions.past_versions import past_versions
from widetable.schema.history_columns import FROM
from widetable.table import Table

_UTC: Final = pa.timestamp("us", "UTC")


def row_versions(
    table: Table, columns: Sequence[str], time: str = FROM, unit: str | None = None
) -> pa.Table:
    """Read the versions of all rows that a table has now.

    Parameters
    ----------
    table : Table
        The table, with or without a history.
    columns : list of str
        The columns to read besides the key.
    time : str, default "_from"
        The column that dates a version, or `_from`, the time of its commit. A version without a time is left out.
    unit : str, default None
        `seconds`, `millis`, `micros` or `nanos` for a column of numbers.

    Returns
    -------
    pyarrow.Table
        The key, the columns, `_from`, `_snapshot`, `_place`, `_deleted`, and `_time`, TIMESTAMP of microseconds in UTC.
        A row for each version.

    Raises
    ------
    NotFoundError
        Versions between the history and the snapshots are missing, or there is no such column.
    """
    key = table.schema.primary_keys
    read = dict.fromkeys([*columns, *({time} - {FROM})])
    with ExitStack() as stack:
        past = held_past(table, stack)
        keys = table.scan(columns=list(key)).to_arrow().combine_chunks()
        batches = keys.to_batches() or [pa.RecordBatch.from_pylist([], keys.schema)]
        rows = past_versions(past, batches[0], [name for name in read if name not in key]).rows
    rows = rows.filter(pc.is_valid(rows[time]))
    micros = pa.array(event_micros(rows[time], unit))
    return rows.append_column("_time", micros.cast(_UTC))
