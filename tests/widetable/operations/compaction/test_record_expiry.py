"""Rows whose time is too long ago go, as if somebody had deleted them; others stay, and nothing older comes instead."""

from __future__ import annotations

import random
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import widetable as wt
from tests.support.models.changelog_follower import Follower, changes_of
from widetable.operations.maintenance.maintenance import Upkeep

DAY = 86_400
NOW = int(time.time())
OLD = NOW - 2 * DAY
EXPIRY = {"record-level.expire-time": "1 d", "record-level.time-field": "at"}
ENGINES = {
    "deduplicate": {},
    "partial-update": {"merge-engine": "partial-update"},
    "groups": {"merge-engine": "partial-update", "fields.at.sequence-group": "v"},
    "removing": {
        "merge-engine": "partial-update",
        "partial-update.remove-record-on-delete": "true",
    },
    "aggregation": {
        "merge-engine": "aggregation",
        "fields.v.aggregate-function": "sum",
        "fields.at.aggregate-function": "max",
    },
    "first-row": {"merge-engine": "first-row"},
    "vectors": {"deletion-vectors.enabled": "true"},
    "ordered": {"sequence.field": "at"},
}
PRODUCERS = ("none", "input", "lookup", "full-compaction")
REFUSED = {("first-row", "input"), ("first-row", "full-compaction"), ("vectors", "full-compaction")}
CASES = [(e, p) for e in ENGINES for p in PRODUCERS if (e, p) not in REFUSED]
NAMES = ("k", "at", "v")


def create(folder: Path, kind: str = "BIGINT", **options: str) -> wt.Table:
    return wt.Catalog(str(folder)).create_table(
        "db.t",
        {"k": "BIGINT", "at": kind, "v": "BIGINT"},
        primary_key=["k"],
        options={"bucket": "2", "widetable.fsync": "false", **EXPIRY, **options},
    )


def write(table: wt.Table, *rows: tuple[int, int | None, int]) -> None:
    columns = zip(*rows, strict=True)
    table.write(
        pa.table(
            {n: pa.array(column, pa.int64()) for n, column in zip(NAMES, columns, strict=True)}
        )
    )


def rows(table: wt.Table) -> list[tuple[Any, ...]]:
    return sorted(tuple(row.values()) for row in table.scan().to_arrow().to_pylist())


def followed(table: wt.Table) -> list[tuple[Any, ...]]:
    """The rows that the whole changelog folds to; each change must be one that can come next."""
    follower = Follower(table.schema)
    follower.apply(changes_of(table, 0, table.snapshots()[-1].id))
    return sorted(tuple(row.values()) for row in follower.rows.values())


@pytest.mark.parametrize(("engine", "producer"), CASES)
def test_rows_that_are_too_old_go(tmp_path: Path, engine: str, producer: str) -> None:
    table = create(tmp_path, **ENGINES[engine], **{"changelog-producer": producer})
    write(table, *((key, OLD, key) for key in range(10)))
    write(table, *((key, NOW, key) for key in range(20, 30)))
    table.compact(full=True)
    assert rows(table) == [(key, NOW, key) for key in range(20, 30)]
    assert sum(table.inspect.files()["rows"].to_pylist()) == 10  # no delete stays of what went
    if producer != "none":
        assert followed(table) == rows(table)
        assert table.audit().findings == ()
    write(table, (3, NOW, 4))
    table.compact(full=True)
    assert (3, NOW, 4) in rows(table)
    if producer != "none":
        assert followed(table) == rows(table)


@pytest.mark.parametrize(("engine", "producer"), CASES)
def test_rows_that_grow_old_at_the_bottom_go(tmp_path: Path, engine: str, producer: str) -> None:
    """Nothing is new in their bucket, and a full compaction before found nothing to do."""
    options = {**ENGINES[engine], "changelog-producer": producer}
    table = create(tmp_path, **options, **{"record-level.expire-time": "3 d"})
    write(table, (1, OLD, 1), (2, OLD, 2), (3, NOW, 3))
    table.compact(full=True)
    at_rest = table.snapshots()[-1].id
    assert not table.compact(full=True).committed
    table.alter_options({"record-level.expire-time": "1 d"})
    table = wt.Table.open(table.path)
    assert table.compact(full=True).committed
    assert rows(table) == [(3, NOW, 3)]
    changes = [
        (kind, tuple(row.values()))
        for kind, row in changes_of(table, at_rest, table.snapshots()[-1].id)
    ]
    gone = [] if producer == "none" else [("-D", (1, OLD, 1)), ("-D", (2, OLD, 2))]
    assert sorted(changes) == gone
    assert not table.compact(full=True).committed


