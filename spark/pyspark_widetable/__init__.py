"""Found by Spark without registration: a top-level module named pyspark_* with a `DefaultSource`.

Spark imports every such module at the first unknown format name, so importing this must stay cheap and must not fail.
"""

from __future__ import annotations

from widetable_spark.data_source import WidetableDataSource as DefaultSource

__all__ = ["DefaultSource"]
