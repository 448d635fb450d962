"""Making a table of a warehouse: every check, then one file, the first schema.

Raises InvalidError for names, schemas and options that break a rule, UnsupportedError for options that are not
honoured, NotFoundError for a dim table that does not exist, and what the storage raises.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa

from widetable.acceptance.acceptance import Use, accept
from widetable.arguments import flag, names
from widetable.commit.snapshots.lost_snapshots import remaining_file
from widetable.commit.snapshots.schema_store import SchemaStore
from widetable.derive.widening.widen_schema import widened_columns
from widetable.errors import InvalidError
from widetable.schema import options as opt
from widetable.schema.new_schema import arrow_schema, new_schema
from widetable.schema.option_checks import option_texts
from widetable.schema.options import TableOptions
from widetable.schema.table_schema import TableSchema
from widetable.storage.paths import TablePaths, table_root
from widetable.table import Table
from widetable.warehouse.catalog_state import CatalogState, opened_at


def create_table(
    catalog: CatalogState,
    name: str,
    schema: pa.Schema
    | Mapping[str, pa.DataType | str]
    | Sequence[pa.Field | tuple[str, pa.DataType | str]],
    *,
    primary_key: Sequence[str] | None = None,
    partition_by: Sequence[str] = (),
    options: Mapping[str, str] | None = None,
    comment: str | None = None,
    if_not_exists: bool = False,
) -> Table:
    """Make a table. Key columns become NOT NULL. Without a key it is an append table, as for logs.

    A type that Paimon does not have becomes the next wider one: uint8, uint16 and uint32 the next signed integer, half
    floats FLOAT, lists of a fixed size ARRAY, without their size. uint64 is refused: give int64 or decimal128(20, 0).

    Parameters
    ----------
    name : str
        `db.name`.
    schema : pyarrow.Schema, dict or list
        The columns in order; a dict of name to type, and a list of fields or of pairs of name and type, also do. A type
        may be a text of Paimon's SQL, such as `VARCHAR(100) NOT NULL`; Arrow's names, such as `binary`, come first.
    primary_key : list of str, default None
        The columns that identify a row, one or more. None: an append table, which keeps each row that is written.
    partition_by : list of str, default ()
        The partition columns.
    options : dict of str to str, default None
        Options of the table (docs/options.md). None: none.
    comment : str, default None
        A text about the table. None: none.
    if_not_exists : bool, default False
        Return an existing table as it is, whatever its schema.

    Returns
    -------
    Table
        The new table.

    Raises
    ------
    InvalidError
        The name, a column, a key or an option breaks a rule, or the table exists.
    UnsupportedError
        A type has no counterpart in Paimon, or this version does not honour an option.
    NotFoundError
        An option `widen.<fk>` names a table that does not exist.

    Examples
    --------
    >>> days = catalog.create_table("shop.days", {"day": pa.date32(), "paid": "DOUBLE"}, primary_key=["day"])
    """
    root = table_root(catalog._root, name, "table name")
    is_new = not flag(if_not_exists, "if_not_exists")
    made = _checked_schema(catalog, name, schema, primary_key, partition_by, options, comment)
    return _published(catalog, name, root, made, is_new=is_new)


def _checked_schema(
    catalog: CatalogState,
    name: str,
    columns: pa.Schema
    | Mapping[str, pa.DataType | str]
    | Sequence[pa.Field | tuple[str, pa.DataType | str]],
    primary_key: Sequence[str] | None,
    partition_by: Sequence[str],
    options: Mapping[str, str] | None,
    comment: str | None,
) -> TableSchema:
    """Return the first schema of a table. All that is wrong is found here, before anything is written."""
    fields, texts = arrow_schema(columns, "schema"), option_texts(options, "options")
    if primary_key is not None and not names(primary_key, "primary_key"):
        raise InvalidError(
            "primary_key",
            found="no column",
            expected="one column or more, or None for an append table",
            action="Name the columns that identify a row, or leave the argument out.",
        )

    def schema_of(dim: str) -> TableSchema:
        return catalog.table(dim).schema

    added, groups = widened_columns(name, fields, texts, schema_of, TableOptions(texts))
    new = new_schema(
        pa.schema([*fields, *added]),
        primary_key=primary_key,
        partition_by=partition_by,
        options=texts | groups,
        comment=comment,
    )
    accept(new, Use.CREATE)
    return new


def _published(
    catalog: CatalogState, name: str, root: str, schema: TableSchema, *, is_new: bool
) -> Table:
    """Write schema-0, which is all that makes a table. is_new: an existing table is an error."""
    store = _schema_store(catalog, root, schema)
    # Of two creators both may see no schema. Publishing is exclusive, and returns False to the second one.
    is_made = not store.ids() and _has_no_rest(catalog, root) and store.publish(schema)
    if not is_made and is_new:
        raise InvalidError(
            f"table {name!r}",
            found=f"a table at {root}",
            expected="no table of that name",
            action="Use another name, drop the table, or give if_not_exists=True (--if-not-exists).",
        )
    return opened_at(catalog, root)


def _schema_store(catalog: CatalogState, root: str, schema: TableSchema) -> SchemaStore:
    """Return the store that publishes this schema. The schema's own option says whether the file is forced to disk."""
    fsync = schema.typed_options.get(opt.FSYNC)
    return SchemaStore(catalog._given.at(catalog._root, fsync=fsync)[0], TablePaths(root))


def _has_no_rest(catalog: CatalogState, root: str) -> bool:
    """Return True, or raise InvalidError: a new table would have the rows of a former one whose files are left."""
    rest = remaining_file(catalog._file_io, TablePaths(root))
    if rest is not None:
        raise InvalidError(
            root,
            found=f"no schema, but {rest}: somebody wrote while a table was dropped, or the drop broke off",
            expected="no files of a table where there is no table",
            action="Drop it once more (drop_table), or remove the directory; then make the table.",
        )
    return True
