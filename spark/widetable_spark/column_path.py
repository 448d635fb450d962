"""The table's directory in the metadata of its columns, which is all that Spark keeps of a CREATE TABLE for us.

    field metadata   {"widetable.path": directory}     of each column of `schema()`

A reader of such a table gets no options, but this schema (spark.md section 5). A writer gets the schema of what is
written: where that is another table's rows as they are, its metadata are the other table's. So a path for reading may
come from here, one for writing must be said; and a write whose columns name the table that it goes to may be an INSERT.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql.types import StructField, StructType

_KEY: Final = "widetable.path"


def with_path(schema: StructType, path: str) -> StructType:
    """The schema, each column with the path."""
    return StructType(
        [StructField(f.name, f.dataType, f.nullable, {**f.metadata, _KEY: path}) for f in schema]
    )


def path_of(schema: StructType) -> str | None:
    """The path that the columns name, if any."""
    return next((str(f.metadata[_KEY]) for f in schema if f.metadata and _KEY in f.metadata), None)
