"""Tags that a table gets by itself: one for each period, of the first snapshot behind it."""

from __future__ import annotations

import json
import random
import sys
import zoneinfo
from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import widetable as wt
from tests.support.tables.dated_snapshots import dated_table

DAY = datetime(2024, 3, 9)
HOUR = timedelta(hours=1)


def at(text: str) -> datetime:
    """`9 14:30` is such a time of that month."""
    day, _, time = text.partition(" ")
    hours, minutes = (int(part) for part in (time or "0:00").split(":"))
    return datetime(2024, 3, int(day), hours, minutes)


def kept(table: wt.Table) -> dict[str, int]:
    return {name: snapshot.id for name, snapshot in table.tags().items()}


CASES: list[tuple[str, dict[str, str], list[str], dict[str, int]]] = [
    (
        "a day at its end, the first one at once",
        {},
        ["9 14:00", "9 23:59", "10 00:00", "10 12:00", "11 07:00"],
        {"2024-03-08": 1, "2024-03-09": 3, "2024-03-10": 5},
    ),
    (
        "a day without a snapshot has no tag",
        {},
        ["9 14:00", "12 01:00", "12 02:00", "13 00:30"],
        {"2024-03-08": 1, "2024-03-11": 2, "2024-03-12": 4},
    ),
    (
        "or the next ones, one after the other",
        {"tag.automatic-completion": "true"},
        ["9 14:00", "12 01:00", "12 02:00", "12 03:00", "12 04:00"],
        {"2024-03-08": 1, "2024-03-09": 2, "2024-03-10": 3, "2024-03-11": 4},
    ),
    (
        "late snapshots belong to the day before",
        {"tag.creation-delay": "2 h"},
        ["9 14:00", "10 01:59", "10 02:00"],
        {"2024-03-08": 1, "2024-03-09": 3},
    ),
    (
        "hours",
        {"tag.creation-period": "hourly"},
        ["9 14:10", "9 14:50", "9 15:00", "9 17:30"],
        {"2024-03-09 13": 1, "2024-03-09 14": 3, "2024-03-09 16": 4},
    ),
    (
        "two hours",
        {"tag.creation-period": "two-hours", "tag.period-formatter": "without_dashes"},
        ["9 14:10", "9 15:50", "9 16:00"],
        {"2024-03-09 12": 1, "2024-03-09 14": 3},
    ),
    (
        "hours without dashes",
        {"tag.creation-period": "hourly", "tag.period-formatter": "without_dashes"},
        ["9 14:10", "9 15:00"],
        {"20240309 13": 1, "20240309 14": 2},
    ),
    (
        "names that are numbers",
        {"tag.creation-period": "hourly", "tag.period-formatter": "without_dashes_and_spaces"},
        ["9 14:10", "9 15:00"],
        {"2024030913": 1, "2024030914": 2},
    ),
    (
        "any time",
        {"tag.creation-period-duration": "15 min", "tag.creation-period": "hourly"},
        ["9 14:10", "9 14:16", "9 14:40"],
        {"202403091345": 1, "202403091400": 2, "202403091415": 3},
    ),
    (
        "the newest ones stay",
        {"tag.num-retained-max": "2", "tag.period-formatter": "without_dashes"},
        ["9 14:00", "10 00:00", "11 00:00", "12 00:00"],
        {"20240310": 3, "20240311": 4},
    ),
]


@pytest.mark.parametrize(
    ("options", "times", "expected"), [c[1:] for c in CASES], ids=[c[0] for c in CASES]
)
@pytest.mark.parametrize("rounds", ["at the end", "after each"])
def test_periods(
    tmp_path: Path, options: dict[str, str], times: list[str], expected: dict[str, int], rounds: str
) -> None:
    options = {"tag.automatic-creation": "process-time", **options}
    table = dated_table(tmp_path, options)
    for number, time in enumerate(times):
        table.add(at(time))
        if rounds == "after each" or number == len(times) - 1:
            table.table.expire_snapshots(time_retained_millis=10**15)
    assert kept(table.table) == expected
    for name, id in expected.items():
        assert table.table.scan(tag=name).to_arrow().num_rows == id


def test_watermarks_in_their_zone(tmp_path: Path) -> None:
    options = {"tag.automatic-creation": "watermark", "sink.watermark-time-zone": "Asia/Tokyo"}
    table = dated_table(tmp_path, options)
    table.add(DAY)  # without a watermark
    for hour in (10, 14, 15, 16):  # 15:00 UTC is midnight in Tokyo
        moment = datetime(2024, 3, 9, hour, tzinfo=timezone.utc)
        table.add(DAY, watermark=int(moment.timestamp() * 1000))
    table.table.maintain(once=True)
    assert kept(table.table) == {"2024-03-08": 2, "2024-03-09": 4}


