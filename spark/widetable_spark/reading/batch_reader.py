"""Batch read of `format("widetable")`: one partition per split of a snapshot, or of the changes of a range of
snapshots; batches in Spark's Arrow form.

pushFilters is not overridden: Spark keeps one read plan per loaded DataFrame, and pushed filters leak into other
queries of it (spark.md section 1, bug 1). Use `widetable_spark.read` for pruning by columns and filters.

A planner process makes the reader and asks it for its partitions; the reader is pickled, with the splits, to the tasks:
options, schema and splits are all that they have. Raises what planning a scan raises, on the driver; in tasks what
reading files raises, and InvalidError for values that Spark cannot hold.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from widetable import TableScan
from widetable.connector import StreamRead, range_reads
from widetable_spark.frames.column_path import check_columns
from widetable_spark.frames.source_options import SourceOptions
from widetable_spark.frames.spark_types import arrow_schema, spark_batches
from widetable_spark.reading.changed_rows import changed_rows
from widetable_spark.startup.worker_heap import settle


def scan_of(options: SourceOptions, columns: Sequence[str] | None = None) -> TableScan:
    """Return the scan of a batch read. columns: None for all that the table had then.

    The snapshot is chosen here, so each call may see another one. At most one of snapshot, time, tag and barrier may be
    given, or `Table.scan` raises InvalidError.
    """
    return options.table().scan(
        columns=columns,
        snapshot_id=options.snapshot_id,
        timestamp=options.timestamp_millis,
        tag=options.tag,
        barrier=options.barrier,
    )


class BatchReader(DataSourceReader):
    """Reads the columns of `schema`: the rows of one snapshot, chosen when the partitions are planned, or the changes
    of a range of snapshots.
    """

    def __init__(self, options: SourceOptions, schema: StructType) -> None:
        self._options = options
        self._schema = schema

    def partitions(self) -> Sequence[InputPartition]:
        if self._options.incremental is not None:
            return self._changes(*self._options.incremental)
        scan = scan_of(self._options, [field.name for field in self._schema])
        check_columns(self._schema, self._options.path, scan.column_ids)
        return [InputPartition(read) for read in scan.split_reads()]

    def _changes(self, start: int | str, end: int | str) -> list[InputPartition]:
        table = self._options.table()
        check_columns(self._schema, self._options.path, table.schema.column_ids)
        names = self._options.changed_columns(self._schema.names)
        return [InputPartition(read) for read in range_reads(table, start, end, names)]

    def read(self, partition: InputPartition | None) -> Iterator[pa.RecordBatch]:
        settle()
        target = arrow_schema(self._schema)
        if partition is None or partition.value is None:
            return  # for an empty list Spark makes one partition without a value (4.0: None)
        read = partition.value
        is_of_changes = isinstance(read, StreamRead)
        batches = changed_rows(read, self._options) if is_of_changes else read.to_batches()
        for batch in batches:
            yield from spark_batches(batch, target)
