"""`format("widetable")`: which reader or writer serves which call of Spark.

Spark makes this object in a planner process, once per plan; readers and writers made here are
pickled to the tasks, and commit
runs in yet another process (spark.md sections 1 to 3). Nothing is kept in module state.
"""

from __future__ import annotations

from functools import cached_property

from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    DataSourceStreamArrowWriter,
    DataSourceStreamReader,
)
from pyspark.sql.types import StructType

from widetable import Table, UnsupportedError
from widetable_spark.batch_reader import BatchReader
from widetable_spark.batch_writer import BatchWriter
from widetable_spark.source_options import SourceOptions, parse_options
from widetable_spark.spark_types import spark_schema
from widetable_spark.stream_sink import StreamSink


class WidetableDataSource(DataSource):
    """The data source that Spark finds under the name `widetable`."""

    @classmethod
    def name(cls) -> str:
        return "widetable"

    @cached_property
    def _options(self) -> SourceOptions:
        return parse_options(self.options)

    def schema(self) -> StructType:
        """Columns of the table's current schema; with snapshot-id, timestamp-millis or tag those of that snapshot's."""
        return spark_schema(self._scan_schema())

    def reader(self, schema: StructType) -> DataSourceReader:
        return BatchReader(self._options, schema)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
        return BatchWriter(self._options, schema, overwrite=overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamArrowWriter:
        return StreamSink(self._options, schema, overwrite=overwrite)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        raise UnsupportedError(
            f"table {self._options.path}",
            found="readStream",
            expected="a batch read",
            action="Use spark.read or widetable_spark.read; streaming reads come with the changelog.",
        )

    def _scan_schema(self) -> object:
        return Table.open(self._options.path).arrow_schema
