"""Large tiles that the maintainer makes of small ones: what DuckDB adds up, whatever was committed."""

from __future__ import annotations

import os
import random
import signal
from datetime import datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pytest

import widetable as wt
from tests.support.faults.forked import in_a_child
from tests.widetable.derive.versions.test_history import KillingAt
from widetable.derive.tiles.tile_feed import feed_tiles
from widetable.derive.tiles.usable_tiles import serves
from widetable.operations.handle.chosen_state import chosen_state
from widetable.operations.handle.open_table import OpenTable

BEGIN = datetime(2026, 1, 1)
COLUMNS = {
    "area": "STRING",
    "user": "BIGINT",
    "tile": "TIMESTAMP(3)",
    "clicks": "BIGINT",
    "spent": "DECIMAL(12, 2)",
    "top": "DOUBLE",
    "low": "INT",
    "any": "BOOLEAN",
}
KEY = ["area", "user", "tile"]
FUNCTIONS = {
    "merge-engine": "aggregation",
    "fields.clicks.aggregate-function": "sum",
    "fields.spent.aggregate-function": "sum",
    "fields.top.aggregate-function": "max",
    "fields.low.aggregate-function": "min",
    "fields.any.aggregate-function": "bool_or",
    "aggregation.remove-record-on-delete": "true",
    "bucket": "2",
    "bucket-key": "user",
    "widetable.fsync": "false",
}
DAY = {"widetable.tile-size": "1 d", "tiles.from": "db.hours"}


def pair(folder: Path, **options: str) -> tuple[wt.Table, wt.Table]:
    catalog = wt.Catalog(str(folder))
    hours = catalog.create_table(
        "db.hours",
        COLUMNS,
        primary_key=KEY,
        options={**FUNCTIONS, "widetable.tile-size": "1 h", **options},
    )
    days = catalog.create_table("db.days", COLUMNS, primary_key=KEY, options={**FUNCTIONS, **DAY})
    return hours, days


def event(rng: random.Random) -> dict[str, Any]:
    return {
        "area": rng.choice("ab"),
        "user": rng.randint(1, 3),
        "tile": BEGIN + timedelta(hours=rng.randint(-30, 60)),
        "clicks": rng.randint(0, 5),
        "spent": Decimal(rng.randint(0, 999)) / 100,
        "top": rng.choice([None, 1.5, -2.0, float(rng.randint(0, 9))]),
        "low": rng.randint(-5, 5),
        "any": rng.choice([None, True, False]),
    }


def expected(hours: wt.Table) -> list[tuple[Any, ...]]:
    """The days of all hours, by DuckDB."""
    rows = hours.scan().to_arrow()
    connection = duckdb.connect()
    connection.register("hours", rows)
    return connection.sql("""
        select area, "user", date_trunc('day', tile), sum(clicks)::bigint, sum(spent)::decimal(12, 2),
            max(top), min(low), bool_or("any")
        from hours group by all order by all""").fetchall()


def actual(days: wt.Table) -> list[tuple[Any, ...]]:
    connection = duckdb.connect()
    connection.register("days", days.scan().to_arrow())
    return connection.sql("select * from days order by all").fetchall()


@pytest.mark.parametrize("layout", ["plain", "vectors", "lookup"])
def test_random_commits_give_the_sums_of_the_small_tiles(
    tmp_path: Path, rng: random.Random, layout: str
) -> None:
    options = {
        "plain": {},
        "vectors": {"deletion-vectors.enabled": "true"},
        "lookup": {"changelog-producer": "lookup"},
    }
    hours, days = pair(tmp_path, **options[layout])
    assert feed_tiles(days) is None
    for _ in range(8):
        choice = rng.random()
        if choice < 0.6 or not hours.snapshots():
            hours.write([event(rng) for _ in range(rng.randint(1, 12))])
        elif choice < 0.75:
            hours.delete(f"clicks = {rng.randint(0, 5)}")
        elif choice < 0.85:
            hours.overwrite([event(rng)], whole_table=True)
        elif choice < 0.95:
            hours.compact(full=True)
        else:
            hours.rollback(snapshot_id=1)
        if rng.random() < 0.6:
            feed_tiles(days)
            assert actual(days) == expected(hours)
    days.maintain(once=True)
    assert actual(days) == expected(hours)
    assert feed_tiles(days) is None


def test_windows_use_the_days_in_the_middle(tmp_path: Path, rng: random.Random) -> None:
    hours, days = pair(tmp_path)
    hours.write([event(rng) for _ in range(200)])
    days.maintain(once=True)
    rows = {
        "area": ["a"] * 3,
        "user": [1, 2, 3],
        "event_timestamp": [BEGIN + timedelta(days=2)] * 3,
    }
    features = {
        "clicks": wt.window("clicks", "sum", "70 h"),
        "top": wt.window("top", "max", "70 h"),
    }
    fine = hours.windows(rows, features=features)
    assert hours.windows(rows, features=features, coarse=[days]).equals(fine)


def serve(days: wt.Table, hours: wt.Table) -> bool:
    return serves(days, chosen_state(days), hours, chosen_state(hours))


