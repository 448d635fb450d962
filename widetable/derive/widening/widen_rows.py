"""The rows that a widener writes: those of a fact table whose widened columns are others than the dim has.

In: facts that may have others, piece by piece, and the dim by key. Out: the key, columns that every writer must carry,
the widened ones with their number, cut to what one commit takes. Raises what reading both raises.
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


def asked_columns(schema: TableSchema, option: WidenOption) -> list[str]:
    """Of a fact, to know what is to be written of it; the foreign key comes besides."""
    return [*carried_columns(schema, option), *option.columns, option.sequence]


def differing(
    schema: TableSchema,
    option: WidenOption,
    number: int,
    candidates: Iterable[pa.Table],
    dim: LookupView,
) -> Iterator[pa.Table]:
    """What is to be written, empty first: the last piece may have no rows. candidates: `asked_columns` and the foreign
    key. dim: gives the widened columns. number: of the round.

    A foreign key that is null, or leads to no row of the dim, has nulls: they are compared and
    written like values. All columns are nullable here, whatever the table says.
    """
    carried = carried_columns(schema, option)
    names = [*carried, *option.columns, option.sequence]
    yield _nullable(schema, names).empty_table()
    for rows in candidates:
        found = dim.lookup(one_array(rows.column(option.column)))
        same = equal_rows(rows.select(list(option.columns)), found)
        numbers = _numbers(number, rows.column(option.sequence))
        arrays = [*rows.select(carried).columns, *found.columns, numbers]
        written = pa.Table.from_arrays(arrays, schema=_nullable(schema, names))
        yield written.filter(pa.array(~same))


def pieces(fact: OpenTable, tables: Iterator[pa.Table]) -> Iterator[tuple[pa.Table, bool]]:
    """Joined and cut to what one commit takes, one at least; with whether it is the last.

    Tables of 2 and 5 rows, at most 3 in a piece: pieces of 3, 3 and 1 rows. What is cut off has
    rows behind it, so it is never the last.
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
    """That of the round; higher for rows with a higher one, which somebody wrote while they were not widened, or a
    widener that nobody remembers (decision 0005): theirs would win for good.

    In round 5 rows that have null, 3 and 7 get 5, 5 and 8.
    """
    return pc.max_element_wise(pa.scalar(number, pa.int64()), pc.add(before, 1))


def _nullable(schema: TableSchema, names: Sequence[str]) -> pa.Schema:
    return pa.schema([schema.arrow_schema([name]).field(0).with_nullable(True) for name in names])
