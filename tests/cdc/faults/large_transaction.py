"""A program: a job applies one transaction of many rows from a real server, and the memory that this takes is printed.

Arguments: the dsn of a database with tables `a` and `b` of the same columns, the warehouse, how many rows a table gets.
Fails if a cell differs. Prints, in a line for inserts and one for updates, the commits of both tables, their rows, and
the mebibytes of the process above those that it had before: memory of its own, not pages of mapped files, which the
system may drop. Targets are write-only: compactions are the engine's, and come after the commit.
"""

from __future__ import annotations

import sys
import threading
from pathlib import Path
from typing import Final

import psycopg
import pyarrow as pa

import widetable as wt
from widetable_cdc import Sync, config_of
from widetable_cdc.applying.target import LSN_PROPERTY

WRITE_BUFFER_MEBIBYTES: Final = 64
TABLES: Final = ("a", "b")
COLUMNS: Final = (
    "id int primary key, n bigint, x float8, price numeric(12, 2), city text, at timestamptz, day date, "
    "ok boolean, note text, m bigint, big text"
)
_VALUES: Final = (
    "i, i * 7, i * 0.5, i * 0.25, 'city ' || i, timestamptz '2026-01-02 03:04:05+00' + i * interval '1 s', "
    "date '2026-01-02', i % 2 = 0, 'a note of forty characters, more or less', i, 'big ' || i"
)


def own_mebibytes() -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(each for each in lines if each.startswith("RssAnon")).split()[1]) >> 10


class Peak:
    """The most memory that the process has within the `with` block, by a look every few milliseconds."""

    def __enter__(self) -> Peak:
        self.most = own_mebibytes()
        self._over = threading.Event()
        self._looking = threading.Thread(target=self._look)
        self._looking.start()
        return self

    def _look(self) -> None:
        while not self._over.wait(0.005):
            self.most = max(self.most, own_mebibytes())

    def __exit__(self, *error: object) -> None:
        self._over.set()
        self._looking.join()


def main(dsn: str, warehouse: str, count: int) -> None:
    options = {"write-only": "true", "write-buffer-size": f"{WRITE_BUFFER_MEBIBYTES} mb"}
    target = {"warehouse": warehouse, "database": "shop", "options": options}
    config = {"name": "large", "tables": ["public.*"], "source": {"dsn": dsn}, "target": target}

    def run() -> None:
        Sync(config_of(config)).run("caught-up")

    def changed(*statements: str) -> None:
        with psycopg.connect(dsn) as connection:
            for statement in statements:
                connection.execute(statement)

    run()
    changed(
        *(
            f"insert into {name} select {_VALUES} from generate_series(-2000, -1) i"
            for name in TABLES
        )
    )
    run()
    changed(*(f"update {name} set n = n + 1" for name in TABLES))
    run()  # what is compiled and loaded once
    inserts = [
        f"insert into {name} select {_VALUES} from generate_series(1, {count}) i" for name in TABLES
    ]
    updates = [f"update {name} set n = n + 1, city = 'moved' where id > 0" for name in TABLES]
    for statements in (inserts, updates):
        changed(*statements)
        tables = [wt.Catalog(warehouse).table(f"shop.{name}") for name in TABLES]
        before = [table.snapshots()[-1].id for table in tables]
        pa.default_memory_pool().release_unused()
        base = own_mebibytes()
        with Peak() as peak:
            run()
        taken = peak.most - base
        commits = [
            sum(each.id > first and LSN_PROPERTY in each.properties for each in table.snapshots())
            for table, first in zip(tables, before, strict=True)
        ]
        rows = [table.scan(["id"], "id > 0").to_arrow().num_rows for table in tables]
        sys.stdout.write(" ".join(map(str, [*commits, *rows, taken])) + "\n")
        sys.stdout.flush()
    if not Sync(config_of(config)).verify().is_equal:
        raise SystemExit("a target differs from its source")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
