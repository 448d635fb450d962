"""The model of docs/scale.md: what it must always say, the engine that it plays through, the page that it writes."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import widetable as wt
from benchmarks import two_groups
from benchmarks.scale.cases import CASES, JOBS, ROWS
from benchmarks.scale.costs import UnitCosts, committed_costs, costs_from_json, costs_to_json
from benchmarks.scale.fit import least
from benchmarks.scale.needs import TableLoad, needs_of
from benchmarks.scale.page import PAGE, tables, written
from benchmarks.scale.points import MEASURES, measured, predicted, predicted_requests
from benchmarks.scale.request_counts import counting_store, request_round
from benchmarks.scale.simulated_bucket import (
    BucketLoad,
    FileBytes,
    RunSize,
    distinct,
    drawn,
    history,
)
from benchmarks.scale.trial import TrialShape, run_trial

LEVEL0, FULL = FileBytes(50, 4_000), FileBytes(90, 7_000)
SMALL = TableLoad("small", keys=1e6, rows_a_day=1e8, jobs=4)


@pytest.fixture(scope="module")
def costs() -> UnitCosts:
    return committed_costs()


def real_runs(
    warehouse: Path, commits: int, rows: int
) -> tuple[list[tuple[RunSize, ...]], dict[int, int]]:
    """Of a table of one bucket after each compaction, and the bytes of files by their rows; no key comes twice."""
    table = wt.Catalog(str(warehouse)).create_table(
        "db.t",
        two_groups.schema(),
        primary_key=["k"],
        options=two_groups.OPTIONS | {"write-only": "true"},
    )
    rng, runs = np.random.default_rng(1), []
    sizes: dict[int, int] = {}
    for number in range(commits):
        table.write(two_groups.base_rows(rng, np.arange(rows) * commits + number))
        table.compact()
        files = table.inspect.files().select(["level", "rows", "size_bytes"]).to_pylist()
        sizes |= {file["rows"]: file["size_bytes"] for file in files}
        levels = sorted((file["level"], file["rows"]) for file in files)
        runs.append(tuple(RunSize(level, count) for level, count in levels))
    return runs, sizes


def test_the_simulated_bucket_has_the_runs_of_the_engine(tmp_path: Path) -> None:
    commits, rows = 12, 200
    real, sizes = real_runs(tmp_path, commits, rows)
    more = max(sizes)
    per_row = (sizes[more] - sizes[rows]) / (more - rows)
    size = FileBytes(per_row, sizes[rows] - rows * per_row)  # full rows, also at level 0
    load = BucketLoad(math.inf, 0, 1, rows)
    simulated = [history(load, size, size, number + 1).runs for number in range(commits)]
    assert simulated == real
    assert {len(runs) for runs in real} > {1, 4}, "runs are merged in between"


def test_keys_are_counted_once() -> None:
    assert distinct(100, [100, 7]) == 100
    assert distinct(100, [50, 50]) == pytest.approx(75)
    assert distinct(math.inf, [50, 50]) == 100
    assert drawn(10, 1_000_000) == pytest.approx(10)
    assert drawn(1e12, 5) == pytest.approx(5)
    assert drawn(math.inf, 5) == 5


def test_a_trial_counts_all_that_it_wrote(tmp_path: Path, costs: UnitCosts) -> None:
    shape = TrialShape(keys=400, buckets=2, rows=100, commits=4, round_commits=2)
    found = run_trial(tmp_path, shape, seed=1)
    assert (found.level0_files, found.compacted_buckets, found.compact_commits) == (8, 4, 2)
    assert found.rewritten_rows == found.changelog_rows / 2 == found.cache_rows - 400
    assert min(measured(found).values()) > 0
    said = predicted(shape, costs)
    assert said.keys() == measured(found).keys() == set(MEASURES)
    assert said["live_files"] == found.live_files == 6
    assert said["rewritten_rows"] == pytest.approx(found.rewritten_rows, rel=0.1)


@pytest.mark.slow
def test_requests_are_counted_by_what_they_cost(costs: UnitCosts) -> None:
    shape = TrialShape(keys=100, buckets=2, rows=50, commits=1, round_commits=1)
    with counting_store() as counter:
        found = request_round(counter, "small", shape, seed=1)
    assert found.appends.puts >= shape.buckets
    assert found.appends.lists == 0
    assert found.compaction.gets >= shape.buckets
    assert found.expired_files >= shape.buckets
    assert found.expiry.deletes > found.expired_snapshots
    assert predicted_requests(shape, costs)["append_requests"] == found.appends.total


def test_every_changed_key_is_written_once_at_least() -> None:
    for rows in (10, 1_000, 100_000):
        found = history(BucketLoad(100_000, 100_000, 3, rows), LEVEL0, FULL, 60)
        assert found.amplification >= 1
        assert found.moved_rows >= found.changed_rows
        assert found.mean_rows >= 100_000


def test_a_bucket_is_rewritten_again_and_again() -> None:
    found = history(BucketLoad(1_000, 1_000, 1, 500), LEVEL0, FULL, 1_000, most_cycles=3)
    assert (found.cycles, found.longest_merge_rows) == (3, 1_000)
    assert found.rounds < 1_000


@pytest.mark.parametrize("name", ["keys", "rows_a_day", "jobs"])
def test_more_of_anything_needs_no_less(costs: UnitCosts, name: str) -> None:
    less, more = (
        needs_of(replace(SMALL, **{name: getattr(SMALL, name) * factor}), costs)
        for factor in (1, 30)
    )
    parts = ["cores", "dollars", "commits_per_s", "files_a_day", "buckets"]
    if name == "keys":
        parts += ["live_bytes", "cache_bytes"]
    for part in parts:
        assert getattr(more, part) >= getattr(less, part) * 0.999, part
    assert more.requests.total >= less.requests.total
    assert max(more.uses.values()) >= max(less.uses.values())


def test_commits_that_come_seldom_ask_for_less(costs: UnitCosts) -> None:
    often, seldom = (
        needs_of(replace(JOBS, commit_s=commit_s, round_s=commit_s), costs)
        for commit_s in (60, 600)
    )
    assert seldom.uses["commits, one after the other"] < often.uses["commits, one after the other"]
    assert seldom.commits_per_s == pytest.approx(often.commits_per_s / 10)
    assert seldom.dollars_requests < often.dollars_requests
    assert seldom.file_rows > often.file_rows


def test_tables_share_what_one_had(costs: UnitCosts) -> None:
    one, ten = (needs_of(replace(ROWS, tables=tables), costs) for tables in (1, 10))
    assert ten.uses["commits, one after the other"] < one.uses["commits, one after the other"]
    assert ten.live_bytes == pytest.approx(one.live_bytes, rel=0.2)


def test_what_breaks_first_is_the_part_that_is_used_most(costs: UnitCosts) -> None:
    for load in CASES:
        found = needs_of(load, costs)
        assert found.uses[found.first] == max(found.uses.values())
        assert all(share >= 0 for share in found.uses.values())


def test_unit_costs_are_none_below_zero(costs: UnitCosts) -> None:
    assert least([[1, 10], [2, 10], [3, 10]], [12, 14, 16]) == pytest.approx([2, 1])
    first, second = least([[1, 1], [2, 1], [3, 1]], [0.5, 1.6, 2.7])
    assert (first > 0, second) == (True, 0)
    assert costs_from_json(costs_to_json(costs)) == costs


def test_the_page_says_what_the_model_gives() -> None:
    page = PAGE.read_text("utf-8")
    assert written(page) == page, "run: python -m benchmarks.simulate page"


def test_a_mark_that_is_missing_is_seen() -> None:
    with pytest.raises(ValueError, match="'needs'"):
        written(PAGE.read_text("utf-8").replace("<!-- needs -->", ""))


def test_the_page_has_points_enough() -> None:
    assert len(tables()["points"].splitlines()) >= 6 + 4
