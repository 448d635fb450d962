"""Random transactions on two tables of a source: rows and keys change, big values stay or come, tables are altered."""

from __future__ import annotations

import random
from typing import Final

from tests.support.databases.synced_database import SyncedDatabase

TABLES: Final = ("t", "u")
_KEYS: Final = 260
# So large that the log leaves it out where an update leaves it alone.
_BIG: Final = "(select string_agg(md5((random() + j)::text), '') from generate_series(1, 120) as j)"


class ChangingSource:
    """The tables t and u of a database, keyed by `id`. Rows have a name, a number and a value that may be big.

    rewrites: whether a table was altered so that a job must copy it again.
    """

    def __init__(self, shop: SyncedDatabase, rng: random.Random) -> None:
        self._shop = shop
        self._rng = rng
        self._columns = 0
        self.rewrites = False
        for table, rows in zip(TABLES, (_KEYS, 90), strict=True):
            shop.execute(
                f"create table {table} (id int primary key, name varchar(20), n int, big text)",
                f"alter table {table} alter column big set storage external",
                f"insert into {table} select i, 'first', i from generate_series(1, {rows}) as i",
                f"update {table} set big = {_BIG} where id % 9 = 0",
            )

    def change(self) -> None:
        """Run some transactions, of which the last changes both tables."""
        for _ in range(self._rng.randrange(3)):
            self._shop.transaction(*(self._statement(self._rng.choice(TABLES)) for _ in range(3)))
        self._shop.transaction(*(self._touch(table) for table in TABLES))

    def add_constant(self) -> None:
        """Add columns whose value for old rows comes without an event, between rows of both forms."""
        self._columns += 1
        for table in TABLES:
            self._shop.execute(
                self._touch(table),
                f"alter table {table} add column c{self._columns} int default {self._columns}",
                self._touch(table),
                f"update {table} set c{self._columns} = null where id % 5 = {self._columns % 5}",
            )

    def add_volatile(self) -> None:
        """Add a column that only a new copy brings."""
        self._columns += 1
        self.rewrites = True
        self._shop.execute(
            f"alter table t add column r{self._columns} float8 default random()", self._touch("t")
        )

    def _key(self) -> int:
        return self._rng.randrange(1, _KEYS + 20)

    def _touch(self, table: str) -> str:
        number = self._rng.randrange(1_000_000)
        return (
            f"insert into {table} (id, name, n) values ({self._key()}, 'touched', {number}) "
            "on conflict (id) do update set n = excluded.n, name = excluded.name"
        )

    def _statement(self, table: str) -> str:
        key, other = self._key(), self._key()
        return self._rng.choice(
            (
                f"delete from {table} where id between {key} and {key + 5}",
                f"update {table} set n = n + 1 where id between {key} and {key + 30}",
                f"update {table} set name = null where id = {key}",
                f"update {table} set big = {_BIG} where id = {key}",
                f"update {table} set id = {other} where id = {key} "
                f"and not exists (select from {table} where id = {other})",
                f"insert into {table} (id, name, n) select i, 'new', {key} "
                f"from generate_series({key}, {key + 10}) as i on conflict (id) do nothing",
                f"delete from {table} where id = {key}; "
                f"insert into {table} (id, name, big) values ({key}, 'again', {_BIG})",
            )
        )
