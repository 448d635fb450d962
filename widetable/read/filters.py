"""Parses the filter of a caller, text or a pyarrow expression, into a `Predicate`.

Raises InvalidError naming the column or the filter.

    text                 its tree, and the expression of that tree
    an expression        the expression itself, and the tree of its parsed parts, which must not be narrower
"""

from __future__ import annotations

from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from widetable.arguments import refused, text
from widetable.errors import InvalidError
from widetable.read.filter_expression import parse_expression
from widetable.read.predicate import Predicate, columns_of, filtered, to_expression
from widetable.runtime.forked_child import UNFORKABLE
from widetable.schema.table_schema import TableSchema

_SHALLOW: Final = "a condition that is less deeply nested"


def parse(condition: str | pc.Expression, schema: TableSchema) -> Predicate:
    """Return the predicate of a filter over the columns of `schema`. It is checked against the types of the columns
    before any row is read.
    """
    if isinstance(condition, str):
        # Imported here, because most processes (every Spark worker) parse no filter, and sqlglot is slow to import.
        with UNFORKABLE:  # a forked child would wait for the import lock of a thread that it lacks
            from widetable.read.filter_text import parse_text

        try:
            tree = parse_text(text(condition, "filter"), schema)
            return Predicate(tree, to_expression(tree), frozenset(columns_of(tree)))
        except RecursionError:
            raise refused(condition, "filter", _SHALLOW) from None
    if not isinstance(condition, pc.Expression):
        raise InvalidError(
            "filter",
            found=f"a value of type {type(condition).__name__}",
            expected="text with a SQL condition, or a pyarrow expression",
            action="Correct the argument.",
        )
    try:
        tree, columns = parse_expression(condition, schema)
    except RecursionError:
        raise refused(condition, "filter", _SHALLOW) from None
    predicate = Predicate(tree, condition, columns)
    _check(predicate, schema)
    return predicate


def _check(predicate: Predicate, schema: TableSchema) -> None:
    names = [name for name in schema.names if name in predicate.columns]
    try:
        filtered(schema.arrow_schema(names).empty_table(), predicate.expression)
    except pa.ArrowException as cause:
        raise InvalidError(
            f"filter {predicate.expression}",
            found=str(cause).splitlines()[0],
            expected=f"a condition that matches the types of {', '.join(names) or 'the columns'}",
            action="Correct the filter.",
        ) from cause
