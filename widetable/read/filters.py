"""From what a caller gives as a filter, text or a pyarrow expression, to a `Predicate`.

Raises InvalidError naming the column or the filter.

    text                 its tree, and the expression that is made of it
    an expression        itself, and a tree of what could be read of it, which is to be no narrower
"""

from __future__ import annotations

from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from widetable.arguments import refused, text
from widetable.errors import InvalidError
from widetable.read.filter_expression import parse_expression
from widetable.read.predicate import Predicate, columns_of, to_expression
from widetable.runtime.forked_child import UNFORKABLE
from widetable.schema.table_schema import TableSchema

_SHALLOW: Final = "a condition that is not nested as deep"


def parse(given: str | pc.Expression, schema: TableSchema) -> Predicate:
    """The predicate of a filter over the columns of `schema`, checked against their types before
    any row is read.
    """
    if isinstance(given, str):
        # Here, because most processes (every Spark worker) never parse a filter, and sqlglot is slow to import.
        with UNFORKABLE:  # a child would wait for a module that nobody imports any more
            from widetable.read.filter_text import parse_text

        try:
            tree = parse_text(text(given, "filter"), schema)
            return Predicate(tree, to_expression(tree), frozenset(columns_of(tree)))
        except RecursionError:
            raise refused(given, "filter", _SHALLOW) from None
    if not isinstance(given, pc.Expression):
        raise InvalidError(
            "filter",
            found=f"a value of type {type(given).__name__}",
            expected="text with a SQL condition, or a pyarrow expression",
            action="Correct the argument.",
        )
    try:
        tree, columns = parse_expression(given, schema)
    except RecursionError:
        raise refused(given, "filter", _SHALLOW) from None
    predicate = Predicate(tree, given, columns)
    _check(predicate, schema)
    return predicate


def _check(predicate: Predicate, schema: TableSchema) -> None:
    names = [name for name in schema.names if name in predicate.columns]
    try:
        schema.arrow_schema(names).empty_table().filter(predicate.expression)
    except pa.ArrowException as cause:
        raise InvalidError(
            f"filter {predicate.expression}",
            found=str(cause).splitlines()[0],
            expected=f"a condition that compares with the types of {', '.join(names) or 'the columns'}",
            action="Correct the filter.",
        ) from cause
