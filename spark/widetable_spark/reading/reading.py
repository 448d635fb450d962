"""`read`: the preferred way to read a table in Spark, planned afresh on each call.

Columns and filters are pushed into the table's own scan (partitions, buckets, key ranges). Buckets that need no merge
go to Spark's own Parquet scan, which prunes columns and row groups and runs in the JVM. Of buckets with few newer
records that replace whole rows it reads the rows that none of them touches. Python tasks read what is left, and all
buckets of a table in an object store for whose URLs Hadoop has no connector. `format("widetable")` gives the
same rows, only slower (spark.md section 1 says why).

    split                                     read by
    one run, no deletes, Parquet, under       Spark's scan
    the current schema, with all partition
    columns that the caller wants, and names
    that differ by more than case
    the same, and few newer records that      Spark's scan, without the keys of newer records (a broadcast, which a
    replace rows as a whole, or delete them   Python task per split reads), and a Python task per split for those
    anything else                             a Python task per split

These are a union, so rows come in no order. Spark decides which rows `where` keeps, whichever scan read them: its
session has a time zone and settings of SQL. The table's own scan leaves out what no zone would keep
(`TableScan.loosened`). The plan names the files: they are not protected from expiry, and a DataFrame that is used long
after the call may miss some, which Spark reports by an error.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from functools import reduce
from numbers import Integral
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import broadcast
from pyspark.sql.types import StructType

from widetable import InvalidError, Table, TableScan
from widetable.connector import arguments, held_columns
from widetable_spark.frames.exact_names import column_of
from widetable_spark.frames.null_columns import can_be_widened, with_null_columns
from widetable_spark.frames.spark_types import arrow_schema, spark_batches, spark_schema
from widetable_spark.reading.served_reads import served_reads
from widetable_spark.startup.spark_session import session_of
from widetable_spark.startup.worker_heap import settle

if TYPE_CHECKING:
    from widetable.connector import HotSplit, SplitRead

# Up to this many columns, reading the footers of all files may take longer than reading nulls.
_FEW_COLUMNS: Final = 100
# Options of Spark's scans of our files; each overrides a setting that a session may have.
_SCAN_OPTIONS: Final = {
    # Partition values are not taken out of the directories, where a DATE is a day number.
    "recursiveFileLookup": "true",
    # A [], {}, * or ? in a path is no pattern.
    "__globPaths__": "false",
    # A file that has expired or is damaged is an error, not fewer rows.
    "ignoreMissingFiles": "false",
    "ignoreCorruptFiles": "false",
    # All clients write days of the calendar that Arrow uses.
    "datetimeRebaseMode": "CORRECTED",
    "int96RebaseMode": "CORRECTED",
}


def read(
    spark: SparkSession,
    path: str | os.PathLike[str],
    columns: Sequence[str] | None = None,
    where: str | None = None,
    as_of: int | str | datetime | None = None,
    *,
    storage_options: Mapping[str, str] | None = None,
) -> DataFrame:
    """Read one snapshot of a table.

    The snapshot is chosen by this call. Spark decides which rows `where` keeps, as in `read(..).where(..)`: a text that
    gives a moment without a zone is read in the session's zone.

    Parameters
    ----------
    spark : SparkSession
        A session of the driver or of Spark Connect.
    path : str or os.PathLike
        The path or URL of the table.
    columns : list of str, default None
        The columns, in the order wanted. None: all.
    where : str, default None
        A SQL condition over any column of the table, as `Table.scan` takes it; rows for which it is null are left out.
        None: all rows.
    as_of : int, str or datetime, default None
        A snapshot id, a tag, or a moment: the newest snapshot that is not younger. None: the newest snapshot.
    storage_options : dict of str to str, default None
        Options of an object store, as in `widetable.Catalog`, which tasks get as well. None: the environment says them.

    Returns
    -------
    DataFrame
        The rows, in no order.

    Raises
    ------
    NotFoundError
        There is no such table, column, snapshot or tag.
    InvalidError
        The table or Spark does not take the condition, or an argument has a wrong type.

    Examples
    --------
    >>> import widetable as wt
    >>> import widetable_spark
    >>> users = wt.Catalog("warehouse").create_table("shop.users", {"id": "BIGINT"}, primary_key=["id"])
    >>> users.write([{"id": 1}, {"id": 2}]).snapshot_id
    1
    >>> widetable_spark.read(spark, users.path, where="id > 1").collect()
    [Row(id=2)]
    """
    session_of(spark)
    table = Table.open(path, storage_options=storage_options)
    columns = None if columns is None else arguments.names(columns, "columns")
    where = None if where is None else arguments.text(where, "where")
    scan = table.scan(columns=columns, filter=where, **_snapshot(as_of))
    return _planned(spark, table, scan, where)


def _planned(spark: SparkSession, table: Table, scan: TableScan, where: str | None) -> DataFrame:
    """Plan the splits of a scan: by Spark's Parquet scan where it can, else by Python tasks."""
    column_names, scan = scan.arrow_schema.names, scan.loosened()
    wide = scan.arrow_schema
    target = spark_schema(wide)
    reads = served_reads(spark, table, scan.split_reads(), wide)
    parts = []
    if reads.raw:
        parts.append(_parquet_scan(spark, reads.raw, target))
    if reads.hot:
        parts.append(_untouched_scan(spark, reads.hot, reads.keyed, target))
    merged = [*reads.merged, *(each.touched for each in reads.hot)]
    if merged or not parts:
        parts.append(_merge_scan(spark, merged, target))
    frame = _filtered(reduce(DataFrame.union, parts), where)
    return _chosen(frame, column_names)


