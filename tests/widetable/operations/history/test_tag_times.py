"""Tags with a time to live, and reading by watermark."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

import widetable as wt
from tests.support.programs.command_line import run
from widetable.format.snapshot import tag_from_json


def create(folder: Path, **options: str) -> wt.Table:
    table = wt.Catalog(str(folder)).create_table(
        "db.t",
        {"k": "INT", "v": "INT"},
        primary_key=["k"],
        options={"write-only": "true", **options},
    )
    table.write({"k": [1], "v": [1]})
    return table


def tag_file(table: wt.Table, name: str) -> Path:
    return Path(table.path, "tag", f"tag-{name}")


def age(table: wt.Table, name: str, by: timedelta) -> None:
    """As if the tag had been made earlier."""
    body = json.loads(tag_file(table, name).read_text())
    body["widetable.tag-created-millis"] -= by // timedelta(milliseconds=1)
    moment = datetime(*body["tagCreateTime"][:6]) - by
    body["tagCreateTime"] = [moment.year, moment.month, moment.day, moment.hour, moment.minute]
    tag_file(table, name).write_text(json.dumps(body))


def test_expiry_deletes_tags_whose_time_is_over(tmp_path: Path) -> None:
    table = create(tmp_path)
    table.create_tag("kept")
    table.create_tag("short", time_retained_millis=3_600_000)
    table.create_tag("long", time_retained_millis=100_000_000)
    body = json.loads(tag_file(table, "short").read_text())
    assert body["tagTimeRetained"] == 3600.0
    assert len(body["tagCreateTime"]) == 7
    assert table.expire_snapshots().tags == ()
    for name in ("short", "long"):
        age(table, name, timedelta(hours=2))
    assert table.expire_snapshots(dry_run=True).tags == ("short",)
    assert list(table.tags()) == ["kept", "long", "short"]
    assert table.expire_snapshots().tags == ("short",)
    assert list(table.tags()) == ["kept", "long"]


def test_the_time_of_a_table_s_tags(tmp_path: Path) -> None:
    table = create(tmp_path, **{"tag.default-time-retained": "1 h"})
    table.create_tag("by default")
    table.create_tag("its own", time_retained_millis=7_200_000)
    for name in ("by default", "its own"):
        age(table, name, timedelta(minutes=90))
    assert table.expire_snapshots().tags == ("by default",)


def test_a_table_may_keep_its_tags(tmp_path: Path) -> None:
    table = create(tmp_path, **{"tag.time-expire-enabled": "false"})
    table.create_tag("ended", time_retained_millis=1)
    age(table, "ended", timedelta(hours=1))
    assert table.expire_snapshots().tags == ()
    assert list(table.tags()) == ["ended"]


@pytest.fixture
def in_zone(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], None]]:
    """Puts this process into another zone."""

    def put(zone: str) -> None:
        monkeypatch.setenv("TZ", zone)
        time.tzset()

    yield put
    monkeypatch.undo()
    time.tzset()


@pytest.mark.parametrize("automatic", ["false", "true"])
def test_a_tag_lives_as_long_wherever_it_expires(
    tmp_path: Path, in_zone: Callable[[str], None], automatic: str
) -> None:
    """Made in one zone, expired in another: by the instant that the tag notes."""
    options = {"tag.default-time-retained": "1 h"}
    if automatic == "true":
        options["tag.automatic-creation"] = "process-time"
    for made, expired in (("Pacific/Honolulu", "Asia/Tokyo"), ("Asia/Tokyo", "Pacific/Honolulu")):
        in_zone(made)
        table = create(tmp_path / made.replace("/", "-"), **options)
        if automatic == "true":
            table.expire_snapshots()
        else:
            table.create_tag("t")
        (name,) = table.tags()
        in_zone(expired)
        assert table.expire_snapshots().tags == ()
        age(table, name, timedelta(minutes=61))
        assert table.inspect.tags()["expires_at"][0].as_py() < datetime.now(timezone.utc)
        assert table.expire_snapshots().tags == (name,)


def test_a_tag_of_another_client_notes_no_zone_and_goes_by_local_time(
    tmp_path: Path, in_zone: Callable[[str], None]
) -> None:
    in_zone("Pacific/Honolulu")
    table = create(tmp_path)
    table.create_tag("t", time_retained_millis=3_600_000)
    body = json.loads(tag_file(table, "t").read_text())
    del body["widetable.tag-created-millis"]
    tag_file(table, "t").write_text(json.dumps(body))
    assert table.inspect.tags()["expires_at"].to_pylist() == [None]
    assert table.expire_snapshots().tags == ()
    in_zone("Asia/Tokyo")
    assert table.expire_snapshots().tags == ("t",)


@pytest.mark.parametrize("millis", [0, -1, 1.5, "1 h", True])
def test_a_time_that_is_none(tmp_path: Path, millis: Any) -> None:
    with pytest.raises(wt.InvalidError, match="time_retained_millis"):
        create(tmp_path).create_tag("t", time_retained_millis=millis)


@pytest.mark.parametrize(
    ("created", "retained", "expected"),
    [
        ([2026, 1, 31, 23, 59], 120.5, datetime(2026, 2, 1, 0, 1, 0, 500_000)),
        ([2026, 1, 31, 0, 0, 1, 999_999_999], 1.0, datetime(2026, 1, 31, 0, 0, 2, 999_999)),
        ([2026, 13, 1, 0, 0], 1.0, None),
        ([2026, 1, 1, 0, 0], 1e300, None),
        ([2026], 1.0, None),
        (None, 1.0, None),
        ([2026, 1, 1, 0, 0], None, None),
    ],
)
def test_times_of_other_clients(
    tmp_path: Path, created: list[int] | None, retained: float | None, expected: datetime | None
) -> None:
    """Java leaves out what is zero at the end."""
    table = create(tmp_path)
    table.create_tag("t")
    body = json.loads(tag_file(table, "t").read_text())
    body |= {"tagCreateTime": created} if created is not None else {}
    body |= {"tagTimeRetained": retained} if retained is not None else {}
    assert tag_from_json(json.dumps(body), "t").ends_at == expected


def test_on_the_command_line(tmp_path: Path) -> None:
    table = create(tmp_path)
    assert run("tag", "create", table.path, "short", "--time-retained", "1 h").exit_code == 0
    age(table, "short", timedelta(hours=2))
    assert "tag short deleted" in run("expire", table.path).stdout
    assert "--time-retained" in run("tag", "list", table.path, "--time-retained", "1 h").stderr


def test_reading_by_watermark(tmp_path: Path) -> None:
    table = create(tmp_path)
    for number, watermark in ((2, None), (3, 100), (4, None), (5, 200), (6, 150)):
        with table.new_writer(["k", "v"]) as writer:
            writer.write({"k": [number], "v": [number]})
            table.commit_append(writer.finish(), watermark=watermark)
    counts = {at: table.scan(watermark=at).count() for at in (-5, 99, 100, 101, 200)}
    assert counts == {-5: 3, 99: 3, 100: 3, 101: 5, 200: 5}
    with pytest.raises(wt.NotFoundError, match="201"):
        table.scan(watermark=201)
    with pytest.raises(wt.InvalidError, match="watermark"):
        table.scan(watermark=1, snapshot_id=1)


def test_a_table_without_watermarks(tmp_path: Path) -> None:
    with pytest.raises(wt.NotFoundError, match="watermark"):
        create(tmp_path).scan(watermark=0)
    empty = wt.Catalog(str(tmp_path)).create_table("db.u", {"k": "INT"}, primary_key=["k"])
    with pytest.raises(wt.NotFoundError, match="watermark"):
        empty.scan(watermark=0)


def test_a_tag_that_is_made_again_with_another_time_is_refused(tmp_path: Path) -> None:
    table = wt.Catalog(str(tmp_path)).create_table("db.again", {"k": "BIGINT"}, primary_key=["k"])
    table.write({"k": [1]})
    table.create_tag("t", 1, 60_000)
    table.create_tag("t", 1, 60_000)
    for millis in (None, 1):
        with pytest.raises(wt.InvalidError, match="for 60 s"):
            table.create_tag("t", 1, millis)
