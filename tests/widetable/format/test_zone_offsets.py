"""Offsets of time zones against zoneinfo, at and around each change that the tz database has."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import zoneinfo
from datetime import datetime, timedelta, timezone
from itertools import pairwise
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa
import pytest

from widetable.errors import UnsupportedError
from widetable.format.orc.orc_tail import INSTANT, TIMESTAMP, OrcType
from widetable.format.orc.orc_values import Correction, corrected_values, wide_times
from widetable.format.zone_offsets import zone_offsets

EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
# Changes beside the quarter of an hour, of hours or of half an hour, of a whole day, negative summer time, in Ramadan,
# and offsets with seconds.
ODD = [
    "Africa/Casablanca",
    "Africa/El_Aaiun",
    "Africa/Freetown",
    "Africa/Monrovia",
    "America/Anchorage",
    "America/Caracas",
    "America/St_Johns",
    "Antarctica/Casey",
    "Antarctica/Troll",
    "Asia/Gaza",
    "Asia/Kathmandu",
    "Asia/Manila",
    "Asia/Pyongyang",
    "Asia/Tehran",
    "Australia/Lord_Howe",
    "Europe/Amsterdam",
    "Europe/Berlin",
    "Europe/Dublin",
    "Pacific/Apia",
    "Pacific/Kiritimati",
    "Pacific/Kwajalein",
    "UTC",
]


def second_of(year: int) -> int:
    return int((datetime(year, 1, 1, tzinfo=timezone.utc) - EPOCH).total_seconds())


def model(second: int, zone: ZoneInfo) -> int:
    ahead = (EPOCH + timedelta(seconds=second)).astimezone(zone).utcoffset()
    assert ahead is not None
    return round(ahead.total_seconds())


def changes(zone: ZoneInfo, start: int, end: int) -> list[int]:
    """Seconds from which on another offset holds, found hour by hour."""
    found, before = [], model(start, zone)
    for hour in range(start, end, 3600):
        after = model(hour + 3600, zone)
        if after != before:
            found.append(next(s for s in range(hour, hour + 3601) if model(s, zone) == after))
        before = after
    return found


def moments(zone: str, rng: random.Random) -> list[int]:
    info = ZoneInfo(zone)
    drawn = rng.sample(range(1883, 2090), 15)
    found = [0, -1, second_of(2), second_of(9999)]
    for start in sorted({1972, 1979, 2010, 2011, 2022, *drawn}):
        for change in changes(info, second_of(start), second_of(start + 1)):
            steps = (0, 1, 59, 60, 899, 900, 3600, 86_400, rng.randrange(4 * 86_400))
            found += [change + sign * step for step in steps for sign in (-1, 1)]
    return found + [rng.randrange(second_of(2), second_of(9999)) for _ in range(50)]


@pytest.mark.parametrize("zone", ODD)
def test_offsets_are_those_of_the_tz_database(zone: str, rng: random.Random) -> None:
    seconds = moments(zone, rng)
    rng.shuffle(seconds)
    expected = [model(second, ZoneInfo(zone)) for second in seconds]
    assert zone_offsets(np.array(seconds, np.int64), zone, "t").tolist() == expected


@pytest.mark.parametrize(
    ("zone", "moment", "clock"),
    [
        ("America/St_Johns", "2010-03-14 03:35", "2010-03-14 01:05"),
        ("Antarctica/Casey", "2022-10-01 16:05", "2022-10-02 03:05"),
    ],
)
def test_clocks_at_changes_beside_the_quarter_of_an_hour(
    zone: str, moment: str, clock: str
) -> None:
    """The same through both ways in which ORC's times are read."""
    second = int((datetime.fromisoformat(f"{moment}+00:00") - EPOCH).total_seconds())
    expected = int((datetime.fromisoformat(f"{clock}+00:00") - EPOCH).total_seconds())
    kind = pa.timestamp("us", "UTC")
    types = [OrcType(each, (), (), 0, 0) for each in (INSTANT, TIMESTAMP)]
    found = corrected_values(
        pa.array([second * 10**6, None], kind), Correction(types, 0, zone, "c", "p")
    )
    assert found.view(pa.int64()).to_pylist() == [expected * 10**6, None]
    # What ORC stores of a clock: the instant, from 2015 on by the writer's clocks.
    stored = second - second_of(2015) + model(second_of(2015), ZoneInfo(zone))
    far = wide_times(
        pa.array([stored]),
        np.zeros(1, np.int64),
        zone,
        pa.timestamp("us"),
        Correction(types, 1, None, "c", "p"),
    )
    assert far.view(pa.int64()).to_pylist() == [expected * 10**6]


@pytest.mark.slow
def test_no_zone_changes_twice_within_a_day() -> None:
    """What the search for a change relies on, where two are nearest to each other."""
    freetown = changes(ZoneInfo("Africa/Freetown"), second_of(1939), second_of(1940))
    assert min(b - a for a, b in pairwise(freetown)) > 86_400
    zones = sorted(zoneinfo.available_timezones())
    for zone in random.Random(0).sample(zones, 25):
        found = changes(ZoneInfo(zone), second_of(1990), second_of(1995))
        assert all(b - a > 86_400 for a, b in pairwise(found)), zone


def test_rules_repeat_beyond_the_years_that_python_has() -> None:
    cycle = 146_097 * 86_400
    summer = second_of(9998) + 180 * 86_400
    seconds = np.array([summer, summer + cycle, summer + 99 * cycle, -(1 << 50)])
    assert zone_offsets(seconds, "Europe/Berlin", "t").tolist() == [7200, 7200, 7200, 3208]


def test_the_zone_of_the_process_is_asked_like_the_others() -> None:
    program = """
import numpy as np
from widetable.format.zone_offsets import zone_offsets
seconds = np.arange(1268500000, 1268600000, 7)
here, named = zone_offsets(seconds, "", "t"), zone_offsets(seconds, "America/St_Johns", "t")
assert np.array_equal(here, named)
assert len(set(here.tolist())) == 2
"""
    environment = {**os.environ, "TZ": "America/St_Johns"}
    subprocess.run([sys.executable, "-c", program], check=True, env=environment)


@pytest.mark.parametrize("zone", ["Nowhere/At_All", "../etc", "/etc/passwd", "x\0y", "Europe"])
def test_an_unknown_zone_is_named(zone: str) -> None:
    with pytest.raises(UnsupportedError, match="tz database") as raised:
        zone_offsets(np.array([0, 1]), zone, "column 'c'")
    assert raised.value.subject == "column 'c'"