def _chosen(frame: DataFrame, names: Sequence[str]) -> DataFrame:
    if len(frame.columns) == len(names):
        return frame
    return frame.select([column_of(name) for name in names])


def _filtered(frame: DataFrame, where: str | None) -> DataFrame:
    """Return the rows for which the condition is true. Raises InvalidError where Spark does not take the condition."""
    if where is None:
        return frame
    try:
        return frame.where(where)
    except AnalysisException as cause:
        raise InvalidError(
            f"where {where!r}",
            found=str(cause).splitlines()[0],
            expected="a condition that Spark takes as well",
            action="Correct the condition.",
        ) from cause


def _snapshot(as_of: Any) -> dict[str, Any]:
    if as_of is None:
        return {}
    if not isinstance(as_of, bool) and isinstance(as_of, Integral):
        return {"snapshot_id": as_of}
    if isinstance(as_of, str | datetime):
        return {"tag" if isinstance(as_of, str) else "timestamp": as_of}
    raise arguments.refused(as_of, "as_of", "a snapshot id, a tag or a datetime")


def _parquet_scan(spark: SparkSession, splits: list[SplitRead], target: StructType) -> DataFrame:
    paths = [file.path for split in splits for file in split.raw_files or ()]
    return spark.read.schema(target).options(**_SCAN_OPTIONS).parquet(*paths)


def _untouched_scan(
    spark: SparkSession, splits: list[HotSplit], keyed: pa.Schema, target: StructType
) -> DataFrame:
    """Read the rows whose keys no newer file has.

    Spark pushes conditions and columns through the join into its scan. keyed: the columns of `target`, and the keys.
    """
    key = list(splits[0].keys.columns)
    rows = _parquet_scan(spark, [each.untouched for each in splits], spark_schema(keyed))
    key_schema = spark_schema(pa.schema([keyed.field(name) for name in key]))
    touched = _merge_scan(spark, [each.keys for each in splits], key_schema)
    untouched = rows.join(broadcast(touched), key, "left_anti")
    # A join by names puts these first.
    return untouched.select([column_of(name) for name in target.names])


def _merge_scan(spark: SparkSession, splits: list[SplitRead], target: StructType) -> DataFrame:
    """Read splits by Python tasks, one task per split: the rows of `range` number them.

    The splits travel with the function, all of them to each task. Columns that no file of theirs holds are null
    literals of the plan.
    """
    narrow = _stored_columns(splits, target)
    if not splits:
        frame = spark.createDataFrame([], narrow)
    else:
        reads = [replace(split, columns=tuple(narrow.names)) for split in splits]
        function = _merge_function(reads, arrow_schema(narrow))
        frame = spark.range(0, len(splits), 1, len(splits)).mapInArrow(function, narrow)
    return frame if len(narrow) == len(target) else with_null_columns(frame, target)


def _stored_columns(splits: list[SplitRead], target: StructType) -> StructType:
    """Return the columns that tasks must read, at least one: without columns a DataFrame has no rows."""
    if len(target) <= _FEW_COLUMNS or not can_be_widened(target):
        return target
    file_columns = held_columns(splits)
    fields = [field for field in target if field.name in file_columns or not field.nullable]
    return StructType(fields or [target[0]])


def _merge_function(
    splits: Sequence[SplitRead], expected: pa.Schema
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def merge(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        settle()
        for batch in batches:
            for index in batch.column(0).to_pylist():
                for merged in splits[index].to_batches():
                    yield from spark_batches(merged, expected)

    return merge
