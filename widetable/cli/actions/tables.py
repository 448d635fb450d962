"""Commands of whole tables: init, copy, ls, schema.

Tables are named by the directory, as the shell completes it; what `Catalog` calls them is found from it:

    /warehouse/shop.db/users    warehouse /warehouse, table shop.users

So what is made has to lie in a directory that ends with .db; what is only opened may lie anywhere.
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
    """(warehouse, `db.name`) of a table's directory. what: the argument. Raises InvalidError for one that lies in no
    warehouse.
    """
    place = table_name(locate(path)[1])
    if place is None:
        raise InvalidError(
            what,
            found=repr(path),
            expected="<warehouse>/<db>.db/<table>",
            action="Name a directory in one whose name ends with .db.",
        )
    return place


def init(
    path: str,
    column: list[str],
    key: str,
    partition: str | None,
    set: list[str] | None,
    if_not_exists: bool,
    format: str,
) -> int:
    """Prints the path of the table.

    As `Catalog.create_table`. With --if-not-exists the table that is there is not compared with what
    was asked for: its columns and options may be others.
    """
    warehouse, name = place_of(path)
    table = Catalog(warehouse).create_table(
        name,
        typed_names_of(column, "COLUMN"),
        primary_key=names_of(key),
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
    """Prints the path of the new table, and what is in it. source: also the directory of a branch."""
    root = table_root(*place_of(target, "TARGET"), "TARGET")
    done = copy_table(Table.open(source), root, snapshot_id=snapshot, timestamp=timestamp, tag=tag)
    of = "no snapshot" if done.snapshot_id is None else f"snapshot {done.snapshot_id}"
    held = (
        f"{counted(done.rows, 'row')} in {counted(done.files, 'file')} of {size_text(done.bytes)}"
    )
    write_result(format, done.to_dict(), [f"{done.path}: {of}, {held}"])
    return DONE


def ls(path: str, format: str) -> int:
    """Prints `db.table` of each, sorted.

    A directory whose name ends with .db is a database, any other a warehouse. One that has no
    database is most likely mistyped: NotFoundError, not an empty list.
    """
    root = locate(path)[1]
    warehouse, name = os.path.split(root)
    database = name.removesuffix(DATABASE_SUFFIX) if name.endswith(DATABASE_SUFFIX) else None
    catalog = Catalog(root if database is None else warehouse)
    # A database without tables is there; a path that is neither kind is not an empty warehouse.
    databases = catalog.list_databases()
    if database not in (None, *databases) or not databases:
        raise _no_database(path, "; or one of these")
    found = catalog.list_tables(database)
    write_result(format, {"warehouse": catalog.warehouse, "tables": found}, found)
    return DONE


def warehouse_of(path: str) -> Catalog:
    """Of a warehouse's directory. Raises NotFoundError for one without databases."""
    catalog = Catalog(path)
    if not catalog.list_databases():
        raise _no_database(path, "")
    return catalog


# other: what the command takes besides a warehouse, in words.
def _no_database(path: str, other: str) -> NotFoundError:
    return NotFoundError(
        path,
        found="no database",
        expected=f"a warehouse, a directory with directories <db>.db{other}",
        action="Check the path.",
    )


def schema(path: str, format: str) -> int:
    """Prints one line for each column, then keys and options.

    Types are SQL (`type_text`), as `widetable init` takes them. Options are those of the schema:
    what is not there has its default (`inspect --what options` shows all).
    """
    found = Table.open(path).schema
    columns = [(field.name, text_of(field.type), field.description or "") for field in found.fields]
    if format == "json":
        names = ("name", "type", "comment")
        write_json(
            {
                "schema_id": found.id,
                "columns": [dict(zip(names, column, strict=True)) for column in columns],
                "primary_key": found.primary_keys,
                "partition_by": found.partition_keys,
                "options": dict(found.options),
                "comment": found.comment or "",
            }
        )
        return DONE
    widths = [max(len(column[at]) for column in columns) for at in range(2)]
    for name, kind, comment in columns:
        write_line(f"{name:<{widths[0]}}  {kind:<{widths[1]}}  {comment}".rstrip())
    write_line(f"primary key: {', '.join(found.primary_keys)}")
    if found.partition_keys:
        write_line(f"partitions: {', '.join(found.partition_keys)}")
    for option, value in sorted(found.options.items()):
        write_line(f"{option} = {value}")
    return DONE
