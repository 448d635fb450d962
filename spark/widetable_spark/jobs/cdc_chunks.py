"""Carries chunks of a database's full copy out as tasks of Spark, as many at once as the session has cores.

    ChunkTask, .. ─► one job of Spark, a task for each ─► ChunkOutcome, ..          the driver commits them

A task opens its own connection to the database and writes its own files; nothing is shuffled. Spark runs a task again
whose process died, or a second time beside a slow one: files of the others are named by no snapshot. Chunks travel in
the function of the job, which no plan and no log shows, because they hold the connection string.

Raises StorageError for a job that fails all the same, so that its chunks are read again. An error of Python in a task,
such as a package that a worker lacks, is raised as Spark tells it.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from widetable import StorageError
from widetable.connector import counted
from widetable_cdc.running.chunk_task import ChunkOutcome, ChunkTask
from widetable_spark.startup.worker_heap import settle

if TYPE_CHECKING:
    from pyspark import SparkContext

# In the text of an error: a task raised it, in Python.
_FAULT: Final = "api.python.PythonException"
_DESCRIPTION: Final = "spark.job.description"


@dataclass(frozen=True)
class SparkChunks:
    """Runs tasks in jobs of a session. count: how many at once; None for as many as the session has cores."""

    context: SparkContext
    count: int | None = None

    def __call__(self, tasks: Iterator[ChunkTask]) -> Iterator[tuple[ChunkTask, ChunkOutcome]]:
        """Yield each task with its outcome. Several are taken at once: those of a job."""
        count = self.count or self.context.defaultParallelism
        while chunks := list(itertools.islice(tasks, count)):
            yield from zip(chunks, self._carried_out(chunks), strict=True)

    def _carried_out(self, chunks: list[ChunkTask]) -> list[ChunkOutcome]:
        carry_out = carried_out

        def run(number: int, _: Iterable[int]) -> Iterator[ChunkOutcome]:
            yield carry_out(chunks[number])

        names = dict.fromkeys(task.state.relation for task in chunks)
        before: Any = self.context.getLocalProperty(_DESCRIPTION)
        what = f"{chunks[0].config.name}: {counted(len(chunks), 'chunk')} of {', '.join(names)}"
        try:
            self.context.setLocalProperty(_DESCRIPTION, what)
            slots = self.context.parallelize(range(len(chunks)), len(chunks))
            return slots.mapPartitionsWithIndex(run).collect()
        except (PySparkException, Py4JError) as error:
            if _FAULT in str(error):
                raise
            raise StorageError(
                f"the Spark job of {what}",
                found=str(error).partition("\n")[0],
                expected="tasks that end",
                action="See the logs of the executors; the job goes on where it was.",
            ) from error
        finally:
            self.context.setLocalProperty(_DESCRIPTION, before)


def carried_out(task: ChunkTask) -> ChunkOutcome:
    """Carry a chunk out in a worker."""
    settle()
    return task.run()
