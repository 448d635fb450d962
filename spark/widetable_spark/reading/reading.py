"""`read`: the preferred way to read a table in Spark, planned afresh on each call.

Columns and filters are pushed into the table's own scan (partitions, buckets, key ranges). Buckets that need no merge
go to Spark's own Parquet scan, which prunes columns and row groups and runs in the JVM; Python tasks merge the others,
and all buckets of a table in an object store for whose URLs Hadoop has no connector. `format("widetable")` gives the
same rows, only slower (spark.md section 1 says why).

    split                                     read by
    one run, no deletes, Parquet, under       Spark's scan
    the current schema, with all partition
    columns that the caller wants, and names
    that differ by more than case
    anything else                             a Python task per split

The two are a union, so rows come in no order. Spark decides which rows `where` keeps, whichever scan read them: its
session has a time zone and settings of SQL. The table's own scan leaves out what no zone would keep
(`TableScan.loosened`). The plan names the files: they are not protected from expiry, and a DataFrame that is used long
after the call may miss some, which Spark reports by an error.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from functools import reduce
from numbers import Integral
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import ArrayType, DataType, MapType, StructType

from widetable import InvalidError, Table, TableScan
from widetable.connector import arguments, held_columns, hold_partition_columns
from widetable_spark.frames.exact_names import column_of
from widetable_spark.frames.null_columns import can_be_widened, with_null_columns
from widetable_spark.frames.spark_types import arrow_schema, spark_batches, spark_schema
from widetable_spark.startup.spark_session import session_of
from widetable_spark.startup.worker_heap import settle

if TYPE_CHECKING:
    from widetable.connector import SplitRead

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
    raw: list[SplitRead] = []
    merged: list[SplitRead] = []
    schema_id, types = table.schema.id, {field.type for field in wide}
    is_served = (
        all(map(_same_in_spark, types))
        and spark_tells_apart(target, table.schema.names)
        and hadoop_serves(spark, table.path)
    )
    for split in scan.split_reads():
        is_raw = is_served and spark_can_scan(split, schema_id)
        (raw if is_raw else merged).append(split)
    are_whole = hold_partition_columns(raw)
    merged += [split for split, is_whole in zip(raw, are_whole, strict=True) if not is_whole]
    raw = [split for split, is_whole in zip(raw, are_whole, strict=True) if is_whole]
    parts = []
    if raw:
        parts.append(_parquet_scan(spark, raw, target))
    if merged or not raw:
        parts.append(_merge_scan(spark, merged, target))
    frame = _filtered(reduce(DataFrame.union, parts), where)
    return (
        frame
        if len(column_names) == len(wide)
        else frame.select([column_of(name) for name in column_names])
    )


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


def hadoop_serves(spark: SparkSession, path: str) -> bool:
    """Tell whether Spark's own scans open files at a path or URL: a path that is no URL, or a URL that Hadoop has a
    connector for. Spark Connect has no Hadoop to ask.
    """
    scheme, separator, _ = path.partition("://")
    if not separator:
        return True
    try:
        jvm: Any = spark._jvm
        configuration = spark._jsc.hadoopConfiguration()
        jvm.org.apache.hadoop.fs.FileSystem.getFileSystemClass(scheme, configuration)
    except (AttributeError, PySparkException, Py4JError):
        return False
    return True


def spark_can_scan(split: SplitRead, schema_id: int) -> bool:
    """Tell whether Spark's Parquet scan finds the split's rows: no merge, Parquet, and the current schema's names.

    schema_id: of the current schema. Spark finds columns by name, files have the names of the schema that they were
    written under; after a rename or a change of type only our reader, which uses field ids, finds them.
    """
    if not split.raw_files or not all(file.is_parquet for file in split.raw_files):
        return False
    return all(file.schema_id == schema_id for file in split.raw_files)


def spark_tells_apart(target: StructType, file_columns: Iterable[str]) -> bool:
    """Tell whether Spark's Parquet scan finds the columns of `target` by their names.

    Spark compares names without regard to case, unless the session says otherwise when the query runs. file_columns:
    names of all columns of the files.
    """
    occurrences = Counter(name.lower() for name in file_columns)
    return all(occurrences[name.lower()] <= 1 for name in target.names) and all(
        _fields_apart(field.dataType) for field in target
    )


def _fields_apart(kind: DataType) -> bool:
    """Tell whether the field names of the rows within a type differ by more than case, at any depth."""
    if isinstance(kind, StructType):
        names = {name.lower() for name in kind.names}
        return len(names) == len(kind) and all(_fields_apart(field.dataType) for field in kind)
    if isinstance(kind, ArrayType):
        return _fields_apart(kind.elementType)
    if isinstance(kind, MapType):
        return _fields_apart(kind.keyType) and _fields_apart(kind.valueType)
    return True


def _same_in_spark(t: pa.DataType) -> bool:
    """Tell whether Spark's Parquet scan reads a type alike: no TIME and no timestamps in nanoseconds, at any depth."""
    if pa.types.is_nested(t):
        children = [t.field(i).type for i in range(t.num_fields)]
        return all(_same_in_spark(child) for child in children)
    return not (pa.types.is_time(t) or (pa.types.is_timestamp(t) and t.unit == "ns"))


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
