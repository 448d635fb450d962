"""`format("widetable")`: which reader or writer serves which call of Spark.

Spark makes this object in a planner process, once per plan; readers and writers made here are
pickled to the tasks, and commit
runs in yet another process (spark.md sections 1 to 3). Nothing is kept in module state.

    spark.read.load()             schema(), then reader(schema)         path: option, else that of the columns
    spark.readStream.load()       schema(), then streamReader(schema)   the same
    df.write.save()               writer(schema of df, overwrite)       path: option only
    df.writeStream.start()        streamWriter(schema of df, ..)        the same
    CREATE TABLE .. LOCATION      schema(), with Spark's own keys       LOCATION only

With `.schema(..)` schema() is not asked, and the reader gets just those columns; nor is it for a
table of Spark's catalog, whose columns were kept. Raises InvalidError for options
(`source_options`), NotFoundError where there is no table, and what readers and writers raise
when they are made.
"""

from __future__ import annotations

from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    DataSourceStreamReader,
)
from pyspark.sql.types import StructType

from widetable import NotFoundError, Table
from widetable.connector import change_schema, schema_of_form
from widetable_spark.frames.column_path import check_unaltered, path_of, with_path
from widetable_spark.frames.created_table import created_path, is_created
from widetable_spark.frames.source_options import (
    BARRIER,
    HOW_TO_NAME,
    PATH,
    READ,
    SNAPSHOT_ID,
    STREAM,
    TAG,
    TIMESTAMP,
    WRITE,
    SourceOptions,
    check_read_columns,
    parse_options,
)
from widetable_spark.frames.spark_types import spark_schema
from widetable_spark.reading.batch_reader import BatchReader, scan_of
from widetable_spark.reading.stream_reader import StreamReader
from widetable_spark.startup.spark_version import StreamArrowWriter
from widetable_spark.writing.batch_writer import BatchWriter
from widetable_spark.writing.stream_sink import StreamSink


class WidetableDataSource(DataSource):
    """The data source that Spark finds under the name `widetable`."""

    @classmethod
    def name(cls) -> str:
        return "widetable"

    def schema(self) -> StructType:
        """Columns of the table's schema, of a read of the past those it had then, or those that option `columns` names;
        with read.changelog=true also what changes carry.

        It is not known here whether a read or a stream asks: uses of options are checked later.
        """
        if is_created(self.options):
            path = created_path(self.options)
            found = _created(path)
            return with_path(spark_schema(found.arrow_schema), path, found.schema.column_ids)
        options = parse_options(self.options)
        past = {SNAPSHOT_ID, TIMESTAMP, TAG, BARRIER}
        if past.intersection(options.given):
            scan = scan_of(options, options.columns)
            columns, ids = scan.arrow_schema, scan.column_ids
        else:
            schema = options.table().schema
            ids = schema.column_ids
            names = schema.chosen(options.columns)
            columns = schema.arrow_schema(names)
            if options.read_changelog:
                columns = schema_of_form(change_schema(schema, names), options.change_form)
        return with_path(spark_schema(columns), options.path, ids)

    def reader(self, schema: StructType) -> DataSourceReader:
        options = self._read_options(READ, schema)
        check_read_columns(options, schema.names)
        return BatchReader(options, schema)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
        return BatchWriter(self._options_of(WRITE), schema, overwrite=overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> StreamArrowWriter:
        return StreamSink(self._options_of(WRITE), schema, overwrite=overwrite)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        return StreamReader(self._read_options(STREAM, schema), schema)

    def _read_options(self, use: str, schema: StructType) -> SourceOptions:
        """Without an option of the path Spark reads a name, with the columns that it has for it."""
        path = path_of(schema)
        options = self._options_of(use, path)
        if path is not None and PATH not in {key.lower() for key in self.options}:
            check_unaltered(schema, path)
        return options

    def _options_of(self, use: str, path: str | None = None) -> SourceOptions:
        """path: where no option names one; an option `path` of the call goes first."""
        options = parse_options(self.options if path is None else {PATH: path, **self.options})
        options.check_use(use)
        return options


def _created(path: str) -> Table:
    try:
        return Table.open(path)
    except NotFoundError as error:
        raise NotFoundError(
            error.subject, found=error.found, expected=error.expected, action=HOW_TO_NAME
        ) from error
