"""`windows`: the rows of a DataFrame, each with features over windows of time before its own.

    driver        a plan of the call (`PastTasks`), pinned to the snapshots that are there now
    first tasks   each row gets the number of the task that answers it: the bucket of its entity
    shuffle       once, of the rows alone; the tiles are not shuffled
    then          one task per bucket: `PastTasks.answered`

All tasks read what the tables had when `windows` was called, as `point_in_time` does (`past_features`). Raises in the
driver and in tasks what `Table.windows` raises, and NotFoundError in a task whose snapshots have expired.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any, TypeAlias

from pyspark.sql import DataFrame

from widetable import Table, TimeWindow
from widetable.connector import WindowCall, arguments, plan_windows
from widetable_spark.joining.past_features import (
    checked_rows,
    mapped,
    name_rule,
    opened,
    task_count,
)

_AnyTable: TypeAlias = Table | str | os.PathLike[str]


def windows(
    df: DataFrame,
    path_or_table: Table | str | os.PathLike[str],
    at: str = "event_timestamp",
    *,
    features: Mapping[str, TimeWindow],
    tile: str = "tile",
    tile_size: str | timedelta | None = None,
    on: Sequence[str] | Mapping[str, str] | None = None,
    prefix: str = "",
    snapshot_id: int | None = None,
    empty_zero: bool = False,
    coarse: Sequence[_AnyTable] | Mapping[str, _AnyTable] = (),
    as_known: bool = False,
    include_current: bool = False,
) -> DataFrame:
    """Add to each row of a DataFrame counts, sums and extremes over the complete tiles before its time.

    Parameters
    ----------
    df : DataFrame
        Rows with the entity's key columns and a time, not streaming; other columns, such as labels, are kept.
    path_or_table : Table, str or os.PathLike
        The tile table, or its path or URL. Tasks get the options that it was opened with.
    at, features, tile, tile_size, on, prefix, snapshot_id, empty_zero
        As in `Table.windows`. A TIMESTAMP_NTZ is in UTC.
    coarse : list of tables or dict of str to table, default ()
        Tables with larger tiles, as in `Table.windows`, or their paths.
    as_known, include_current
        As in `Table.windows`.

    Returns
    -------
    DataFrame
        One row per row of df, in no order: df's columns, then the features, as `Table.windows` has them.

    Raises
    ------
    InvalidError
        An argument does not fit, or df is streaming; in a task: a row or a tile does not fit.
    UnsupportedError
        The table is no tile table.
    NotFoundError
        There is no such table or column; in a task: a time is before what is kept of the past.

    Examples
    --------
    >>> columns = {"user": "INT", "tile": "TIMESTAMP", "clicks": "BIGINT"}
    >>> sums = {"merge-engine": "aggregation", "fields.clicks.aggregate-function": "sum"}
    >>> tiles = wt.Catalog("warehouse").create_table("s.t", columns, primary_key=["user", "tile"], options=sums)
    >>> clicks = spark.sql("SELECT 1 AS user, TIMESTAMP_NTZ'2026-01-02 11:00:00' AS tile, 3L AS clicks")
    >>> tiles.write(clicks.toArrow()).snapshot_id
    1
    >>> labels = spark.sql("SELECT 1 AS user, TIMESTAMP_NTZ'2026-01-02 12:30:00' AS at")
    >>> given = widetable_spark.windows(labels, tiles, "at", features={"f": wt.window("clicks", "count", "1 h")})
    >>> given.select("user", "f").collect()
    [Row(user=1, f=3)]
    """
    how = features, at, tile, tile_size, on, prefix, empty_zero, as_known, include_current
    return _with_windows(df, path_or_table, WindowCall(*how), coarse, snapshot_id)


def _with_windows(
    df: DataFrame, path_or_table: _AnyTable, call: WindowCall, coarse: Any, snapshot_id: int | None
) -> DataFrame:
    """Check the arguments in the driver, and return the DataFrame with the features."""
    left = checked_rows(df, "windows", "a lookup session for a stream")
    past = plan_windows(
        left,
        opened(path_or_table),
        call._replace(features=arguments.mapping(call.features, "features")),
        _opened(coarse),
        snapshot_id,
        name_rule(df),
        task_count(df),
    )
    return mapped(df, past)


def _opened(coarse: Any) -> list[Table] | dict[Any, Table]:
    if isinstance(coarse, Mapping):
        return {size: opened(each) for size, each in coarse.items()}
    if isinstance(coarse, list | tuple):
        return [opened(each) for each in coarse]
    raise arguments.refused(coarse, "coarse", "a list of tables, or a dict of sizes to tables")
