"""Another table of the same warehouse, by its name: what options of a table name.

    /wh/shop.db/orders, "shop.users"     ─►  /wh/shop.db/users

In: a table that lies in a warehouse, and `db.name`. Out: the other one, open. Raises InvalidError for a table that lies
in none and for a name that is none, UnsupportedError for a branch, NotFoundError for a table that is not there.
"""

from __future__ import annotations

from widetable.commit.snapshots.schema_store import SchemaStore
from widetable.errors import InvalidError, NotFoundError, UnsupportedError
from widetable.operations.handle.open_table import OpenTable
from widetable.storage.paths import MAIN_BRANCH, TablePaths, table_name, table_root


def name_of(table: OpenTable) -> str:
    """The table's own `db.name`."""
    return _place(table)[1]


def path_of(table: OpenTable, name: str, what: str = "table name") -> str:
    """Where the table `db.name` of the same warehouse lies, or would lie."""
    return table_root(_place(table)[0], name, what)


def neighbour(table: OpenTable, name: str, what: str) -> OpenTable:
    """what: says that the name is of it, such as an option.
    The other table is on the same storage. Looks once whether a schema is there; it may be dropped
    later as any table.
    """
    root = path_of(table, name, what)
    if not SchemaStore(table._file_io, TablePaths(root)).ids():
        raise NotFoundError(
            what,
            found=f"{name!r}, and no table at {root}",
            expected="a table of the same warehouse",
            action="Make that table, or drop this one.",
        )
    return OpenTable(root, table._file_io)


def _place(table: OpenTable) -> tuple[str, str]:
    """The warehouse, and `db.name` in it, by the path alone."""
    if table.branch != MAIN_BRANCH:
        raise UnsupportedError(
            table.path,
            found="options that name other tables, in a branch",
            expected="them in main alone",
            action="Open the table without its branch.",
        )
    found = table_name(table.path)
    if found is None:
        raise InvalidError(
            table.path,
            found="a table outside of a warehouse",
            expected="a directory <warehouse>/<db>.db/<table>",
            action="Put the table into a warehouse, where its options can name others.",
        )
    return found
