"""Which rows of a data file a filter may keep, by the indexes of the file's columns.

The answer has all rows that the filter keeps, and perhaps more. None stands for "any row": no index says more. Parts of
the filter that no index answers are "any row", so an AND takes the rows of the others, and an OR is any row.

    user = 'u7'                            the Bloom filter lacks u7        no row
    country = 'NO' AND size > 3            the bitmap of NO                 rows 4, 9
    country = 'NO' OR size > 3             nothing is known of size         any row
    NOT country IS NULL                    the bitmap of null, turned       all but row 2

Other conditions below a NOT are any row: an index may have rows too many, so the rest may lack some. Raises what the
indexes raise.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any, Final

from pyroaring import BitMap

from widetable.format.file_index.column_indexes import ColumnIndex, ColumnIndexes
from widetable.format.file_index.indexed_values import sought_values
from widetable.read.literal import Comparable, holds
from widetable.read.predicate import And, Compare, In, IsNull, Node, Not, Or, Truth
from widetable.schema.types import DataField


def rows_kept(node: Node, indexes: ColumnIndexes, rows: int) -> BitMap | None:
    """Return the rows of a file that a filter may keep. rows: how many the file has, with deleted ones."""
    rule = _RULES.get(type(node))
    return None if rule is None else rule(node, indexes, rows)


def _both(one: BitMap | None, other: BitMap | None) -> BitMap | None:
    if one is None or other is None:
        return one if other is None else other
    return one & other


def _and(node: And, indexes: ColumnIndexes, rows: int) -> BitMap | None:
    kept: BitMap | None = None
    for part in node.parts:
        kept = _both(kept, rows_kept(part, indexes, rows))
        if kept is not None and not kept:
            break  # the other parts need not be read
    return kept


def _or(node: Or, indexes: ColumnIndexes, rows: int) -> BitMap | None:
    kept = BitMap()
    for part in node.parts:
        of_part = rows_kept(part, indexes, rows)
        if of_part is None:
            return None
        kept |= of_part
    return kept


def _not(node: Not, indexes: ColumnIndexes, rows: int) -> BitMap | None:
    if not isinstance(node.part, IsNull):
        return None
    null = rows_kept(node.part, indexes, rows)
    return None if null is None else BitMap(range(rows)) - null


def _compare(node: Compare, indexes: ColumnIndexes, rows: int) -> BitMap | None:
    if node.op != "=":
        return None
    return _rows_with(node.column, [node.value], indexes.get(node.column.name, ()))


def _in(node: In, indexes: ColumnIndexes, rows: int) -> BitMap | None:
    return _rows_with(node.column, node.values, indexes.get(node.column.name, ()))


def _rows_with(
    column: DataField, values: Sequence[Comparable], indexes: Sequence[ColumnIndex]
) -> BitMap | None:
    if not indexes:
        return None
    possible = [value for value in values if holds(column.type, value)]
    sought = sought_values(possible, column.type)
    return reduce(_both, (index.rows_with(sought) for index in indexes))


def _null(node: IsNull, indexes: ColumnIndexes, rows: int) -> BitMap | None:
    return reduce(_both, (i.null_rows() for i in indexes.get(node.column.name, ())), None)


_RULES: Final[dict[type, Callable[[Any, ColumnIndexes, int], BitMap | None]]] = {
    And: _and,
    Or: _or,
    Not: _not,
    Compare: _compare,
    In: _in,
    IsNull: _null,
    Truth: lambda node, indexes, rows: None if node.value else BitMap(),
}
