"""Cases 4 and 25 of change data capture, and plans that a killed job leaves: a job dies at one step, and what it must
do then is known.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import widetable as wt
from tests.kill.killing_cdc import STEPS, KillPoint, job_ends
from tests.support.databases.module_server import server
from tests.support.databases.postgres_server import PostgresServer
from tests.support.databases.synced_database import SyncedDatabase
from widetable_cdc import Sync, SyncConfig

__all__ = ["server"]  # a fixture


@pytest.fixture
def shop(server: PostgresServer, tmp_path: Path) -> Iterator[SyncedDatabase]:
    with SyncedDatabase.made(server, tmp_path) as made:
        made.execute("create table t (id int primary key, name text)")
        yield made


def dies(config: SyncConfig, folder: Path, point: KillPoint) -> bool:
    return job_ends(config, folder / "reads", point) == -9


def test_04_a_row_of_a_chunk_without_state_that_is_deleted_is_gone(
    shop: SyncedDatabase, tmp_path: Path
) -> None:
    shop.execute("insert into t select i, 'n' from generate_series(1, 2500) as i")
    config = shop.config(limits={"chunk-rows": 1000, "chunks-at-once": 1})
    assert dies(config, tmp_path, KillPoint("chunk committed", is_after=True))
    copied = {row["id"] for row in shop.target()}
    assert 5 in copied
    assert len(copied) < 2500
    shop.execute("delete from t where id = 5")
    Sync(config).run("caught-up")
    assert [row["id"] for row in shop.target()] == [i for i in range(1, 2501) if i != 5]
    assert shop.folded() == shop.target()


@pytest.mark.parametrize("rows", [20, 400])
def test_a_plan_without_its_table_is_made_anew(
    shop: SyncedDatabase, tmp_path: Path, rows: int
) -> None:
    shop.execute("insert into t select i, 'n' from generate_series(1, 200) as i")
    config = shop.config(limits={"chunk-rows": 30})
    assert dies(config, tmp_path, KillPoint("plan saved", is_after=True))
    shop.execute(
        "delete from t", f"insert into t select i, 'm' from generate_series(1, {rows}) as i"
    )
    shop.execute("vacuum full t")
    Sync(config).run("caught-up")
    assert shop.target() == shop.source()


@pytest.mark.parametrize("step", ["plan saved", "table state", "table altered"])
@pytest.mark.parametrize("is_after", [False, True])
def test_killed_within_a_new_copy_the_rewritten_values_arrive(
    shop: SyncedDatabase, tmp_path: Path, step: str, is_after: bool
) -> None:
    shop.execute("insert into t select i, 'n' from generate_series(1, 40) as i")
    shop.run()
    shop.execute("alter table t add column r float8 default random()", "insert into t values (99)")
    assert dies(shop.config(), tmp_path, KillPoint(step, is_after))
    shop.run()
    assert shop.target() == shop.source()


def test_killed_at_the_end_of_a_copy_a_later_one_is_planned_anew(
    shop: SyncedDatabase, tmp_path: Path
) -> None:
    shop.execute("insert into t select i, 'n' from generate_series(1, 200) as i")
    config = shop.config(limits={"chunk-rows": 30})
    assert dies(config, tmp_path, KillPoint("chunk states dropped", is_after=False))
    shop.execute(
        "delete from t where id > 20", "alter table t add column r float8 default random()"
    )
    shop.execute("insert into t values (99)")
    Sync(config).run("caught-up")
    assert shop.target() == shop.source()
    assert shop.table(f"__cdc_{shop.name}").scan().to_arrow().num_rows == 0


def test_25_two_killed_jobs_fill_two_groups_of_one_table(
    server: PostgresServer, tmp_path: Path
) -> None:
    groups = {"x": "x_lsn", "y": "y_lsn"}
    wt.Catalog(str(tmp_path / "warehouse")).create_table(
        "shop.wide",
        {"id": "INT NOT NULL", "x": "INT", "x_lsn": "BIGINT", "y": "INT", "y_lsn": "BIGINT"},
        primary_key=["id"],
        options={
            "merge-engine": "partial-update",
            "fields.x_lsn.sequence-group": "x",
            "fields.y_lsn.sequence-group": "y",
            "changelog-producer": "lookup",
            "widetable.fsync": "false",
        },
    )
    with SyncedDatabase.made(server, tmp_path) as one, SyncedDatabase.made(server, tmp_path) as two:
        jobs = {"x": one, "y": two}
        configs = {column: _group(shop, column, groups[column]) for column, shop in jobs.items()}
        for column, shop in jobs.items():
            shop.execute(
                f"create table {column} (id int primary key, {column} int)",
                f"insert into {column} select i, i from generate_series(1, 100) as i",
            )
        steps = ("group's chunk committed", "chunk states", "group's round committed", "confirmed")
        kills = dict.fromkeys(jobs, 0)
        while min(kills.values()) < 10:
            for column, shop in jobs.items():
                number = kills[column]
                shop.execute(
                    f"update {column} set {column} = {column} + 1000 where id % 7 = {number % 7}",
                    f"delete from {column} where id = {number + 3}",
                    f"insert into {column} values ({200 + number}, null)",
                )
                point = KillPoint(steps[number // 2 % 4], is_after=number % 2 == 1)
                kills[column] += 1
                if not dies(configs[column], tmp_path, point):
                    kills[column] -= 1
                    Sync(configs[column]).drop_slot()
        for config in configs.values():
            Sync(config).run("caught-up")
        wide = {row["id"]: row for row in one.target("wide")}
        for column, shop in jobs.items():
            cells = {id: row[column] for id, row in wide.items() if row[column] is not None}
            rows = {row["id"]: row[column] for row in shop.source(column)}
            assert cells == {id: value for id, value in rows.items() if value is not None}
        one.table("wide").compact()
        assert one.folded("wide") == one.target("wide")


def _group(shop: SyncedDatabase, column: str, sequence: str) -> SyncConfig:
    table: dict[str, Any] = {
        "target": "wide",
        "group": {"columns": [column], "sequence": sequence},
    }
    return shop.config(limits={"chunk-rows": 30}, table={f"public.{column}": table})


def test_each_step_is_a_function_of_the_job() -> None:
    absent = [
        step for step, (owner, name) in STEPS.items() if not callable(getattr(owner, name, 0))
    ]
    assert absent == []
