"""Commands of whole tables: init, copy, ls, schema.

Tables are named by their directory, which the shell completes; the name for `Catalog` follows from it:

    /warehouse/shop.db/users    warehouse /warehouse, table shop.users

So a new table must lie in a directory whose name ends with .db; an existing table may lie anywhere.
"""

from __future__ import annotations

import os

from widetable.catalog import Catalog
from widetable.cli.command import DONE
from widetable.cli.input.option_words import names_of, options_of, typed_names_of
from widetable.cli.output.console import write_json, write_line, write_result
from widetable.errors import InvalidError, NotFoundError
from widetable.format.human_units import size_text
from widetable.messages.counted import counted
from widetable.operations.maintenance.table_copy import copy_table
from widetable.schema.type_text import text_of
from widetable.storage.locate import locate
from widetable.storage.paths import DATABASE_SUFFIX, table_name, table_root
from widetable.table import Table


def place_of(path: str, what: str = "PATH") -> tuple[str, str]:
    """Return (warehouse, `db.name`) of a table's directory. what: the name of the argument.

    Raises InvalidError for a directory that lies in no warehouse.
    """
    place = table_name(locate(path)[1])
    if place is None:
        raise InvalidError(
            what,
            found=repr(path),
            expected="<warehouse>/<db>.db/<table>",
            action="Name a directory that lies in a directory whose name ends with .db.",
        )
    return place


def init(
    path: str,
    column: list[str],
    key: str | None,
    partition: str | None,
    set: list[str] | None,
    if_not_exists: bool,
    format: str,
) -> int:
    """Create a table like `Catalog.create_table`, and print its path.

    With --if-not-exists an existing table is not compared with the arguments: its columns and options may differ.
    """
    warehouse, name = place_of(path)
    table = Catalog(warehouse).create_table(
        name,
        typed_names_of(column, "COLUMN"),
        primary_key=None if key is None else names_of(key),
        partition_by=names_of(partition),
        options=options_of(set),
        if_not_exists=if_not_exists,
    )
    write_result(format, {"path": table.path}, [table.path])
    return DONE


def copy(
    source: str,
    target: str,
    snapshot: int | None,
    tag: str | None,
    timestamp: str | None,
    format: str,
) -> int:
    """Print the path and the content of the new table. source: it may be the directory of a branch, too."""
    root = table_root(*place_of(target, "TARGET"), "TARGET")
    done = copy_table(Table.open(source), root, snapshot_id=snapshot, timestamp=timestamp, tag=tag)
    of = "no snapshot" if done.snapshot_id is None else f"snapshot {done.snapshot_id}"
    sizes = (
        f"{counted(done.rows, 'row')} in {counted(done.files, 'file')} of {size_text(done.bytes)}"
    )
    write_result(format, done.to_dict(), [f"{done.path}: {of}, {sizes}"])
    return DONE


def ls(path: str, format: str) -> int:
    """Print `db.table` of each table, sorted.

    A directory whose name ends with .db is a database, any other a warehouse. A warehouse without a database is most
    likely a mistyped path, so it raises NotFoundError.
    """
    root = locate(path)[1]
    warehouse, name = os.path.split(root)
    database = name.removesuffix(DATABASE_SUFFIX) if name.endswith(DATABASE_SUFFIX) else None
    catalog = Catalog(root if database is None else warehouse)
    # A database may have no tables, but a warehouse has at least one database.
    databases = catalog.list_databases()
    if database not in (None, *databases) or not databases:
        raise _no_database(path, "; or one of these")
    tables = catalog.list_tables(database)
    write_result(format, {"warehouse": catalog.warehouse, "tables": tables}, tables)
    return DONE


def warehouse_of(path: str) -> Catalog:
    """Return the catalog of a warehouse's directory. Raises NotFoundError for one without databases."""
    catalog = Catalog(path)
    if not catalog.list_databases():
        raise _no_database(path, "")
    return catalog


# other: the other kinds of directory that the command accepts, in words.
def _no_database(path: str, other: str) -> NotFoundError:
    return NotFoundError(
        path,
        found="no database",
        expected=f"a warehouse, which is a directory with directories <db>.db{other}",
        action="Check the path.",
    )


def schema(path: str, format: str) -> int:
    """Print one line for each column, then keys and options.

    Types are SQL (`type_text`), as in `widetable init`. Options are those of the schema: all others have their default
    (`inspect --what options` shows all).
    """
    table_schema = Table.open(path).schema
    columns = [
        (field.name, text_of(field.type), field.description or "") for field in table_schema.fields
    ]
    if format == "json":
        names = ("name", "type", "comment")
        write_json(
            {
                "schema_id": table_schema.id,
                "columns": [dict(zip(names, column, strict=True)) for column in columns],
                "primary_key": table_schema.primary_keys,
                "partition_by": table_schema.partition_keys,
                "options": dict(table_schema.options),
                "comment": table_schema.comment or "",
            }
        )
        return DONE
    widths = [max(len(column[at]) for column in columns) for at in range(2)]
    for name, kind, comment in columns:
        write_line(f"{name:<{widths[0]}}  {kind:<{widths[1]}}  {comment}".rstrip())
    write_line(f"primary key: {', '.join(table_schema.primary_keys)}")
    if table_schema.partition_keys:
        write_line(f"partitions: {', '.join(table_schema.partition_keys)}")
    for option, value in sorted(table_schema.options.items()):
        write_line(f"{option} = {value}")
    return DONE