def test_a_row_that_is_too_old_gives_way_to_no_older_one(tmp_path: Path) -> None:
    """Java leaves records out one by one, and the first one is back."""
    table = create(tmp_path, bucket="1", **{"write-only": "true"})
    write(table, (1, NOW, 1))
    write(table, (1, OLD, 2))
    assert rows(table) == [(1, OLD, 2)]
    table.compact(full=True)
    assert rows(table) == []


def test_runs_without_the_oldest_keep_what_is_too_old(tmp_path: Path) -> None:
    table = create(tmp_path, bucket="1", **{"num-sorted-run.compaction-trigger": "3"})
    write(table, *((key, NOW, key) for key in range(50_000)))
    table.compact(full=True)
    write(table, (1, OLD, 2))
    for key in range(60_000, 60_003):
        write(table, (key, NOW, 1))
        found = table.scan(filter="k = 1").to_arrow().to_pylist()
        assert found == [{"k": 1, "at": OLD, "v": 2}]
    assert len(table.inspect.files()) > 1
    table.compact(full=True)
    assert table.scan(filter="k = 1").count() == 0


@pytest.mark.parametrize(
    ("kind", "unit"),
    [
        ("INT", 1),
        ("BIGINT", 1),
        ("BIGINT", 1000),
        ("TIMESTAMP(0)", 1000),
        ("TIMESTAMP(3)", 1000),
        ("TIMESTAMP(6)", 1_000_000),
        ("TIMESTAMP(9)", 1_000_000_000),
        ("TIMESTAMP_LTZ(3)", 1000),
        ("TIMESTAMP_LTZ(9)", 1_000_000_000),
    ],
)
def test_time_is_counted_by_its_type(tmp_path: Path, kind: str, unit: int) -> None:
    table = create(tmp_path, kind, bucket="1")
    column = table.schema.arrow_schema().field("at").type
    if kind == "TIMESTAMP(0)" and column.unit == "s":
        unit = 1
    times = [NOW - DAY - 60, None, NOW, 0]
    plain = pa.array([None if t is None else t * unit for t in times], pa.int64())
    typed = plain.cast(pa.int32()) if kind == "INT" else plain.cast(column)
    table.write(pa.table({"k": [1, 2, 3, 4], "at": typed, "v": [1, 2, 3, 4]}))
    table.compact(full=True)
    assert [row[0] for row in rows(table)] == [2, 3]


@pytest.mark.parametrize(("millis", "left"), [(1000, []), (2**63 - 1, [1])])
def test_the_ends_of_the_range(tmp_path: Path, millis: int, left: list[int]) -> None:
    table = create(tmp_path, **{"record-level.expire-time": f"{millis} ms"})
    write(table, (1, 1, 1))
    table.compact(full=True)
    assert [row[0] for row in rows(table)] == left


def test_a_maintainer_looks_for_them_and_rewrites_no_other_bucket(tmp_path: Path) -> None:
    table = create(tmp_path, **{"write-only": "true", "record-level.expire-time": "3 d"})
    write(table, *((key, OLD if key < 10 else NOW, key) for key in range(200)))
    table.maintain(once=True)
    table = wt.Table.open(table.path)
    assert len(rows(table)) == 200
    files = set(table.inspect.files()["file_name"].to_pylist())
    table.maintain(once=True)
    assert set(table.inspect.files()["file_name"].to_pylist()) == files
    table.alter_options({"record-level.expire-time": "1 d"})
    with wt.Table.open(table.path).maintainer(Upkeep()) as its:
        assert its.round().compactions == 1
        assert its.round().compactions == 0
    assert [row[0] for row in rows(table)] == list(range(10, 200))


