"""`Table.explain` names the cause of a null: an option, a missing row of a dimension, a commit that took rows out."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

import widetable as wt
from tests.widetable.operations.queries.test_explain import GROUPED, create, said, write


def test_a_null_that_absent_group_columns_put_names_the_option(tmp_path: Path) -> None:
    table = create(tmp_path, **GROUPED, **{"widetable.absent-group-columns": "null"})
    write(table, k=7, ts=2, score=1, rank=1)
    write(table, k=7, ts=3, score=2)
    assert said(table, "rank") == [
        "None from 2",
        "takes: ts = 2 is the first",
        "takes: null: written without this column, and 'widetable.absent-group-columns' makes it null where ts = 3 is "
        "not below ts = 2 of #1",
    ]
    assert said(table, "score")[-1] == "takes: ts = 3 is not below ts = 2 of #1"
    write(table, k=7, ts=4, score=2, rank=None)  # a null that was written
    assert said(table, "rank")[-1] == "takes: ts = 4 is not below ts = 3 of #2"


def noted(table: wt.Table, key: int, column: str = "c_city", **how: Any) -> str | None:
    (explained,) = table.explain(key, columns=[column], **how).columns
    return explained.note


def test_a_widened_column_that_is_null_names_what_the_dimension_has(tmp_path: Path) -> None:
    catalog = wt.Catalog(tmp_path)
    dim = catalog.create_table("s.c", {"id": "BIGINT", "city": "STRING"}, primary_key=["id"])
    fact = catalog.create_table(
        "s.o",
        {"k": "BIGINT", "cust": "BIGINT"},
        primary_key=["k"],
        options={"merge-engine": "partial-update", "widen.cust": "s.c(city as c_city)"},
    )
    fact.write({"k": [1, 2, 3, 4], "cust": [9, None, 8, 7]})
    assert noted(fact, 1) == "s.c has no row 9: it has no snapshot"
    dim.write({"id": [8, 7], "city": [None, "Oslo"]})
    assert (
        noted(fact, 4)
        == "s.c has the row 7 at snapshot 1: the next round of maintain brings its city"
    )
    while not fact.maintain(once=True).is_idle:
        pass
    assert noted(fact, 1) == "s.c has no row 9 at snapshot 1"
    assert noted(fact, 2) == "cust is null, so no row of s.c belongs to it"
    assert noted(fact, 3) == "city is null in the row 8 of s.c at snapshot 1"
    assert noted(fact, 4) is None
    assert noted(fact, 5) is None  # not there at all
    assert "  s.c has no row 9 at snapshot 1" in str(fact.explain(1)).splitlines()
    seen = fact.snapshots()[-1].id
    dim.write({"id": [9], "city": ["Rome"]})
    assert noted(fact, 1, as_of=seen) == "s.c has no row 9 at snapshot 1"
    shutil.rmtree(dim.path)
    assert "s.c cannot be read" in str(noted(fact, 1))


def test_records_show_their_values_who_wrote_them_and_when(tmp_path: Path) -> None:
    table = create(tmp_path, **GROUPED)
    table.write({"k": [7], "clicks": [4]}, "etl", 1)
    lines = str(table.explain(7)).splitlines()
    assert "commit 1 by etl at 20" in lines[1]
    assert lines[2].strip() == "k = 7, clicks = 4"
    (record,) = table.explain(7).records
    assert record.commits[0].time_millis == table.snapshots()[0].time_millis


def test_what_a_compaction_merged_is_apart_in_the_snapshot_before_it(tmp_path: Path) -> None:
    table = create(tmp_path, **{"snapshot.num-retained.min": "1"})
    write(table, k=7, clicks=1)
    write(table, k=7, rank=2)
    assert [record.apart_in for record in table.explain(7).records] == [None, None]
    table.compact(full=True)
    (record,) = table.explain(7).records
    assert record.apart_in == 2
    assert "its records are apart in snapshot 2" in str(table.explain(7))
    assert len(table.explain(7, as_of=2).records) == 2
    table.expire_snapshots(num_retained_max=1)
    assert table.explain(7).records[0].apart_in is None


@pytest.mark.parametrize("how", ["drop", "overwrite", "expire", "rewrite"])
def test_a_row_that_went_without_a_record_names_the_commit(tmp_path: Path, how: str) -> None:
    table = wt.Catalog(tmp_path).create_table(
        "db.p",
        {"day": "STRING", "k": "BIGINT", "v": "BIGINT"},
        primary_key=["day", "k"],
        partition_by=["day"],
        options={
            "partition.timestamp-formatter": "yyyy-MM-dd",
            "partition.timestamp-pattern": "$day",
            "partition.expiration-time": "1 d",
        },
    )
    rows = {"day": ["2020-01-01"], "k": [7], "v": [1]}
    table.write(rows)
    assert table.explain(("2020-01-01", 7)).removed_by is None
    if how == "drop":
        table.drop_partitions([{"day": "2020-01-01"}], "ops", 1)
    elif how == "overwrite":
        table.overwrite({**rows, "k": [8]}, "ops", 1)
    elif how == "expire":
        table.expire_partitions()
    else:
        table.delete("k = 7", "ops", 1, rewrite=True)
    snapshot = table.snapshots()[-1]
    table.write({**rows, "k": [9]})
    found = table.explain(("2020-01-01", 7))
    assert found.removed_by is not None
    assert (found.removed_by.snapshot_id, found.removed_by.user) == (
        snapshot.id,
        snapshot.commit_user,
    )
    assert f"taken out by commit {snapshot.id} by {snapshot.commit_user} at " in str(found)
    assert table.explain(("2020-01-01", 99)).removed_by is None
    table.write(rows)
    assert table.explain(("2020-01-01", 7)).removed_by is None
