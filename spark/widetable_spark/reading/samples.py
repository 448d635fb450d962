"""`samples`: the rows of a table as they become samples of a training, as a stream.

    driver, in the process of the source     before each micro-batch: rounds of the feed, one commit per snapshot
    tasks                                    read what they gave, from the table of the samples

In: a table and a rule. Out: a streaming DataFrame of the changes of the table of the samples. Raises InvalidError and
NotFoundError in the driver; what the feed raises ends the query.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from widetable import SampleLabel, Table
from widetable.connector import SampleArguments, open_samples
from widetable_spark.frames.declared_options import FEED_SAMPLES, PATH, READ_CHANGELOG
from widetable_spark.startup.spark_session import session_of


def samples(
    spark: SparkSession, path: str | os.PathLike[str], complete: Sequence[str], *,
    on: str | None = None, wait: str | timedelta | None = None, eager: Sequence[str] = (),
    labels: Mapping[str, SampleLabel] | None = None, defaults: Mapping[str, Any] | None = None,
    late: str = "drop", negatives: float | Mapping[str, float] | None = None, seed: int = 0,
    columns: Sequence[str] | None = None, writers: Sequence[str] | None = None,
    event_times: Mapping[str, str | None] | None = None, into: str | None = None,
    storage_options: Mapping[str, str] | None = None,
) -> DataFrame:  # fmt: skip
    """Stream the rows of a table as they become samples of a training, each key once.

    Parameters
    ----------
    spark : SparkSession
        A session of the driver or of Spark Connect.
    path : str or os.PathLike
        The path or URL of the table.
    complete, on, wait, eager, labels, defaults, late, negatives, seed, columns, writers, event_times, into
        As in `Table.follow_samples`.
    storage_options : dict of str to str, default None
        Options of an object store, as in `widetable.Catalog`. None: the environment says them.

    Returns
    -------
    DataFrame
        A stream of the samples, with `_snapshot`, `_correction` and `_row_kind`. A new query begins with those that the
        table `into` has.

    Raises
    ------
    InvalidError
        An argument does not fit, or `into` has other samples.
    NotFoundError
        There is no such table or column.

    Examples
    --------
    >>> import widetable as wt
    >>> views = wt.Catalog("warehouse").create_table("shop.views", {"id": "INT", "price": "INT"}, primary_key=["id"])
    >>> stream = widetable_spark.samples(spark, views.path, ["price"])
    >>> stream.isStreaming, stream.columns
    (True, ['id', 'price', '_snapshot', '_correction', '_row_kind'])
    """
    session_of(spark)
    given = SampleArguments(
        complete, on, wait, eager, labels, defaults, late, negatives, seed, columns, writers,
        event_times,
    )  # fmt: skip
    into_path = open_samples(Table.open(path, storage_options=storage_options), given, into)
    options = {
        PATH: into_path,
        FEED_SAMPLES: "true",
        READ_CHANGELOG: "true",
        **(storage_options or {}),
    }
    return spark.readStream.format("widetable").options(**options).load()
