"""Partitions that are too old go, by their values or their files; others, and rows that come meanwhile, stay."""

from __future__ import annotations

import json
import os
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import widetable as wt
from widetable.cli.app import main
from widetable.errors import InvalidError
from widetable.operations.health import restored_files
from widetable.operations.maintenance import partition_expiry
from widetable.schema.partition_time import check_pattern, partition_time, time_form

NOW = datetime.now()


def create(folder: Path, kind: str = "STRING", **options: str) -> wt.Table:
    return wt.Catalog(str(folder)).create_table(
        "db.t",
        {"day": kind, "k": "BIGINT", "v": "BIGINT"},
        primary_key=["day", "k"],
        partition_by=["day"],
        options={
            "bucket": "2",
            "partition.expiration-time": "7 d",
            "widetable.fsync": "false",
            **options,
        },
    )


def days(table: wt.Table) -> set[Any]:
    return set(table.scan().to_arrow()["day"].to_pylist())


def day(age: int) -> str:
    return f"{NOW - timedelta(days=age):%Y-%m-%d}"


def test_a_time_before_all_calendars_lets_nothing_go(tmp_path: Path) -> None:
    table = create(tmp_path, **{"partition.expiration-time": "3650000 d"})
    table.write({"day": [day(20)], "k": [1], "v": [1]})
    assert table.expire_partitions().partitions == ()
    table.maintain(once=True)
    assert days(table) == {day(20)}


@pytest.mark.parametrize(
    "options", [{}, {"bucket": "-1"}, {"deletion-vectors.enabled": "true"}], ids=str
)
def test_old_partitions_go_and_others_stay(tmp_path: Path, options: Any) -> None:
    table = create(tmp_path, **options)
    table.write({"day": [day(20), day(9), day(2), day(0), "no day"], "k": [1] * 5, "v": [1] * 5})
    named = table.expire_partitions(dry_run=True)
    assert named.partitions == (f"day={day(20)}", f"day={day(9)}")
    assert days(table) == {day(20), day(9), day(2), day(0), "no day"}
    done = table.expire_partitions()
    assert (done.partitions, done.rows) == (named.partitions, 2)
    assert done.snapshot_id == table.snapshots()[-1].id
    assert days(table) == {day(2), day(0), "no day"}
    assert table.expire_partitions() == wt.PartitionExpiryResult()
    table.write({"day": [day(20)], "k": [2], "v": [3]})
    assert table.lookup([{"day": day(20), "k": key} for key in (1, 2)])["v"].to_pylist() == [
        None,
        3,
    ]
    assert table.audit().findings == ()


def test_dates_nulls_and_patterns(tmp_path: Path) -> None:
    table = create(tmp_path, "DATE")
    old, new = date.today() - timedelta(days=30), date.today()
    table.write({"day": [old, new], "k": [1, 1], "v": [1, 1]})
    table.expire_partitions()
    assert days(table) == {new}
    catalog = wt.Catalog(str(tmp_path))
    hours = catalog.create_table(
        "db.hours",
        {"d": "INT", "h": "INT", "k": "INT"},
        primary_key=["d", "h", "k"],
        partition_by=["d", "h"],
        options={
            "partition.expiration-time": "2 h",
            "partition.timestamp-pattern": "$d $h:00",
            "partition.timestamp-formatter": "yyyyMMdd H:mm",  # hours are numbers
        },
    )
    times = [NOW - timedelta(hours=age) for age in (50, 5, 0)]
    rows = {"d": [int(f"{t:%Y%m%d}") for t in times], "h": [t.hour for t in times], "k": [1, 1, 1]}
    hours.write(rows)
    hours.expire_partitions()
    assert hours.scan().to_arrow().to_pylist() == [{"d": rows["d"][2], "h": rows["h"][2], "k": 1}]


def test_by_the_time_of_their_files(tmp_path: Path) -> None:
    table = create(tmp_path, **{"partition.expiration-strategy": "update-time"})
    table.write({"day": [day(20), day(0)], "k": [1, 1], "v": [1, 1]})
    assert table.expire_partitions().partitions == ()
    state, committer = table._state(), table._committer
    later = datetime.now() + timedelta(days=8)
    table.write({"day": [day(20)], "k": [2], "v": [1]})
    found = partition_expiry.expire_old(state, committer, later, dry_run=True)
    assert len(found.partitions) == 2
    assert partition_expiry.expire_old(state, committer, later).rows == 3
    assert table.scan().count() == 0


def test_rows_that_come_meanwhile_stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = create(tmp_path)
    table.write({"day": [day(20)], "k": [1], "v": [1]})
    messages = restored_files.removing

    def slow(gone: Any) -> Any:
        monkeypatch.undo()
        table.write({"day": [day(20)], "k": [2], "v": [2]})
        return messages(gone)

    monkeypatch.setattr(partition_expiry, "removing", slow)
    table.expire_partitions()
    assert table.scan().to_arrow()["k"].to_pylist() == [2]


def test_no_more_than_so_many_go_at_once_the_oldest_first(tmp_path: Path) -> None:
    table = create(tmp_path, **{"partition.expiration-max-num": "2"})
    table.write({"day": [day(age) for age in (10, 30, 20)], "k": [1] * 3, "v": [1] * 3})
    table.expire_partitions()
    assert days(table) == {day(10)}


