"""`format("widetable")`: which reader or writer serves which call of Spark.

Spark makes this object in a planner process, once per plan; readers and writers made here are
pickled to the tasks, and commit
runs in yet another process (spark.md sections 1 to 3). Nothing is kept in module state.
"""

from __future__ import annotations

from typing import Any

from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    DataSourceStreamArrowWriter,
    DataSourceStreamReader,
)
from pyspark.sql.types import StructType

from widetable import Table
from widetable.derived_value import derived_value
from widetable.read.change_read import change_schema
from widetable_spark.batch_reader import BatchReader
from widetable_spark.batch_writer import BatchWriter
from widetable_spark.source_options import READ, STREAM, WRITE, SourceOptions, parse_options
from widetable_spark.spark_types import spark_schema
from widetable_spark.stream_reader import StreamReader
from widetable_spark.stream_sink import StreamSink


class WidetableDataSource(DataSource):
    """The data source that Spark finds under the name `widetable`."""

    @classmethod
    def name(cls) -> str:
        return "widetable"

    @derived_value
    def _options(self) -> SourceOptions:
        return parse_options(self.options)

    def schema(self) -> StructType:
        """Columns of the table's current schema; with read.changelog=true also `_row_kind`."""
        return spark_schema(self._arrow_schema())

    def reader(self, schema: StructType) -> DataSourceReader:
        self._options.check_use(READ)
        return BatchReader(self._options, schema)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
        self._options.check_use(WRITE)
        return BatchWriter(self._options, schema, overwrite=overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamArrowWriter:
        self._options.check_use(WRITE)
        return StreamSink(self._options, schema, overwrite=overwrite)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        self._options.check_use(STREAM)
        return StreamReader(self._options, schema)

    def _arrow_schema(self) -> Any:
        schema = Table.open(self._options.path).schema
        if self._options.read_changelog:
            return change_schema(schema, schema.names)
        return schema.arrow_schema()
