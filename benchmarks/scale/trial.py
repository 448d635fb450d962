"""A small table on this machine's disk, and what its writes, commits and compactions cost.

Full rows of two column groups are there first, in the bottom level; then jobs write by turns one group each, into a
`write-only` table, and every so many commits a maintainer's compaction moves all of it up with its lookup changelog.
Making the rows and the first table is not counted. CPU seconds are of this process, with its threads.
"""

from __future__ import annotations

import json
import shutil
import sys
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import widetable as wt
from benchmarks import two_groups
from widetable_lookup import cache_statistics

_BUILD_ROWS = 250_000
# Sequences of a commit lie above those of all commits before: `two_groups` has late rows within one only.
_STEP = 1_000_000


@dataclass(frozen=True)
class TrialShape:
    """keys: of the table. rows: of a commit, keys drawn with repetition. round_commits: between two compactions."""

    keys: int
    buckets: int
    rows: int
    commits: int
    round_commits: int

    @property
    def rounds(self) -> int:
        return self.commits // self.round_commits


# Run before others are measured: it compiles what they need.
WARM_SHAPE: Final = TrialShape(4_000, 2, 1_000, 12, 1)


@dataclass
class TrialResult:
    """CPU seconds, files, rows and bytes of all commits and compactions behind the first table. bytes of `live_*`,
    `cache_*`: at the end. entries: of all snapshots, files that appeared or disappeared.
    """

    write_cpu_s: float = 0
    commit_cpu_s: float = 0
    compact_cpu_s: float = 0
    level0_files: int = 0
    level0_rows: int = 0
    level0_bytes: int = 0
    compact_commits: int = 0
    compacted_buckets: int = 0
    compact_entries: int = 0
    rewritten_rows: int = 0
    rewritten_files: int = 0
    rewritten_bytes: int = 0
    changelog_rows: int = 0
    changelog_files: int = 0
    changelog_bytes: int = 0
    live_files: int = 0
    live_bytes: int = 0
    metadata_bytes: int = 0
    cache_files: int = 0
    cache_rows: int = 0
    cache_bytes: int = 0


def create(warehouse: str, shape: TrialShape, seed: int) -> wt.Table:
    """The first table: all keys, in the bottom level."""
    options = {"bucket": str(shape.buckets), "write-only": "true", "snapshot.num-retained.min": "1"}
    table = wt.Catalog(warehouse).create_table(
        "bench.scale",
        two_groups.schema(),
        primary_key=["k"],
        options=two_groups.OPTIONS | options,
    )
    rng = np.random.default_rng(seed)
    for start in range(0, shape.keys, _BUILD_ROWS):
        keys = np.arange(start, min(start + _BUILD_ROWS, shape.keys))
        table.write(two_groups.base_rows(rng, keys))
    table.compact(full=True)
    return table


def batches(shape: TrialShape, seed: int) -> Iterator[pa.Table]:
    """The rows of each commit: one group's columns, groups by turns."""
    rng = np.random.default_rng(seed)
    for number in range(shape.commits):
        keys = rng.integers(0, shape.keys, 2 * shape.rows)
        drawn = two_groups.commit(rng, 2 * shape.rows, keys, (number + 1) * _STEP)
        yield drawn.group_to_arrow(number % two_groups.GROUPS)


def write(table: wt.Table, rows: pa.Table, number: int, result: TrialResult) -> None:
    """One commit of one job."""
    with _added(result, "write_cpu_s"), table.new_writer(rows.schema.names) as writer:
        writer.write(rows)
        messages = writer.finish()
    files = [file for message in messages for file in message.new_files]
    with _added(result, "commit_cpu_s"):
        table.commit_append(messages, commit_user=f"job-{number % 2}", commit_identifier=number)
    result.level0_files += len(files)
    result.level0_rows += sum(file.row_count for file in files)
    result.level0_bytes += sum(file.file_size for file in files)


def run_trial(work: Path, shape: TrialShape, seed: int) -> TrialResult:
    """In a new warehouse below `work`, which must not have one."""
    table, result = create(str(work), shape, seed), TrialResult()
    before, first_files = _files(table), table.inspect.files().num_rows
    snapshots = table.snapshots()[-1].id
    for number, rows in enumerate(batches(shape, seed + 1)):
        write(table, rows, number, result)
        if (number + 1) % shape.round_commits == 0:
            with _added(result, "compact_cpu_s"):
                table.compact()
    _count_snapshots(table, snapshots, result)
    _count_files(table, before, result)
    caches = cache_statistics(table.path)
    result.cache_files, result.cache_bytes = caches.caches, caches.disk_bytes
    live = table.inspect.files()
    result.live_files, result.live_bytes = live.num_rows, sum(live["size_bytes"].to_pylist())
    result.cache_rows = sum(live["rows"].to_pylist())
    # A merge takes files out and puts one in; its changelog file has an entry of its own.
    gone = result.level0_files + result.rewritten_files + first_files - result.live_files
    result.compact_entries = gone + result.rewritten_files + result.changelog_files
    return result


def best_of_two(work: Path, shape: TrialShape, seed: int) -> TrialResult:
    """The same trial twice, and the less CPU of each kind: what others do on the machine only adds."""
    results = []
    for _ in range(2):
        # Lookup caches are kept by the table's path.
        warehouse = work / uuid.uuid4().hex
        results.append(run_trial(warehouse, shape, seed))
        shutil.rmtree(warehouse)
    cpu = ("write_cpu_s", "commit_cpu_s", "compact_cpu_s")
    least = {name: min(getattr(result, name) for result in results) for name in cpu}
    return replace(results[0], **least)


@contextmanager
def _added(result: TrialResult, name: str) -> Iterator[None]:
    begun = time.process_time()
    yield
    setattr(result, name, getattr(result, name) + time.process_time() - begun)


def _files(table: wt.Table) -> dict[str, int]:
    """Bytes of all files of the table by their path."""
    return {
        str(path): path.stat().st_size for path in Path(table.path).rglob("*") if path.is_file()
    }


def _count_snapshots(table: wt.Table, after: int, result: TrialResult) -> None:
    for snapshot in table.snapshots():
        if snapshot.id > after and snapshot.commit_kind == "COMPACT":
            result.compact_commits += 1


def _count_files(table: wt.Table, before: dict[str, int], result: TrialResult) -> None:
    """Nothing has expired, so all that was ever written is there."""
    level0 = result.level0_files, result.level0_rows, result.level0_bytes
    files, rows, size_bytes = (-count for count in level0)
    for path, size in _files(table).items():
        name = path.rpartition("/")[2]
        if path in before:
            continue
        if name.startswith("changelog-"):
            result.changelog_files += 1
            result.changelog_rows += pq.read_metadata(path).num_rows
            result.changelog_bytes += size
        elif name.startswith("data-"):
            files, size_bytes = files + 1, size_bytes + size
            rows += pq.read_metadata(path).num_rows
        else:
            result.metadata_bytes += size
    result.rewritten_files, result.rewritten_rows = files, rows
    result.rewritten_bytes = size_bytes
    result.compacted_buckets = result.changelog_files


def plan_cpu_s(small_path: str, path: str) -> dict[str, float]:
    """CPU seconds of planning the newest snapshot of a table, for the first time and again, by a process that has
    planned a small one: what it imports and compiles is not counted.
    """
    wt.Table.open(small_path).scan().splits()
    found = {}
    for name in ("cold", "warm"):
        begun = time.process_time()
        wt.Table.open(path).scan().splits()
        found[name] = time.process_time() - begun
    return found


if __name__ == "__main__":
    print(json.dumps(plan_cpu_s(*sys.argv[1:])))
