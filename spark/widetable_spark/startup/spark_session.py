"""The argument `spark`: a session, of the driver or of Spark Connect.

Raises InvalidError for anything else, and for a session whose workers have another Python.
"""

from __future__ import annotations

from typing import Any

from pyspark.sql import SparkSession

from widetable.connector import arguments
from widetable_spark.startup.worker_python import check_worker_python


def session_of(value: Any) -> SparkSession:
    """Check that a value is a session by what it can do: sessions of Spark Connect have another class."""
    if not callable(getattr(value, "createDataFrame", None)):
        raise arguments.refused(value, "spark", "a SparkSession")
    session: SparkSession = value
    check_worker_python(session)
    return session
