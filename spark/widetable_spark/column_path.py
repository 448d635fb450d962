"""The table's directory in the metadata of its columns, which is all that Spark keeps of a CREATE TABLE for us.

    field metadata   {"widetable.path": directory}     of each column of `schema()`

A reader of such a table gets no options, but this schema (spark.md section 5). A writer gets the schema of what is
written: where that is another table's rows as they are, its metadata are the other table's. So a path for reading may
come from here, one for writing must be said; and a write whose columns name the table that it goes to may be an INSERT.

    CREATE TABLE t USING widetable LOCATION '/w/a'   Spark keeps the columns of schema(), each with '/w/a'
    SELECT .. FROM t                                 reader(schema): options {}, columns with '/w/a'
    INSERT INTO t SELECT * FROM u                    writer(schema): the columns of u, with u's path
    INSERT INTO t (id) ..                            writer(schema): t's columns, with '/w/a', filled with nulls

In the third line a path from the columns would write into u: so it is not taken. Raises what `locate` raises.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql.types import StructField, StructType

from widetable.connector import locate

_KEY: Final = "widetable.path"


def with_path(schema: StructType, path: str) -> StructType:
    """The schema, each column with the path."""
    return StructType(
        [StructField(f.name, f.dataType, f.nullable, {**f.metadata, _KEY: path}) for f in schema]
    )


def path_of(schema: StructType) -> str | None:
    """The path that the columns name, if any: that of the first column that names one."""
    return next((str(f.metadata[_KEY]) for f in schema if f.metadata and _KEY in f.metadata), None)


def names_path(schema: StructType, path: str) -> bool:
    """Whether the columns are those of the table at `path`, as `locate` reads paths: `file:/t` is `/t`."""
    named = path_of(schema)
    return named is not None and locate(named)[1] == locate(path)[1]
