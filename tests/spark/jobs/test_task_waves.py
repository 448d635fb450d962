"""Tasks of a wave run at once, and the driver has their outcomes before the next wave begins."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
from pyspark.errors import PythonException
from pyspark.sql import SparkSession

import widetable as wt
from tests.support.faults.patience import PATIENCE_SECONDS
from widetable_spark.jobs.task_waves import TaskWaves

_DESCRIPTION = "spark.job.description"


def described(wave: Sequence[int]) -> str:
    return f"wave of {len(wave)}"


def meeting(folder: Path, size: int) -> Callable[[int], list[str]]:
    """A task that ends when as many as a wave has are there, and returns whom it has met."""
    seconds = PATIENCE_SECONDS

    def meet(number: int) -> list[str]:
        (folder / str(number)).touch()
        wave = {str(number // size * size + at) for at in range(size)}
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            there = {path.name for path in folder.iterdir()}
            if wave <= there:
                return sorted(there, key=int)
            time.sleep(0.01)
        raise AssertionError("the others of the wave never came")

    return meet


def test_a_wave_runs_at_once_and_ends_before_the_next(spark: SparkSession, tmp_path: Path) -> None:
    taken: list[int] = []

    def tasks() -> Iterator[int]:
        for number in range(4):
            taken.append(number)
            yield number

    waves = TaskWaves(spark.sparkContext, meeting(tmp_path, 2), described, count=2)
    outcomes = waves(tasks())
    assert next(outcomes) == (0, ["0", "1"])
    assert taken == [0, 1]
    assert next(outcomes) == (1, ["0", "1"])
    assert list(outcomes) == [(2, ["0", "1", "2", "3"]), (3, ["0", "1", "2", "3"])]


def test_without_a_count_a_wave_has_as_many_tasks_as_the_session_has_cores(
    spark: SparkSession, tmp_path: Path
) -> None:
    cores = spark.sparkContext.defaultParallelism
    assert cores > 1
    waves = TaskWaves(spark.sparkContext, meeting(tmp_path, cores), described)
    assert len(list(waves(range(cores)))) == cores
    assert list(waves([])) == []


def test_an_error_of_a_task_is_raised_and_the_description_is_put_back(spark: SparkSession) -> None:
    context = spark.sparkContext

    def fail(number: int) -> int:
        raise ValueError(f"task {number} fails")

    before = context.getLocalProperty(_DESCRIPTION)
    with pytest.raises(PythonException, match="task 0 fails"):
        list(TaskWaves(context, fail, described)([0]))
    assert context.getLocalProperty(_DESCRIPTION) == before


def test_a_job_whose_processes_die_may_be_repeated(spark: SparkSession) -> None:
    def die(number: int) -> int:
        os._exit(number + 1)

    with pytest.raises(wt.StorageError, match=r"the Spark job of wave of 1.* goes on where it was"):
        list(TaskWaves(spark.sparkContext, die, described)([0]))
