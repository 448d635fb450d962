"""What the installed Spark lacks of newer ones: 4.0 is the oldest that has Python data sources.

4.1   writers of streams that take Arrow: before, a batch writer that takes Arrow serves a stream as well
      the type TIME
4.2   streaming reads with limits, whose latestOffset is given where the batch begins; before, these limits are
      refused, and a batch takes all there is

Missing classes are replaced here, once, by a class or by None; so no other module looks at a version. Names that are
None where Spark lacks them are used only after a check of HAS_LIMITS, or as the class of a value that Spark then never
passes. Raises nothing.
"""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any, Final

import pyspark
from pyspark.sql import datasource, types
from pyspark.sql.pandas.types import to_arrow_schema

try:
    from pyspark.sql.datasource import DataSourceStreamArrowWriter as StreamArrowWriter
except ImportError:
    if not TYPE_CHECKING:

        class StreamArrowWriter(
            datasource.DataSourceArrowWriter, datasource.DataSourceStreamWriter
        ):
            """Known as one that takes Arrow by its first base."""


try:
    from pyspark.sql.streaming.datasource import (
        ReadAllAvailable,
        ReadLimit,
        ReadMaxBytes,
        ReadMaxFiles,
        ReadMaxRows,
        SupportsTriggerAvailableNow,
    )
except ImportError:
    if not TYPE_CHECKING:

        class SupportsTriggerAvailableNow:
            """Spark asks once for the end of such a query, by itself."""

        ReadAllAvailable = ReadLimit = ReadMaxBytes = ReadMaxFiles = ReadMaxRows = None


VERSION: Final = pyspark.__version__
HAS_LIMITS: Final = ReadLimit is not None
HAS_TIME: Final = hasattr(types, "TimeType")
# Arguments of pyspark's to_arrow_schema for timestamps in UTC, which is the default of versions without the argument.
IN_UTC: Final[dict[str, Any]] = (
    {"timezone": "UTC"} if "timezone" in inspect.signature(to_arrow_schema).parameters else {}
)

__all__ = [
    "HAS_LIMITS",
    "HAS_TIME",
    "IN_UTC",
    "VERSION",
    "ReadAllAvailable",
    "ReadLimit",
    "ReadMaxBytes",
    "ReadMaxFiles",
    "ReadMaxRows",
    "StreamArrowWriter",
    "SupportsTriggerAvailableNow",
]
