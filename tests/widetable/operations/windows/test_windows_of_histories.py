"""Windows of random histories against a loop over all events: late events, compactions, every layout of buckets."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import widetable as wt
from tests.support.models.plain_rows import plain
from tests.widetable.operations.windows.event_windows import Event, at, expected, money
from widetable.operations.queries import tile_pieces

HOUR = 3_600_000_000
DAY = 24 * HOUR
SIZES = {"5 min": HOUR // 12, "1 h": HOUR, "7 h": 7 * HOUR, "1 d": DAY}
COLUMNS = {
    "user": "BIGINT",
    "shop": "STRING",
    "tile": "TIMESTAMP",
    "clicks": "BIGINT",
    "spent": "DOUBLE",
    "paid": "DECIMAL(24, 2)",
    "low": "DOUBLE",
    "top": "INT",
    "word": "STRING",
}
FUNCTIONS = {
    "clicks": "sum",
    "spent": "sum",
    "paid": "sum",
    "low": "min",
    "top": "max",
    "word": "max",
}
WINDOWS = [("clicks", "sum"), ("clicks", "count"), *list(FUNCTIONS.items())[1:]]
LAYOUTS = [
    {"bucket": "1", "bucket-key": "user"},
    {"bucket": "3", "bucket-key": "user,shop"},
    {"bucket": "2"},  # the tiles of an entity lie in both
    {},
]
# Columns of the entities by those of the table; the others have equal names.
ON = {"shop_of_row": "shop"}


def drawn_event(rng: random.Random, beginning: int) -> Event:
    # Sums of these doubles are exact in any order, as far as they are finite.
    spent = rng.choice([0.0, 1.5, -2.25, 2.0**44, -(2.0**44), float("nan"), float("inf")])
    values: dict[str, Any] = {
        "clicks": rng.choice([1, 2, -3, 2**58, -(2**58)]),
        "spent": spent if rng.random() < 0.5 else rng.randint(-9, 9) / 4,
        "paid": money(rng.choice([1, -7, 10**22, -(10**22)])),
        "low": rng.choice([float("nan"), float("-inf"), 3.5, -2.0, 7.0, 1e300]),
        "top": rng.randint(-5, 5),
        "word": rng.choice(["", "a", "\0", "aa", "\U0010ffff", "prefix" * 9 + str(rng.random())]),
    }
    for name in values:
        if rng.random() < 0.1:
            values[name] = None
    micros = beginning + rng.randrange(-2 * DAY, 2 * DAY)
    return Event(rng.choice([1, 12, -5]), rng.choice(["", "23", "3"]), micros, values)


def create(rng: random.Random, folder: Path, size: str) -> wt.Table:
    functions = {f"fields.{name}.aggregate-function": each for name, each in FUNCTIONS.items()}
    options = {
        "merge-engine": "aggregation",
        "widetable.tile-size": size,
        "widetable.fsync": "false",
        "num-sorted-run.compaction-trigger": "3",
        **functions,
        **rng.choice(LAYOUTS),
    }
    keys = ["user", "shop", "tile"]
    return wt.Catalog(str(folder)).create_table("db.t", COLUMNS, primary_key=keys, options=options)


def write_all(rng: random.Random, table: wt.Table, events: list[Event], size: int) -> None:
    """Write the events in any order, so that many are late, and compact now and then."""
    left = events.copy()
    rng.shuffle(left)
    while left:
        # One record a key in a commit: what is tested here is the window, and decimals of a commit are added apart.
        count = rng.randint(1, 16)
        batch, left = left[:count], left[count:]
        schema = table.arrow_schema
        table.write(pa.Table.from_pylist([event.record(size) for event in batch], schema))
        if rng.random() < 0.3:
            table.compact(full=rng.random() < 0.5)


def drawn_entities(rng: random.Random, beginning: int, size: int) -> list[tuple[int, str, int]]:
    rows = []
    for _ in range(rng.randint(0, 8)):
        micros = beginning + rng.randrange(-2 * DAY, 3 * DAY)
        micros -= rng.choice([0, micros % size, micros % size + 1])
        rows.append((rng.choice([1, 12, -5, 99]), rng.choice(["", "23", "3"]), micros))
    return [*rows, *rows[:2]]  # equal rows, too


def drawn_windows(rng: random.Random, size: int) -> list[tuple[str, str, int]]:
    """Column, function and length in microseconds."""
    return [(column, function, rng.randint(1, 40) * size) for column, function in WINDOWS]


def features_of(windows: list[tuple[str, str, int]]) -> dict[str, wt.TimeWindow]:
    return {
        f"f{n}": wt.window(column, function, f"{length // 1000} ms")
        for n, (column, function, length) in enumerate(windows)
    }


def given_rows(entities: list[tuple[int, str, int]]) -> pa.Table:
    users, shops, times = zip(*entities, strict=True) if entities else ((), (), ())
    return pa.table(
        {
            "user": pa.array(users, pa.int32()),
            "shop_of_row": pa.array(shops, pa.string()),
            "when": pa.array([at(time) for time in times], pa.timestamp("us")),
        }
    )


@pytest.mark.parametrize("part", range(8))
def test_windows_of_200_histories_are_those_of_a_loop_over_all_events(
    rng: random.Random, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, part: int
) -> None:
    rng.seed(rng.random() + part)
    for number in range(25):
        monkeypatch.setattr(tile_pieces, "_ROWS_OF_A_KEY", rng.choice([0, 10**9]))
        text, size = rng.choice(list(SIZES.items()))
        beginning = rng.choice([0, -70 * 365 * DAY, 56 * 365 * DAY + 12345])
        events = [drawn_event(rng, beginning) for _ in range(rng.randint(0, 60))]
        table = create(rng, tmp_path / str(number), text)
        write_all(rng, table, events, size)
        entities = drawn_entities(rng, beginning, size)
        windows = drawn_windows(rng, size)
        given = given_rows(entities)
        result = table.windows(given, "when", features=features_of(windows), on=ON)
        assert result.column_names == [*given.column_names, *features_of(windows)]
        assert result.select(given.column_names) == given
        for n, window in enumerate(windows):
            wanted = [expected(events, (u, s), t, size, window) for u, s, t in entities]
            assert plain(result[f"f{n}"].to_pylist()) == plain(wanted), (window, entities)
        # Online, one time for all keys, at the same snapshot: the same values.
        with table.lookup_session() as session:
            for row, (_, _, time) in enumerate(entities[:2]):
                online = session.windows(
                    given.select(ON.keys() | {"user"}), features_of(windows), at=at(time), on=ON
                )
                values = online.slice(row, 1).select(list(features_of(windows))).to_pylist()
                offline = result.slice(row, 1).select(list(features_of(windows))).to_pylist()
                assert plain(values) == plain(offline)


@pytest.mark.parametrize("part", range(4))
def test_coarse_tiles_in_the_middle_give_the_same_values(
    rng: random.Random, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, part: int
) -> None:
    rng.seed(rng.random() + part)
    for number in range(6):
        monkeypatch.setattr(tile_pieces, "_ROWS_OF_A_KEY", rng.choice([0, 10**9]))
        size = rng.choice([HOUR // 12, HOUR])
        beginning = rng.choice([0, 56 * 365 * DAY + 12345])
        events = [drawn_event(rng, beginning) for _ in range(rng.randint(0, 60))]
        tables = []
        sizes = [size, size * 3, size * 3 * rng.choice([2, 8])][: rng.randint(2, 3)]
        for level, each in enumerate(sizes):
            tables.append(create(rng, tmp_path / f"{number}.{level}", f"{each // 1000} ms"))
            write_all(rng, tables[-1], events, each)
        coarse = tables[1:]
        rng.shuffle(coarse)
        entities = drawn_entities(rng, beginning, size)
        windows = [window for window in drawn_windows(rng, size) if window[0] != "spent"]
        features = features_of(windows)
        given = given_rows(entities)
        result = tables[0].windows(given, "when", features=features, on=ON, coarse=coarse)
        for n, window in enumerate(windows):
            wanted = [expected(events, (u, s), t, size, window) for u, s, t in entities]
            assert plain(result[f"f{n}"].to_pylist()) == plain(wanted), (window, sizes, entities)
        sessions = [each.lookup_session() for each in (tables[0], *coarse)]
        for row, (_, _, time) in enumerate(entities[:2]):
            online = sessions[0].windows(given, features, at=at(time), on=ON, coarse=sessions[1:])
            assert plain(online.slice(row, 1).to_pylist()) == plain(
                result.slice(row, 1).to_pylist()
            )
        for session in sessions:
            session.close()
