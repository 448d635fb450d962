"""Which snapshots and files expiry may take."""

from __future__ import annotations

import random
from dataclasses import replace
from functools import partial

import pytest

from tests.widetable.commit.transaction.fake_table import data_file, region
from widetable.errors import InvalidError
from widetable.format.data_file_meta import upgrade
from widetable.format.manifest_entry import ADD, DELETE, ManifestEntry
from widetable.operations.history.expiry_choice import (
    Retention,
    choose_snapshots,
    retention_of,
    unread_files,
)
from widetable.schema.options import TableOptions

NOW = 100_000
NO_LIMIT = 2**31 - 1
KEEP = Retention(num_min=2, num_max=NO_LIMIT, time_millis=0, limit=1000)


def chosen(retention: Retention, times: dict[int, int], needed: tuple[int, ...] = ()) -> list[int]:
    """Of a table whose snapshots were committed at these times."""
    return list(choose_snapshots(sorted(times), retention, needed, NOW, times.get))


def ages(*millis: int) -> dict[int, int]:
    """Snapshots 4, 5, ... by their age."""
    return {id: NOW - age for id, age in enumerate(millis, start=4)}


def test_what_is_given_alone_moves_the_option_of_the_other() -> None:
    """The default of the minimum is 10."""
    of = partial(retention_of, TableOptions({"snapshot.num-retained.max": "20"}))
    assert [(r.num_min, r.num_max) for r in (of(num_max=5), of(num_min=30), of(num_max=15))] == [
        (5, 5),
        (30, 30),
        (10, 15),
    ]
    with pytest.raises(InvalidError):
        of(num_min=6, num_max=5)
    with pytest.raises(InvalidError):
        of(num_max=0)


def test_the_minimum_stays_however_old() -> None:
    assert chosen(KEEP, ages(900, 800, 700, 600)) == [4, 5]
    assert chosen(replace(KEEP, num_min=4), ages(900, 800, 700, 600)) == []
    assert chosen(replace(KEEP, num_min=9), ages(900, 800, 700, 600)) == []


def test_one_snapshot_stays_always() -> None:
    assert chosen(replace(KEEP, num_min=1), ages(900)) == []
    assert chosen(replace(KEEP, num_min=1), ages(900, 800)) == [4]


def test_a_snapshot_is_as_old_as_the_next_one() -> None:
    """It was the newest one until then."""
    retention = replace(KEEP, time_millis=700)
    assert chosen(retention, ages(900, 800, 700, 600, 500)) == [4, 5]
    assert chosen(replace(KEEP, time_millis=701), ages(900, 800, 700, 600, 500)) == [4]
    assert chosen(replace(KEEP, time_millis=801), ages(900, 800, 700, 600, 500)) == []


def test_it_stops_at_the_first_young_one() -> None:
    """Clocks of writers may disagree."""
    assert chosen(replace(KEEP, time_millis=500), ages(900, 400, 800, 700, 600)) == []
    assert chosen(replace(KEEP, time_millis=500), ages(900, 800, 400, 700, 600)) == [4]


def test_a_time_ahead_of_now_is_no_age() -> None:
    """Whoever wrote it had a wrong clock; the first later one that can be right says when its predecessors ended."""
    retention = replace(KEEP, time_millis=500)
    year = -(10**10)
    assert chosen(retention, ages(900, year, 800, 700, 600)) == [4, 5, 6]
    assert chosen(retention, ages(900, 800, year, 400, 300)) == [4]
    assert chosen(retention, ages(year, 900, year, year, 700, 600, 400)) == [4, 5, 6, 7, 8]
    assert chosen(retention, ages(900, *[year] * 40, 600, 550)) == list(range(4, 45))
    assert chosen(retention, ages(900, *[year] * 40)) == []
    # A minute may be a difference between right clocks: as young as any.
    assert chosen(retention, ages(900, -60_000, 800, 700, 600)) == []


def test_lost_snapshots_hold_nothing_and_are_none_of_those_that_stay() -> None:
    times = {id: id for id in (1, 2, 3, 4, 8, 9, 10)}
    assert chosen(replace(KEEP, num_min=1), times) == [1, 2, 3, 4, 8, 9]
    assert chosen(replace(KEEP, num_min=4), times) == [1, 2, 3]
    assert chosen(replace(KEEP, time_millis=10**9, num_max=5), times) == [1, 2]
    assert chosen(replace(KEEP, limit=5), times) == [1, 2, 3, 4, 8]
    assert chosen(replace(KEEP, num_min=1), times, needed=(6,)) == [1, 2, 3, 4]
    # 4 was the newest one until 5 came, which nobody knows: until 8 at the latest.
    assert chosen(replace(KEEP, num_min=1, time_millis=NOW - 7), times) == [1, 2, 3]


def test_a_clock_that_is_late_makes_no_snapshot_old() -> None:
    """What was the newest one a moment ago stays, whatever a later commit says."""
    assert chosen(replace(KEEP, time_millis=500), ages(5, 4, 3, 9000, 2, 1)) == []
    assert chosen(replace(KEEP, time_millis=500), ages(900, 800, 3, 9000, 2, 1)) == [4]
    assert chosen(replace(KEEP, time_millis=500), ages(5, 9000, 4, 3, 2)) == []


