"""The tables of a warehouse by name: which there are, opening one, and deleting one.

A table exists when it has a schema. Raises InvalidError for names that no database or table can have, NotFoundError
for a table that does not exist, and what the storage raises.
"""

from __future__ import annotations

import contextlib

from widetable.arguments import flag
from widetable.commit.notes.copy_place import unfinished_copy_mark
from widetable.commit.snapshots.lost_snapshots import remaining_file
from widetable.commit.snapshots.schema_store import SchemaStore
from widetable.errors import InvalidError, NotFoundError
from widetable.messages.error_code import ErrorCode
from widetable.operations.handle.compaction_threads import wait_for_compactions
from widetable.operations.history.branches import branch_names
from widetable.storage.paths import (
    DATABASE_SUFFIX,
    TablePaths,
    branch_root,
    checked_part,
    database_dir,
    is_bucket,
    table_root,
)
from widetable.table import Table
from widetable.warehouse.catalog_state import CatalogState, opened_at


def table(catalog: CatalogState, name: str) -> Table:
    """Open a table, or a branch of it.

    Parameters
    ----------
    name : str
        `db.name`; `db.name$branch_<branch>` for a branch.

    Returns
    -------
    Table
        The table, at its newest schema.

    Raises
    ------
    NotFoundError
        The table or branch does not exist; the error lists those that do.
    InvalidError
        The name is not a `db.name`.

    Examples
    --------
    >>> catalog.table("shop.users").schema.primary_keys
    ('id',)
    """
    root = branch_root(catalog._root, name, "table name")
    # The opening of a branch checks itself whether the branch exists.
    if TablePaths(root).shared_root != root:
        return opened_at(catalog, root)
    if not SchemaStore(catalog._file_io, TablePaths(root)).ids():
        database = name.partition(".")[0]
        existing = ", ".join(catalog.list_tables(database)) or "none"
        raise NotFoundError(
            f"table {name!r}",
            found=f"no table at {root}",
            expected=f"one of the tables of database {database!r}: {existing}",
            action="Check the name, or make the table first.",
            code=ErrorCode.TABLE_NOT_FOUND,
        )
    return opened_at(catalog, root)


def list_databases(catalog: CatalogState) -> list[str]:
    """List the databases of the warehouse, including those without tables.

    A database is a directory: `shop` is `<warehouse>/shop.db`. Directories whose name no database may have are
    skipped.

    Returns
    -------
    list of str
        The names, sorted.

    Raises
    ------
    StorageError
        The storage refuses to list the warehouse.

    Examples
    --------
    >>> catalog.list_databases()
    ['shop']
    """
    databases = []
    for entry in catalog._file_io.list(catalog._root):
        name = entry.name.removesuffix(DATABASE_SUFFIX)
        if entry.is_dir and name != entry.name:
            with contextlib.suppress(InvalidError):
                databases.append(checked_part(name, "database", len(DATABASE_SUFFIX)))
    return sorted(databases)


def list_tables(catalog: CatalogState, database: str | None = None) -> list[str]:
    """List the tables of the warehouse, or of one database.

    The call looks once into each directory, because a table is what has a schema. Branches are not listed
    (`Table.branches`).

    Parameters
    ----------
    database : str, default None
        The name of the database; a database that does not exist has no tables. None: all databases.

    Returns
    -------
    list of str
        `db.name` of each table, sorted.

    Raises
    ------
    InvalidError
        No database may have that name.

    Examples
    --------
    >>> catalog.list_tables("shop")
    ['shop.users']
    """
    if database is None:
        databases = list_databases(catalog)
    else:
        databases = [checked_part(database, "database", len(DATABASE_SUFFIX))]
    tables = []
    for each in databases:
        directory = database_dir(catalog._root, each)
        for entry in catalog._file_io.list(directory):
            paths = TablePaths(f"{directory}/{entry.name}")
            if entry.is_dir and SchemaStore(catalog._file_io, paths).ids():
                tables.append(f"{each}.{entry.name}")
    return sorted(tables)


def drop_table(catalog: CatalogState, name: str, *, if_exists: bool = False) -> None:
    """Delete a table and all its files, including those of branches.

    The call is not atomic: readers and writers of the table get errors. An interrupted call leaves a table without
    rows, or with some of its files; call it again. It waits for the compactions that this process runs behind its
    commits.

    Parameters
    ----------
    name : str
        `db.name`.
    if_exists : bool, default False
        Do nothing if the table does not exist.

    Raises
    ------
    NotFoundError
        The table does not exist; the error lists those that do.
    InvalidError
        The name is not a `db.name`.

    Examples
    --------
    >>> catalog.drop_table("shop.no_such_table", if_exists=True)
    """
    root = table_root(catalog._root, name, "table name")
    if_exists = flag(if_exists, "if_exists")
    paths, file_io = TablePaths(root), catalog._file_io
    if not SchemaStore(file_io, paths).ids() and not remaining_file(file_io, paths):
        if if_exists:
            return
        catalog.table(name)  # raises NotFoundError, which lists the existing tables
    # A compaction of this process that still runs would put files into the directory while it is deleted.
    for branch in branch_names(file_io, paths):
        wait_for_compactions(paths.of_branch(branch).root)
    wait_for_compactions(root)
    # Buckets first: what an interrupted drop leaves behind still shows that there was a table. No other directory by
    # itself: if it is a link, the files behind the link would be lost.
    for entry in file_io.list(root):
        if entry.is_dir and (is_bucket(entry.name) or "=" in entry.name):
            file_io.delete_dir(f"{root}/{entry.name}")
    file_io.delete_dir(root)
    file_io.delete(
        unfinished_copy_mark(root)
    )  # the note of a copy that was killed after its snapshot
