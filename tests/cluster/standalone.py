"""A Spark standalone cluster on loopback: a master, and workers that share nothing but what a table's store gives them.

    <worker>/python     a virtual environment of its own, with the wheel installed; `python3` of its PATH
    <worker>/cache      lookup caches
    <worker>/tmp, work  temporary files, Spark's executors

Each worker says that it is another host (127.0.0.2, 127.0.0.3, ...). `Worker.kill` ends a worker, its executors and
their Python by -9, as a machine that is switched off. In: folders, the wheel, an environment. A process that does not
start fails the test.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import psutil
import pytest

from tests.support.faults.patience import wait_for
from tests.support.programs.wheel_environment import environment_without_checkout

_DAEMONS = "org.apache.spark.deploy"
_CORES = 4


def kill_tree(pid: int) -> None:
    """A process and all that it started."""
    with contextlib.suppress(psutil.NoSuchProcess):
        first = psutil.Process(pid)
        for process in (first, *first.children(recursive=True)):
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()


@dataclass
class Worker:
    """One of the cluster. folder: all that it has."""

    folder: Path
    process: subprocess.Popen[bytes]

    @property
    def cached_files(self) -> set[str]:
        """Names of the data files that it has caches of."""
        caches = (self.folder / "cache").glob("*/*.parquet.*")
        return {each.name.partition(".parquet")[0] for each in caches if each.name.count(".") == 4}

    def kill(self) -> None:
        kill_tree(self.process.pid)
        self.process.wait()


@dataclass
class Cluster:
    """url: for Spark's `master`. python: what a worker gets a copy of. environment: of all its processes."""

    folder: Path
    python: Path
    environment: dict[str, str]
    url: str = ""
    workers: list[Worker] = field(default_factory=list)

    def start_worker(self) -> None:
        """One more; `wait` until it is there."""
        number = len(self.workers) + 1
        folder = self.folder / f"worker{number}"
        for name in ("cache", "tmp", "work"):
            (folder / name).mkdir(parents=True)
        bin_folder = shutil.copytree(self.python, folder / "python", symlinks=True) / "bin"
        environment = {
            **self.environment,
            "PATH": f"{bin_folder}:/usr/bin:/bin",
            "HOME": str(folder),
            "TMPDIR": str(folder / "tmp"),
            "WIDETABLE_CACHE_DIR": str(folder / "cache"),
        }
        options = ("--cores", str(_CORES), "--memory", "2g", "--webui-port", "0")
        command = ("worker.Worker", "--host", f"127.0.0.{number + 1}", *options)
        process = _start(
            folder, environment, *command, "--work-dir", str(folder / "work"), self.url
        )
        self.workers.append(Worker(folder, process))

    def wait(self) -> None:
        """Until all workers that are alive are there."""
        for worker in self.workers:
            if worker.process.poll() is None:
                _said(worker.process, worker.folder / "log", "Successfully registered with master")


@contextlib.contextmanager
def standalone(
    folder: Path, wheel: Path, environment: Mapping[str, str], workers: int
) -> Iterator[Cluster]:
    """The cluster, while the block runs. environment: beside that of this process."""
    python = environment_without_checkout(folder / "python", wheel)
    # Each process of each worker would compile all modules otherwise.
    subprocess.run([python, "-m", "compileall", "-q", folder / "python/lib"], check=True)
    cluster = Cluster(folder, folder / "python", {**os.environ, **environment})
    (folder / "master").mkdir()
    arguments = ("--host", "127.0.0.1", "--port", "0", "--webui-port", "0")
    master = _start(folder / "master", cluster.environment, "master.Master", *arguments)
    try:
        line = _said(master, folder / "master/log", r"Starting Spark master at (spark://\S+)")
        cluster.url = line[1]
        for _ in range(workers):
            cluster.start_worker()
        cluster.wait()
        yield cluster
    finally:
        for worker in cluster.workers:
            worker.kill()
        kill_tree(master.pid)
        master.wait()


def _start(
    folder: Path, environment: Mapping[str, str], daemon: str, *arguments: str
) -> subprocess.Popen[bytes]:
    spark_class = f"{environment['SPARK_HOME']}/bin/spark-class"
    with (folder / "log").open("wb") as log:
        return subprocess.Popen(
            [spark_class, f"{_DAEMONS}.{daemon}", *arguments],
            cwd=folder,
            env={**environment, "SPARK_LOCAL_DIRS": str(folder), "SPARK_NO_DAEMONIZE": "1"},
            stdout=log,
            stderr=log,
        )


def _said(process: subprocess.Popen[bytes], log: Path, pattern: str) -> re.Match[str]:
    """What a daemon says once it is there."""

    def found() -> re.Match[str] | None:
        return re.search(pattern, log.read_text(errors="replace"))

    wait_for(lambda: found() is not None or process.poll() is not None)
    match = found()
    if match is None:
        pytest.fail(f"{log}: {log.read_text(errors='replace')[-4000:]}")
    return match