@pytest.mark.parametrize(
    ("zone", "expected"),
    [
        ("Asia/Tokyo", {"2024-03-08": 1, "2024-03-09": 3}),
        ("GMT+9", {"2024-03-08": 1, "2024-03-09": 3}),
        ("+09:00", {"2024-03-08": 1, "2024-03-09": 3}),
        ("UTC-14:30", {"2024-03-07": 1, "2024-03-08": 3}),
        ("UTC", {"2024-03-08": 1}),
    ],
)
def test_commit_times_in_their_zone(tmp_path: Path, zone: str, expected: dict[str, int]) -> None:
    """Wherever the maintainer runs."""
    options = {"tag.automatic-creation": "process-time", "sink.process-time-zone": zone}
    table = dated_table(tmp_path, options)
    for hour in (10, 14, 15, 16):  # 15:00 UTC is midnight in Tokyo
        table.add(datetime(2024, 3, 9, hour, tzinfo=timezone.utc))
    table.table.maintain(once=True)
    assert kept(table.table) == expected


BEFORE: list[tuple[str, dict[str, str], list[str], dict[str, int]]] = [
    (
        "a day at its end",
        {},
        ["9 14:00", "9 23:59", "10 00:00", "10 12:00", "11 07:00"],
        {"2024-03-09": 2, "2024-03-10": 4},
    ),
    (
        "a day without a snapshot has no tag",
        {},
        ["9 14:00", "12 01:00", "12 02:00", "13 00:30"],
        {"2024-03-09": 1, "2024-03-12": 3},
    ),
    (
        "or the one before it",
        {"tag.automatic-completion": "true"},
        ["9 14:00", "12 01:00", "12 02:00", "13 00:30"],
        {"2024-03-09": 1, "2024-03-10": 1, "2024-03-11": 1, "2024-03-12": 3},
    ),
    (
        "late snapshots belong to the day before",
        {"tag.creation-delay": "2 h"},
        ["9 14:00", "10 01:59", "10 02:00"],
        {"2024-03-09": 2},
    ),
    (
        "a clock that goes back ends no day",
        {"tag.creation-period": "hourly"},
        ["9 14:10", "9 16:00", "9 14:50", "9 17:30", "9 18:00"],
        {"2024-03-09 14": 1, "2024-03-09 17": 4},
    ),
    (
        "the newest ones stay",
        {"tag.num-retained-max": "2"},
        ["9 14:00", "10 00:00", "11 00:00", "12 00:00"],
        {"2024-03-10": 2, "2024-03-11": 3},
    ),
]


@pytest.mark.parametrize(
    ("options", "times", "expected"), [c[1:] for c in BEFORE], ids=[c[0] for c in BEFORE]
)
@pytest.mark.parametrize("rounds", ["at the end", "after each"])
def test_the_last_snapshot_before_the_end_of_a_period(
    tmp_path: Path, options: dict[str, str], times: list[str], expected: dict[str, int], rounds: str
) -> None:
    own = {"tag.automatic-creation": "process-time", "widetable.tag-snapshot": "last-before"}
    table = dated_table(tmp_path, own | options)
    for number, time in enumerate(times):
        table.add(at(time))
        if rounds == "after each" or number == len(times) - 1:
            table.table.expire_snapshots(time_retained_millis=10**15)
    assert kept(table.table) == expected


AHEAD = {"first-after": {"3": 1, "2": 5, "1": 6}, "last-before": {"2": 4, "1": 5}}


@pytest.mark.parametrize("which", AHEAD)
@pytest.mark.parametrize("rounds", ["at the end", "after each"])
def test_a_clock_that_ran_ahead_takes_no_tag_of_the_days_until_then(
    tmp_path: Path, which: str, rounds: str
) -> None:
    """Snapshots 2 and 3 are of a machine whose clock was more than a year ahead. Days by how long ago they were."""
    today = datetime.now().replace(hour=0, minute=0, second=0, microsecond=0)
    times = [
        today - timedelta(days=2) + timedelta(hours=12),
        today + timedelta(days=400),
        today + timedelta(days=401),
        today - timedelta(days=2) + timedelta(hours=13),
        today - timedelta(days=1) + timedelta(hours=1),
        today,
    ]
    options = {"tag.automatic-creation": "process-time", "widetable.tag-snapshot": which}
    table = dated_table(tmp_path, options)
    for number, time in enumerate(times):
        table.add(time)
        if rounds == "after each" or number == len(times) - 1:
            table.table.expire_snapshots(time_retained_millis=10**15)
    days = {f"{today - timedelta(days=ago):%Y-%m-%d}": str(ago) for ago in range(5)}
    found = {days[name]: id for name, id in kept(table.table).items()}
    assert found == AHEAD[which]


