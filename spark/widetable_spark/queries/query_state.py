"""Whether a running query keeps state from batch to batch: an aggregation, a join of streams, a deduplication.

In: a query in a batch, so that Spark has planned it. Asked by py4j of the plan of that batch, in which each operator
with state says where its state is. Raises nothing by itself.

    changes.groupBy("k").agg(..)     StateStoreSave [k], state info [ checkpoint = .., opId = 0, ..]      True
    changes.where(..)                Filter ..                                                            False
"""

from __future__ import annotations

from typing import Any, Final

from pyspark.sql.streaming.query import StreamingQuery

_STATE: Final = "state info ["


def has_state(query: StreamingQuery) -> bool:
    """Of a query of this driver, in a batch."""
    execution: Any = query._jsq.streamingQuery().lastExecution()
    return _STATE in execution.executedPlan().toString()
