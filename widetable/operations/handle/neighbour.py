"""Opens another table of the same warehouse by its name, as the options of a table give it.

    /wh/shop.db/orders, "shop.users"     ─►  /wh/shop.db/users

In: a table in a warehouse, and `db.name`. Out: the other table, open. Raises InvalidError for a table outside of a
warehouse and for an invalid name, UnsupportedError for a branch, NotFoundError for a missing table.
"""

from __future__ import annotations

from widetable.commit.snapshots.schema_store import SchemaStore
from widetable.errors import InvalidError, NotFoundError, UnsupportedError
from widetable.messages.error_code import ErrorCode
from widetable.operations.handle.open_table import OpenTable
from widetable.storage.paths import MAIN_BRANCH, TablePaths, table_name, table_root


def name_of(table: OpenTable) -> str:
    """Return the table's own `db.name`."""
    return _place(table)[1]


def path_of(table: OpenTable, name: str, what: str = "table name") -> str:
    """Return the path that the table `db.name` of the same warehouse has or would have."""
    return table_root(_place(table)[0], name, what)


def neighbour(table: OpenTable, name: str, what: str) -> OpenTable:
    """Open the table `db.name` of the same warehouse and storage.

    what: the part that names it, such as an option, for errors. Whether a schema exists is checked once; the table
    may be dropped later, like any table.
    """
    root = path_of(table, name, what)
    if not SchemaStore(table._file_io, TablePaths(root)).ids():
        raise NotFoundError(
            what,
            found=f"{name!r}, but no table at {root}",
            expected="a table of the same warehouse",
            action="Create that table, or drop this one.",
            code=ErrorCode.TABLE_NOT_FOUND,
        )
    return OpenTable(root, table._file_io)


def _place(table: OpenTable) -> tuple[str, str]:
    """Return the warehouse and the `db.name` in it, from the path alone."""
    if table.branch != MAIN_BRANCH:
        raise UnsupportedError(
            table.path,
            found="options that name other tables, in a branch",
            expected="such options in the main branch only",
            action="Open the table without its branch.",
        )
    place = table_name(table.path)
    if place is None:
        raise InvalidError(
            table.path,
            found="a table outside of a warehouse",
            expected="a directory <warehouse>/<db>.db/<table>",
            action="Put the table into a warehouse, where its options can name others.",
        )
    return place
