"""`widetable_changes('path', start, end)` in SQL: what the snapshots after `start` up to `end` changed.

A table function in Python, registered by `register_changes`: columns of the table and `_row_kind` last, in the order of
`Table.changes`, read by one task. Its columns follow from the path, so the path must be a literal. Raises what
`Table.changes` raises.

Rows go to Spark one by one as Python's, some 0.3 M a second: the function is for inspecting changes. For continuous
reads use `readStream.format("widetable")` with `read.changelog`, which passes Arrow.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import cast

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.types import Row, StructType
from pyspark.sql.udtf import AnalyzeArgument, AnalyzeResult, UserDefinedTableFunction

from widetable import InvalidError, Table
from widetable.connector import arguments, checked_storage_options
from widetable_spark.frames.spark_types import arrow_schema, spark_batches, spark_schema
from widetable_spark.startup.spark_session import session_of

CHANGES_FUNCTION = "widetable_changes"


def register_changes(
    spark: SparkSession,
    name: str = CHANGES_FUNCTION,
    *,
    storage_options: Mapping[str, str] | None = None,
) -> None:
    """Register the SQL function `widetable_changes(path, start, end)` in a session.

    Parameters
    ----------
    spark : SparkSession
        A session of the driver or of Spark Connect.
    name : str, default "widetable_changes"
        The name of the function in SQL.
    storage_options : dict of str to str, default None
        Options of an object store, as in `widetable.Catalog`, for all tables that the function reads; tasks get them.
        None: the environment says them.

    Raises
    ------
    InvalidError
        An argument has a wrong type.

    Examples
    --------
    >>> import widetable as wt
    >>> import widetable_spark
    >>> options = {"changelog-producer": "lookup"}
    >>> catalog = wt.Catalog("warehouse")
    >>> users = catalog.create_table("shop.users", {"id": "BIGINT"}, primary_key=["id"], options=options)
    >>> users.write([{"id": 1}]).snapshot_id
    1
    >>> widetable_spark.register_changes(spark)
    >>> spark.sql(f"SELECT * FROM widetable_changes('{users.path}', 0, 2)").collect()
    [Row(id=1, _row_kind='+I')]
    """
    # Imported here, as it imports pandas, which readers and writers do not need.
    from pyspark.sql.functions import udtf

    storage = checked_storage_options(storage_options)
    function = _changes_function(None if storage is None else storage.to_dict())
    session_of(spark).udtf.register(
        arguments.text(name, "name"), cast("UserDefinedTableFunction", udtf(function))
    )


def _changes_function(storage: dict[str, str] | None) -> type:
    class ChangesFunction:
        """The function, which Spark makes once for the columns and once for the rows."""

        @staticmethod
        def analyze(
            path: AnalyzeArgument, start: AnalyzeArgument, end: AnalyzeArgument
        ) -> AnalyzeResult:
            if path.value is None:
                raise InvalidError(
                    CHANGES_FUNCTION,
                    found="a computed path",
                    expected="a text literal",
                    action="Write the path into the query as a literal.",
                )
            table = Table.open(str(path.value), storage_options=storage)
            return AnalyzeResult(_schema(table))

        def eval(self, path: str, start: int, end: int) -> Iterator[Row]:
            from pyspark.sql.conversion import ArrowTableToRowsConversion  # imports pandas

            table = Table.open(path, storage_options=storage)
            schema = _schema(table)
            target = arrow_schema(schema)
            for batch in table.change_batches(start, end):
                for piece in spark_batches(batch, target):
                    rows = pa.Table.from_batches([piece])
                    yield from ArrowTableToRowsConversion.convert(rows, schema)

    return ChangesFunction


def _schema(table: Table) -> StructType:
    return spark_schema(table.change_source().arrow_schema)
