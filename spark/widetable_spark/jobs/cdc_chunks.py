"""Carries chunks of a database's full copy out as tasks of Spark (`task_waves`).

A task opens its own connection to the database and writes its own files, which the driver commits. Raises what waves
raise.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from widetable.connector import counted
from widetable_cdc.running.chunk_task import ChunkOutcome, ChunkTask
from widetable_spark.jobs.task_waves import TaskWaves
from widetable_spark.startup.worker_heap import settle

if TYPE_CHECKING:
    from pyspark import SparkContext


def spark_chunks(
    context: SparkContext, count: int | None = None
) -> TaskWaves[ChunkTask, ChunkOutcome]:
    """Return what runs the chunks. count: how many at once; None for as many as the session has cores."""
    return TaskWaves(context, carried_out, _described, count)


def carried_out(task: ChunkTask) -> ChunkOutcome:
    """Carry a chunk out in a worker."""
    settle()
    return task.run()


def _described(chunks: Sequence[ChunkTask]) -> str:
    names = dict.fromkeys(task.state.relation for task in chunks)
    return f"{chunks[0].config.name}: {counted(len(chunks), 'chunk')} of {', '.join(names)}"
