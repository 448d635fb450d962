"""Decides which splits of a scan Spark's own Parquet scan reads, by files, types and names.

    raw       no merge: Spark's scan
    hot       many values, few newer records: Spark's scan reads the rows that these do not touch, a task the others
    merged    a Python task

In: the reads of a scan, and its columns. Out: `ServedReads`. Raises what reading footers raises.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.types import ArrayType, DataType, MapType, StructType

from widetable import Table
from widetable.connector import hold_partition_columns, hot_split
from widetable_spark.frames.spark_types import spark_schema

if TYPE_CHECKING:
    from widetable.connector import HotSplit, SplitRead

# All of them are sent to each executor: some 100 bytes a key.
_MOST_TOUCHED_KEYS: Final = 2_000_000
# A merge sends so many values to the JVM in the time that two parts take longer to plan and to start.
_FEWEST_VALUES: Final = 16_000_000


class ServedReads(NamedTuple):
    """The reads, by who reads them. keyed: the columns of the scan, and behind them the rest of the primary key."""

    raw: list[SplitRead]
    hot: list[HotSplit]
    merged: list[SplitRead]
    keyed: pa.Schema


def served_reads(
    spark: SparkSession, table: Table, reads: Sequence[SplitRead], columns: pa.Schema
) -> ServedReads:
    """Divide the reads of a scan of these columns."""
    key = table.schema.primary_keys
    missing = [name for name in key if name not in columns.names]
    keyed = pa.schema([*columns, *table.schema.arrow_schema(missing)])
    if not hadoop_serves(spark, table.path):
        return ServedReads([], [], list(reads), keyed)
    are_raw = _are_served(table, reads, columns)
    raw = [read for read, is_raw in zip(reads, are_raw, strict=True) if is_raw]
    rest = [read for read, is_raw in zip(reads, are_raw, strict=True) if not is_raw]
    joins = bool(key) and all(_joins_alike(keyed.field(name).type) for name in key)
    halves = [hot_split(read) if joins else None for read in rest]
    are_hot = iter(_are_served(table, [each.untouched for each in halves if each], keyed))
    hot: list[HotSplit] = []
    merged: list[SplitRead] = []
    room = _MOST_TOUCHED_KEYS
    for read, half in zip(rest, halves, strict=True):
        if half is not None and next(are_hot) and half.keys.split.rows <= room:
            hot.append(half)
            room -= half.keys.split.rows
        else:
            merged.append(read)
    if sum(each.untouched.split.rows for each in hot) * len(columns) < _FEWEST_VALUES:
        return ServedReads(raw, [], rest, keyed)
    return ServedReads(raw, hot, merged, keyed)


def _are_served(table: Table, reads: Sequence[SplitRead], columns: pa.Schema) -> list[bool]:
    """Return for each read whether Spark's scan gives these columns of its rows."""
    target, types = spark_schema(columns), {field.type for field in columns}
    if not (all(map(_same_in_spark, types)) and spark_tells_apart(target, table.schema.names)):
        return [False] * len(reads)
    are_found = [spark_can_scan(read, table.schema.id) for read in reads]
    names = tuple(columns.names)
    pairs = zip(reads, are_found, strict=True)
    chosen = [replace(read, columns=names) for read, is_found in pairs if is_found]
    are_whole = iter(hold_partition_columns(chosen))
    return [is_found and next(are_whole) for is_found in are_found]


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
    wanted = {name.lower() for name in target.names}
    occurrences = Counter(name for name in map(str.lower, file_columns) if name in wanted)
    return all(count == 1 for count in occurrences.values()) and all(
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


def _joins_alike(t: pa.DataType) -> bool:
    """Tell whether Spark's joins take the keys for equal that the table does: 0.0 and -0.0 are two keys there."""
    return not (pa.types.is_floating(t) or pa.types.is_nested(t))
