"""Histories of some columns (option `history.columns`): what they keep, what they answer, and what is refused."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

import widetable as wt
from tests.widetable.derive.versions.test_known_rows import minutes
from tests.widetable.derive.versions.timed_table import TimedTable, moments
from widetable.derive.versions.history_feed import feed_history

COLUMNS = {"id": "BIGINT", "city": "STRING", "clicks": "BIGINT", "note": "STRING"}
KEPT = {"history.table": "db.h", "history.columns": "clicks,city"}


def made(folder: Path, **options: str) -> TimedTable:
    timed = TimedTable(folder, COLUMNS, ["id"], {**KEPT, **options})
    timed.write(minutes(0), {"id": 1, "city": "Oslo", "clicks": 1, "note": "a"})
    timed.write(minutes(5), {"id": 1, "city": "Oslo", "clicks": 1, "note": "b"})
    timed.write(minutes(7), {"id": 1, "city": "Oslo", "clicks": 2, "note": "b"})
    timed.delete(minutes(9), {"id": 1})
    return timed


def asked(*at: int) -> Any:
    return moments([{"id": 1, "at": minutes(minute)} for minute in at])


def forget(timed: TimedTable) -> None:
    timed.table.expire_snapshots(num_retained_min=1, num_retained_max=1, time_retained_millis=1)


@pytest.mark.parametrize("producer", ["none", "lookup", "full-compaction"])
def test_a_change_of_other_columns_is_no_version(tmp_path: Path, producer: str) -> None:
    timed = made(tmp_path, **{"changelog-producer": producer})
    feed_history(timed.table)
    rows = timed.catalog.table("db.h").scan().to_arrow()
    assert rows.column_names == [
        *("id", "_from", "_snapshot", "_place"),
        *("city", "clicks"),
        "_deleted",
    ]
    versions = rows.select(["_snapshot", "city", "clicks", "_deleted"]).to_pylist()
    ids = list(timed.times)
    appended = [s.id for s in timed.table.snapshots() if s.commit_kind == "APPEND"]
    assert [(row["clicks"], row["_deleted"]) for row in versions] == [
        (1, False),
        (2, False),
        (None, True),
    ]
    assert [row["_snapshot"] for row in versions] == [appended[n] for n in (0, 2, 3)], ids


def test_with_input_each_record_is_kept_and_no_row_of_other_columns(tmp_path: Path) -> None:
    timed = made(tmp_path, **{"changelog-producer": "input"})
    feed_history(timed.table)
    rows = timed.catalog.table("db.h").scan().to_arrow().to_pylist()
    assert "note" not in rows[0]
    assert [row["clicks"] for row in rows if row["_place"] == 0] == [1, 2, None]
    assert [row["clicks"] for row in rows if row["_place"] < 0][:3] == [1, 1, 2]
    given = timed.table.point_in_time(asked(6, 8), "at")
    assert given["clicks"].to_pylist() == [1, 2]


def test_windows_as_they_were_known_need_the_column(tmp_path: Path) -> None:
    columns = {"id": "BIGINT", "tile": "TIMESTAMP(3)", "clicks": "BIGINT", "spent": "BIGINT"}
    options = {
        "merge-engine": "aggregation",
        "fields.default-aggregate-function": "sum",
        "widetable.tile-size": "1 min",
        "bucket-key": "id",
        "history.table": "db.h",
        "history.columns": "clicks",
    }
    timed = TimedTable(tmp_path, columns, ["id", "tile"], options)
    (start,) = moments([{"at": minutes(0)}])["at"].to_pylist()
    timed.write(minutes(1), {"id": 1, "tile": start, "clicks": 4, "spent": 2})
    feed_history(timed.table)

    def known(column: str) -> Any:
        windows = {"w": wt.window(column, "sum", "2 min")}
        return timed.table.windows(asked(1), "at", features=windows, as_known=True)["w"].to_pylist()

    assert known("clicks") == [4]
    with pytest.raises(wt.InvalidError, match="column 'spent': found a column that option"):
        known("spent")


def test_reads_give_the_kept_columns_before_and_after_snapshots_expire(tmp_path: Path) -> None:
    timed = made(tmp_path)
    wanted = [
        {"city": city, "clicks": clicks}
        for city, clicks in (("Oslo", 1), ("Oslo", 1), ("Oslo", 2), (None, None))
    ]
    for _ in range(2):
        given = timed.table.point_in_time(asked(0, 6, 8, 9), "at")
        assert given.select(["city", "clicks"]).to_pylist() == wanted
        assert "note" not in given.column_names
        feed_history(timed.table)
        forget(timed)


def test_columns_that_are_not_kept_are_refused_also_while_snapshots_have_them(
    tmp_path: Path,
) -> None:
    timed = made(tmp_path)
    for _ in range(2):
        with pytest.raises(wt.InvalidError, match="column 'note': found a column that option"):
            timed.table.point_in_time(asked(9), "at", ["city", "note"])
        feed_history(timed.table)
        forget(timed)


def test_the_time_of_a_group_must_be_kept(tmp_path: Path) -> None:
    columns = {"id": "BIGINT", "clicks": "BIGINT", "t": "TIMESTAMP(3)", "other": "INT"}
    options = {
        "merge-engine": "partial-update",
        "fields.t.sequence-group": "clicks",
        "history.table": "db.h",
        "history.columns": "clicks",
    }
    timed = TimedTable(tmp_path, columns, ["id"], options)
    timed.write(minutes(0), {"id": 1, "clicks": 4, "t": None, "other": 1})
    with pytest.raises(wt.InvalidError, match="column 't': found a column that option"):
        timed.table.point_in_time(asked(9), "at", ["clicks"], basis="event")


def test_options_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    catalog = wt.Catalog(str(tmp_path))
    with pytest.raises(wt.InvalidError, match="city of a table without a history"):
        catalog.create_table(
            "db.a", COLUMNS, primary_key=["id"], options={"history.columns": "city"}
        )
    with pytest.raises(wt.NotFoundError, match="column 'gone'"):
        catalog.create_table(
            "db.b", COLUMNS, primary_key=["id"], options={**KEPT, "history.columns": "gone"}
        )


def test_a_renamed_column_is_renamed_in_the_option(tmp_path: Path) -> None:
    timed = made(tmp_path)
    feed_history(timed.table)
    timed.catalog.alter_table("db.t", rename_columns={"note": "remark"})
    assert feed_history(timed.table) is None  # the history does not have it
    timed.catalog.alter_table("db.t", rename_columns={"clicks": "taps"})
    assert timed.table.schema.options["history.columns"] == "taps,city"
    with pytest.raises(wt.InvalidError, match=re.escape("of which some differ")):
        feed_history(timed.table)
    with pytest.raises(wt.NotFoundError, match="column 'city'"):
        timed.catalog.alter_table("db.t", drop_columns=["city"])


def test_an_added_column_does_not_end_the_history(tmp_path: Path) -> None:
    timed = made(tmp_path)
    feed_history(timed.table)
    timed.catalog.alter_table("db.t", add_columns={"more": "INT"})
    timed.write(minutes(11), {"id": 1, "city": "Bonn", "clicks": 5, "note": "c", "more": 1})
    assert feed_history(timed.table) is not None
    assert timed.table.point_in_time(asked(11), "at")["city"].to_pylist() == ["Bonn"]
