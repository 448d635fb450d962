"""A job without Spark: tables under barriers with one number per key; it adds up how many rows each of them has, and
writes that, under the name of each, into one row of its own table. Its state is lost with it, as Spark's is kept with a
checkpoint: `Job.checkpoint` is where it goes on.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pyarrow as pa

import widetable as wt
from tests.support.models.barrier_labels import INTERVAL
from widetable.operations.barriers.aligned_source import AlignedSource
from widetable.operations.barriers.job_writer import JobBatch, JobWriter
from widetable.operations.writes.table_write import new_writer


def source_table(warehouse: Path, name: str, **options: str) -> wt.Table:
    """Columns id, v; rows replace rows."""
    return wt.Catalog(warehouse).create_table(
        f"d.{name}",
        {"id": pa.int64(), "v": pa.int64()},
        primary_key=["id"],
        options={
            "bucket": "1",
            "widetable.fsync": "false",
            "widetable.barrier-interval": f"{INTERVAL} ms",
            **{key.replace("__", ".").replace("_", "-"): value for key, value in options.items()},
        },
    )


def sink_table(warehouse: Path, name: str, columns: list[str], **options: str) -> wt.Table:
    """Columns id, which is 0, and those."""
    return wt.Catalog(warehouse).create_table(
        f"d.{name}",
        {"id": pa.int64(), **{column: pa.int64() for column in columns}},
        primary_key=["id"],
        options={
            "bucket": "1",
            "widetable.fsync": "false",
            "widetable.barrier-interval": f"{INTERVAL} ms",
            **options,
        },
    )


class Job:
    """name: of the job, and of its run. sources: column to table."""

    def __init__(
        self, name: str, sources: dict[str, wt.Table], sink: wt.Table, run: str = "1"
    ) -> None:
        self.sources = {
            column: AlignedSource(name, table, list(sources.values()), sink, None)
            for column, table in sources.items()
        }
        self.sink = sink
        self.writer = JobWriter(sink, name, run, None)
        self.at = 0
        self.revision = next(iter(self.sources.values())).revision
        self.batches = 0
        self.counts: Counter[str] = Counter()

    def next_end(self) -> int | None:
        """The first source says what comes next, the others go by it."""
        first, *others = self.sources.values()
        end = first.planned(self.at) or first.decided(self.at, None)
        assert all(other.planned(self.at) == end for other in others)
        return end

    def run_batch(self, end: int, *, dies_before_log: bool = False) -> wt.CommitResult:
        """What Spark does with one batch; with the last argument the process ends before it has noted it."""
        counts = self.counts.copy()
        for column, source in self.sources.items():
            for reads in source.reads(self.at, end):
                for read in reads:
                    for batch in read.to_batches():
                        kinds = batch.column("_row_kind").to_pylist()
                        counts[column] += sum(1 if kind[0] == "+" else -1 for kind in kinds)
        row = {"id": [0], **{column: [counts[column]] for column in self.sources}}
        writer = new_writer(self.sink, list(row), named=True)
        writer.write(pa.RecordBatch.from_pydict(row))
        before = self.at or next(iter(self.sources.values()))._plans.before(end) or 0
        digest, span = f"{self.at}-{end}", (before, end)
        batch_of = JobBatch(self.batches, end, digest, span, revision=self.revision)
        result = self.writer.commit(writer.finish(), batch_of)
        if not dies_before_log:
            self.counts, self.at = counts, end
            self.batches += 1
            for source in self.sources.values():
                source.record(
                    end
                )  # Spark says so with the next batch; that comes later, and keeps more
        return result

    def run(self) -> list[int]:
        """All that is there; at which barriers it ended."""
        ends = []
        while (end := self.next_end()) is not None:
            self.run_batch(end)
            ends.append(end)
        return ends
