"""Unit costs from trials of different shapes: the least squares of relative errors, none below zero.

In: nothing but this machine. Out: unit costs, and what the trials gave. One and a half minutes of CPU.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

import numpy as np

import widetable as wt
from benchmarks import two_groups
from benchmarks.engine.bench_planning import _named
from benchmarks.harness import child_json
from benchmarks.scale.costs import (
    CommitCpu,
    CompactCpu,
    MetadataBytes,
    RequestCosts,
    UnitCosts,
    WriteCpu,
)
from benchmarks.scale.request_counts import measured_requests
from benchmarks.scale.simulated_bucket import FileBytes
from benchmarks.scale.trial import WARM_SHAPE, TrialResult, TrialShape, best_of_two

# Each stands out in something: fixed costs, buckets, rows, many files per compaction, rewriting.
FIT_SHAPES: Final = (
    TrialShape(20_000, 1, 500, 12, 1),
    TrialShape(20_000, 16, 2_000, 6, 1),
    TrialShape(200_000, 1, 50_000, 6, 1),
    TrialShape(100_000, 1, 2_000, 24, 12),
    TrialShape(400_000, 4, 100_000, 4, 2),
    TrialShape(40_000, 8, 1_000, 16, 8),
    TrialShape(120_000, 1, 4_000, 30, 1),
    TrialShape(60_000, 2, 60_000, 8, 1),
    TrialShape(300_000, 2, 30_000, 6, 3),
)
_FEW_PLANNED_FILES: Final = 10_000
_PLANNED_FILES: Final = 60_000
_PLANNED_BUCKETS: Final = 20


def measured_costs(
    work: Path, seed: int, say: Callable[[str], None]
) -> tuple[UnitCosts, list[TrialResult]]:
    """With what the trials of FIT_SHAPES gave. work: an empty directory on a disk."""
    results = []
    for number, shape in enumerate((WARM_SHAPE, *FIT_SHAPES)):
        results.append(best_of_two(work / "trial", shape, seed + number))
        say(f"{shape}: {results[-1].compact_cpu_s:.2f} s CPU of compactions")
    cold_s, warm_s = _planning(work / "planning")
    say(f"planning: {cold_s * 1e6:.1f} us a file, again {warm_s * 1e6:.1f}")
    return fitted(results[1:], measured_requests(seed), cold_s, warm_s), results[1:]


def fitted(
    results: Sequence[TrialResult], requests: RequestCosts, cold_s: float, warm_s: float
) -> UnitCosts:
    """The unit costs that explain what trials of FIT_SHAPES gave."""
    commits = [shape.commits for shape in FIT_SHAPES]
    write = least(
        [
            [shape.commits, r.level0_files, shape.commits * shape.rows]
            for shape, r in zip(FIT_SHAPES, results, strict=True)
        ],
        [r.write_cpu_s for r in results],
    )
    commit = least(
        [[n, r.level0_files] for n, r in zip(commits, results, strict=True)],
        [r.commit_cpu_s for r in results],
    )
    publish = CommitCpu(*commit)
    compact = least(
        [
            [r.compacted_buckets, r.level0_files, r.changelog_rows / 2, r.rewritten_rows]
            for r in results
        ],
        [r.compact_cpu_s - publish.of(r.compact_commits, r.compact_entries) for r in results],
    )
    metadata = least(
        [
            [n + r.compact_commits, r.level0_files + r.compact_entries]
            for n, r in zip(commits, results, strict=True)
        ],
        [r.metadata_bytes for r in results],
    )
    return UnitCosts(
        write=WriteCpu(*write),
        commit=publish,
        compact=CompactCpu(*compact),
        plan_cold_file_s=cold_s,
        plan_warm_file_s=warm_s,
        level0=_bytes(results, "level0"),
        full=_bytes(results, "rewritten"),
        changelog=_bytes(results, "changelog"),
        cache=_bytes(results, "cache"),
        metadata=MetadataBytes(*metadata),
        requests=requests,
    )


def least(amounts: Sequence[Sequence[float]], found: Sequence[float]) -> list[float]:
    """Costs per amount, whose sums come nearest to what was found, relative to it. A cost that would be below zero is
    zero, and the others make do without it.
    """
    a = np.asarray(amounts, float) / np.asarray(found, float)[:, None]
    b = np.ones(len(found))
    kept = list(range(a.shape[1]))
    while kept:
        solution, *_ = np.linalg.lstsq(a[:, kept], b, rcond=None)
        if (solution >= 0).all():
            break
        kept.pop(int(np.argmin(solution * a[:, kept].mean(axis=0))))
    costs = [0.0] * a.shape[1]
    for at, cost in zip(kept, solution, strict=True):
        costs[at] = float(cost)
    return costs


def _bytes(results: Sequence[TrialResult], what: str) -> FileBytes:
    amounts = [[getattr(r, f"{what}_rows"), getattr(r, f"{what}_files")] for r in results]
    return FileBytes(*least(amounts, [getattr(r, f"{what}_bytes") for r in results]))


def _planning(work: Path) -> tuple[float, float]:
    """CPU seconds of planning per live file, cold and warm; the files are named in manifests and not there."""
    paths = []
    for files in (_FEW_PLANNED_FILES, _PLANNED_FILES):
        table = wt.Catalog(str(work / str(files))).create_table(
            "bench.planned",
            two_groups.schema(),
            primary_key=["k"],
            options=two_groups.OPTIONS | {"bucket": str(_PLANNED_BUCKETS), "write-only": "true"},
        )
        rows = two_groups.base_rows(np.random.default_rng(1), np.arange(1_000))
        with table.new_writer(rows.schema.names) as writer:
            writer.write(rows)
            messages = writer.finish()
        for message in messages:
            (file,) = message.new_files
            named = tuple(_named(file, number) for number in range(files // _PLANNED_BUCKETS))
            table.commit_append([replace(message, new_files=named)])
        paths.append(table.path)
    runs = [child_json("benchmarks.scale.trial", *paths) for _ in range(2)]
    cold, warm = (min(run[name] for run in runs) / _PLANNED_FILES for name in ("cold", "warm"))
    return cold, warm
