"""Altering a table: the arguments of `Catalog.alter_table` become one change of its schema.

Raises InvalidError for arguments of a wrong form, and what `derive.upkeep.derived_alteration` raises.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pyarrow as pa

from widetable.arguments import flag, mapping, names, text
from widetable.derive.upkeep import derived_alteration
from widetable.operations.ddl.schema_change import SchemaChange
from widetable.schema.new_schema import arrow_schema, changed_types
from widetable.schema.option_checks import option_texts
from widetable.table import Table
from widetable.warehouse.catalog_state import CatalogState, opened_at


def alter_table(
    catalog: CatalogState,
    name: str,
    *,
    set_options: Mapping[str, str] | None = None,
    remove_options: Sequence[str] = (),
    add_columns: pa.Schema | Sequence[pa.Field] = (),
    drop_columns: Sequence[str] = (),
    rename_columns: Mapping[str, str] | None = None,
    change_types: Mapping[str, pa.DataType | str] | None = None,
    change_nullability: Mapping[str, bool] | None = None,
    change_comments: Mapping[str, str | None] | None = None,
    move_columns: Mapping[str, str] | None = None,
) -> Table:
    """Give a table its next schema, in one step; data files are not touched, and concurrent calls are both applied.

    Parameters
    ----------
    name : str
        `db.name`, or `db.name$branch_<branch>`. Its key columns can only be moved and get comments.
    set_options, remove_options
        As in `Table.alter_options`. None or (): none.
    add_columns : pyarrow.Schema or list of pyarrow.Field, default ()
        Nullable columns and fields, put last; the names are paths.
    drop_columns : list of str, default ()
        Columns and fields to remove, by paths: `v.f`, `v.element.f`, `v.value.f` (docs/change-columns.md).
    rename_columns : dict of str to str, default None
        Old path to new name; all other arguments use the old ones. Options `fields.*` follow; remove `index.*`
        and `widen.*` that name it in the same call.
    change_types : dict of str to type, default None
        Column to a wider type, as in `create_table`. Fields match by name, at any depth; others are added or removed.
    change_nullability : dict of str to bool, default None
        Column to nullable or not; False needs the option `alter-column-null-to-not-null.disabled` = false.
    change_comments : dict of str to str, default None
        Column to its comment, or to None, which removes the comment.
    move_columns : dict of str to str, default None
        Column, also an added one, to `first`, `last`, `after <name>` or `before <name>` within its ROW.

    Returns
    -------
    Table
        The table, with its next schema.

    Raises
    ------
    NotFoundError
        The table, a column, or the table that an option `widen.<fk>` names does not exist.
    InvalidError
        A change would break a key, an option or a merge rule, or names a column twice.
    UnsupportedError
        Values do not widen to a type, or this version does not honour an option.

    Examples
    --------
    >>> users = catalog.alter_table("shop.users", rename_columns={"city": "town"})
    """
    change = _structure(set_options, remove_options, add_columns, drop_columns, rename_columns)
    change = _properties(change, change_types, change_nullability, change_comments, move_columns)
    return _altered(catalog, name, change)


def _structure(
    set_options: Mapping[str, str] | None,
    remove_options: Sequence[str],
    add_columns: pa.Schema | Sequence[pa.Field],
    drop_columns: Sequence[str],
    rename_columns: Mapping[str, str] | None,
) -> SchemaChange:
    """Check which options and columns there are to be, and return that change."""
    return SchemaChange(
        set_options=option_texts(set_options, "set_options"),
        remove_options=names(remove_options, "remove_options"),
        add_columns=tuple(arrow_schema(add_columns, "add_columns")),
        drop_columns=names(drop_columns, "drop_columns"),
        rename_columns=_texts(rename_columns, "rename_columns"),
    )


def _properties(
    change: SchemaChange,
    change_types: Mapping[str, pa.DataType | str] | None,
    change_nullability: Mapping[str, bool] | None,
    change_comments: Mapping[str, str | None] | None,
    move_columns: Mapping[str, str] | None,
) -> SchemaChange:
    """Check the new types, comments and places of columns, and add them to the change."""
    return replace(
        change,
        change_types=changed_types(mapping(change_types, "change_types"), "change_types"),
        change_nullability=_flags(change_nullability, "change_nullability"),
        change_comments=_comments(change_comments, "change_comments"),
        move_columns=_texts(move_columns, "move_columns"),
    )


def _texts(given: Mapping[str, str] | None, argument: str) -> dict[str, str]:
    return {column: text(value, argument) for column, value in mapping(given, argument).items()}


def _flags(given: Mapping[str, bool] | None, argument: str) -> dict[str, bool]:
    return {column: flag(value, argument) for column, value in mapping(given, argument).items()}


def _comments(given: Mapping[str, str | None] | None, argument: str) -> dict[str, str | None]:
    return {
        column: None if value is None else text(value, argument)
        for column, value in mapping(given, argument).items()
    }


def _altered(catalog: CatalogState, name: str, change: SchemaChange) -> Table:
    """Publish the change, and open the table at its next schema."""
    table = catalog.table(name)
    derived_alteration.alter_table(table, change)
    return opened_at(catalog, table.path)