def test_a_maintainer_lets_them_go(tmp_path: Path) -> None:
    table = create(tmp_path)
    table.write({"day": [day(20), day(0)], "k": [1, 1], "v": [1, 1]})
    table.maintain(once=True)
    assert days(table) == {day(0)}


def test_without_the_option_all_stay(tmp_path: Path) -> None:
    table = create(tmp_path)
    table.write({"day": [day(20)], "k": [1], "v": [1]})
    wt.Catalog(str(tmp_path)).alter_table("db.t", remove_options=["partition.expiration-time"])
    assert wt.Table.open(table.path).expire_partitions() == wt.PartitionExpiryResult()


@pytest.mark.parametrize(
    ("formatter", "text", "expected"),
    [
        (None, "2024-02-29", datetime(2024, 2, 29)),
        (None, "2024-02-29 10:30:05", datetime(2024, 2, 29, 10, 30, 5)),
        (None, "20240229", None),
        ("yyyyMMdd", "20240229", datetime(2024, 2, 29)),
        ("yyyyMMdd", "20240230", None),
        ("yy-MM-dd", "24-02-29", datetime(2024, 2, 29)),
        (None, "2024-02-29 10:30:05.000", datetime(2024, 2, 29, 10, 30, 5)),
        ("yyyy-MM-dd'T'HH", "2024-02-29T07", datetime(2024, 2, 29, 7)),
        ("yyyy'%d'MM", "2024%d02", None),
        ("HH:mm", "07:30", None),
        ("yyyyMMdd", "2024111", None),
        ("yyyyMMdd", "202401011", None),
        ("yyyy-MM-dd", "2024-1-5", None),
        ("yyyy-M-d", "2024-1-05", datetime(2024, 1, 5)),
        ("yyyy-MM-dd", " 2024-01-05", None),
        ("yyyy.MM.dd", "2024x01x05", None),
        ("yy-MM-dd", "70-02-01", datetime(2070, 2, 1)),
        (None, "2024-1-5", datetime(2024, 1, 5)),
        (None, "2024-1-5 7:3:2", datetime(2024, 1, 5, 7, 3, 2)),
        (None, "99999-01-05", None),
        (None, "2024-13-05", None),
        (None, "\N{ARABIC-INDIC DIGIT TWO}024-01-05", None),
        ("dd/MM/yyyy ''", "29/02/2024 '", datetime(2024, 2, 29)),
    ],
)
def test_formatters(formatter: str | None, text: str, expected: datetime | None) -> None:
    assert partition_time({"day": text}, None, time_form(formatter)) == expected


@pytest.mark.parametrize(
    "formatter",
    ["yyyy-'x", "yyyy-QQ", "EEEE", "yyyy-ww", "yyyy-MM-dd yyyy", "yyyy MMM d", "yyy-MM-dd"],
)
def test_formatters_that_are_none_are_refused(formatter: str) -> None:
    with pytest.raises(InvalidError, match="timestamp-formatter"):
        time_form(formatter)


@pytest.mark.parametrize(
    "option",
    [{"partition.timestamp-formatter": "EEE"}, {"partition.timestamp-pattern": "$nope"}],
    ids=str,
)
def test_wrong_ones_are_refused_when_they_are_set_and_end_no_maintainer(
    tmp_path: Path, option: dict[str, str]
) -> None:
    table = create(tmp_path)
    with pytest.raises(InvalidError, match="timestamp"):
        wt.Catalog(str(tmp_path)).alter_table("db.t", set_options=option)
    table.write({"day": [day(20)], "k": [1], "v": [1]})
    schema = Path(table.path, "schema/schema-0")  # as another client may have made it
    body = json.loads(schema.read_text())
    schema.write_text(json.dumps({**body, "options": {**body["options"], **option}}))
    table = wt.Table.open(table.path)
    table.maintain(once=True)
    assert days(table) == {day(20)}
    with pytest.raises(InvalidError, match="timestamp"):
        table.expire_partitions()


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        ("$event-day", "2024-01-31"),
        ("$event-day $h:00:00", "2024-01-31 07:00:00"),
        ("$jour é-02-03", "2024-02-03"),
        ("$h_y-$h-09", "2025-07-09"),
    ],
)
def test_a_pattern_names_columns_of_any_name(pattern: str, text: str) -> None:
    texts = {"event-day": "2024-01-31", "h": "07", "jour é": "2024", "h_y": "2025"}
    check_pattern(pattern, texts)
    form = time_form(None)
    assert partition_time(texts, pattern, form) == partition_time({"dt": text}, None, form)
    for wrong in ("$event", "$hh", "$h_", "$event-days"):
        with pytest.raises(InvalidError, match="timestamp-pattern"):
            check_pattern(wrong, texts)


def test_a_pattern_with_another_column_is_refused() -> None:
    with pytest.raises(InvalidError, match="timestamp-pattern"):
        partition_time({"day": "x"}, "$hour", time_form(None))


def test_on_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = create(tmp_path)
    table.write({"day": [day(20), day(0)], "k": [1, 1], "v": [1, 1]})
    assert main(["expire", "--partitions", "--dry-run", os.fspath(table.path)]) == 0
    assert (
        capsys.readouterr().out
        == f"day={day(20)}\n1 partition would expire; 1 row in their files\n"
    )
    assert main(["expire", "--partitions", table.path]) == 0
    assert days(table) == {day(0)}
    assert main(["expire", "--partitions", "--retain-min", "1", table.path]) == 2