def test_a_look_that_finds_nothing_compacts_nothing(tmp_path: Path) -> None:
    table = create(tmp_path, bucket="1", **{"write-only": "true"})
    write(table, (1, NOW, 1))
    write(table, (1, OLD, 2), (2, NOW, 2))
    write(table, (1, NOW, 3))
    with wt.Table.open(table.path).maintainer(Upkeep()) as its:
        assert its.round().compactions == 0
        write(table, (2, OLD, 4))
        assert its.round().compactions == 0  # the next look is minutes away
    with wt.Table.open(table.path).maintainer(Upkeep()) as its:
        assert its.round().compactions == 1
    assert rows(table) == [(1, NOW, 3)]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"record-level.expire-time": "1 d"}, r"record-level\.expire-time.*no 'record-level"),
        ({**EXPIRY, "record-level.time-field": "no"}, r"time-field.*'no', which is no column"),
        ({**EXPIRY, "record-level.time-field": "s"}, r"time-field.*'s', which is of type VARCHAR"),
        ({"record-level.time-field": "s"}, r"time-field.*'s', which is of type VARCHAR"),
    ],
)
def test_options_that_do_not_say_what_is_old_are_refused(
    tmp_path: Path, options: dict[str, str], message: str
) -> None:
    columns = {"k": "BIGINT", "at": "BIGINT", "s": "STRING"}
    with pytest.raises(wt.InvalidError, match=message):
        wt.Catalog(tmp_path).create_table("db.t", columns, primary_key=["k"], options=options)
    table = wt.Catalog(tmp_path).create_table("db.t", columns, primary_key=["k"])
    with pytest.raises(wt.InvalidError, match=message):
        table.alter_options(options)


def test_rows_that_are_merged_when_they_are_read_cannot_go(tmp_path: Path) -> None:
    with pytest.raises(wt.UnsupportedError, match=r"record-level\.expire-time"):
        create(tmp_path, **{"merge-engine": "partial-update", "sequence.field": "at"})


def test_the_option_follows_its_column_and_keeps_it(tmp_path: Path) -> None:
    table = create(tmp_path)
    catalog = wt.Catalog(tmp_path)
    catalog.alter_table("db.t", rename_columns={"at": "since"})
    assert wt.Table.open(table.path).schema.options["record-level.time-field"] == "since"
    with pytest.raises(wt.InvalidError, match=r"time-field.*'since', which is no column"):
        catalog.alter_table("db.t", drop_columns=["since"])


def test_an_index_loses_what_went(tmp_path: Path) -> None:
    catalog = wt.Catalog(tmp_path)
    table = create(tmp_path, **{"write-only": "true", "record-level.expire-time": "3 d"})
    table.alter_options({"index.v": "db.by_v"})
    table = wt.Table.open(table.path)
    write(table, *((key, OLD if key < 5 else NOW, key % 3) for key in range(20)))
    table.maintain(once=True)
    index = catalog.table("db.by_v")
    assert index.scan().count() == 20
    table.alter_options({"record-level.expire-time": "1 d"})
    table = wt.Table.open(table.path)
    table.maintain(once=True)
    assert sorted(index.scan().to_arrow()["k"].to_pylist()) == list(range(5, 20))
    with pytest.raises(
        wt.InvalidError, match=r"record-level.*in a table that is derived from db\.t"
    ):
        index.alter_options({"record-level.expire-time": "1 d", "record-level.time-field": "k"})
    assert table.audit().findings == ()


def test_random_writes_and_compactions_leave_what_is_young(
    tmp_path: Path, rng: random.Random
) -> None:
    """Of each key the last record counts, whatever was compacted when; a lookup changelog says the same."""
    table = create(tmp_path, **{"changelog-producer": rng.choice(["lookup", "input", "none"])})
    last: dict[int, tuple[int, int | None, int]] = {}
    for step in range(30):
        if rng.random() < 0.2:
            table.compact(full=rng.random() < 0.5)
            continue
        keys = rng.sample(range(60), rng.randrange(1, 20))
        batch = [(key, rng.choice([OLD, NOW, None]), step) for key in keys]
        last |= {row[0]: row for row in batch}
        write(table, *batch)
    table.compact(full=True)
    young = [row for row in last.values() if row[1] != OLD]
    assert rows(table) == sorted(young)
    if table.schema.options["changelog-producer"] == "lookup":
        assert followed(table) == rows(table)
        assert table.audit().findings == ()


def test_a_date_is_its_midnight(tmp_path: Path) -> None:
    """In UTC, also before 1970."""
    table = create(tmp_path, "DATE")
    today = NOW // DAY
    days = [-1, today - 2, today, today + 1, None]
    table.write(
        pa.table(
            {
                "k": pa.array(range(5), pa.int64()),
                "at": pa.array(days, pa.int32()).cast(pa.date32()),
                "v": pa.array([0] * 5, pa.int64()),
            }
        )
    )
    table.compact(full=True)
    assert sorted(table.scan().to_arrow()["k"].to_pylist()) == [2, 3, 4]
