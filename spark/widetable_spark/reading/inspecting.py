"""`inspect`: the metadata of a table as a DataFrame: the Arrow tables of `Table.inspect`.

The driver reads them when this is called; they have at most as many rows as the table has files. Raises what
`Table.inspect` raises, InvalidError for a time that Spark cannot hold.

It is a DataFrame of local rows, as of the call: it does not change with the table, and no task reads it.
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
    """Read the metadata of a table as a DataFrame.

    Parameters
    ----------
    spark : SparkSession
        A session of the driver or of Spark Connect.
    path : str or os.PathLike
        The path or URL of the table.
    name : str
        What to read: `files`, `snapshots`, `buckets` or another name of `Table.inspect`.
    snapshot_id : int, default None
        The snapshot of files, manifests, partitions and buckets. None: the newest one.
    tag : str, default None
        A tag in place of a snapshot id. None: no tag.
    branch : str, default None
        A branch other than main. None: main.
    storage_options : dict of str to str, default None
        Options of an object store, as in `widetable.Catalog`. None: the environment says them.

    Returns
    -------
    DataFrame
        The columns and rows that `Table.inspect` gives by that name, as of this call.

    Raises
    ------
    NotFoundError
        There is no such table, branch, snapshot or tag.
    InvalidError
        The name is unknown, an argument does not fit it, or a time is one that Spark cannot hold.

    Examples
    --------
    >>> import widetable as wt
    >>> import widetable_spark
    >>> users = wt.Catalog("warehouse").create_table("shop.users", {"id": "BIGINT"}, primary_key=["id"])
    >>> users.write([{"id": 1}]).snapshot_id
    1
    >>> widetable_spark.inspect(spark, users.path, "snapshots").count()
    1
    """
    session = session_of(spark)
    table = Table.open(path, branch=branch, storage_options=storage_options)
    metadata = table.inspect.frame(name, snapshot_id=snapshot_id, tag=tag)
    target = spark_schema(metadata.schema)
    expected = arrow_schema(target)
    batches = [cast_batch(batch, expected) for batch in metadata.combine_chunks().to_batches()]
    return session.createDataFrame(pa.Table.from_batches(batches, expected), target)
