"""Windows as they were known at a time: case 15, and random commits against a loop over all events and commit times."""

from __future__ import annotations

import random
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pytest

import widetable as wt
from tests.support.models.plain_rows import plain
from tests.widetable.derive.versions.timed_table import TimedTable
from tests.widetable.operations.windows.event_windows import MICROS, Event, at, expected, money
from widetable.derive.versions import known_tiles
from widetable.derive.versions.history_feed import feed_history
from widetable.operations.queries import tile_pieces

HISTORY = {"history.table": "db.h"}
MINUTE = 60_000_000
HOUR = 60 * MINUTE
DAY = 24 * HOUR
NOON = (datetime(2026, 1, 2, 12) - datetime(1970, 1, 1)) // MICROS
CLICKS = {f"f{n}": wt.window("clicks", "sum", f"{n} h") for n in (1, 2, 3)}
TILES = {"user": "BIGINT", "tile": "TIMESTAMP", "clicks": "BIGINT"}
SUM = {
    "merge-engine": "aggregation",
    "fields.clicks.aggregate-function": "sum",
    "widetable.tile-size": "1 h",
    "bucket-key": "user",
}


def commit(timed: TimedTable, committed: int, event: int, clicks: int, user: int = 1) -> None:
    """An event of a time, committed at another one; both in microseconds."""
    tile = at(event - event % HOUR)
    timed.write(committed // 1000, {"user": user, "tile": tile, "clicks": clicks})


def clicks(folder: Path, **options: str) -> TimedTable:
    """Case 14: 10:05 (2), 11:10 (3) and 12:59 (5), each committed at once."""
    timed = TimedTable(folder, TILES, ["user", "tile"], {**SUM, **options})
    for minute, count in ((-115, 2), (-50, 3), (59, 5)):
        commit(timed, NOON + minute * MINUTE, NOON + minute * MINUTE, count)
    return timed


def forget(timed: TimedTable) -> None:
    timed.table.expire_snapshots(num_retained_min=1, num_retained_max=1, time_retained_millis=1)


def rows_at(times: Sequence[int], users: Sequence[int] | None = None) -> pa.Table:
    micros = pa.array(times, pa.int64()).cast(pa.timestamp("us"))
    return pa.table({"user": users or [1] * len(times), "at": micros})


def values(table: wt.Table, micros: int, **more: Any) -> list[Any]:
    rows = table.windows(rows_at([micros]), "at", features=CLICKS, **more)
    return list(rows.select(list(CLICKS)).to_pylist()[0].values())


@pytest.mark.parametrize("kept", ["no history", "history", "expired"])
def test_case_15_a_late_click_is_not_in_what_was_known(tmp_path: Path, kept: str) -> None:
    timed = clicks(tmp_path, **({} if kept == "no history" else HISTORY))
    half = NOON + 30 * MINUTE
    commit(timed, NOON + HOUR, NOON - 80 * MINUTE, 7)  # the late one, for 10:40
    if kept != "no history":
        feed_history(timed.table)
    if kept == "expired":
        forget(timed)
        assert len(timed.table.snapshots()) < 4
    assert values(timed.table, half) == [3, 12, 12]
    for later in range(2, 5):
        assert values(timed.table, half, as_known=True) == [3, 5, 5]
        assert values(timed.table, half, as_known=True, include_current=True) == [3, 5, 5]
        commit(timed, NOON + later * HOUR, NOON - 20 * MINUTE, 100)
        timed.table.compact(full=True)
        timed.stamp(timed.times[max(timed.times)])
        if kept != "no history" and later > 2:
            feed_history(timed.table)
            forget(timed)
    assert values(timed.table, half) == [303, 312, 312]
    # When the late click was there: 11:40 is still of the 2nd hour before 13:00, 10:40 of the 3rd one.
    assert values(timed.table, NOON + HOUR, as_known=True) == [5, 8, 17]
    assert values(timed.table, NOON + HOUR - 1, as_known=True) == [3, 5, 5]


def test_case_15_the_current_tile_has_no_event_of_the_future(tmp_path: Path) -> None:
    """12:59 was committed at 12:59."""
    timed = clicks(tmp_path, **HISTORY)
    commit(timed, NOON + HOUR, NOON - 80 * MINUTE, 7)
    for _ in range(2):
        half = values(timed.table, NOON + 30 * MINUTE, include_current=True)
        assert half == [3, 12, 12]  # complete tiles as they are now
        assert values(timed.table, NOON + 59 * MINUTE - 1, include_current=True) == half
        assert values(timed.table, NOON + 59 * MINUTE, include_current=True) == [8, 17, 17]
        as_known = {"as_known": True, "include_current": True}
        assert values(timed.table, NOON + 59 * MINUTE - 1, **as_known) == [3, 5, 5]
        assert values(timed.table, NOON + 59 * MINUTE, **as_known) == [8, 10, 10]
        # The current tile is that of 13:00, which has no event.
        assert values(timed.table, NOON + HOUR, include_current=True) == [5, 8, 17]
        feed_history(timed.table)
        forget(timed)


def test_a_coarse_table_that_learnt_later_is_not_read(tmp_path: Path) -> None:
    """Correction 11: the day table was fed with the late click only, and with what came after."""
    timed = clicks(tmp_path / "fine", **HISTORY)
    options = {**SUM, "widetable.tile-size": "3 h"}
    coarse = TimedTable(tmp_path / "coarse", TILES, ["user", "tile"], options)
    tile = NOON - NOON % (3 * HOUR) - 3 * HOUR
    coarse.write((NOON + 5 * HOUR) // 1000, {"user": 1, "tile": at(tile), "clicks": 1000})
    more: dict[str, Any] = {"coarse": [coarse.table]}
    assert values(timed.table, NOON + 30 * MINUTE, **more) == [3, 5, 1000]
    assert values(timed.table, NOON + 30 * MINUTE, as_known=True, **more) == [3, 5, 5]
    both = values(timed.table, NOON + 59 * MINUTE, include_current=True, **more)
    assert both == [8, 10, 1005]


def test_a_time_that_the_past_does_not_cover_is_refused_with_it(tmp_path: Path) -> None:
    timed = clicks(tmp_path)
    forget(timed)
    timed.table.alter_options(HISTORY)
    oldest = timed.times[min(snapshot.id for snapshot in timed.table.snapshots())] * 1000
    for fed in range(2):
        given = rows_at([oldest, oldest - 1])
        kinds: list[dict[str, Any]] = [{"as_known": True}, {"include_current": True}]
        for more in kinds:
            with pytest.raises(wt.NotFoundError, match="row 1 of entities") as raised:
                timed.table.windows(given, "at", features=CLICKS, **more)
            assert f"{oldest // 1000 - 1} " in raised.value.found
            assert timed.table.windows(given[:1], "at", features=CLICKS, **more).num_rows == 1
        if not fed:
            feed_history(timed.table)


def test_before_the_first_snapshot_nothing_was_known(tmp_path: Path) -> None:
    timed = TimedTable(tmp_path, TILES, ["user", "tile"], {**SUM, **HISTORY})
    assert values(timed.table, NOON, as_known=True, include_current=True) == [None] * 3
    commit(timed, NOON, NOON - HOUR, 1)
    assert values(timed.table, NOON - 1, as_known=True) == [None] * 3
    assert values(timed.table, NOON, as_known=True) == [1] * 3


def test_an_answer_says_until_when_it_is_final(tmp_path: Path) -> None:
    timed = clicks(tmp_path, **HISTORY)
    given = rows_at([NOON]).replace_schema_metadata({"of": "me"})
    rows = timed.table.windows(given, "at", features=CLICKS, as_known=True)
    last = (NOON + 59 * MINUTE) // 1000 * 1000
    final = {b"of": b"me", b"widetable.final_before_micros": b"%d" % last}
    assert rows.schema.metadata == final
    rows = timed.table.windows(given, "at", features=CLICKS, include_current=True)
    assert rows.schema.metadata == {b"of": b"me"}


def test_no_rows_give_all_columns(tmp_path: Path) -> None:
    timed = clicks(tmp_path, **HISTORY)
    for _ in range(2):
        more: dict[str, Any] = {"as_known": True, "include_current": True}
        rows = timed.table.windows(rows_at([]), "at", features=CLICKS, **more)
        assert (rows.num_rows, rows.column_names) == (0, ["user", "at", *CLICKS])
        feed_history(timed.table)


def test_what_does_not_fit_the_past_is_refused_by_name(tmp_path: Path) -> None:
    timed = clicks(tmp_path / "a", **HISTORY)
    with pytest.raises(wt.InvalidError, match=r"snapshot_id: .*as_known"):
        values(timed.table, NOON, as_known=True, snapshot_id=1)
    assert values(timed.table, NOON + 59 * MINUTE, include_current=True, snapshot_id=1) == [
        *(5, 7, 7),
    ]
    for name in ("as_known", "include_current"):
        wrong: dict[str, Any] = {name: 1}
        with pytest.raises(wt.InvalidError, match=name):
            values(timed.table, NOON, **wrong)
    expiring = {"record-level.expire-time": "30 d", "record-level.time-field": "tile"}
    other = TimedTable(tmp_path / "b", TILES, ["user", "tile"], {**SUM, **expiring})
    for name in ("as_known", "include_current"):
        with pytest.raises(wt.UnsupportedError, match=rf"{name}.*record-level\.expire-time"):
            values(other.table, NOON, **{name: True})


def test_a_null_in_the_key_gives_nulls(tmp_path: Path) -> None:
    timed = clicks(tmp_path, **HISTORY)
    given = rows_at([NOON] * 3, [None, 1, 2])  # type: ignore[list-item]
    for _ in range(2):
        more: dict[str, Any] = {"as_known": True, "include_current": True}
        rows = timed.table.windows(given, "at", features=CLICKS, **more)
        assert rows["f1"].to_pylist() == [None, 3, None]
        feed_history(timed.table)


class Committed(NamedTuple):
    """An event, the number of its commit, and the time that its snapshot has, in milliseconds."""

    event: Event
    number: int
    millis: int


OTHERS = ["delete", "rollback", "overwrite", "rescale", "compact"]
SIZES = {"30 min": HOUR // 2, "1 h": HOUR, "1 d": DAY}
COLUMNS = {
    "user": "BIGINT",
    "shop": "STRING",
    "tile": "TIMESTAMP",
    "clicks": "BIGINT",
    "spent": "DOUBLE",
    "paid": "DECIMAL(24, 2)",
    "low": "DOUBLE",
    "word": "STRING",
}
FUNCTIONS = {"clicks": "sum", "spent": "sum", "paid": "sum", "low": "min", "word": "max"}
WINDOWS = [("clicks", "sum"), ("clicks", "count"), *list(FUNCTIONS.items())[1:]]
LAYOUTS: list[dict[str, Any]] = [
    {"bucket": "1", "bucket-key": "user"},
    {"bucket": "3", "bucket-key": "user,shop"},
    {"bucket": "2"},  # the tiles of an entity lie in both
    {"bucket": "-1"},
    {"bucket": "2", "bucket-key": "user", "changelog-producer": "input"},
    {"bucket": "2", "bucket-key": "user", "changelog-producer": "lookup"},
    {"bucket": "2", "bucket-key": "user", "deletion-vectors.enabled": "true"},
    {"bucket": "2", "bucket-key": "user", "partition_by": ["shop"]},
]


def drawn_event(rng: random.Random, beginning: int) -> Event:
    amounts: dict[str, Any] = {
        "clicks": rng.choice([1, 2, -3, 2**58, -(2**58)]),
        # Sums of these doubles are exact in any order, as far as they are finite.
        "spent": rng.choice([0.5, 2.0**44, -(2.0**44), float("nan"), -2.25, 1.5]),
        "paid": money(rng.choice([1, -7, 10**21, -(10**21)])),
        "low": rng.choice([float("nan"), 3.5, -2.0, 7.0]),
        "word": rng.choice(["", "a", "aa", str(rng.random())]),
    }
    for name in amounts:
        if rng.random() < 0.1:
            amounts[name] = None
    micros = beginning + rng.randrange(-6 * HOUR, 6 * HOUR)
    return Event(rng.choice([1, 12, -5]), rng.choice(["", "23"]), micros, amounts)


def create(rng: random.Random, folder: Path, size: str) -> TimedTable:
    layout = dict(rng.choice(LAYOUTS))
    more = {"partition_by": layout.pop("partition_by")} if "partition_by" in layout else {}
    options = {
        "merge-engine": "aggregation",
        "widetable.tile-size": size,
        "num-sorted-run.compaction-trigger": "3",
        **{f"fields.{name}.aggregate-function": each for name, each in FUNCTIONS.items()},
        **(HISTORY if rng.random() < 0.8 else {}),
        **layout,
    }
    key = rng.choice([["user", "shop", "tile"], ["user", "tile", "shop"]]) if more else None
    return TimedTable(folder, COLUMNS, key or ["user", "shop", "tile"], options, **more)


def commit_all(
    rng: random.Random, timed: TimedTable, events: list[Event], size: int, beginning: int
) -> list[Committed]:
    """Commit the events in any order, by a clock that falls now and then; some of the past goes into the history."""
    left, done = events.copy(), list[Committed]()
    rng.shuffle(left)
    millis = (beginning - 2 * HOUR) // 1000
    while left:
        count = rng.randint(1, 8)
        batch, left = left[:count], left[count:]
        millis += rng.choice((0, 1, 90_000, 1_800_000))
        ahead = 7_200_000 if rng.random() < 0.1 else 0
        timed.table.write(
            pa.Table.from_pylist([each.record(size) for each in batch], timed.table.arrow_schema)
        )
        timed.table.wait_for_compactions()
        timed.stamp(millis + ahead)
        done += [Committed(each, len(timed.times), millis + ahead) for each in batch]
        if rng.random() < 0.2:
            timed.table.compact(full=rng.random() < 0.5)
            timed.stamp(millis + ahead)
        if rng.random() < 0.3:
            feed_history(timed.table)
            if rng.random() < 0.3 and timed.table.consumers():
                timed.table.expire_snapshots(
                    num_retained_min=1, num_retained_max=2, time_retained_millis=1
                )
    return done


def known(timed: TimedTable, done: Sequence[Committed], micros: int) -> list[Event]:
    """The events of the newest snapshot whose own time is not after a time, and of those before it."""
    ids = [id for id, millis in timed.times.items() if millis * 1000 <= micros]
    return [each.event for each in done if ids and each.number <= max(ids)]


@pytest.mark.parametrize("part", range(6))
def test_random_commits_give_what_a_loop_over_events_and_commit_times_gives(
    rng: random.Random, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, part: int
) -> None:
    rng.seed(rng.random() + part)
    for number in range(3):
        monkeypatch.setattr(tile_pieces, "_ROWS_OF_A_KEY", rng.choice([0, 10**9]))
        monkeypatch.setattr(known_tiles, "_TILES_AT_ONCE", rng.choice([1, 3, 1 << 20]))
        text, size = rng.choice(list(SIZES.items()))
        beginning = rng.choice([0, NOON + 12345])
        events = [drawn_event(rng, beginning) for _ in range(rng.randint(1, 50))]
        timed = create(rng, tmp_path / str(number), text)
        done = commit_all(rng, timed, events, size, beginning)
        moments = [
            rng.choice(list(timed.times.values())) * 1000 + rng.choice((-1, 0, 0, 1, HOUR, -HOUR))
            for _ in range(12)
        ]
        entities = [(rng.choice([1, 12, -5, 99]), rng.choice(["", "23"]), t) for t in moments]
        given = pa.table(
            {
                "user": [user for user, _, _ in entities],
                "shop": [shop for _, shop, _ in entities],
                "at": rows_at(moments)["at"],
            }
        )
        windows = [(column, name, rng.randint(1, 12) * size) for column, name in WINDOWS]
        features = {
            f"f{n}": wt.window(column, name, f"{length // 1000} ms")
            for n, (column, name, length) in enumerate(windows)
        }
        for as_known, current in ((True, False), (False, True), (True, True)):
            more: dict[str, Any] = {"as_known": as_known, "include_current": current}
            rows = timed.table.windows(given, "at", features=features, **more)
            assert rows.select(given.column_names) == given
            for n, window in enumerate(windows):
                wanted = []
                for user, shop, micros in entities:
                    then = known(timed, done, micros)
                    complete = then if as_known else events
                    start = micros - micros % size
                    counted = [each for each in complete if each.micros < start]
                    if current:
                        counted += [each for each in then if each.micros // size == start // size]
                    column, name, length = window
                    longer = (column, name, length + size)
                    wanted.append(expected(counted, (user, shop), start + size, size, longer))
                given_values = plain(rows[f"f{n}"].to_pylist())
                assert given_values == plain(wanted), (window, more, timed.path)


@pytest.mark.parametrize("part", range(2))
def test_whatever_is_done_to_a_table_rows_see_the_snapshot_of_their_time(
    rng: random.Random, tmp_path: Path, part: int
) -> None:
    """Deletes, rollbacks, overwrites, other buckets and new columns, against windows of that snapshot."""
    rng.seed(rng.random() + part)
    for number in range(3):
        timed = TimedTable(tmp_path / str(number), TILES, ["user", "tile"], {**SUM, **HISTORY})
        for step in range(10):
            table, user = timed.table, rng.randrange(2)
            row = {"user": user, "tile": at(NOON - rng.randrange(5) * HOUR), "clicks": step}
            kind = "write" if step < 3 else rng.choice(["write", "write", *OTHERS])
            if kind == "write":
                table.write([row])
            elif kind == "delete":
                table.delete_keys([{"user": user, "tile": row["tile"]}], rewrite=True)
            elif kind == "rollback":
                table.rollback(rng.choice([each.id for each in table.snapshots()]))
            elif kind == "overwrite":
                table.overwrite([row], whole_table=True)
            elif kind == "rescale":
                table.rescale(rng.randint(1, 5))
            else:
                table.compact(full=True)
            timed.table.wait_for_compactions()
            timed.stamp(NOON // 1000 + step * 60_000 - rng.choice([0, 0, 150_000]))
            if rng.random() < 0.3:
                feed_history(timed.table)
        for id, millis in timed.times.items():
            moment = millis * 1000 + rng.choice([0, 1, 20_000_000])
            newest = max(n for n, time in timed.times.items() if time * 1000 <= moment)
            given = rows_at([moment] * 3, [0, 1, 2])
            wanted = timed.table.windows(given, "at", features=CLICKS, snapshot_id=newest)
            actual = timed.table.windows(given, "at", features=CLICKS, as_known=True)
            assert actual.to_pylist() == wanted.to_pylist(), (id, timed.path)


def test_a_column_that_came_later_is_null_before(tmp_path: Path) -> None:
    timed = clicks(tmp_path, **{"fields.default-aggregate-function": "max"})
    timed.catalog.alter_table("db.t", add_columns=[pa.field("top", pa.int64())])
    timed.table.alter_options(HISTORY)
    tile = at(NOON - HOUR)
    timed.write((NOON + HOUR) // 1000, {"user": 1, "tile": tile, "clicks": 0, "top": 4})
    features = {"top": wt.window("top", "max", "2 h")}
    for _ in range(2):
        given = rows_at([NOON + 59 * MINUTE, NOON + HOUR])
        rows = timed.table.windows(given, "at", features=features, as_known=True)
        assert rows["top"].to_pylist() == [None, 4]
        feed_history(timed.table)
        forget(timed)


def test_records_of_an_input_changelog_are_no_tiles(tmp_path: Path) -> None:
    """One that changes nothing is a version of the history without a row."""
    timed = clicks(tmp_path, **{**HISTORY, "changelog-producer": "input"})
    commit(timed, NOON + 59 * MINUTE, NOON - 50 * MINUTE, 0)
    for _ in range(2):
        assert values(timed.table, NOON + 59 * MINUTE, as_known=True) == [3, 5, 5]
        feed_history(timed.table)


def test_commits_after_the_time_of_a_row_change_no_feature(
    rng: random.Random, tmp_path: Path
) -> None:
    """Leakage: other futures behind the same past."""
    given, past = list[Any](), rng.randrange(1 << 30)
    for future in range(3):
        timed = TimedTable(tmp_path / str(future), TILES, ["user", "tile"], {**SUM, **HISTORY})
        draw = random.Random(past)
        for minute in range(40):
            if minute == 25:
                draw = random.Random(future)
                feed_history(timed.table)
            event = NOON + draw.randrange(-4 * HOUR, HOUR)
            commit(timed, NOON + minute * MINUTE, event, draw.randrange(9), draw.randrange(3))
        asked = [NOON + minute * MINUTE for minute in range(-1, 25)]
        rows = rows_at(asked * 3, [user for user in range(3) for _ in asked])
        more: dict[str, Any] = {"as_known": True, "include_current": True}
        given.append(timed.table.windows(rows, "at", features=CLICKS, **more).to_pylist())
    assert given[0] == given[1] == given[2]
    assert any(row["f3"] for row in given[0])
