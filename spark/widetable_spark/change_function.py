"""`widetable_changes('path', start, end)` in SQL: what the snapshots after `start` up to `end` changed.

A table function in Python, registered by `register_changes`: columns of the table and `_row_kind` last, in the order of
`Table.changes`, read by one task. Its columns follow from the path, so that is a literal. Raises what `Table.changes`
raises.

Rows go to Spark one by one as Python's, some 0.3 M a second: it is for looking at changes. What
is read on and on goes by `readStream.format("widetable")` with `read.changelog`, which gives
Arrow. A table in an object store is opened with what the environment says of it: the function
has no argument for that.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.types import Row, StructType
from pyspark.sql.udtf import AnalyzeArgument, AnalyzeResult, UserDefinedTableFunction

from widetable import InvalidError, Table
from widetable.connector import BATCH_BYTES, pieces, text
from widetable_spark.batch_reader import ROWS_PER_BATCH
from widetable_spark.spark_session import session_of
from widetable_spark.spark_types import arrow_schema, cast_batch, spark_schema

CHANGES_FUNCTION = "widetable_changes"


def register_changes(spark: SparkSession, name: str = CHANGES_FUNCTION) -> None:
    """Make the function known to this session: SELECT * FROM widetable_changes('/path/of/table', 3, 9)."""
    from pyspark.sql.functions import (
        udtf,
    )  # here: it imports pandas, which readers and writers do without

    session_of(spark).udtf.register(
        text(name, "name"), cast("UserDefinedTableFunction", udtf(ChangesFunction))
    )


class ChangesFunction:
    """Made by Spark, once for the columns and once for the rows."""

    @staticmethod
    def analyze(
        path: AnalyzeArgument, start: AnalyzeArgument, end: AnalyzeArgument
    ) -> AnalyzeResult:
        if path.value is None:
            raise InvalidError(
                CHANGES_FUNCTION,
                found="a path that is computed",
                expected="a text literal",
                action="Write the path into the query.",
            )
        return AnalyzeResult(_schema(str(path.value)))

    def eval(self, path: str, start: int, end: int) -> Iterator[Row]:
        from pyspark.sql.conversion import ArrowTableToRowsConversion  # imports pandas

        schema = _schema(path)
        target = arrow_schema(schema)
        for batch in Table.open(path).change_batches(start, end):
            for piece in pieces(batch, BATCH_BYTES, ROWS_PER_BATCH):
                rows = cast_batch(piece, target)
                yield from ArrowTableToRowsConversion.convert(pa.Table.from_batches([rows]), schema)


def _schema(path: str) -> StructType:
    return spark_schema(Table.open(path).change_source().arrow_schema)