def test_a_clock_that_goes_back_makes_no_tag_anew(tmp_path: Path, rng: random.Random) -> None:
    """Whatever clocks show: rounds at any time make the same tags, and one that is made keeps its snapshot."""
    for case in range(8):
        options = {
            "tag.automatic-creation": "process-time",
            "tag.creation-period": "hourly",
            "widetable.tag-snapshot": rng.choice(["last-before", "first-after"]),
        }
        often = dated_table(tmp_path / f"often{case}", options)
        seldom = dated_table(tmp_path / f"seldom{case}", options)
        time, known = DAY, dict[str, int]()
        for _ in range(14):
            time += timedelta(minutes=rng.randrange(-100, 130))
            for table in (often, seldom):
                table.add(time)
            often.table.expire_snapshots(time_retained_millis=10**15)
            found = kept(often.table)
            assert known.items() <= found.items()
            known = found
        # The last one shows that all hours before have ended.
        for table in (often, seldom):
            table.add(DAY + timedelta(days=2))
            table.table.expire_snapshots(time_retained_millis=10**15)
        assert kept(often.table) == kept(seldom.table)


def test_the_last_snapshot_of_a_period_is_tagged_before_it_expires(tmp_path: Path) -> None:
    options = {
        "tag.automatic-creation": "process-time",
        "widetable.tag-snapshot": "last-before",
        "snapshot.num-retained.min": "1",
        "snapshot.num-retained.max": "1",
    }
    table = dated_table(tmp_path, options)
    for time in ("9 14:00", "9 15:00", "10 00:00"):
        table.add(at(time))
        table.table.expire_snapshots()
    assert table.table.scan(tag="2024-03-09").to_arrow().num_rows == 2