def test_beyond_the_maximum_age_does_not_count() -> None:
    young = ages(5, 4, 3, 2, 1)
    retention = replace(KEEP, num_max=3, time_millis=1000)
    assert chosen(retention, young) == [4, 5]
    assert chosen(replace(retention, num_max=2), young) == [4, 5, 6]
    assert chosen(replace(retention, num_max=5), young) == []
    assert chosen(replace(retention, num_max=50), young) == []


def test_what_is_older_goes_beyond_the_maximum_too() -> None:
    retention = replace(KEEP, num_max=4, time_millis=500)
    assert chosen(retention, ages(900, 800, 700, 600, 400)) == [4, 5, 6]


def test_readers_keep_what_they_have_not_read() -> None:
    old = ages(900, 800, 700, 600, 500)
    assert chosen(KEEP, old, (6,)) == [4, 5]
    assert chosen(KEEP, old, (9, 5, 6)) == [4]
    assert chosen(KEEP, old, (4,)) == []
    assert chosen(KEEP, old, (1,)) == []
    assert chosen(KEEP, old, (100,)) == [4, 5, 6]
    assert chosen(replace(KEEP, num_max=2), old, (5,)) == [4]


def test_a_limit_bounds_one_run() -> None:
    old = ages(900, 800, 700, 600, 500)
    assert chosen(replace(KEEP, limit=1), old) == [4]
    assert chosen(replace(KEEP, limit=0), old) == []
    assert chosen(replace(KEEP, limit=1, num_max=2), old) == [4]


def test_it_stops_where_another_expiry_was_faster() -> None:
    times = ages(900, 800, 700, 600, 500)
    del times[5]
    assert list(choose_snapshots(range(4, 9), KEEP, (), NOW, times.get)) == []


def test_the_choice_is_what_the_rules_say_one_by_one(rng: random.Random) -> None:
    for _ in range(300):
        count = rng.randrange(1, 9)
        first = rng.randrange(1, 4)
        times = {first + i: NOW - rng.randrange(10) for i in range(count)}
        num_min = rng.randrange(1, 5)
        retention = Retention(
            num_min,
            rng.choice([NO_LIMIT, num_min, num_min + 2]),
            rng.randrange(10),
            rng.randrange(1, 6),
        )
        needed = tuple(rng.randrange(12) for _ in range(rng.randrange(3)))
        expected: list[int] = []
        for id in sorted(times):
            left = max(times) - id
            if left < num_min or len(expected) == retention.limit or any(n <= id for n in needed):
                break
            beyond = left >= retention.num_max
            ended = max(times[id], times[id + 1])
            if not beyond and NOW - ended < retention.time_millis:
                break
            expected.append(id)
        assert chosen(retention, times, needed) == expected, (times, retention, needed)


def test_options_and_what_is_given_instead() -> None:
    assert retention_of(TableOptions({})) == Retention(10, NO_LIMIT, 3_600_000, 50)
    options = TableOptions(
        {
            "snapshot.num-retained.min": "3",
            "snapshot.num-retained.max": "5",
            "snapshot.time-retained": "10 s",
            "snapshot.expire.limit": "7",
        }
    )
    assert retention_of(options) == Retention(3, 5, 10_000, 7)
    given = retention_of(options, num_min=1, num_max=1, time_millis=0, limit=0)
    assert given == Retention(1, 1, 0, 0)


@pytest.mark.parametrize(("num_min", "num_max"), [(0, NO_LIMIT), (-1, NO_LIMIT), (3, 2)])
def test_numbers_that_exclude_each_other(num_min: int, num_max: int) -> None:
    with pytest.raises(InvalidError, match=r"snapshot\.num-retained\.min"):
        Retention(num_min, num_max, 0, 1)


def entry(kind: int, name: str, level: int = 0, partition: str = "a") -> ManifestEntry:
    file = data_file(name)
    return ManifestEntry(kind, region(partition), 0, 4, upgrade(file, level) if level else file)


def test_files_that_a_snapshot_deleted_go_once() -> None:
    deltas = [entry(ADD, "new"), entry(DELETE, "a"), entry(DELETE, "b"), entry(DELETE, "b", 3)]
    found = unread_files(deltas, [], frozenset())
    assert [each.file.file_name for each in found] == ["a", "b"]


def test_moved_and_tagged_files_stay() -> None:
    deltas = [entry(DELETE, "moved"), entry(ADD, "moved", 5), entry(DELETE, "tagged")]
    assert unread_files(deltas, [], {"moved", "tagged"}) == []


def test_changelog_files_of_expired_snapshots_go() -> None:
    emitted = [entry(ADD, "changelog-1"), entry(ADD, "changelog-2")]
    found = unread_files([], emitted, {"changelog-2"})
    assert [each.file.file_name for each in found] == ["changelog-1"]


def test_equal_names_in_two_partitions_are_two_files() -> None:
    deltas = [entry(DELETE, "a"), entry(DELETE, "a", partition="b")]
    assert len(unread_files(deltas, [], frozenset())) == 2
