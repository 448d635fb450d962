"""`inspect`: what a table has, as a DataFrame: the Arrow tables of `Table.inspect`.

The driver reads them when this is called; they have as many rows as the table has files at most. Raises what
`Table.inspect` raises, InvalidError for a time that Spark cannot hold.

It is a DataFrame of local rows, of the moment of the call: it does not change with the table,
and no task reads it.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from widetable import Table
from widetable_spark.frames.spark_types import arrow_schema, cast_batch, spark_schema
from widetable_spark.startup.spark_session import session_of


def inspect(
    spark: SparkSession,
    path: str | os.PathLike[str],
    name: str,
    *,
    snapshot_id: int | None = None,
    tag: str | None = None,
    branch: str | None = None,
    storage_options: Mapping[str, str] | None = None,
) -> DataFrame:
    """What `Table.inspect` gives by that name (`files`, `snapshots`, `buckets`, ..), with the same columns.

    snapshot_id, tag: of files, manifests, partitions and buckets; by default of the newest snapshot. branch: another
    one than main. storage_options: of an object store, as in `widetable.Catalog`.
    """
    session = session_of(spark)
    table = Table.open(path, branch=branch, storage_options=storage_options)
    found = table.inspect.frame(name, snapshot_id=snapshot_id, tag=tag)
    target = spark_schema(found.schema)
    expected = arrow_schema(target)
    batches = [cast_batch(batch, expected) for batch in found.combine_chunks().to_batches()]
    return session.createDataFrame(pa.Table.from_batches(batches, expected), target)
