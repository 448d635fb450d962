"""The tables of a directory that is a warehouse or a database.

    <warehouse>/<db>.db/<table>

In: the argument PATH. Raises InvalidError for a URL that no table can have, StorageError.

    path                       what it is                                        out
    /warehouse                 has directories <db>.db                           tables of all of them
    /warehouse/shop.db         ends with .db and has entries                     its tables
    /warehouse/shop.db/users   has schemas                                       None
    /nothing                   none of these                                     None: opening it as a table explains it

`Catalog.list_tables` lists the tables that can be opened; this module also lists damaged ones, for the doctor.
"""

from __future__ import annotations

from widetable.commit.snapshots.schema_store import SchemaStore
from widetable.errors import WidetableError
from widetable.storage.file_io import FileIO
from widetable.storage.locate import locate
from widetable.storage.paths import DATABASE_SUFFIX, TablePaths


def table_paths(path: str) -> list[str] | None:
    """Return the tables of a warehouse or a database, sorted; None for another directory, such as a table's.

    The list includes directories that cannot be read, so that the caller reports the error, and directories with
    snapshots but without schemas.
    """
    # Check for a table first, because its directory has directories, too.
    file_io, root = locate(path)
    if SchemaStore(file_io, TablePaths(root)).ids():
        return None
    if root.endswith(DATABASE_SUFFIX) and file_io.list(root):
        databases = [root]
    else:
        entries = file_io.list(root)
        databases = [
            f"{root}/{entry.name}"
            for entry in entries
            if entry.is_dir and entry.name.removesuffix(DATABASE_SUFFIX) not in ("", entry.name)
        ]
    if not databases:
        return None
    return [table for each in sorted(databases) for table in _tables(file_io, each)]


def _tables(file_io: FileIO, database: str) -> list[str]:
    """Return the tables of a database; each directory costs at most two listings: schemas, then snapshots."""
    entries = (entry for entry in file_io.list(database) if entry.is_dir)
    paths = sorted(f"{database}/{entry.name}" for entry in entries)
    return [path for path in paths if _is_table(file_io, TablePaths(path))]


def _is_table(file_io: FileIO, paths: TablePaths) -> bool:
    """Return whether a directory has schemas or snapshots. Other directories, such as that of copies, are skipped."""
    try:
        return bool(SchemaStore(file_io, paths).ids() or file_io.list(paths.snapshot_dir))
    except WidetableError:
        return True
