"""Gauges of tables under barriers: a table that cannot be read takes no other out, and is named."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from pathlib import Path

import pytest

import widetable as wt
from tests.widetable.cli.test_meta import fill
from widetable_meta.barrier_gauges import barrier_gauges

Damage = Callable[[Path], object]


def values(warehouse: str) -> dict[tuple[str, ...], float]:
    """By name of the gauge without its beginning, and its labels."""
    return {
        (sample.name.removeprefix("widetable_"), *sample.labels.values()): sample.value
        for family in barrier_gauges(wt.Catalog(warehouse))
        for sample in family.samples
    }


def no_snapshot(table: Path) -> None:
    (newest,) = sorted(table.glob("snapshot/snapshot-*"))[-1:]
    newest.write_text("{")


def no_schema(table: Path) -> None:
    (table / "schema/schema-0").write_text("{")


def test_each_table_under_barriers_has_its_own(tmp_path: Path) -> None:
    """Complete up to 20 in x, up to 10 in y; z is under none."""
    warehouse = fill(tmp_path)
    wt.Catalog(warehouse).create_table("db.z", {"k": "BIGINT"}, primary_key=["k"])
    began = time.time()
    found = values(warehouse)
    freshness = {name: found.pop(("table_freshness_seconds", name)) for name in ("db.x", "db.y")}
    assert found == {
        ("table_barriers_readable", "db.x"): 1,
        ("table_barriers_readable", "db.y"): 1,
        ("table_barrier_seconds", "db.x"): 0.02,
        ("table_barrier_seconds", "db.y"): 0.01,
        ("table_missing_writers", "db.x"): 1,
        ("table_missing_writers", "db.y"): 1,
        ("common_barrier_seconds",): 0.01,
    }
    assert freshness["db.x"] >= began - 0.02


@pytest.mark.parametrize("damage", [no_snapshot, no_schema])
def test_a_table_that_cannot_be_read_takes_no_other_out_and_is_named(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, damage: Damage
) -> None:
    warehouse = fill(tmp_path)
    damage(tmp_path / "db.db/y")
    with caplog.at_level(logging.WARNING, "widetable"):
        found = values(warehouse)
    assert found["table_barriers_readable", "db.y"] == 0
    assert found["table_barriers_readable", "db.x"] == 1
    assert found["table_barrier_seconds", "db.x"] == 0.02
    assert [key for key in found if "db.y" in key] == [("table_barriers_readable", "db.y")]
    assert ("common_barrier_seconds",) not in found
    assert "WT-W701 barriers of db.y are not measured" in caplog.text


def test_a_table_that_is_dropped_has_none(tmp_path: Path) -> None:
    warehouse = fill(tmp_path)
    wt.Catalog(warehouse).drop_table("db.y")
    found = values(warehouse)
    assert not any("db.y" in key for key in found)
    assert found["common_barrier_seconds",] == 0.02
