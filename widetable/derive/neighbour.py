"""Tables of the same warehouse, found from one of them by `db.name`.

A table lies at <warehouse>/<db>.db/<name>, as the catalog puts it. Raises InvalidError for a table that lies elsewhere,
NotFoundError for one that is not there.
"""

from __future__ import annotations

import posixpath

from widetable.errors import InvalidError, NotFoundError
from widetable.operations.open_table import OpenTable
from widetable.paths import database_dir

_SUFFIX = ".db"


def name_of(table: OpenTable) -> str:
    """Its `db.name`."""
    directory, name = posixpath.split(table.path)
    database = posixpath.basename(directory)
    if not database.endswith(_SUFFIX):
        raise InvalidError(
            table.path,
            found="a table that is not in the directory of a database",
            expected="<warehouse>/<database>.db/<table>",
            action="Make the table with a catalog.",
        )
    return f"{database.removesuffix(_SUFFIX)}.{name}"


def path_of(table: OpenTable, name: str) -> str:
    """Where the table `name` lies in the warehouse of `table`."""
    name_of(table)
    database, _, last = name.partition(".")
    warehouse = posixpath.dirname(posixpath.dirname(table.path))
    return f"{database_dir(warehouse, database)}/{last}"


def neighbour(table: OpenTable, name: str, why: str) -> OpenTable:
    """Open the table `name`. why: what names it, for messages."""
    found = OpenTable(path_of(table, name), table._file_io)
    try:
        found._committer.schemas.latest()
    except NotFoundError as cause:
        raise NotFoundError(
            f"table {name!r}",
            found=f"no table at {found.path}",
            expected=f"the table that {why} of {name_of(table)!r} names",
            action="Make the table first, or correct the option.",
        ) from cause
    return found
