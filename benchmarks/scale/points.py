"""Points at which the model is checked: small workloads of other sizes than those that the unit costs are from.

Each is predicted from its shape alone: its bucket's history is simulated, and nothing that was measured in it goes in.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from benchmarks.scale.costs import Requests, UnitCosts
from benchmarks.scale.request_counts import RequestRound, counting_store, request_round
from benchmarks.scale.simulated_bucket import BucketLoad, drawn, history
from benchmarks.scale.trial import WARM_SHAPE, TrialResult, TrialShape, best_of_two
from widetable.operations.compaction.compaction_job import _GROUP_BUCKETS

POINTS: Final = Path(__file__).with_name("points.json")

POINT_SHAPES: Final = (
    TrialShape(150_000, 2, 20_000, 10, 1),
    TrialShape(50_000, 12, 6_000, 10, 2),
    TrialShape(500_000, 1, 30_000, 8, 1),
    TrialShape(80_000, 4, 40_000, 12, 1),
    TrialShape(30_000, 6, 300, 24, 6),
    TrialShape(250_000, 3, 5_000, 40, 4),
    TrialShape(1_000_000, 8, 100_000, 6, 1),
    TrialShape(100_000, 1, 50, 900, 6),
)
REQUEST_SHAPES: Final = (
    TrialShape(1_000, 4, 500, 2, 2),
    TrialShape(600, 2, 300, 3, 3),
)
# What a point says, in the order of the page: of TrialResult.
MEASURES: Final = (
    "write_cpu_s",
    "compact_cpu_s",
    "rewritten_rows",
    "live_files",
    "live_bytes",
    "written_bytes",
    "cache_bytes",
    "metadata_bytes",
)


def predicted(shape: TrialShape, costs: UnitCosts) -> dict[str, float]:
    """What a trial of the shape gives."""
    keys, buckets = shape.keys / shape.buckets, shape.buckets
    file_rows = drawn(keys, shape.rows / buckets)
    histories = [
        history(
            BucketLoad(keys, keys, shape.round_commits, file_rows, seed=number),
            costs.level0,
            costs.full,
            shape.rounds,
        )
        for number in range(buckets)
    ]
    files, due = shape.commits * buckets, shape.rounds * buckets
    changed = sum(bucket.changed_rows for bucket in histories)
    rewritten = sum(bucket.rewritten_rows for bucket in histories)
    live = [run.rows for bucket in histories for run in bucket.runs]
    live_rows, live_files = sum(live), len(live)
    compactions = shape.rounds * math.ceil(buckets / _GROUP_BUCKETS)
    # Out: level-0 files and the runs that are merged; in: a file and its changelog file. Runs that move do both.
    entries = files + (due + buckets - live_files) + 2 * due
    level0_bytes = costs.level0.of(file_rows * files, files)
    full_bytes = costs.full.of(rewritten, due)
    return {
        "write_cpu_s": costs.write.of(shape.commits, files, shape.rows * shape.commits)
        + costs.commit.of(shape.commits, files),
        "compact_cpu_s": costs.compact.of(due, files, changed, rewritten)
        + costs.commit.of(compactions, entries),
        "rewritten_rows": rewritten,
        "live_files": live_files,
        "live_bytes": costs.full.of(live_rows, live_files),
        "written_bytes": level0_bytes + full_bytes + costs.changelog.of(2 * changed, due),
        "cache_bytes": costs.cache.of(live_rows, live_files),
        "metadata_bytes": costs.metadata.of(shape.commits + compactions, files + entries),
    }


def measured(result: TrialResult) -> dict[str, float]:
    """The same of a trial that was run."""
    return {
        "write_cpu_s": result.write_cpu_s + result.commit_cpu_s,
        "compact_cpu_s": result.compact_cpu_s,
        "rewritten_rows": result.rewritten_rows,
        "live_files": result.live_files,
        "live_bytes": result.live_bytes,
        "written_bytes": result.level0_bytes + result.rewritten_bytes + result.changelog_bytes,
        "cache_bytes": result.cache_bytes,
        "metadata_bytes": result.metadata_bytes,
    }


def predicted_requests(shape: TrialShape, costs: UnitCosts) -> dict[str, float]:
    """Of one round: its commits, the compaction, the expiry of all before."""
    asked, files = costs.requests, shape.round_commits * shape.buckets
    appends = asked.append.times(shape.round_commits).plus(asked.append_file.times(files))
    further = files - shape.buckets
    compaction = (asked.compaction.plus(asked.compacted_bucket.times(shape.buckets))).plus(
        asked.compacted_file.times(further)
    )
    return {"append_requests": appends.total, "compaction_requests": compaction.total}


def measured_points(
    work: Path, costs: UnitCosts, seed: int, say: Callable[[str], None]
) -> list[dict[str, Any]]:
    """All points: shape, predicted, measured. work: an empty directory on a disk."""
    best_of_two(work / "trial", WARM_SHAPE, seed)
    points = []
    for number, shape in enumerate(POINT_SHAPES):
        found = measured(best_of_two(work / "trial", shape, seed + number))
        points.append(_point(shape, found))
        say(_errors(points[-1], predicted(shape, costs)))
    return [*points, *request_points(costs, seed, say)]


def request_points(costs: UnitCosts, seed: int, say: Callable[[str], None]) -> list[dict[str, Any]]:
    """Those of requests alone."""
    points = []
    with counting_store() as counter:
        for number, shape in enumerate(REQUEST_SHAPES):
            asked = request_round(counter, f"point-{number}", shape, seed + number)
            points.append(_point(shape, _asked(asked)))
            say(_errors(points[-1], predicted_requests(shape, costs)))
    return points


def _asked(found: RequestRound) -> dict[str, float]:
    totals: dict[str, Requests] = {
        "append_requests": found.appends,
        "compaction_requests": found.compaction,
    }
    return {name: asked.total for name, asked in totals.items()}


def _point(shape: TrialShape, found: dict[str, float]) -> dict[str, Any]:
    return {"shape": vars(shape), "measured": found}


def _errors(point: dict[str, Any], said: dict[str, float]) -> str:
    parts = [
        f"{name} {error_percent(said[name], value):+.0f} %"
        for name, value in point["measured"].items()
    ]
    return f"{point['shape']}: {', '.join(parts)}"


def error_percent(said: float, found: float) -> float:
    """How far what was predicted lies above what was measured."""
    return (said / found - 1) * 100
