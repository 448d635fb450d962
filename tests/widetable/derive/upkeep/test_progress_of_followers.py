"""`inspect` says how far a history, large tiles and samples are behind their table, and what they cannot go on from."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import widetable as wt
from tests.widetable.derive.samples.sample_model import COLUMNS as SAMPLED
from tests.widetable.derive.samples.sample_model import OPTIONS as SAMPLED_OPTIONS
from tests.widetable.derive.tiles.test_tile_feed import BEGIN, pair
from widetable.cli.output.inspection_text import inspection_lines
from widetable.derive.versions.history_feed import feed_history


def behind(table: wt.Table) -> Any:
    (state,) = table.inspect().derived
    assert state.error is None
    return state.option, dict(state.behind)


def forget(table: wt.Table) -> None:
    table.expire_snapshots(num_retained_min=1, num_retained_max=1, time_retained_millis=1)


def with_history(folder: Path) -> wt.Table:
    options = {"history.table": "db.h", "widetable.fsync": "false", "bucket": "1"}
    columns = {"id": "BIGINT", "v": "INT"}
    return wt.Catalog(str(folder)).create_table(
        "db.t", columns, primary_key=["id"], options=options
    )


def test_a_history_is_behind_by_the_snapshots_that_change_rows(tmp_path: Path) -> None:
    table = with_history(tmp_path)
    assert behind(table) == ("history.table", {"db.t": None})
    table.write([{"id": 1, "v": 1}])
    assert behind(table) == ("history.table", {"db.t": None})
    feed_history(table)
    assert behind(table) == ("history.table", {"db.t": 0})
    table.compact(full=True)
    assert behind(table) == ("history.table", {"db.t": 0})
    for v in (2, 3):
        table.write([{"id": 1, "v": v}])
    assert behind(table) == ("history.table", {"db.t": 2})
    lines = [line for line, _ in inspection_lines(table.inspect())]
    assert any("history" in line and "2 snapshots of db.t behind" in line for line in lines)


def test_a_history_that_cannot_go_on_is_a_warning_and_a_finding(tmp_path: Path) -> None:
    table = with_history(tmp_path)
    table.write([{"id": 1, "v": 1}])
    feed_history(table)
    table.delete_consumer("history")
    for v in (2, 3):
        table.write([{"id": 1, "v": v}])
    forget(table)
    inspection = table.inspect()
    assert any("Name a new table in history.table" in each for each in inspection.warnings)
    (finding,) = table.doctor().findings
    assert "history" in str(finding)


def test_large_tiles_are_behind_the_small_ones(tmp_path: Path) -> None:
    hours, days = pair(tmp_path)
    assert behind(days) == ("tiles.from", {"db.hours": None})
    assert hours.inspect().derived == ()
    hours.write([{"area": "a", "user": 1, "tile": BEGIN, "clicks": 1}])
    days.maintain(once=True)
    assert behind(days) == ("tiles.from", {"db.hours": 0})
    hours.write([{"area": "a", "user": 1, "tile": BEGIN, "clicks": 1}])
    assert behind(days) == ("tiles.from", {"db.hours": 1})
    wt.Catalog(str(tmp_path)).drop_table("db.hours")
    (state,) = days.inspect().derived
    assert state.behind == {"db.hours": None}
    assert "hours" in str(state.error)


def test_samples_are_behind_the_table_of_the_rows(tmp_path: Path) -> None:
    catalog = wt.Catalog(str(tmp_path))
    table = catalog.create_table("db.t", SAMPLED, primary_key=["id"], options=SAMPLED_OPTIONS)

    def follow() -> None:
        with table.follow_samples("c", timeout=0, complete=["label"]) as follower:
            list(follower)

    follow()
    samples = catalog.table("db.t_samples")
    assert behind(samples) == ("widetable.samples-of", {"db.t": None})
    table.write([{"id": 1, "label": 1}])
    follow()
    assert behind(samples) == ("widetable.samples-of", {"db.t": 0})
    table.write([{"id": 2, "label": 1}])
    assert behind(samples) == ("widetable.samples-of", {"db.t": 1})
    lines = [line for line, _ in inspection_lines(samples.inspect())]
    assert "  samples-of        1 snapshot of db.t behind" in lines


@pytest.mark.parametrize("kept", [1, 2])
def test_samples_whose_snapshots_have_expired_cannot_go_on(tmp_path: Path, kept: int) -> None:
    catalog = wt.Catalog(str(tmp_path))
    table = catalog.create_table("db.t", SAMPLED, primary_key=["id"], options=SAMPLED_OPTIONS)
    table.write([{"id": 1, "label": 1}])
    with table.follow_samples("c", timeout=0, complete=["label"]) as follower:
        list(follower)
    for consumer in table.consumers():
        table.delete_consumer(consumer)
    for id in range(2, 5):
        table.write([{"id": id, "label": 1}])
    table.expire_snapshots(num_retained_min=kept, num_retained_max=kept, time_retained_millis=1)
    (state,) = catalog.table("db.t_samples").inspect().derived
    assert "Name another table in into" in str(state.error)
