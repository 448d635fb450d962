"""Case 24: a MariaDB database is followed through Debezium's engine, also by a job that is killed between its steps."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest

import widetable as wt
from tests.cdc.mariadb.dying_job import DeathPoint, job_ends
from tests.cdc.mariadb.mariadb_server import (
    NEEDS_MARIADB,
    MariadbServer,
    debezium_jars,
    mariadb_server,
)
from widetable_cdc import Sync

pytestmark = [NEEDS_MARIADB, pytest.mark.slow]

TABLES = ("orders", "tags")
MADE = (
    "create table orders (id int primary key, city varchar(20), amount decimal(10,2),"
    " at datetime(6), seen timestamp(3) null, big text, raw blob, price double)",
    "create table tags (id bigint, part int, name varchar(20), primary key (id, part))",
)


@pytest.fixture(scope="module")
def server() -> Iterator[MariadbServer]:
    with mariadb_server() as started:
        yield started


class FollowedShop:
    """A database, and the job that follows it."""

    def __init__(self, server: MariadbServer, name: str, folder: Path) -> None:
        self.server, self.name, self._folder = server, name, folder
        server.execute(f"create database {name} character set utf8mb4")
        self.execute(*MADE)
        self.config: dict[str, Any] = {
            "name": name,
            "tables": [f"{name}.*"],
            "source": {
                "kind": "debezium",
                "connector": "mariadb",
                "jars": str(debezium_jars()),
                "properties": {
                    "database.hostname": "127.0.0.1",
                    "database.port": server.port,
                    "database.user": "root",
                    "database.password": "",
                    "database.server.id": 8123,
                },
            },
            "target": {"warehouse": str(folder / "warehouse"), "database": "mirror"},
            # Several rounds for what a test changes at once.
            "limits": {"max-changes": 100},
        }

    def execute(self, *statements: str) -> list[dict[str, Any]]:
        return self.server.execute(*statements, database=self.name)

    def fill(self, rows: int) -> None:
        values = ", ".join(
            f"({at}, 'city {at}', {at}.25, '2026-01-02 03:04:05.678901', '2026-03-04 05:06:07.123',"
            f" repeat('ü', {at % 50}), x'00ff{at:04x}', {at} / 8e0)"
            for at in range(rows)
        )
        self.execute(
            f"insert into orders values {values}",
            "insert into tags values " + ", ".join(f"({at}, 1, 'tag')" for at in range(rows)),
        )

    def change(self, rng: random.Random, changes: int) -> None:
        """Change rows of both tables in transactions of one to ten statements."""
        while changes > 0:
            statements = [self._statement(rng) for _ in range(rng.randint(1, 10))]
            self.server.transaction(statements, self.name)
            changes -= len(statements)

    def _statement(self, rng: random.Random) -> str:
        id, other = rng.randrange(200), rng.randrange(200)
        return rng.choice(
            (
                f"insert ignore into orders (id, city) values ({id}, 'new')",
                f"update orders set amount = {other}.5, big = null where id = {id}",
                f"update ignore orders set id = {other} where id = {id}",
                f"delete from orders where id = {id}",
                f"insert ignore into tags values ({id}, {other}, 'other')",
                f"update tags set name = 'changed' where id = {id}",
                f"delete from tags where id = {id}",
            )
        )

    def runs(self, point: DeathPoint | None = None) -> None:
        """Run the job until it has caught up, or dies at the point."""
        code = job_ends(self.config, self._folder, point)
        assert code == (0 if point is None else -9), f"{point}: the job ended with {code}"

    def check(self) -> None:
        """Compare each target with its table, and look for identifiers that came twice."""
        catalog = wt.Catalog(self.config["target"]["warehouse"])
        for name in TABLES:
            table = catalog.table(f"mirror.{name}")
            source = [_plain(row) for row in self.execute(f"select * from {name}")]
            target = [_plain(row) for row in table.scan().to_arrow().to_pylist()]
            assert sorted(target, key=str) == sorted(source, key=str), name
            identifiers = Counter(
                snapshot.commit_identifier
                for snapshot in table.snapshots()
                if snapshot.commit_user == f"cdc/{self.name}" and snapshot.commit_kind == "APPEND"
            )
            del identifiers[2**63 - 1]  # commits without one: rows that an ALTER has filled
            assert set(identifiers.values()) == {1}, name


def _plain(row: dict[str, Any]) -> dict[str, Any]:
    """A row with its columns in the order of their names. The server's texts of `timestamp` have no zone."""
    return {
        name: value.astimezone(timezone.utc).replace(tzinfo=None)
        if isinstance(value, datetime) and value.tzinfo
        else value
        for name, value in sorted(row.items())
    }