def test_days_that_lack_what_hours_have_do_not_serve(tmp_path: Path, rng: random.Random) -> None:
    hours, days = pair(tmp_path)
    catalog = wt.Catalog(str(tmp_path))
    options = {"widetable.tile-size": "2 d", "tiles.from": "db.days"}
    pairs = catalog.create_table(
        "db.pairs", COLUMNS, primary_key=KEY, options={**FUNCTIONS, **options}
    )
    noon = BEGIN + timedelta(hours=60)
    rows = {"area": ["a"] * 3, "user": [1, 2, 3], "event_timestamp": [noon] * 3}
    features = {"clicks": wt.window("clicks", "sum", "90 h")}
    for step in range(12):
        hours.write([event(rng) for _ in range(5)])
        if rng.random() < 0.5:
            days.maintain(once=True)
            assert serve(days, hours)
            hours.compact(full=True)
            assert serve(days, hours)
        if rng.random() < 0.5:
            pairs.maintain(once=True)
            assert serve(pairs, hours) == serve(days, hours)
        if step % 3 == 2:
            hours.write([event(rng)])
            assert not serve(days, hours)
            assert not serve(pairs, hours)
        fine = hours.windows(rows, features=features)
        for coarse in ([days], [days, pairs], [pairs]):
            assert hours.windows(rows, features=features, coarse=coarse).equals(fine)


def test_expired_progress_makes_all_tiles_anew(tmp_path: Path, rng: random.Random) -> None:
    hours, days = pair(tmp_path)
    hours.write([event(rng) for _ in range(20)])
    feed_tiles(days)
    assert hours.consumers() == {"tiles-db.days": 1}
    hours.delete_consumer("tiles-db.days")
    hours.delete("clicks >= 2")
    hours.write([event(rng)])
    hours.expire_snapshots(num_retained_min=1, num_retained_max=1, time_retained_millis=1)
    feed_tiles(days)
    assert actual(days) == expected(hours)
    assert [each.commit_kind for each in days.snapshots()][-1] == "OVERWRITE"


@pytest.mark.parametrize("is_after", [False, True])
@pytest.mark.parametrize("place", ["days/snapshot/snapshot-", "consumer/consumer-tiles-db.days"])
def test_a_kill_at_any_step_adds_nothing_twice(
    tmp_path: Path, rng: random.Random, place: str, is_after: bool
) -> None:
    hours, days = pair(tmp_path)
    for _ in range(3):
        hours.write([event(rng) for _ in range(10)])
        child = in_a_child(
            lambda: feed_tiles(OpenTable(days.path, KillingAt(place, is_after=is_after))) and None
        )
        assert os.WTERMSIG(os.waitpid(child, 0)[1]) == signal.SIGKILL
    feed_tiles(days)
    assert actual(days) == expected(hours)


def test_a_rollback_of_large_tiles_is_refused(tmp_path: Path, rng: random.Random) -> None:
    hours, days = pair(tmp_path)
    for _ in range(2):
        hours.write([event(rng)])
        feed_tiles(days)
    with pytest.raises(wt.InvalidError, match=r"has the tiles of db\.hours"):
        days.rollback(snapshot_id=1)


@pytest.mark.parametrize("is_first", [False, True])
def test_a_small_tile_that_is_none_is_named(
    tmp_path: Path, rng: random.Random, is_first: bool
) -> None:
    hours, days = pair(tmp_path)
    if not is_first:
        hours.write([event(rng)])
        feed_tiles(days)
    hours.write([{**event(rng), "user": 77, "tile": BEGIN + timedelta(minutes=5)}])
    with pytest.raises(wt.InvalidError, match=r"'tile'.*user=77"):
        days.maintain(once=True)


def test_nobody_else_writes_large_tiles(tmp_path: Path, rng: random.Random) -> None:
    _, days = pair(tmp_path)
    with pytest.raises(wt.InvalidError, match=r"has the tiles of db\.hours"):
        days.write([event(rng)])


@pytest.mark.parametrize(
    ("changed", "options", "match"),
    [
        ({}, {"widetable.tile-size": "90 min"}, "tile-size"),
        ({}, {"widetable.tile-size": "1 h"}, "tile-size"),
        ({"low": "BIGINT"}, {}, "'low'"),
        ({"other": "INT"}, {"fields.other.aggregate-function": "sum"}, "'other'"),
        ({}, {"fields.low.aggregate-function": "max"}, "'low'"),
        ({"user": "INT"}, {}, "primary key"),
    ],
)
def test_tables_that_do_not_fit_are_refused_by_name(
    tmp_path: Path,
    rng: random.Random,
    changed: dict[str, str],
    options: dict[str, str],
    match: str,
) -> None:
    hours, _ = pair(tmp_path)
    hours.write([event(rng)])
    days = wt.Catalog(str(tmp_path)).create_table(
        "db.other",
        {**COLUMNS, **changed},
        primary_key=KEY,
        options={**FUNCTIONS, **DAY, **options},
    )
    with pytest.raises(wt.InvalidError, match=match):
        days.maintain(once=True)


@pytest.mark.parametrize(
    ("without", "match"),
    [
        ("widetable.tile-size", "tile-size"),
        ("aggregation.remove-record-on-delete", "remove-record-on-delete"),
    ],
)
def test_a_table_that_cannot_make_tiles_anew_is_refused(
    tmp_path: Path, without: str, match: str
) -> None:
    options = {**FUNCTIONS, **DAY}
    del options[without]
    with pytest.raises(wt.InvalidError, match=match):
        wt.Catalog(str(tmp_path)).create_table("db.t", COLUMNS, primary_key=KEY, options=options)
