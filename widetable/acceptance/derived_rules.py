"""Checks what tables exclude that are derived from others: joins, indexes, histories and samples follow other tables.

Raises InvalidError, which names the option or the table to write to, and UnsupportedError for a copy or a branch.
"""

from __future__ import annotations

from typing import Final

from widetable.errors import InvalidError, UnsupportedError
from widetable.merge.engine import unchecked_engine
from widetable.merge.merge_engine import RowOrigin
from widetable.schema import join_options
from widetable.schema import options as opt
from widetable.schema import retention_options as retention
from widetable.schema.field_options import DERIVED_OPTION
from widetable.schema.history_columns import HISTORY_COLUMNS
from widetable.schema.table_schema import TableSchema
from widetable.storage.paths import table_root

# The option that names the table from which one is made, what it is, and who writes it.
_MADE: Final = (
    (join_options.INDEX_OF, "is an index of", "the maintainer of"),
    (join_options.HISTORY_OF, "is the history of", "the maintainer of"),
    (join_options.SAMPLES_OF, "has samples of", "follow_samples of"),
    (join_options.TILES_FROM, "has the tiles of", "its own maintainer, which follows"),
)


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
    for option, what, writer in _MADE:
        of = options.get(option)
        if of is not None:
            raise InvalidError(
                f"option {option.key!r}",
                found=f"rows for a table that {what} {of}",
                expected=f"{writer} {of} as its only writer",
                action=f"Write to {of} instead.",
            )


def check_rolled_back(schema: TableSchema) -> None:
    """Refuse a rollback of a table that goes on from its last commit: nobody would write again what that removes. An
    index notices it, and is made anew.
    """
    for option, what, writer in _MADE:
        of = schema.typed_options.get(option)
        if of is not None and option is not join_options.INDEX_OF:
            raise InvalidError(
                f"option {option.key!r}",
                found=f"a rollback of a table that {what} {of}",
                expected=f"{writer} {of} as its only writer, which goes on from its last commit",
                action=f"Roll back {of} instead: this table follows. To begin anew, use another table.",
            )


def check_history(schema: TableSchema) -> None:
    """Refuse a history of columns that are not there, of a table with a column of the history, or whose rows expire
    without a commit.
    """
    options, key = schema.typed_options, join_options.HISTORY_TABLE.key
    history = options.get(join_options.HISTORY_TABLE)
    named = options.get(join_options.HISTORY_COLUMNS)
    if named and history is None:
        raise InvalidError(
            f"option {join_options.HISTORY_COLUMNS.key!r}",
            found=f"{', '.join(named)} of a table without a history",
            expected=f"the option {key!r}",
            action="Set both, or remove the option.",
        )
    if history is None:
        return
    for name in named:
        schema.field(name)
    table_root("", history, f"option {key!r}")
    taken = next(filter(HISTORY_COLUMNS.__contains__, schema.names), None)
    if taken is not None:
        raise InvalidError(
            f"option {key!r}",
            found=f"a table with the column {taken!r}",
            expected=f"a table without the columns of a history: {', '.join(HISTORY_COLUMNS)}",
            action="Rename the column, or remove the option.",
        )
    expires = retention.RECORD_LEVEL_EXPIRE_TIME
    if options.get(expires) is not None:
        raise InvalidError(
            f"option {key!r}",
            found=f"{expires.key} = {schema.options[expires.key]!r}, by which rows expire without a commit",
            expected="a table whose rows change by commits alone",
            action="Remove one of the two options.",
        )


def check_tiles(schema: TableSchema) -> None:
    """Refuse larger tiles in a table that could not make one of them anew."""
    options, key = schema.typed_options, join_options.TILES_FROM.key
    fine = options.get(join_options.TILES_FROM)
    if fine is None:
        return
    table_root("", fine, f"option {key!r}")
    _check_rows_do_not_wait(schema, "tiles of another table")
    needs = {
        f"{opt.MERGE_ENGINE.key} = aggregation": unchecked_engine(options).origin
        is RowOrigin.FUNCTIONS,
        f"{opt.AGGREGATION_REMOVE_RECORD_ON_DELETE.key} = true": options.get(
            opt.AGGREGATION_REMOVE_RECORD_ON_DELETE
        ),
        f"the option {opt.TILE_SIZE.key}": options.get(opt.TILE_SIZE) is not None,
    }
    missing = next((need for need, is_there in needs.items() if not is_there), None)
    if missing is not None:
        raise InvalidError(
            f"option {key!r}",
            found=f"a table without {missing}",
            expected=f"a table of tiles that can be made anew: {', '.join(needs)}",
            action="Set these options when you create the table.",
        )


def check_joined_rows(schema: TableSchema) -> None:
    """Refuse options with which a table that holds a join would not have the rows of its sources."""
    options = schema.typed_options
    if options.get(join_options.LEFT) is None:
        return
    _check_rows_do_not_wait(schema, "a join")
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


def _check_rows_do_not_wait(schema: TableSchema, content: str) -> None:
    """Refuse postponed buckets where rows are derived by rounds: a round must see the rows of the round before."""
    if schema.postpones_buckets:
        raise UnsupportedError(
            f"option {opt.BUCKET.key!r}",
            found=f"-2 (postponed buckets) in a table that holds {content}",
            expected="a fixed number of buckets: rows are read when they are committed",
            action="Set another number of buckets.",
        )


def check_stands_alone(schema: TableSchema, path: str) -> None:
    """Refuse tables with derived tables, and derived tables: they follow main alone."""
    option = next(filter(_names_another, schema.options), None)
    if option is not None:
        raise UnsupportedError(
            f"option {option!r} of {path}",
            found="a derived table, or a table from which others are derived",
            expected="a table without index.*, widen.*, join.* and history.* options",
            action="Copy the table's rows into another table instead.",
        )


def _names_another(option: str) -> bool:
    derived = (
        join_options.LEFT,
        join_options.INDEX_OF,
        join_options.HISTORY_TABLE,
        join_options.HISTORY_OF,
        join_options.SAMPLES_OF,
        join_options.TILES_FROM,
    )
    return option in {each.key for each in derived} or DERIVED_OPTION.match(option) is not None
