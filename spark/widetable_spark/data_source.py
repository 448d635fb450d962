"""`format("widetable")`: which reader or writer serves which call of Spark.

Spark makes this object in a planner process, once per plan; the readers and writers that it makes are pickled to the
tasks, and commit runs in yet another process (spark.md sections 1 to 3). No state is kept in the module.

    spark.read.load()             schema(), then reader(schema)         path: option, else that of the columns
    spark.readStream.load()       schema(), then streamReader(schema)   path: likewise
    df.write.save()               writer(schema of df, overwrite)       path: option only
    df.writeStream.start()        streamWriter(schema of df, ..)        path: option only
    CREATE TABLE .. LOCATION      schema(), with Spark's own keys       LOCATION only

With `.schema(..)` Spark does not call schema(), and the reader gets just those columns; nor does it for a table of
Spark's catalog, whose columns it has stored. Raises InvalidError for options (`source_options`), NotFoundError where
there is no table, and what readers and writers raise when they are made.
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
from widetable_spark.frames.column_path import check_unaltered, path_of, with_path
from widetable_spark.frames.created_table import created_path, is_created
from widetable_spark.frames.declared_options import (
    BARRIER,
    PATH,
    READ,
    SNAPSHOT_ID,
    STREAM,
    TAG,
    TIMESTAMP,
    WRITE,
)
from widetable_spark.frames.source_options import (
    HOW_TO_NAME,
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
    """The data source that Spark finds under the name `widetable`.

    Spark makes it and calls its methods; a program uses `format("widetable")`.

    Examples
    --------
    The examples of the methods go on from here.

    >>> import widetable as wt
    >>> import widetable_spark
    >>> users = wt.Catalog("warehouse").create_table("shop.users", {"id": "BIGINT"}, primary_key=["id"])
    >>> source = widetable_spark.WidetableDataSource({"path": users.path})
    """

    @classmethod
    def name(cls) -> str:
        """Return the name of the format.

        Returns
        -------
        str
            `widetable`.

        Examples
        --------
        >>> source.name()
        'widetable'
        """
        return "widetable"

    def schema(self) -> StructType:
        """Return the columns of the table that the options name.

        A read of the past has the columns of that moment; option `columns` chooses among them. With option
        `read.changelog` the columns of changes follow. Spark does not say here whether a read or
        a stream calls, so the other methods check that the options fit their use.

        Returns
        -------
        StructType
            The columns, in the order of the table; their metadata name the table.

        Raises
        ------
        InvalidError
            An option is unknown or has a wrong value.
        NotFoundError
            There is no such table, column, snapshot, tag or barrier.
        UnsupportedError
            The installed Spark lacks the type of a column.

        Examples
        --------
        >>> source.schema().names
        ['id']
        """
        if is_created(self.options):
            path = created_path(self.options)
            table = _created(path)
            return with_path(spark_schema(table.arrow_schema), path, table.schema.column_ids)
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
                columns = options.change_form.schema(schema, names)
        return with_path(spark_schema(columns), options.path, ids)

    def reader(self, schema: StructType) -> DataSourceReader:
        """Make the reader of a batch read.

        Parameters
        ----------
        schema : StructType
            The columns that Spark asks for.

        Returns
        -------
        DataSourceReader
            The reader, which chooses its snapshot when Spark plans the partitions.

        Raises
        ------
        InvalidError
            An option is none of a batch read, or the columns are not those of the table.
        """
        options = self._read_options(READ, schema)
        check_read_columns(options, options.changed_columns(schema.names))
        return BatchReader(options, schema)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
        """Make the writer of a batch write.

        Parameters
        ----------
        schema : StructType
            The columns of the DataFrame.
        overwrite : bool
            Whether the rows replace those of the table, or of the partitions that they have.

        Returns
        -------
        DataSourceArrowWriter
            The writer.

        Raises
        ------
        InvalidError
            An option is none of a write, or the columns do not fit the table.
        NotFoundError
            There is no such table.
        UnsupportedError
            A column has a type or collation that a table does not keep.
        """
        return BatchWriter(self._options_of(WRITE), schema, overwrite=overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> StreamArrowWriter:
        """Make the writer of one micro-batch.

        Parameters
        ----------
        schema : StructType
            The columns of the DataFrame.
        overwrite : bool
            Whether each batch replaces the table (output mode complete).

        Returns
        -------
        StreamArrowWriter
            The writer.

        Raises
        ------
        InvalidError
            An option is none of a write, or the columns do not fit the table.
        NotFoundError
            There is no such table.
        UnsupportedError
            A column has a type or collation that a table does not keep.
        """
        return StreamSink(self._options_of(WRITE), schema, overwrite=overwrite)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """Make the reader of a streaming read.

        Parameters
        ----------
        schema : StructType
            The columns that Spark asks for.

        Returns
        -------
        DataSourceStreamReader
            The reader, which opens the table when Spark first asks for an offset.

        Raises
        ------
        InvalidError
            An option is none of a streaming read, or the columns are not those of the table.
        UnsupportedError
            The installed Spark does not limit batches, and an option asks for it.
        """
        return StreamReader(self._read_options(STREAM, schema), schema)

    def _read_options(self, use: str, schema: StructType) -> SourceOptions:
        """Return the options of a read. Without an option `path`, Spark reads a name, with the columns that it stored
        for it.
        """
        path = path_of(schema)
        options = self._options_of(use, path)
        if path is not None and PATH not in {key.lower() for key in self.options}:
            check_unaltered(schema, path)
        return options

    def _options_of(self, use: str, path: str | None = None) -> SourceOptions:
        """Parse the options. path: used where no option names one; an option `path` of the call comes first."""
        options = parse_options(self.options if path is None else {PATH: path, **self.options})
        options.check_use(use)
        return options


def _created(path: str) -> Table:
    try:
        return Table.open(path)
    except NotFoundError as error:
        raise NotFoundError(
            error.subject,
            found=error.found,
            expected=error.expected,
            action=HOW_TO_NAME,
            code=error.code,
        ) from error
