"""Columns of a frame by their exact names: given as text, Spark reads dots, backticks and stars of a name as more than
that.

    columns a (ROW with b), a.b      text "a.b": b of the ROW        `column_of("a.b")`: the second column

In: frames and names. Raises nothing by itself.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf


def column_of(name: str) -> Column:
    """The column of this name, for `select`."""
    return sf.col(quoted(name))


def quoted(name: str) -> str:
    """The name as Spark takes it for itself in texts."""
    escaped = name.replace("`", "``")
    return f"`{escaped}`"


def plainly_named(df: DataFrame) -> DataFrame:
    """With names by position, for mapInArrow, which takes the columns by name; who is called renames the batches."""
    return df.toDF(*(f"column_{number}" for number in range(len(df.columns))))
