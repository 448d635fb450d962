"""Runs independent tasks on the executors of a session, in waves of as many as it has cores.

    task, task, .. ─► one job of Spark for each wave, a task for each ─► (task, outcome), ..    the driver commits them

A wave is a job of its own, so its outcomes are committed before the next wave begins: a driver that dies loses one
wave. Nothing is shuffled. Spark runs a task again whose process died, or a second time beside a slow one, so a task
must leave nothing but files that no snapshot names. Tasks travel in the function of the job, which no plan and no log
shows, because they may hold the connection string of a database.

Raises StorageError for a job that fails all the same, so that its tasks may be repeated. An error of Python in a task,
such as a package that a worker lacks, is raised as Spark tells it.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException, PythonException

from widetable import StorageError

if TYPE_CHECKING:
    from pyspark import SparkContext

T = TypeVar("T")
R = TypeVar("R")
_DESCRIPTION: Final = "spark.job.description"


@dataclass(frozen=True)
class TaskWaves(Generic[T, R]):
    """Runs tasks in jobs of a session.

    carry_out: returns the outcome of a task, in a worker; a function of a module. described: says what a wave does, for
    Spark's page and for errors. count: how many tasks run at once; None for as many as the session has cores.
    """

    context: SparkContext
    carry_out: Callable[[T], R]
    described: Callable[[Sequence[T]], str]
    count: int | None = None

    def __call__(self, tasks: Iterable[T]) -> Iterator[tuple[T, R]]:
        """Yield each task with its outcome, in the order of the tasks. Those of a wave are taken at once."""
        left, count = iter(tasks), self.count or self.context.defaultParallelism
        while wave := list(itertools.islice(left, count)):
            yield from zip(wave, self._outcomes(wave), strict=True)

    def _outcomes(self, wave: list[T]) -> list[R]:
        carry_out = self.carry_out

        def run(number: int, _: Iterable[int]) -> Iterator[R]:
            yield carry_out(wave[number])

        before: Any = self.context.getLocalProperty(_DESCRIPTION)
        what = self.described(wave)
        try:
            self.context.setLocalProperty(_DESCRIPTION, what)
            slots = self.context.parallelize(range(len(wave)), len(wave))
            return slots.mapPartitionsWithIndex(run).collect()
        except (PySparkException, Py4JError) as error:
            if isinstance(error, PythonException):
                raise
            raise StorageError(
                f"the Spark job of {what}",
                found=str(error).partition("\n")[0],
                expected="tasks that end",
                action="See the logs of the executors. Start it again: it goes on where it was.",
            ) from error
        finally:
            self.context.setLocalProperty(_DESCRIPTION, before)