@pytest.fixture
def no_zones(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A slim image: no zone database, and no package tzdata."""
    monkeypatch.setitem(sys.modules, "tzdata", None)
    path = zoneinfo.TZPATH
    zoneinfo.reset_tzpath(to=())
    zoneinfo.ZoneInfo.clear_cache()
    yield
    zoneinfo.reset_tzpath(to=path)


def test_tags_in_utc_need_no_zone_database(tmp_path: Path, no_zones: None) -> None:
    table = dated_table(tmp_path, {"tag.automatic-creation": "watermark"})
    for hour in (10, 34, 35):
        table.add(
            DAY, watermark=int(DAY.replace(tzinfo=timezone.utc).timestamp() + hour * 3600) * 1000
        )
    table.table.maintain(once=True)
    assert kept(table.table) == {"2024-03-08": 1, "2024-03-09": 2}


def test_a_writer_needs_no_zone_database_and_who_tags_says_so(
    tmp_path: Path, no_zones: None
) -> None:
    options = {"tag.automatic-creation": "watermark", "sink.watermark-time-zone": "Asia/Tokyo"}
    table = dated_table(tmp_path, options)
    table.add(DAY, watermark=int(DAY.timestamp() * 1000))
    table.table.compact(full=True)
    catalog = wt.Catalog(str(tmp_path))
    altered = catalog.alter_table("db.t", set_options={"snapshot.time-retained": "2 h"})
    assert altered.scan().to_arrow().num_rows == 1
    with pytest.raises(wt.InvalidError, match=r"'Asia/Tokyo'.*tzdata"):
        table.table.expire_snapshots(time_retained_millis=10**15)


def test_other_tags_do_not_count_and_stay(tmp_path: Path) -> None:
    options = {"tag.automatic-creation": "process-time", "tag.num-retained-max": "1"}
    table = dated_table(tmp_path, options)
    table.add(at("9 14:00"))
    table.table.create_tag("mine")
    table.table.create_tag("2024-3-9")  # not as they are written
    table.table.create_tag("2024-03-10")  # taken before its time: it is left as it is
    table.add(at("11 00:00"))
    table.table.expire_snapshots(time_retained_millis=10**15)
    assert kept(table.table) == {"2024-03-10": 1, "2024-3-9": 1, "mine": 1}


def test_a_maintainer_makes_them_before_snapshots_expire_and_without_expiry(tmp_path: Path) -> None:
    for name in ("expires", "keeps"):
        options = {
            "tag.automatic-creation": "process-time",
            "snapshot.num-retained.min": "1",
            "snapshot.num-retained.max": "1",
            "tag.default-time-retained": "36500 d",
        }
        table = dated_table(tmp_path / name, options)
        for time in ("9 14:00", "10 00:00", "10 01:00"):
            table.add(at(time))
        table.table.maintain(once=True, expire=name == "expires")
        assert kept(table.table) == {"2024-03-08": 1, "2024-03-09": 2}
        assert table.table.scan(tag="2024-03-09").to_arrow().num_rows == 2
        body = json.loads(Path(table.table.path, "tag/tag-2024-03-09").read_text())
        assert body["tagTimeRetained"] == 36500 * 86400.0


def test_rounds_at_any_time_make_the_same_tags(tmp_path: Path, rng: random.Random) -> None:
    """As long as snapshots are there; against a model that counts periods."""
    for case in range(8):
        options = {
            "tag.automatic-creation": "process-time",
            "tag.creation-period": "hourly",
            "tag.creation-delay": f"{rng.choice([0, 0, 20])} min",
        }
        delay = timedelta(minutes=int(options["tag.creation-delay"].split()[0]))
        table, time, expected = dated_table(tmp_path / str(case), options), DAY, {}
        last: datetime | None = None
        for id in range(1, 15):
            time += timedelta(minutes=rng.randrange(90))
            table.add(time)
            ended = time.replace(minute=0) - HOUR
            if last is None or time - delay >= last + 2 * HOUR:
                last = ended
                expected[f"{last:%Y-%m-%d %H}"] = id
            if rng.random() < 0.3:
                table.table.expire_snapshots(time_retained_millis=10**15)
        table.table.expire_snapshots(time_retained_millis=10**15)
        assert kept(table.table) == expected


def test_days_at_the_ends_of_a_calendar(tmp_path: Path) -> None:
    """Tags of such names, periods and snapshots' times: no error, and no tag that nobody can name."""
    for number, time in enumerate([datetime(9999, 12, 31, 23), datetime(1, 1, 2), DAY]):
        options = {"tag.automatic-creation": "process-time", "tag.creation-delay": "1 h"}
        if number == 2:
            options["tag.creation-period-duration"] = "366 d"
        table = dated_table(tmp_path / str(number), options)
        table.add(time)
        table.table.create_tag("9999-12-31")
        table.table.expire_snapshots(time_retained_millis=10**15)
        assert "9999-12-31" in table.table.tags()


@pytest.mark.parametrize(
    ("options", "error", "match"),
    [
        ({"tag.automatic-creation": "batch"}, wt.UnsupportedError, "batch"),
        ({"tag.automatic-creation": "daily"}, wt.InvalidError, "process-time"),
        ({"tag.creation-delay": "1 d"}, wt.InvalidError, "tag.creation-delay"),
        ({"tag.creation-period-duration": "1 s"}, wt.InvalidError, "60000"),
        ({"tag.creation-period-duration": "367 d"}, wt.InvalidError, "tag.creation-period"),
        ({"tag.num-retained-max": "0"}, wt.InvalidError, "tag.num-retained-max"),
        (
            {"tag.automatic-creation": "watermark", "sink.watermark-time-zone": "Nowhere/Land"},
            wt.InvalidError,
            "sink.watermark-time-zone",
        ),
        (
            {"sink.process-time-zone": "Nowhere/Land"},
            wt.InvalidError,
            "sink.process-time-zone",
        ),
        ({"sink.process-time-zone": "+19:00"}, wt.InvalidError, "sink.process-time-zone"),
        ({"sink.process-time-zone": "GMT+9:5"}, wt.InvalidError, "sink.process-time-zone"),
        ({"widetable.tag-snapshot": "last"}, wt.InvalidError, "last-before"),
        (
            {"tag.automatic-creation": "watermark", "sink.watermark-time-zone": "../etc"},
            wt.InvalidError,
            "sink.watermark-time-zone",
        ),
    ],
    ids=str,
)
def test_options_that_are_refused(
    tmp_path: Path, options: dict[str, str], error: Any, match: str
) -> None:
    with pytest.raises(error, match=match):
        wt.Catalog(str(tmp_path)).create_table(
            "db.t",
            pa.schema([("k", pa.int64())]),
            primary_key=["k"],
            options={"tag.automatic-creation": "process-time", **options},
        )
