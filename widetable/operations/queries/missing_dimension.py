"""Explains why a widened column is null: what its dimension has for the foreign key.

    fact    order 100, customer 9, customer_city null          dim shop.customers
    said    shop.customers has no row 9 at snapshot 4

In: an open fact table, and one row of it. Out: a sentence. If the newest state of the fact is read, so is that of the
dim; for a snapshot, the dim is read as of its time. Errors of the dim are not raised: the sentence says them instead.
"""

from __future__ import annotations

from contextlib import closing
from datetime import datetime, timezone

import pyarrow as pa

from widetable.errors import WidetableError
from widetable.format.printed_value import printed
from widetable.operations.handle.chosen_state import ChosenState, chosen_state
from widetable.operations.handle.neighbour import neighbour
from widetable.operations.handle.open_table import OpenTable
from widetable.operations.queries.lookup_view import LookupView
from widetable.schema.derived_options import WidenOption


def why_null(
    fact: OpenTable,
    chosen: ChosenState,
    row: pa.RecordBatch,
    widen: WidenOption,
    column: str,
    *,
    is_newest: bool,
) -> str:
    """Return the reason. row: the key of the fact. column: null in the fact. is_newest: whether the newest state is
    read.
    """
    with closing(LookupView(chosen, [widen.column])) as view:
        foreign = view.rows_of(row).column(widen.column)
    if foreign.null_count:
        return f"{widen.column} is null, so no row of {widen.table} belongs to it"
    try:
        dim = neighbour(fact, widen.table, f"option {widen.key!r}")
        millis = None if is_newest or chosen.snapshot is None else chosen.snapshot.time_millis
        at = None if millis is None else datetime.fromtimestamp(millis / 1000, timezone.utc)
        return _of_dim(dim, chosen_state(dim, timestamp=at), foreign, widen, widen.columns[column])
    except WidetableError as error:
        return f"{widen.table} cannot be read: {error}"


def _of_dim(
    dim: OpenTable, chosen: ChosenState, foreign: pa.ChunkedArray, widen: WidenOption, column: str
) -> str:
    (key,) = chosen.state.schema.primary_keys
    (value,) = printed(foreign)
    place = ": it has no snapshot"
    if chosen.snapshot is not None:
        place = f" at snapshot {chosen.snapshot.id}"
    with closing(LookupView(chosen, [key, column])) as view:
        row = view.lookup(pa.table({key: foreign}))
    if row.column(key).null_count:
        return f"{widen.table} has no row {value!r}{place}"
    if row.column(column).null_count:
        return f"{column} is null in the row {value!r} of {widen.table}{place}"
    return f"{widen.table} has the row {value!r}{place}: the next round of maintain brings its {column}"
