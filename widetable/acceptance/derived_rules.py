"""Checks what tables exclude that are derived from others: joins and indexes, whose rows follow those of other tables.

Raises InvalidError, which names the option or the table to write to, and UnsupportedError for a copy or a branch.
"""

from __future__ import annotations

from widetable.errors import InvalidError, UnsupportedError
from widetable.merge.engine import unchecked_engine
from widetable.merge.merge_engine import RowOrigin
from widetable.schema import join_options
from widetable.schema import options as opt
from widetable.schema.field_options import DERIVED_OPTION
from widetable.schema.table_schema import TableSchema


def check_given_rows(schema: TableSchema) -> None:
    """Refuse rows from a user for a table that only a join may write, or that is an index of another one.

    Raises InvalidError, which names the table to write to instead.
    """
    options = schema.typed_options
    left, right = options.get(join_options.LEFT), options.get(join_options.RIGHT)
    if left is not None:
        raise InvalidError(
            f"option {join_options.LEFT.key!r}",
            found=f"rows for a table that holds the join of {left} and {right}",
            expected="the join as its only writer",
            action=f"Write to {left} and {right} instead.",
        )
    base = options.get(join_options.INDEX_OF)
    if base is not None:
        raise InvalidError(
            f"option {join_options.INDEX_OF.key!r}",
            found=f"rows for a table that is an index of {base}",
            expected=f"the maintainer of {base} as its only writer",
            action=f"Write to {base} instead.",
        )


def check_joined_rows(schema: TableSchema) -> None:
    """Refuse options with which a table that holds a join would not have the rows of its sources."""
    options = schema.typed_options
    if options.get(join_options.LEFT) is None:
        return
    is_plain = {
        opt.MERGE_ENGINE.key: unchecked_engine(options).origin is RowOrigin.LAST,
        opt.SEQUENCE_FIELD.key: not options.get(opt.SEQUENCE_FIELD),
        opt.ROWKIND_FIELD.key: options.get(opt.ROWKIND_FIELD) is None,
        opt.IGNORE_DELETE.key: not options.get(opt.IGNORE_DELETE),
    }
    for key, is_right in is_plain.items():
        if not is_right:
            raise InvalidError(
                f"option {key!r}",
                found=f"{schema.options.get(key)!r} of a table that holds a join",
                expected="a table in which the last row of a key wins and deletes take effect",
                action="Remove the option.",
            )


def check_stands_alone(schema: TableSchema, path: str) -> None:
    """Refuse tables with derived tables, and derived tables: they follow main alone."""
    option = next(filter(_names_another, schema.options), None)
    if option is not None:
        raise UnsupportedError(
            f"option {option!r} of {path}",
            found="a derived table, or a table from which others are derived",
            expected="a table without index.*, widen.* and join.* options",
            action="Copy the table's rows into another table instead.",
        )


def _names_another(option: str) -> bool:
    derived = (join_options.LEFT.key, join_options.INDEX_OF.key)
    return option in derived or DERIVED_OPTION.match(option) is not None