@pytest.fixture
def shop(
    server: MariadbServer, tmp_path: Path, request: pytest.FixtureRequest
) -> Iterator[FollowedShop]:
    name = f"case_{abs(hash(request.node.name)) % 10**6}"
    made = FollowedShop(server, name, tmp_path)
    yield made
    server.execute(f"drop database {name}")


def test_case_24_a_database_is_followed_through_kills(
    shop: FollowedShop, rng: random.Random
) -> None:
    shop.fill(150)
    shop.runs(DeathPoint("table committed", "after", 0))
    shop.execute("delete from orders where id = 5")
    shop.runs(DeathPoint("state saved", "before"))
    shop.runs(DeathPoint("state saved", "after"))
    shop.change(rng, 400)
    shop.runs(DeathPoint("table committed", "after", 0))
    shop.runs(DeathPoint("table committed", "after", 3))
    shop.runs(DeathPoint("state saved", "before", 1))
    shop.change(rng, 300)
    shop.execute("alter table orders add column paid int default 7")
    shop.change(rng, 300)
    shop.runs(DeathPoint("rows filled", "after"))
    shop.runs(DeathPoint("table committed", "after", 1))
    shop.runs()
    shop.check()
    shop.runs()
    shop.check()


def test_changes_of_the_schema_that_the_page_names(shop: FollowedShop) -> None:
    job = Sync(shop.config)
    shop.execute(
        "create table nulls (id int primary key, a int default 5, n int)",
        "insert into nulls values (1, null, 1), (2, 2, 2)",
        "create table gone (id int primary key)",
        "insert into gone values (1), (2)",
        "create table ignored (id int primary key)",
    )
    shop.fill(3)
    job.run("caught-up")
    shop.execute(
        "alter table nulls add column b int not null, add column c varchar(9) not null default 'x',"
        " modify n bigint",
        "insert into nulls values (3, null, 5000000000, 4, 'y')",
        "alter table orders drop column price, modify city varchar(200)",
        "insert into orders (id, city) values (50, repeat('z', 150))",
        "drop table gone",
        "create table gone (id int primary key)",
        "insert into gone values (7)",
        "truncate table tags",
    )
    status = job.run("caught-up")
    assert {each.status.value for each in status.tables} == {"streaming"}
    assert not status.errors
    catalog = wt.Catalog(shop.config["target"]["warehouse"])

    def rows(name: str) -> list[dict[str, Any]]:
        found = catalog.table(f"mirror.{name}").scan().to_arrow().to_pylist()
        return sorted(found, key=lambda row: int(row["id"]))

    assert rows("nulls") == shop.execute("select * from nulls order by id")
    assert rows("gone") == [{"id": 7}]
    assert rows("tags") == []
    target = rows("orders")
    kept = [row.pop("price") for row in target]
    assert kept == [0.0, 0.125, 0.25, None]
    source = [_plain(row) for row in shop.execute("select * from orders order by id")]
    assert [_plain(row) for row in target] == source
    shop.execute("alter table nulls rename column a to d")
    with pytest.raises(wt.InvalidError, match=r"nulls.*other names.*rename column a to d"):
        job.run("caught-up")
    shop.config["exclude"] = [f"{shop.name}.nulls"]
    shop.execute("delete from gone")
    Sync(shop.config).run("caught-up")
    assert rows("gone") == []
