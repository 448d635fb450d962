"""Columns that a DataFrame lacks, added as nulls that exist in its plan alone.

In: a DataFrame with some columns of a target schema, in its types, and that schema. Out: the DataFrame with all of its
columns in its order. A missing column becomes a null literal of its type, so Spark knows its value when it plans: no
task makes, sends or filters it. All missing columns must be nullable. Raises nothing by itself.

The number of calls from Python to the JVM does not grow with the missing columns: each takes about a millisecond.
"""

from __future__ import annotations

from itertools import groupby
from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as sf
from pyspark.sql.types import ArrayType, DataType, MapType, StructField, StructType

from widetable_spark.frames.exact_names import quoted

_NULLS: Final = "__widetable_nulls"


def can_be_widened(target: StructType) -> bool:
    """Tell whether Spark finds each column by its name, which it compares without regard to case."""
    return len({name.lower() for name in target.names}) == len(target)


def with_null_columns(frame: DataFrame, target: StructType) -> DataFrame:
    """Return the DataFrame with the columns of `target`, for which `can_be_widened` holds."""
    if not any(_is_nested(field.dataType) for field in frame.schema):
        return frame.to(target)
    return _selected(frame, target)


def _selected(frame: DataFrame, target: StructType) -> DataFrame:
    """Select each run of missing columns as a whole: a struct inside one struct that is null.

    `DataFrame.to` would take nested values apart and build them again, row by row.

        target k, a, b, s, c, with k and s there     __widetable_nulls struct<r0 struct<a, b>, r1 struct<c>>
                                                     select k, __widetable_nulls.r0.*, s, __widetable_nulls.r1.*
    """
    present = set(frame.columns)
    runs: list[StructField] = []
    chosen: list[str] = []
    for is_given, fields in groupby(target, lambda field: field.name in present):
        if is_given:
            chosen += [quoted(field.name) for field in fields]
        else:
            chosen.append(f"{_NULLS}.r{len(runs)}.*")
            runs.append(StructField(f"r{len(runs)}", StructType(list(fields))))
    nulls = sf.lit(None).cast(StructType(runs)).alias(_NULLS)
    return frame.select("*", nulls).select(chosen)


def _is_nested(kind: DataType) -> bool:
    return isinstance(kind, ArrayType | MapType | StructType)
