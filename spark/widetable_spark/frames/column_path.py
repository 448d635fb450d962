"""The metadata by which columns name their table: all that Spark stores of a CREATE TABLE for us, and of a DataFrame
until it is read.

    field metadata   {"widetable.path": directory,       of each column of `schema()`
                      "widetable.column": id,            of each that is the table's: a rename keeps it
                      "widetable.columns": digest}       of the names and types that `schema()` gave

A reader of a named table gets no options, but this schema (spark.md section 5). A writer gets the schema of the rows:
where these are another table's rows unchanged, the metadata are the other table's. So a path for reading may come from
here, and a path for writing must be given; a write whose columns name the table that it goes to may be an INSERT.

    CREATE TABLE t USING widetable LOCATION '/w/a'   Spark keeps the columns of schema(), each with '/w/a'
    SELECT .. FROM t                                 reader(schema): options {}, columns with '/w/a'
    INSERT INTO t SELECT * FROM u                    writer(schema): the columns of u, with u's path
    INSERT INTO t (id) ..                            writer(schema): t's columns, with '/w/a', filled with nulls
    ALTER TABLE t ADD COLUMN c INT                   reader(schema): c without metadata, and another digest
    a and b of the table swap their names            reader(schema): a with the id that b has now

In the third line a path from the columns would write into u: so it is not used. The last two are refused: Spark asks no
source before it alters a name, and the name's column would show another column's values. Raises InvalidError for them,
and what `locate` raises.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Final

from pyspark.sql.types import StructField, StructType

from widetable import InvalidError
from widetable.connector import locate

_PATH: Final = "widetable.path"
_ID: Final = "widetable.column"
_COLUMNS: Final = "widetable.columns"
_DIGITS: Final = 16


def with_path(schema: StructType, path: str, ids: Mapping[str, int]) -> StructType:
    """Return the schema with metadata: each column has the path and its identity.

    ids: of the table's columns, by name.
    """
    digest = _digest(schema)
    fields = []
    for field in schema:
        metadata = {**field.metadata, _PATH: path, _COLUMNS: digest}
        if field.name in ids:
            metadata[_ID] = str(ids[field.name])
        fields.append(StructField(field.name, field.dataType, field.nullable, metadata))
    return StructType(fields)


def path_of(schema: StructType) -> str | None:
    """Return the path that the columns name: that of the first column that names one, or None."""
    return next(
        (str(f.metadata[_PATH]) for f in schema if f.metadata and _PATH in f.metadata), None
    )


def names_path(schema: StructType, path: str) -> bool:
    """Tell whether the columns are those of the table at `path`, as `locate` reads paths: `file:/t` is `/t`."""
    named = path_of(schema)
    return named is not None and locate(named)[1] == locate(path)[1]


def check_unaltered(schema: StructType, path: str) -> None:
    """Refuse the columns of a name in Spark that differ from those that CREATE TABLE found.

    Names that were made by a version that noted nothing pass.
    """
    noted = {str(field.metadata[_COLUMNS]) for field in schema if _COLUMNS in field.metadata}
    if noted and noted != {_digest(schema)}:
        raise InvalidError(
            f"a name of {path} in Spark",
            found=f"the columns {', '.join(_texts(schema))}, which ALTER TABLE gave to the name, not to the table",
            expected="those that CREATE TABLE found in the table",
            action="Change the table with widetable.Catalog.alter_table or `widetable alter`, then name it again: "
            "widetable_spark.register_catalog(spark, warehouse), or DROP TABLE, which keeps files, and CREATE TABLE.",
        )


def check_columns(schema: StructType, path: str, ids: Mapping[str, int]) -> None:
    """Refuse columns whose names now mean other columns.

    schema: made when the DataFrame was made, or the name. ids: of the columns that will be read, by name.
    """
    if not names_path(schema, path):
        return
    for field in schema:
        noted_id = field.metadata.get(_ID)
        if noted_id is not None and ids.get(field.name) not in (None, int(noted_id)):
            raise InvalidError(
                f"column {field.name!r} of {path}",
                found="another column of that name: columns were renamed, or dropped and added again",
                expected="the column that had the name when the DataFrame, or the name in SQL, was made",
                action="Load the table again, or name it again, by widetable_spark.register_catalog or CREATE TABLE.",
            )


def _digest(schema: StructType) -> str:
    return hashlib.sha256(json.dumps(_texts(schema)).encode()).hexdigest()[:_DIGITS]


def _texts(schema: StructType) -> list[str]:
    return [f"{field.name} {field.dataType.simpleString()}" for field in schema]
