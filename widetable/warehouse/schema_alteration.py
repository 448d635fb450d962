"""Altering a table: the arguments of `Catalog.alter_table` become one change of its schema.

Raises InvalidError for arguments of a wrong form, and what `derive.upkeep.derived_alteration` raises.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

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
    """Give a table its next schema, in one step; data files are not touched.

    All names are those before the change. A field is named by its path: `v.f` in a ROW, `v.element.f` in an ARRAY,
    `v.value.f` in a MAP; docs/change-columns.md tells which names need backticks. Concurrent calls are both applied.

    Parameters
    ----------
    name : str
        `db.name`, or `db.name$branch_<branch>`. Its key columns can only be moved and get comments.
    set_options, remove_options
        As in `Table.alter_options`. None or (): none.
    add_columns : pyarrow.Schema or list of pyarrow.Field, default ()
        Nullable columns and fields, put last; the names are paths.
    drop_columns : list of str, default ()
        Columns and fields to remove.
    rename_columns : dict of str to str, default None
        Old path to new name. Options `fields.*` follow; remove `index.*` and `widen.*` that name it in the same call.
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
    return _altered(catalog, name, _change_of(locals()))


def _change_of(arguments: Mapping[str, Any]) -> SchemaChange:
    """Check the arguments of `alter_table`, by their names, and return the change that they describe."""

    def texts(argument: str) -> dict[str, str]:
        return {each: text(value, argument) for each, value in by_column(argument).items()}

    def by_column(argument: str) -> dict[str, Any]:
        return mapping(arguments[argument], argument)

    return SchemaChange(
        set_options=option_texts(arguments["set_options"], "set_options"),
        remove_options=names(arguments["remove_options"], "remove_options"),
        add_columns=tuple(arrow_schema(arguments["add_columns"], "add_columns")),
        drop_columns=names(arguments["drop_columns"], "drop_columns"),
        rename_columns=texts("rename_columns"),
        change_types=changed_types(by_column("change_types"), "change_types"),
        change_nullability={
            column: flag(nullable, "change_nullability")
            for column, nullable in by_column("change_nullability").items()
        },
        change_comments={
            column: None if comment is None else text(comment, "change_comments")
            for column, comment in by_column("change_comments").items()
        },
        move_columns=texts("move_columns"),
    )


def _altered(catalog: CatalogState, name: str, change: SchemaChange) -> Table:
    """Publish the change, and open the table at its next schema."""
    table = catalog.table(name)
    derived_alteration.alter_table(table, change)
    return opened_at(catalog, table.path)
