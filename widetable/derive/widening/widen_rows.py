"""The rows that a widener writes: those of a fact table whose widened columns differ from the dim's.

In: candidates, piece by piece, and the dim by key. Out: the key, the columns that every writer must carry, the widened
columns and their number, cut to the size of one commit. Raises what reading both raises.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from widetable.derive.changes.row_difference import equal_rows
from widetable.kernels.arrow_buffers import one_array
from widetable.merge.widened_rules import carried_columns
from widetable.operations.handle.open_table import OpenTable
from widetable.operations.queries.lookup_view import LookupView
from widetable.schema import options as opt
from widetable.schema.derived_options import WidenOption
from widetable.schema.table_schema import TableSchema


def compared_columns(schema: TableSchema, option: WidenOption) -> list[str]:
    """Return the columns of a fact that a round reads, without the foreign key."""
    return [*carried_columns(schema, option), *option.columns, option.sequence]


def differing(
    schema: TableSchema,
    option: WidenOption,
    number: int,
    candidates: Iterable[pa.Table],
    dim: LookupView,
) -> Iterator[pa.Table]:
    """Yield the rows to write. The first table is empty, because the last piece may have no rows.

    candidates: `compared_columns` and the foreign key. dim: returns the widened columns. number: the round's. A foreign
    key that is null, or leads to no row of the dim, gives nulls, which are compared and written like values. All
    columns are nullable here, whatever the table says.
    """
    carried = carried_columns(schema, option)
    names = [*carried, *option.columns, option.sequence]
    yield _nullable(schema, names).empty_table()
    for rows in candidates:
        dims = dim.lookup(one_array(rows.column(option.column)))
        same = equal_rows(rows.select(list(option.columns)), dims)
        numbers = _numbers(number, rows.column(option.sequence))
        arrays = [*rows.select(carried).columns, *dims.columns, numbers]
        written = pa.Table.from_arrays(arrays, schema=_nullable(schema, names))
        yield written.filter(pa.array(~same))


def pieces(fact: OpenTable, tables: Iterator[pa.Table]) -> Iterator[tuple[pa.Table, bool]]:
    """Concatenate the tables and cut them to the size of one commit; yield each piece, and whether it is the last.

    There is at least one piece. Tables of 2 and 5 rows, at most 3 rows in a piece: pieces of 3, 3 and 1 rows.
    """
    most = fact.schema.typed_options.get(opt.WIDEN_PIECE_ROWS)
    waiting: list[pa.Table] = []
    count = 0
    for table in tables:
        waiting.append(table)
        count += table.num_rows
        while count > most:
            joined = pa.concat_tables(waiting)
            yield joined.slice(0, most), False
            waiting, count = [joined.slice(most)], count - most
    yield pa.concat_tables(waiting), True


def _numbers(number: int, before: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return the round's number for each row, or a higher one for a row that has the same number or a higher one.

    Such a row was written while the table was not widened, or by a widener whose progress is lost (decision 0005); with
    a lower number the new values would never win. In round 5 rows that have null, 3 and 7 get 5, 5 and 8.
    """
    return pc.max_element_wise(pa.scalar(number, pa.int64()), pc.add(before, 1))


def _nullable(schema: TableSchema, names: Sequence[str]) -> pa.Schema:
    return pa.schema([schema.arrow_schema([name]).field(0).with_nullable(True) for name in names])
