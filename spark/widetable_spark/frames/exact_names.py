"""Columns of a frame by their exact names: in a text, Spark gives dots, backticks and stars a meaning of their own.

    columns a (ROW with b), a.b      text "a.b": b of the ROW        `column_of("a.b")`: the second column

In: frames and names. Raises nothing by itself.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf


def column_of(name: str) -> Column:
    """Return the column of this name, for `select`."""
    return sf.col(quoted(name))


def quoted(name: str) -> str:
    """Quote a name, so that Spark reads it literally in texts."""
    escaped = name.replace("`", "``")
    return f"`{escaped}`"


def plainly_named(df: DataFrame) -> DataFrame:
    """Name the columns by position, as mapInArrow takes them by name; the called function renames the batches."""
    return df.toDF(*(f"column_{number}" for number in range(len(df.columns))))
