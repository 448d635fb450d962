"""A program that does all that happens to tables under barriers, over and over: two roots write, a derived job adds up
what they wrote, compactions and expiry go on. Started again it goes on, as a query of Spark does from its checkpoint:
the end of a batch is written ahead, and that it is done behind it.

barrier_program.py WAREHOUSE ROUNDS CALL     CALL: which of its publishes it does not live to see, -1 for none
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from pathlib import Path

import pyarrow as pa

import widetable as wt
from tests.kill.killing_file_io import DiesAtPublish
from tests.support.tables.derived_job import Job
from widetable import Catalog
from widetable.storage.local import LocalFileIO

ROWS = 3
SOURCES = {"x": "d.x", "y": "d.y"}
SINK = "d.s"


class Checkpoint:
    """ahead: the end of a batch that was begun; None where all are done."""

    def __init__(self, file: Path) -> None:
        self._file = file
        saved = json.loads(file.read_bytes()) if file.exists() else {}
        self.at: int = saved.get("at", 0)
        self.batches: int = saved.get("batches", 0)
        self.counts: dict[str, int] = saved.get("counts", {})
        self.ahead: int | None = saved.get("ahead")

    def save(self, job: Job, ahead: int | None) -> None:
        self.ahead = ahead
        body = {"at": job.at, "batches": job.batches, "counts": job.counts, "ahead": ahead}
        written = self._file.with_suffix(".new")
        written.write_text(json.dumps(body))
        written.replace(self._file)


def main() -> None:
    warehouse, rounds, call = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    files = DiesAtPublish(call) if call >= 0 else LocalFileIO(fsync=False)
    catalog = Catalog(warehouse, file_io=files)
    sources = {column: catalog.table(name) for column, name in SOURCES.items()}
    topology = catalog.topology()
    topology.register("s", sources=list(SOURCES.values()), sinks={SINK: None})
    topology.running("s")
    checkpoint = Checkpoint(warehouse / "checkpoint.json")
    job = Job("s", sources, catalog.table(SINK))
    job.at, job.batches, job.counts = (
        checkpoint.at,
        checkpoint.batches,
        Counter(checkpoint.counts),
    )
    roots = {column: catalog.writer(name, f"root of {column}") for column, name in SOURCES.items()}
    done = {
        column: -1 if (last := root.last_identifier) is None else last
        for column, root in roots.items()
    }
    for number in range(max(min(done.values()), 0), rounds):
        for column, root in roots.items():
            if done[column] < number:
                root.write(
                    rows_of(column, number), number, barrier=10 * (number + 1), complete=True
                )
            keep(sources[column])
        run(job, checkpoint)
        keep(job.sink)
    topology.keep()
    run(job, checkpoint)


def rows_of(column: str, number: int) -> pa.Table:
    """Three new rows, and in x, whose changes say what was before, one that all rounds write."""
    first = number * ROWS
    keys = [*range(first, first + ROWS), *([-1] if column == "x" else ())]
    return pa.table({"id": keys, "v": [number] * len(keys)})


def run(job: Job, checkpoint: Checkpoint) -> None:
    """All batches that are there."""
    while (end := checkpoint.ahead or job.next_end()) is not None:
        checkpoint.save(job, end)
        job.run_batch(end)
        checkpoint.save(job, None)


def keep(table: wt.Table) -> None:
    table.compact()
    table.expire_snapshots(1, 1, 0)


if __name__ == "__main__":
    main()
