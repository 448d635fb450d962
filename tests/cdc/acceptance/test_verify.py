"""`verify` compares a target with its source: equal ones are equal, and each kind of difference is named."""

from __future__ import annotations

import json
import threading
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.support.databases.synced_database import SyncedDatabase
from tests.support.faults.patience import wait_for
from widetable_cdc import Sync, VerifyReport
from widetable_cdc.source.chunk_rows import read_chunk
from widetable_cdc.source.source_table import SourceTable


def verified(shop: SyncedDatabase, **entries: object) -> VerifyReport:
    return Sync(shop.config(**entries)).verify()


def test_equal_tables_are_equal(shop: SyncedDatabase) -> None:
    shop.execute(
        "create table v (id uuid primary key, f float8, list int[], at timestamptz, raw bytea)",
        "insert into v select gen_random_uuid(), case i when 1 then 'NaN'::float8 end, "
        "array[i, null], now(), decode(md5(i::text), 'hex') from generate_series(1, 500) as i",
        "insert into t select i, 'n' || i from generate_series(1, 500) as i",
    )
    limits = {"chunk-rows": 100}
    shop.run(limits=limits)
    report = verified(shop, limits=limits)
    assert [(one.relation, one.rows, one.is_equal) for one in report.tables] == [
        ("public.t", 500, True),
        ("public.v", 500, True),
    ]
    assert report.is_equal


def test_each_difference_is_named(shop: SyncedDatabase) -> None:
    target = {
        "warehouse": str(shop.warehouse),
        "database": "shop",
        "barriers": "none",
        "options": {"widetable.fsync": "false"},
    }
    shop.execute("insert into t values (1, 'a', 'x'), (2, 'b', 'y'), (3, 'c', 'z')")
    shop.run(target=target)
    table = shop.table()
    table.write([{"id": 2, "name": "wrong", "big": "y"}, {"id": 4, "name": "d", "big": None}])
    table.write([{"id": 3, "_row_kind": "-D"}])
    (one,) = verified(shop, target=target).tables
    assert (one.missing, one.extra, one.different) == (1, 1, 1)
    assert one.columns == ("name",)
    assert set(one.examples) == {"id=2", "id=3", "id=4"}
    assert "1 missing, 1 extra, 1 different (name)" in one.line()


def test_a_table_with_text_keys_is_compared_range_by_range(shop: SyncedDatabase) -> None:
    target = {"warehouse": str(shop.warehouse), "database": "shop", "barriers": "none"}
    limits = {"chunk-rows": 20}
    shop.execute(
        "create table w (id text primary key, n int)",
        "insert into w select md5(i::text), i from generate_series(1, 300) as i",
        "insert into w values ('ß''\\', 0), ('', 1)",
    )
    shop.run(target=target, limits=limits)
    one = Sync(shop.config(target=target, limits=limits)).verify("public.w").tables[0]
    assert (one.rows, one.is_equal) == (302, True)
    shop.table("w").write([{"id": "0 extra", "n": 1}, {"id": "ß'\\", "n": 5}])
    shop.table("w").write([{"id": "", "_row_kind": "-D"}])
    one = Sync(shop.config(target=target, limits=limits)).verify("public.w").tables[0]
    assert (one.rows, one.missing, one.extra, one.different) == (302, 1, 1, 1)


def test_tables_with_other_keys_are_compared_range_by_range(
    shop: SyncedDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys = {
        "numbers": ("numeric", "(i - 50) / 7.0"),
        "decimals": ("numeric(9, 2)", "(i - 50) * 1.25"),
        "bytes": ("bytea", "decode(md5(i::text), 'hex')"),
        "enums": ("mood", "(array['sad', 'Happy', 'ok'])[i % 3 + 1]::mood"),
    }
    target = {"warehouse": str(shop.warehouse), "database": "shop", "barriers": "none"}
    shop.execute("create type mood as enum ('sad', 'ok', 'Happy')")
    for name, (kind, value) in keys.items():
        shop.execute(
            f"create table {name} (k {kind}, i int, n int, primary key (k, i))",
            f"insert into {name} select {value}, i, i from generate_series(1, 60) as i",
        )
    config = shop.config(target=target, limits={"chunk-rows": 25})
    Sync(config).run("caught-up")
    read: Counter[str] = Counter()

    def counted(dsn: str, job: str, table: SourceTable, *rest: Any) -> Any:
        read[table.name] += 1
        return read_chunk(dsn, job, table, *rest)

    monkeypatch.setattr("widetable_cdc.jobs.verification.read_chunk", counted)
    report = Sync(config).verify()
    assert report.is_equal
    assert min(read[name] for name in keys) >= 3
    for name in keys:
        row = shop.table(name).scan().to_arrow().sort_by("i").to_pylist()[40]
        shop.table(name).write([row | {"n": -1}, row | {"i": 1000}])
    differences = {one.relation: one for one in Sync(config).verify().tables}
    for name in keys:
        one = differences[f"public.{name}"]
        assert (one.rows, one.missing, one.extra, one.different) == (60, 0, 1, 1), name


def test_a_bad_row_is_left_aside(shop: SyncedDatabase) -> None:
    shop.execute("create table n (id int primary key, amount numeric(10,2))")
    shop.execute("insert into n values (1, 'NaN'), (2, 5)")
    shop.run()
    one = Sync(shop.config()).verify("public.n").tables[0]
    assert one.is_equal
    assert (one.rows, one.bad) == (1, 1)


def test_what_the_job_has_not_read_differs_and_is_said_to_be_behind(shop: SyncedDatabase) -> None:
    shop.run()
    shop.execute("insert into t values (1)")
    report = verified(shop)
    assert not report.is_equal
    assert report.behind_bytes > 0
    assert "behind" in report.lines()[-1]
    assert json.dumps(report.to_dict())


def test_changes_while_it_compares_are_no_differences(shop: SyncedDatabase, tmp_path: Path) -> None:
    shop.execute("insert into t select i, 'n' from generate_series(1, 200) as i")
    shop.run()
    stop = threading.Event()
    limits = {"max-delay": "20 ms"}
    job = threading.Thread(target=Sync(shop.config(limits=limits)).run, args=(None, stop))
    writes = threading.Thread(target=_write, args=(shop, stop))
    job.start()
    writes.start()
    try:
        wait_for(lambda: shop.table().snapshots()[-1].id > 5)
        assert all(verified(shop).is_equal for _ in range(2))
    finally:
        stop.set()
        writes.join()
        job.join()


def _write(shop: SyncedDatabase, stop: threading.Event) -> None:
    number = 0
    while not stop.is_set():
        number += 1
        shop.execute(
            f"update t set name = 'n{number}' where id % 7 = {number % 7}",
            f"delete from t where id = {number % 200}",
            f"insert into t values ({1000 + number})",
        )


@pytest.mark.parametrize("name", ["public.nothing"])
def test_a_table_that_the_job_does_not_have(shop: SyncedDatabase, name: str) -> None:
    shop.run()
    with pytest.raises(Exception, match=r"public\.nothing.*one of public\.t"):
        Sync(shop.config()).verify(name)
