"""Whether a running query keeps state from batch to batch: an aggregation, a join of streams, a deduplication.

In: a query in a batch, so that Spark has planned it. The plan of that batch is read by py4j; each operator with state
names there the place of its state. Raises nothing by itself.

    changes.groupBy("k").agg(..)     StateStoreSave [k], state info [ checkpoint = .., opId = 0, ..]      True
    changes.where(..)                Filter ..                                                            False
"""

from __future__ import annotations

from typing import Any, Final

from pyspark.sql.streaming.query import StreamingQuery

_STATE: Final = "state info ["


def has_state(query: StreamingQuery) -> bool:
    """Tell whether a query of this driver, which is in a batch, keeps state."""
    execution: Any = query._jsq.streamingQuery().lastExecution()
    return _STATE in execution.executedPlan().toString()
