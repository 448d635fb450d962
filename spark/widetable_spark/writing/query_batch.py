"""`write_batch`: commits a micro-batch of a query's `foreachBatch` into a table once, however often Spark runs it.

Spark runs a batch again when the driver died before it noted the batch as done. A plain `df.write` in `foreachBatch`
would commit its rows twice, and sums would count them twice. Here the batch's number is the commit's identifier and the
query's id its user, as in the streaming sink of `format("widetable")`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame

from widetable import InvalidError
from widetable.connector import arguments, warn_of_new_query
from widetable_spark.frames.declared_options import COMMIT_IDENTIFIER, COMMIT_USER, PATH
from widetable_spark.frames.source_options import parse_options
from widetable_spark.writing.task_writer import QUERY_ID_PROPERTY


def write_batch(
    df: DataFrame,
    batch_id: int,
    table: str | os.PathLike[str],
    *,
    commit_user: str | None = None,
    options: Mapping[str, str] | None = None,
) -> None:
    """Commit the rows of a micro-batch, unless the table has the batch already.

    Parameters
    ----------
    df : DataFrame
        The rows that Spark gives to the function of `foreachBatch`. A batch that runs again must have the same rows.
    batch_id : int
        The number that Spark gives to that function.
    table : str or os.PathLike
        The path or URL of the table. A batch may be written into several tables, by a call for each.
    commit_user : str, default None
        The name under which the batches count, one query's alone. None: the query's id, which its checkpoint keeps.
    options : dict of str to str, default None
        Options of `format("widetable")`, such as `row-kind`, `columns` and those of an object store; not those that say
        where and as what the batch is committed. None: no options.

    Raises
    ------
    InvalidError
        Arguments or options are invalid, or the call is outside of a streaming query and has no `commit_user`.

    Examples
    --------
    In a function for `foreachBatch`, `commit_user` may be left out.

    >>> import widetable as wt
    >>> import widetable_spark
    >>> users = wt.Catalog("warehouse").create_table("shop.users", {"id": "BIGINT"}, primary_key=["id"])
    >>> rows = spark.createDataFrame([(1,)], "id BIGINT")
    >>> for _ in range(2):
    ...     widetable_spark.write_batch(rows, 7, users.path, commit_user="users")
    >>> users.find_commit("users", 7).id
    1
    """
    number = arguments.whole_number(batch_id, "batch_id", least=0)
    user = _query_id(df) if commit_user is None else arguments.text(commit_user, "commit_user")
    writer = arguments.instance(df, DataFrame, "df").write.format("widetable").mode("append")
    write_options = arguments.mapping(options, "options")
    identity = {
        PATH: arguments.path(table, "table"),
        COMMIT_USER: user,
        COMMIT_IDENTIFIER: str(number),
    }
    for key in write_options:
        if key.lower() in identity:
            raise arguments.refused(
                key, "options", f"none of {', '.join(identity)}, which the call says"
            )
    if number == 0 and commit_user is None:
        given = parse_options({**write_options, **identity})
        warn_of_new_query(given.table(), user, df.columns)
    writer.options(**write_options, **identity).save()


def _query_id(df: DataFrame) -> str:
    try:
        query_id = df.sparkSession.sparkContext.getLocalProperty(QUERY_ID_PROPERTY)
    except PySparkException:  # Spark Connect has no such context
        query_id = None
    if query_id is None:
        raise InvalidError(
            "write_batch",
            found="a call by nobody's streaming query",
            expected="a call in foreachBatch, or a commit_user",
            action="Call it in the function of foreachBatch, or pass a commit_user that only this query uses.",
        )
    return str(query_id)
