"""Where to cut a table into ranges of its key, by a sample of its blocks.

A table and the wanted rows of a range go in. Bounds come out, ascending: k bounds make k + 1 ranges, each with about as
many rows, so gaps and lumps of keys do no harm. The sample is one short statement over at most `SAMPLED_PAGES` pages,
and it need not be exact: all ranges together hold every key in any case. Raises what `server_errors` raises.
"""

from __future__ import annotations

import itertools
from typing import Final

import numpy as np
import numpy.typing as npt

from widetable_cdc.source.chunk_range import LIMITS, ChunkRange, KeyKind, kind_of, numbers_of
from widetable_cdc.source.server_errors import server_errors
from widetable_cdc.source.session import open_arrow_session
from widetable_cdc.source.source_table import SourceTable
from widetable_cdc.source.sql_name import qualified, quoted

SAMPLED_PAGES: Final = 2000
_PAGES: Final = """
SELECT coalesce(sum(pg_relation_size(relid)), 0)::int8 / current_setting('block_size')::int8 AS pages
FROM (SELECT {oid}::oid::regclass AS relid WHERE (SELECT relkind FROM pg_class WHERE oid = {oid}) = 'r'
      UNION ALL SELECT relid FROM pg_partition_tree({oid}::oid::regclass) WHERE isleaf
        AND (SELECT relkind FROM pg_class WHERE oid = {oid}) = 'p') AS leaves
"""
# What is sampled of a key: a type that `numbers_of` takes, and finite values.
_SAMPLED: Final = {
    KeyKind.INTEGER: "{0}::int8",
    KeyKind.UUID: "{0}::text",
    KeyKind.DATE: "{0}",
    KeyKind.TIMESTAMP: "{0}",
    KeyKind.TIMESTAMPTZ: "{0}",
}
_FINITE: Final = {KeyKind.DATE, KeyKind.TIMESTAMP, KeyKind.TIMESTAMPTZ}


def key_ranges(dsn: str, name: str, table: SourceTable, rows: int) -> tuple[ChunkRange, ...]:
    """Return ranges of about `rows` rows that together hold all of the table; one if its key cannot be cut."""
    types = {column.name: column.type for column in table.columns}
    column = table.key[0] if table.key else ""
    kind = kind_of(types[column]) if column in types else None
    if kind is None:
        return (ChunkRange(),)
    sample, count = _sampled(dsn, name, table, column, kind)
    low, high = LIMITS[kind]
    bounds = [int(each) for each in bounds_of(sample, count, rows) if low <= each <= high]
    ends = [None, *bounds, None]
    return tuple(ChunkRange(column, kind, begin, end) for begin, end in itertools.pairwise(ends))


def bounds_of(sample: npt.NDArray[np.int64], count: float, rows: int) -> npt.NDArray[np.int64]:
    """Return bounds, ascending, without repeats. sample: n keys of the table's `count`. Pure."""
    ranges = int(min(np.ceil(count / max(1, rows)), len(sample)))
    if ranges <= 1:
        return np.empty(0, np.int64)
    ordered = np.sort(sample)
    bounds: npt.NDArray[np.int64] = np.unique(
        ordered[np.arange(1, ranges) * len(ordered) // ranges]
    )
    # Below the least key of the sample lies about nothing.
    above: npt.NDArray[np.int64] = bounds[bounds > ordered[0]]
    return above


def _sampled(
    dsn: str, name: str, table: SourceTable, column: str, kind: KeyKind
) -> tuple[npt.NDArray[np.int64], float]:
    """Return keys of some blocks, as numbers, and about how many rows the table has."""
    subject = f"the table {table.schema}.{table.name}"
    key = quoted(column)
    where = f"WHERE isfinite({key})" if kind in _FINITE else ""
    connection = open_arrow_session(dsn, name)
    try:
        with server_errors(subject), connection.cursor() as cursor:
            cursor.execute(_PAGES.format(oid=table.oid))
            pages = cursor.table()["pages"][0].as_py()
            percent = min(100.0, 100.0 * SAMPLED_PAGES / max(1, pages))
            cursor.execute(
                f"SELECT {_SAMPLED[kind].format(key)} AS k FROM {qualified(table.schema, table.name)} "
                f"TABLESAMPLE SYSTEM ({percent}) {where}"
            )
            keys = cursor.table()["k"].combine_chunks()
    finally:
        connection.close()
    return numbers_of(keys, kind), len(keys) * 100.0 / percent
