"""`register_catalog`: the tables of a warehouse by name in Spark SQL.

Each is a table of Spark's session catalog, `database.table`, that refers to the directory (`column_path`): a query
plans it afresh, which a temporary view of `format("widetable")` does not (spark.md sections 1 and 5). Dropping such a
table in Spark drops the name alone.

    for each db.table        CREATE DATABASE IF NOT EXISTS db
      the name means it      DROP TABLE, CREATE TABLE .. LOCATION: its columns become the current ones
      means another table    InvalidError, also for one of ours, such as one of another warehouse
      does not exist         CREATE TABLE .. LOCATION

Between the two statements of the second line the name does not exist for a moment, and a query that comes then fails.
Names are registered one after the other: those before one that is refused stay registered.
"""

from __future__ import annotations

import os

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from widetable import Catalog, InvalidError
from widetable_spark.frames.column_path import names_path, path_of
from widetable_spark.startup.spark_session import session_of


def register_catalog(spark: SparkSession, warehouse: str | os.PathLike[str]) -> list[str]:
    """Register the tables of a warehouse under their names in Spark SQL.

    Call it again after a table was created or altered. Databases that Spark lacks are created; they have no location of
    ours, so `DROP DATABASE` deletes no table. A table that was dropped from the warehouse keeps its name in Spark, and
    reading it fails. Options of a storage come from the environment.

    Parameters
    ----------
    spark : SparkSession
        A session of the driver or of Spark Connect.
    warehouse : str or os.PathLike
        The path or URL of the warehouse.

    Returns
    -------
    list of str
        The names `db.table`, sorted.

    Raises
    ------
    InvalidError
        Spark does not take a name, two names differ by case only, or a name means another table in Spark, also one of
        another warehouse: DROP TABLE frees the name.

    Examples
    --------
    >>> import widetable as wt
    >>> import widetable_spark
    >>> users = wt.Catalog("warehouse").create_table("crm.users", {"id": "BIGINT"}, primary_key=["id"])
    >>> widetable_spark.register_catalog(spark, "warehouse")
    ['crm.users']
    >>> spark.sql("SELECT * FROM crm.users").count()
    0
    >>> _ = spark.sql("DROP DATABASE crm CASCADE")
    """
    session = session_of(spark)
    catalog = Catalog(warehouse)
    names = catalog.list_tables()
    seen: dict[str, str] = {}
    for name in names:
        if seen.setdefault(name.lower(), name) != name:
            raise _refused(
                name, f"{seen[name.lower()]!r} as well", "names that differ by more than case"
            )
    for name in names:
        try:
            _register(session, name, catalog.table(name).path)
        except PySparkException as error:
            raise _refused(
                name, str(error).partition("\n")[0], "a name that Spark takes"
            ) from error
    return names


def _register(session: SparkSession, name: str, path: str) -> None:
    database, table = name.split(".")
    quoted = f"`{database}`.`{table}`"  # neither has a backtick, or Spark refuses it
    session.sql(f"CREATE DATABASE IF NOT EXISTS `{database}`")
    if session.catalog.tableExists(quoted):
        columns = session.table(quoted).schema
        if not names_path(columns, path):
            other_path = path_of(columns) or "another kind of table"
            raise _refused(
                name,
                f"the name in Spark, which means {other_path}",
                f"a free name, or one that means {path}",
                f"DROP TABLE {quoted} frees the name; it deletes no file of a widetable table.",
            )
        session.sql(f"DROP TABLE {quoted}")
    # In a text of Spark SQL a backslash escapes.
    location = path.replace("\\", "\\\\").replace("'", "\\'")
    session.sql(f"CREATE TABLE {quoted} USING widetable LOCATION '{location}'")


def _refused(
    name: str,
    problem: str,
    expected: str,
    action: str = "Name the table yourself: CREATE TABLE name USING widetable LOCATION 'path'.",
) -> InvalidError:
    return InvalidError(
        f"table {name!r}",
        found=problem,
        expected=expected,
        action=action,
    )
