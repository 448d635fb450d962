"""Writers, a maintainer and a reader of changes on a Spark cluster whose workers share nothing but an S3 store. A
worker and the driver are killed in the middle: nothing is lost, nothing comes twice.

A short run; `make cluster` is the long one, by the variables below.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

import widetable as wt
from tests.cluster.job import ENOUGH, KEYS, value_of
from tests.cluster.standalone import Cluster, kill_tree, standalone
from tests.object_stores.s3_server import BUCKET, environment, s3_server
from tests.support.faults.patience import PATIENCE_SECONDS, wait_for
from tests.support.programs.wheel_environment import ROOT, built_wheel
from widetable.format.snapshot import Snapshot
from widetable.storage.remote import store_client

WRITERS = int(os.environ.get("WIDETABLE_CLUSTER_WRITERS", "2"))
BATCHES = int(os.environ.get("WIDETABLE_CLUSTER_BATCHES", "4"))
ROWS = int(os.environ.get("WIDETABLE_CLUSTER_ROWS", "150"))
KILLS = int(os.environ.get("WIDETABLE_CLUSTER_KILLS", "1"))
OPTIONS = {
    "merge-engine": "partial-update",
    "bucket": "4",
    "write-only": "true",
    "changelog-producer": "lookup",
    "widetable.lookup-strategy": "lookup",
}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built_wheel(tmp_path_factory.mktemp("dist"))


@pytest.fixture(scope="module")
def store() -> Iterator[dict[str, str]]:
    """The environment that opens it, which this process has, too."""
    with s3_server() as port, pytest.MonkeyPatch.context() as patch:
        patch.setattr(store_client, "_CLIENTS", {})
        patch.setattr(store_client, "_USERS", {})
        for name, value in environment(port).items():
            patch.setenv(name, value)
        yield environment(port)


def create(warehouse: str) -> tuple[wt.Table, wt.Table]:
    columns = {"k": "BIGINT"}
    for writer in range(WRITERS):
        columns |= {f"c{writer}": "BIGINT", f"s{writer}": "BIGINT"}
    groups = {f"fields.s{w}.sequence-group": f"c{w}" for w in range(WRITERS)}
    catalog = wt.Catalog(warehouse)
    wide = catalog.create_table(
        "db.wide", columns, primary_key=["k"], options={**OPTIONS, **groups}
    )
    copy = catalog.create_table("db.copy", columns, primary_key=["k"], options={"bucket": "2"})
    return wide, copy


class Driver:
    """Of one run of the job."""

    def __init__(self, cluster: Cluster, folder: Path, warehouse: str) -> None:
        arguments = [cluster.url, warehouse, str(folder / "checkpoints"), WRITERS, BATCHES, ROWS]
        python = Path(sys.executable).parent
        self.log = folder / f"driver-{time.monotonic_ns()}"
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "tests.cluster.job", *map(str, arguments)],
                cwd=ROOT,
                env={**cluster.environment, "PATH": f"{python}:/usr/bin:/bin"},
                stdout=log,
                stderr=log,
            )

    def said(self) -> str:
        return self.log.read_text(errors="replace")

    def until(self, condition: Callable[[], bool]) -> None:
        """While it runs."""

        def is_over() -> bool:
            time.sleep(0.5)
            return condition() or self.process.poll() is not None

        wait_for(is_over)
        assert self.process.poll() is None, self.said()[-6000:]

    def kill(self) -> None:
        kill_tree(self.process.pid)
        self.process.wait()

    def wait(self) -> None:
        self.process.wait(PATIENCE_SECONDS)
        assert self.process.returncode == 0, self.said()[-6000:]


def expected(wide: wt.Table) -> list[dict[str, int | None]]:
    """By what each writer has come to, which its last sequence number says: whole batches, all of those that were asked
    for, and of each key the last row.
    """
    found = wide.scan().to_arrow()
    model: list[dict[str, int | None]] = [{"k": key} for key in range(KEYS)]
    for writer in range(WRITERS):
        last = max(filter(None, found[f"s{writer}"].to_pylist()))
        assert (last + 1) % ROWS == 0
        assert last + 1 >= BATCHES * ROWS
        for key in range(KEYS):
            row = last - (last - key) % KEYS
            model[key] |= {f"c{writer}": value_of(writer, row), f"s{writer}": row}
    return model


def test_nothing_is_lost_when_a_worker_and_the_driver_are_killed(
    store: dict[str, str], wheel: Path, tmp_path: Path, java_home: str, rng: random.Random
) -> None:
    warehouse = f"s3://{BUCKET}/{tmp_path.name}"
    wide, copy = create(warehouse)
    with standalone(tmp_path, wheel, store, 2) as cluster:
        driver = Driver(cluster, tmp_path, warehouse)
        for _ in range(KILLS):
            driver.until(partial(has_compacted, wide))
            time.sleep(rng.random() * 2)
            first, second = cluster.workers[-2:]
            assert first.cached_files | second.cached_files
            assert not first.cached_files & second.cached_files  # a bucket stays where it is
            first.kill()
            cluster.start_worker()
            driver.until(partial(has_more, wide, len(appends(wide))))
            time.sleep(rng.random() * 2)
            driver.kill()
            driver = Driver(cluster, tmp_path, warehouse)
        (tmp_path / "checkpoints" / ENOUGH).touch()
        driver.wait()
        cached = [worker.cached_files for worker in cluster.workers]
    rows = wide.scan().to_arrow().sort_by("k").to_pylist()
    assert rows == expected(wide)
    assert copy.scan().to_arrow().sort_by("k").to_pylist() == rows
    commits = [(one.commit_user, one.commit_identifier) for one in appends(wide)]
    assert len(commits) == len(set(commits))
    assert wide.audit().findings == ()
    assert any(cached)


def appends(table: wt.Table) -> list[Snapshot]:
    return [one for one in table.snapshots() if one.commit_kind == "APPEND"]


def has_more(table: wt.Table, commits: int) -> bool:
    return len(appends(table)) > commits


def has_compacted(table: wt.Table) -> bool:
    return any(one.commit_kind == "COMPACT" for one in table.snapshots())
