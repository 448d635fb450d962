"""Makes the rows of a served log of requests, a column at a time.

    requests    number 5: keys 7, 9, values 3, null        rows   _request 5 _row 0 user 7 clicks 3
                number 6: keys 7,    values 3                     _request 5 _row 1 user 9 clicks null
                                                                  _request 6 _row 0 user 7 clicks 3

Requests that asked the same of the same schema have the same columns; their answers are put together as they are, and
what only some requests have is null in the rows of others. In: requests by their numbers. Out: rows with the columns
of the log. Pure. Raises nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from widetable.derive.served.request_text import text_of
from widetable.derive.served.served_table import OWN, value_column
from widetable.operations.windows.served_request import ServedRequest


class LogOrigin(NamedTuple):
    """Whose answers these are. keys: the key columns of the table, by which values are named."""

    session: str
    table: str
    branch: str
    keys: tuple[str, ...]


def log_rows(requests: Sequence[tuple[int, ServedRequest]], origin: LogOrigin) -> pa.Table:
    """Return the rows of requests that have one key or more."""
    groups: dict[Any, list[tuple[int, ServedRequest]]] = {}
    for number, request in requests:
        group = (request.asked, request.answered.schema_id)
        groups.setdefault(group, []).append((number, request))
    parts = [_rows_of_group(group, origin) for group in groups.values()]
    # In one piece: a writer does each piece by itself, and here each answer is one.
    return pa.concat_tables(parts, promote_options="default").combine_chunks()


def _rows_of_group(group: Sequence[tuple[int, ServedRequest]], origin: LogOrigin) -> pa.Table:
    requests = [request for _, request in group]
    counts = np.array([request.keys.num_rows for request in requests])
    total = int(counts.sum())
    ends = np.cumsum(counts)
    rows = np.arange(total) - np.repeat(ends - counts, counts)
    keys = pa.Table.from_batches([request.keys for request in requests])
    values = pa.concat_tables([request.values for request in requests])

    def repeated(each: Sequence[Any], kind: pa.DataType) -> pa.Array:
        return pa.array(each, kind).take(pa.array(np.repeat(np.arange(len(counts)), counts)))

    def constant(text: str) -> pa.Array:
        return pa.repeat(text, total)

    answered = [request.answered for request in requests]
    own = [
        constant(origin.session),
        repeated([number for number, _ in group], pa.int64()),
        pa.array(rows.astype(np.int32)),
        repeated([request.at for request in requests], pa.timestamp("us")),
        constant(origin.table),
        constant(origin.branch),
        repeated([each.id for each in answered], pa.int64()),
        repeated([each.mark for each in answered], pa.string()),
        repeated([each.schema_id for each in answered], pa.int64()),
        constant(text_of(requests[0].asked)),
    ]
    names = [value_column(name, origin.keys) for name in values.column_names]
    return pa.Table.from_arrays(
        [*own, *keys.columns, *values.columns], [*OWN.names, *keys.column_names, *names]
    )
