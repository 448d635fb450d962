"""`Table.windows`: acceptance case 14, sums and extremes at their limits, and what is refused."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import widetable as wt
from tests.widetable.operations.windows.tile_tables import (
    CLICKS,
    HOUR,
    NOON,
    clicks,
    create,
    entities,
    one,
    write,
)


@pytest.mark.parametrize("options", [{}, {"bucket-key": ""}, {"bucket": "-1", "bucket-key": ""}])
@pytest.mark.parametrize("tile_size", ["1 h", None])
def test_case_14_windows(tmp_path: Path, options: dict[str, str], tile_size: str | None) -> None:
    table = clicks(tmp_path, **options)
    # 10:05 (2), 11:10 (3), 12:59 (5): the tiles of 10:00, 11:00 and 12:00.
    write(table, "clicks", {10: 2, 11: 3, 12: 5})
    half = NOON + HOUR / 2
    given = entities([1, 1, 2, 2], [half, NOON + HOUR, half, NOON + HOUR])

    def answers() -> dict[str, list[Any]]:
        rows = table.windows(given, "at", features=CLICKS, tile="tile", tile_size=tile_size)
        assert rows.column_names == ["user", "at", *CLICKS]
        columns: dict[str, list[Any]] = rows.to_pydict()
        return columns

    def online(at: datetime) -> dict[str, list[Any]]:
        with table.lookup_session() as session:
            rows = session.windows([1, 2], CLICKS, at=at, tile_size=tile_size)
        columns: dict[str, list[Any]] = rows.drop_columns("user").to_pydict()
        return columns

    before = answers()
    assert online(half) == {name: before[name][::2] for name in CLICKS}
    assert online(NOON + HOUR) == {name: before[name][1::2] for name in CLICKS}
    assert before["sum_1h"] == [3, 5, None, None]
    assert before["sum_2h"] == [5, 8, None, None]
    assert before["sum_3h"] == [5, 10, None, None]
    assert before["count_1h"] == [3, 5, 0, 0]
    assert before["count_3h"] == [5, 10, 0, 0]
    write(table, "clicks", {10: 7})  # late, for 10:40
    after = answers()
    assert [after[f"sum_{n}h"][0] for n in (1, 2, 3)] == [3, 12, 12]
    assert after["sum_1h"] == before["sum_1h"]
    assert online(half) == {name: after[name][::2] for name in CLICKS}


def test_case_14_the_same_by_a_coarse_and_a_fine_tile_table(tmp_path: Path) -> None:
    values = {"clicks": ("BIGINT", "sum"), "top": ("BIGINT", "max")}
    tables = {}
    for size in ("30 min", "1 h", "3 h"):
        tables[size] = create(tmp_path / size, values, **{"widetable.tile-size": size})
        step = {"30 min": HOUR / 2, "1 h": HOUR, "3 h": 3 * HOUR}[size]
        day = NOON - 12 * HOUR
        for hour, minute, count in ((10, 5, 2), (11, 10, 3), (12, 59, 5), (10, 40, 7)):
            time = day + timedelta(hours=hour, minutes=minute)
            row = {"tile": time - (time - day) % step, "clicks": count, "top": count}
            tables[size].write([{"user": 1, **row}])
    fine, *coarse = tables.values()
    times = [NOON + HOUR / 2 * number for number in range(-8, 12)]
    given = entities([1] * len(times), times)
    features = {
        f"{column}_{halves}": wt.window(column, function, halves * HOUR / 2)
        for column, function in (("clicks", "sum"), ("clicks", "count"), ("top", "max"))
        for halves in range(1, 15)
    }
    alone = fine.windows(given, "at", features=features)
    assert alone["clicks_6"].to_pylist()[8:11] == [12, 12, 17]
    for others in (coarse, coarse[::-1], coarse[:1], {"3 h": coarse[1]}):
        assert fine.windows(given, "at", features=features, coarse=others) == alone
    sessions = [table.lookup_session() for table in tables.values()]
    for number, time in enumerate(times):
        rows = sessions[0].windows([1], features, at=time, coarse=sessions[1:])
        assert rows.to_pylist() == alone.drop_columns("at").slice(number, 1).to_pylist()
    for session in sessions:
        session.close()


def test_a_session_answers_as_of_now_and_of_its_snapshot(tmp_path: Path) -> None:
    table = clicks(tmp_path)
    now = datetime.now(timezone.utc).replace(tzinfo=None)
    hour = now.replace(minute=0, second=0, microsecond=0)
    tiles = [hour + number * HOUR for number in range(-4, 4)]
    table.write({"user": [1] * 8, "tile": tiles, "clicks": [1] * 8})
    window = {"f": wt.window("clicks", "count", "2 h"), "g": wt.window("clicks", "count", "1 h")}
    with table.lookup_session(["user", "tile", "clicks"]) as session:
        table.write({"user": [1] * 8, "tile": tiles, "clicks": [1] * 8})
        keys = pa.table({"id": pa.array([1, None], pa.int32()), "city": ["Oslo", "Rome"]})
        rows = session.windows(keys, window, on={"id": "user"}, prefix="n_")
        assert rows.to_pylist() == [
            {"id": 1, "city": "Oslo", "n_f": 2, "n_g": 1},
            {"id": None, "city": "Rome", "n_f": None, "n_g": None},
        ]
        session.move()
        assert session.windows({"user": [1]}, window)["f"].to_pylist() == [4]
    with pytest.raises(wt.InvalidError, match="closed"):
        session.windows([1], window)
    text = "opened without user, tile"
    with table.lookup_session(["clicks"]) as session, pytest.raises(wt.InvalidError, match=text):
        session.windows([1], window)


def test_the_tile_of_the_time_is_left_out_and_windows_are_half_open(tmp_path: Path) -> None:
    table = clicks(tmp_path)
    write(table, "clicks", {10: 1, 11: 10, 12: 100})
    window = wt.window("clicks", "sum", "1 h")
    micro = timedelta(microseconds=1)
    times = [NOON - HOUR - micro, NOON - HOUR, NOON - micro, NOON, NOON + HOUR, NOON + 2 * HOUR]
    assert [one(table, time, window) for time in times] == [None, 1, 1, 10, 100, None]


def test_times_before_1970_are_rounded_down(tmp_path: Path) -> None:
    table = clicks(tmp_path)
    epoch = datetime(1970, 1, 1)
    tiles = [epoch - 2 * HOUR, epoch - HOUR, epoch]
    table.write({"user": [1] * 3, "tile": tiles, "clicks": [1, 10, 100]})
    window = wt.window("clicks", "sum", "1 h")
    micro = timedelta(microseconds=1)
    times = [epoch - HOUR - micro, epoch - micro, epoch, epoch + HOUR - micro, epoch + HOUR]
    assert [one(table, time, window) for time in times] == [None, 1, 10, 10, 100]


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
@pytest.mark.parametrize(
    "kind", ["TIMESTAMP(3)", "TIMESTAMP(6)", "TIMESTAMP_LTZ(6)", "TIMESTAMP(9)"]
)
def test_times_of_all_units_and_zones_are_the_same_moments(
    tmp_path: Path, unit: str, kind: str
) -> None:
    columns = {"user": "BIGINT", "tile": kind, "clicks": "BIGINT"}
    options = {
        "merge-engine": "aggregation",
        "fields.clicks.aggregate-function": "sum",
        "bucket": "1",
    }
    table = wt.Catalog(str(tmp_path)).create_table(
        "db.t", columns, primary_key=["user", "tile"], options=options
    )
    zone = timezone.utc if "LTZ" in kind else None
    tiles = pa.array([NOON.replace(tzinfo=zone)], table.arrow_schema.field("tile").type)
    table.write(pa.table({"user": [1], "tile": tiles, "clicks": [7]}))
    # 14:30 in a zone that is 90 minutes ahead is 13:00.
    ahead = timezone(timedelta(minutes=90))
    moments = [
        pa.array([NOON + HOUR, NOON], pa.timestamp(unit)),
        pa.array(
            [
                datetime(2026, 1, 2, 14, 30, tzinfo=ahead),
                datetime(2026, 1, 2, 13, 30, tzinfo=ahead),
            ],
            pa.timestamp(unit, "+01:30"),
        ),
    ]
    for times in moments:
        given = pa.table({"user": [1, 1], "at": times})
        rows = table.windows(given, "at", features={"f": wt.window("clicks", "sum", "1 h")})
        assert rows["f"].to_pylist() == [7, None]


def test_a_date_is_its_midnight(tmp_path: Path) -> None:
    table = clicks(tmp_path)
    write(table, "clicks", {-1: 7, 0: 9})
    given = pa.table({"user": [1], "at": [NOON.date()]})
    rows = table.windows(
        given, "at", features={"f": wt.window("clicks", "sum", "1 h")}, on=["user"]
    )
    assert rows["f"].to_pylist() == [7]


def test_nanoseconds_are_cut_to_the_microsecond_before(tmp_path: Path) -> None:
    table = clicks(tmp_path)
    write(table, "clicks", {11: 7})
    noon = pa.scalar(NOON, pa.timestamp("ns")).value
    given = pa.table({"user": [1, 1], "at": pa.array([noon - 1, noon], pa.timestamp("ns"))})
    rows = table.windows(given, "at", features={"f": wt.window("clicks", "sum", "1 h")})
    assert rows["f"].to_pylist() == [None, 7]


def test_what_lies_before_the_window_does_not_spoil_a_sum_of_doubles(tmp_path: Path) -> None:
    table = create(tmp_path, {"spent": ("DOUBLE", "sum")}, **{"widetable.tile-size": "1 h"})
    for hour, spoiler in ((1, float("nan")), (2, float("inf")), (3, 1e17)):
        write(table, "spent", {hour: spoiler})
    write(table, "spent", {4: 0.1, 5: 0.2, 6: 0.3})
    morning = NOON - 12 * HOUR
    window = wt.window("spent", "sum", "3 h")
    # Left to right: (0.1 + 0.2) + 0.3, which is not 0.1 + (0.2 + 0.3).
    assert one(table, morning + 7 * HOUR, window) == 0.1 + 0.2 + 0.3
    assert one(table, morning + 6 * HOUR, window) == 1e17 + 0.1 + 0.2
    assert one(table, morning + 5 * HOUR, window) == float("inf")
    nan = one(table, morning + 4 * HOUR, window)
    assert nan != nan


def test_a_float_is_rounded_once(tmp_path: Path) -> None:
    table = create(tmp_path, {"spent": ("FLOAT", "sum")})
    write(table, "spent", {1: 2.0**24, 2: 1.0, 3: 1.0})
    assert one(table, NOON, wt.window("spent", "sum", "12 h"), tile_size="1 h") == 2.0**24 + 2


def test_zeros_keep_their_signs(tmp_path: Path) -> None:
    table = create(tmp_path, {"spent": ("DOUBLE", "sum"), "low": ("DOUBLE", "min")})
    write(table, "spent", {11: -0.0})
    write(table, "low", {11: 0.0, 10: -0.0})
    assert str(one(table, NOON, wt.window("spent", "sum", "1 h"))) == "-0.0"
    assert str(one(table, NOON, wt.window("low", "min", "2 h"), tile_size="1 h")) == "-0.0"


@pytest.mark.parametrize(
    ("kind", "values", "answer"),
    [
        ("TINYINT", [127, -127, 127], 127),
        ("TINYINT", [127, 1], None),
        ("TINYINT", [-128, -1], None),
        ("BIGINT", [2**63 - 1, 2**63 - 1, -(2**63)], 2**63 - 2),
        ("BIGINT", [-(2**63), 2**63 - 1], -1),
        ("BIGINT", [-(2**63), 0], -(2**63)),
        ("BIGINT", [2**63 - 1, 1], None),
        ("BIGINT", [-(2**63), -1], None),
        ("BIGINT", [-(2**63)] * 4, None),  # 0 modulo 2**64
        ("DECIMAL(38, 0)", [Decimal(10**38 - 1)] * 2 + [Decimal(1 - 10**38)], 10**38 - 1),
        ("DECIMAL(38, 0)", [Decimal(10**38 - 1), Decimal(1)], None),
        ("DECIMAL(38, 0)", [Decimal(1 - 10**38), Decimal(-1)], None),
        ("DECIMAL(38, 0)", [Decimal(10**38 - 1)] * 8, None),
        ("DECIMAL(20, 2)", [Decimal("-0.01"), Decimal("0.02")], Decimal("0.01")),
    ],
)
def test_sums_are_exact_or_refused(
    tmp_path: Path, kind: str, values: list[Any], answer: Any
) -> None:
    table = create(tmp_path, {"v": (kind, "sum")})
    write(table, "v", dict(enumerate(values)))
    window = wt.window("v", "sum", "12 h")
    if answer is not None:
        assert one(table, NOON, window, tile_size="1 h") == answer
        return
    with pytest.raises(wt.InvalidError, match=r"row 0 of the entities.*type .* of column 'v'"):
        one(table, NOON, window, tile_size="1 h")


def test_a_sum_that_overflows_outside_of_every_window_is_no_error(tmp_path: Path) -> None:
    table = clicks(tmp_path)
    write(table, "clicks", {1: 2**63 - 1, 2: 2**63 - 1, 3: 2**63 - 1, 11: 5})
    assert one(table, NOON, wt.window("clicks", "sum", "1 h")) == 5


def test_nulls_of_a_column_are_no_values(tmp_path: Path) -> None:
    table = create(tmp_path, {"clicks": ("BIGINT", "sum"), "low": ("STRING", "min")})
    write(table, "clicks", {10: 4, 11: None})
    write(table, "low", {9: "b", 10: "a"})
    assert one(table, NOON, wt.window("clicks", "sum", "1 h")) is None
    assert one(table, NOON, wt.window("clicks", "count", "1 h")) == 0
    assert one(table, NOON, wt.window("clicks", "sum", "2 h"), tile_size="1 h") == 4
    assert one(table, NOON, wt.window("low", "min", "1 h")) is None
    assert one(table, NOON, wt.window("low", "min", "3 h"), tile_size="1 h") == "a"


def test_empty_zero_gives_0_for_sums_only(tmp_path: Path) -> None:
    values = {"clicks": ("BIGINT", "sum"), "paid": ("DECIMAL(9, 2)", "sum"), "top": ("INT", "max")}
    table = create(tmp_path, values)
    features = {name: wt.window(name, values[name][1], "1 h") for name in values}
    given = entities([1, None], [NOON, NOON])
    rows = table.windows(given, "at", features=features, empty_zero=True)
    assert rows.to_pylist() == [
        {"user": 1, "at": NOON, "clicks": 0, "paid": Decimal("0.00"), "top": None},
        {"user": None, "at": NOON, "clicks": None, "paid": None, "top": None},
    ]


def test_rows_come_back_in_their_order_with_all_of_their_columns(tmp_path: Path) -> None:
    table = clicks(tmp_path)
    write(table, "clicks", {11: 1}, user=1)
    write(table, "clicks", {11: 2}, user=2)
    given = pa.table(
        {
            "label": ["b", "b", "a", "c"],
            "customer": pa.array([2, 2, 1, None], pa.int16()),
            "at": [NOON] * 4,
            "more": [[1], [1], None, []],
        }
    )
    features = {"label": wt.window("clicks", "sum", "1 h")}
    rows = table.windows(given, "at", features=features, on={"customer": "user"}, prefix="f_")
    assert rows.select(given.column_names) == given
    assert rows["f_label"].to_pylist() == [2, 2, 1, None]
    empty = table.windows(given[:0], "at", features=features, on={"customer": "user"}, prefix="f_")
    assert empty.schema == rows.schema
    assert empty.num_rows == 0


def test_entities_in_any_form(tmp_path: Path) -> None:
    pandas, polars = pytest.importorskip("pandas"), pytest.importorskip("polars")
    table = clicks(tmp_path)
    write(table, "clicks", {11: 1})
    given = {"user": [1, 3], "at": [NOON, NOON]}
    features = {"f": wt.window("clicks", "sum", "1 h")}
    arrow = pa.table(given)
    forms = [
        given,
        arrow,
        arrow.to_batches()[0],
        arrow.to_reader(),
        arrow.to_pylist(),
        pandas.DataFrame(given, index=[9, 9]),
        polars.DataFrame(given),
    ]
    for form in forms:
        rows = table.windows(form, "at", features=features)
        assert rows.column_names == ["user", "at", "f"]
        assert rows["f"].to_pylist() == [1, None]


def test_an_older_snapshot(tmp_path: Path) -> None:
    table = clicks(tmp_path)
    window = wt.window("clicks", "sum", "1 h")
    assert one(table, NOON, window) is None  # no snapshot yet
    write(table, "clicks", {11: 1})
    first = table.snapshots()[-1].id
    write(table, "clicks", {11: 5})
    assert one(table, NOON, window, snapshot_id=first) == 1
    assert one(table, NOON, window) == 6
    with pytest.raises(wt.NotFoundError, match="snapshot"):
        one(table, NOON, window, snapshot_id=99)


def test_partition_columns_of_an_entity(tmp_path: Path) -> None:
    columns = {"land": "STRING", "user": "BIGINT", "tile": "TIMESTAMP", "clicks": "BIGINT"}
    options = {
        "merge-engine": "aggregation",
        "fields.clicks.aggregate-function": "sum",
        "bucket": "2",
        "bucket-key": "user",
    }
    table = wt.Catalog(str(tmp_path)).create_table(
        "db.t",
        columns,
        primary_key=["land", "user", "tile"],
        partition_by=["land"],
        options=options,
    )
    for number, land in enumerate(["no", "se", "fi"]):
        rows = {"land": [land] * 2, "user": [1, 2], "tile": [NOON - HOUR] * 2}
        table.write({**rows, "clicks": [10 * number, 10 * number + 1]})
    given = pa.table({"user": [1, 2, 2], "land": ["fi", "se", "dk"], "at": [NOON] * 3})
    rows = table.windows(given, "at", features={"f": wt.window("clicks", "count", "1 h")})
    assert rows["f"].to_pylist() == [20, 11, 0]
