"""Features as they were known at a time, against a loop over snapshots and scans; and the cases of that basis."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import widetable as wt
from tests.widetable.derive.versions.timed_table import Row, TimedTable, moments

HOUR = 3_600_000
TEN = 10 * HOUR


def minutes(count: float) -> int:
    return int(TEN + count * 60_000)


def cities(folder: Path, **options: str) -> TimedTable:
    """Case 4: Oslo at 10:00, Rome at 10:05, deleted at 10:07, Bonn at 10:09."""
    timed = TimedTable(folder, {"id": "BIGINT", "city": "STRING"}, ["id"], options)
    timed.write(minutes(0), {"id": 1, "city": "Oslo"})
    timed.write(minutes(5), {"id": 1, "city": "Rome"})
    timed.delete(minutes(7), {"id": 1})
    timed.write(minutes(9), {"id": 1, "city": "Bonn"})
    return timed


ASKED = (-1, 0, 5 - 1e-3 / 60, 5, 7, 8, 9)
CASE_4 = [None, "Oslo", "Oslo", "Rome", None, None, "Bonn"]


def answers(timed: TimedTable) -> Any:
    rows = moments([{"id": 1, "at": minutes(at)} for at in ASKED])
    return timed.table.point_in_time(rows, "at")["city"].to_pylist()


def test_case_4_a_row_gets_what_was_known_at_its_time(tmp_path: Path) -> None:
    timed = cities(tmp_path)
    assert answers(timed) == CASE_4
    timed.write(minutes(10), {"id": 1, "city": "Later"})
    timed.table.compact(full=True)
    timed.stamp(minutes(11))
    assert answers(timed) == CASE_4


def test_correction_1_versions_of_a_maintained_table_are_those_of_its_appends(
    tmp_path: Path,
) -> None:
    options = {"write-only": "true", "changelog-producer": "lookup"}
    timed = TimedTable(tmp_path, {"id": "BIGINT", "v": "INT"}, ["id"], options)
    for v in (1, 2, 3):
        timed.write(v * 1000, {"id": 1, "v": v})
    timed.table.maintain(once=True)
    timed.stamp(3700)
    rows = moments([{"id": 1, "at": at} for at in (999, 1000, 2000, 3000, 3700)])
    assert timed.table.point_in_time(rows, "at")["v"].to_pylist() == [None, 1, 2, 3, 3]


def test_correction_2_a_rollback_gives_the_old_row_from_its_own_time_on(tmp_path: Path) -> None:
    timed = TimedTable(tmp_path, {"id": "BIGINT", "v": "INT"}, ["id"])
    timed.write(1000, {"id": 1, "v": 1})
    timed.write(2000, {"id": 1, "v": 2}, {"id": 2, "v": 2})
    timed.table.rollback(1)
    timed.stamp(3000)
    rows = moments([{"id": key, "at": at} for key in (1, 2) for at in (1000, 2000, 3000)])
    assert timed.table.point_in_time(rows, "at")["v"].to_pylist() == [1, 2, 1, None, 2, None]


def test_correction_3_an_answer_says_from_when_on_it_is_not_final(tmp_path: Path) -> None:
    timed = cities(tmp_path)
    rows = moments([{"id": 1, "at": minutes(9)}])
    given = timed.table.point_in_time(rows, "at")
    assert given.schema.metadata[b"widetable.final_before_micros"] == b"%d" % (minutes(9) * 1000)
    timed.write(minutes(9), {"id": 1, "city": "same moment"})  # not before it: may change
    assert timed.table.point_in_time(rows, "at")["city"].to_pylist() == ["same moment"]


def test_correction_6_a_clock_that_was_ahead_hides_only_its_own_snapshot(tmp_path: Path) -> None:
    timed = TimedTable(tmp_path, {"id": "BIGINT", "v": "INT"}, ["id"])
    for millis, v in ((1000, 1), (24 * HOUR, 2), (3000, 3)):
        timed.write(millis, {"id": 1, "v": v})
    rows = moments([{"id": 1, "at": at} for at in (1000, 2999, 3000, 25 * HOUR)])
    assert timed.table.point_in_time(rows, "at")["v"].to_pylist() == [1, 1, 3, 3]


def test_case_7_rows_stay_as_they_are(tmp_path: Path) -> None:
    table = cities(tmp_path).table
    twice = moments([{"label": n, "id": 1, "at": minutes(6)} for n in (7, 7)])
    given = table.point_in_time(twice, "at", prefix="f_")
    assert given.column_names == ["label", "id", "at", "f_city"]
    assert given.select(["label", "f_city"]).to_pylist() == [{"label": 7, "f_city": "Rome"}] * 2
    nothing = table.point_in_time(twice.slice(0, 0), "at")
    assert (nothing.num_rows, nothing.column_names) == (0, ["label", "id", "at", "city"])
    assert nothing.schema.field("city").type == pa.string()
    clash = twice.rename_columns(["city", "id", "at"])
    with pytest.raises(wt.InvalidError, match="prefix") as raised:
        table.point_in_time(clash, "at")
    assert "'city'" in raised.value.subject


def test_case_8_a_time_behind_the_oldest_snapshot_is_refused_with_it(tmp_path: Path) -> None:
    timed = cities(tmp_path)
    timed.table.expire_snapshots(num_retained_min=1, num_retained_max=3, time_retained_millis=1)
    oldest = min(snapshot.id for snapshot in timed.table.snapshots())
    assert oldest > 1
    edge = timed.times[oldest]
    rows = moments([{"id": 1, "at": edge}, {"id": 2, "at": edge - 1e-3}])
    assert timed.table.point_in_time(rows.slice(0, 1), "at").num_rows == 1
    with pytest.raises(wt.NotFoundError) as raised:
        timed.table.point_in_time(rows, "at")
    assert "row 1" in raised.value.subject
    assert f"{edge - 1} " in raised.value.found
    assert f"{edge} " in raised.value.expected


def test_a_table_without_snapshots_knew_nothing(tmp_path: Path) -> None:
    table = TimedTable(tmp_path, {"id": "BIGINT", "v": "INT"}, ["id"]).table
    given = table.point_in_time(moments([{"id": 1, "at": 5}]), "at")
    assert given["v"].to_pylist() == [None]
    assert given.schema.metadata[b"widetable.final_before_micros"] == b"0"


def test_keys_may_be_null_and_named_otherwise(tmp_path: Path) -> None:
    table = cities(tmp_path).table
    rows = moments([{"user": 1, "at": minutes(1)}, {"user": None, "at": minutes(1)}])
    given = table.point_in_time(rows, "at", ["city"], on={"user": "id"})
    assert given["city"].to_pylist() == ["Oslo", None]


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
@pytest.mark.parametrize("zone", [None, "Asia/Tokyo"])
def test_times_of_all_units_are_utc(tmp_path: Path, unit: str, zone: str | None) -> None:
    table = cities(tmp_path).table
    times = pa.array([minutes(5) * 1000], pa.timestamp("us", zone)).cast(pa.timestamp(unit, zone))
    given = table.point_in_time(pa.table({"id": [1], "at": times}), "at")
    assert given["city"].to_pylist() == ["Rome"]
    assert given.schema.field("at").type == times.type


def test_frames_and_dicts_are_taken(tmp_path: Path) -> None:
    polars, pandas = pytest.importorskip("polars"), pytest.importorskip("pandas")
    table = cities(tmp_path).table
    rows = moments([{"id": 1, "at": minutes(5)}])
    for given in (pandas.DataFrame(rows.to_pandas()), polars.from_arrow(rows), rows.to_pylist()):
        assert table.point_in_time(given, "at")["city"].to_pylist() == ["Rome"]
    empty = table.point_in_time(rows.to_pandas().iloc[:0], "at")
    assert empty.column_names == ["id", "at", "city"]


REFUSED: list[tuple[Any, dict[str, Any], str]] = [
    ({"id": [1, 2], "at": pa.array([0, None], pa.timestamp("us"))}, {}, "row 1"),
    ({"id": [1], "at": [5]}, {}, "int64"),
    ({"id": ["x"], "at": pa.array([0], pa.timestamp("us"))}, {}, "'id'"),
    ({"nr": [1], "at": pa.array([0], pa.timestamp("us"))}, {}, "'id'"),
    ({"id": [1], "at": pa.array([0], pa.timestamp("us"))}, {"at": "then"}, "'then'"),
    ({"id": [1], "at": pa.array([0], pa.timestamp("us"))}, {"on": {"id": "nr"}}, "on"),
    ([], {}, "columns are unknown"),
]


@pytest.mark.parametrize(("rows", "more", "named"), REFUSED)
def test_rows_that_do_not_fit_are_refused(
    tmp_path: Path, rows: Any, more: dict[str, Any], named: str
) -> None:
    table = cities(tmp_path).table
    with pytest.raises(wt.InvalidError, match=named):
        table.point_in_time(rows, **{"at": "at", **more})


def test_an_unknown_feature_is_not_found(tmp_path: Path) -> None:
    with pytest.raises(wt.NotFoundError, match="nope"):
        cities(tmp_path).table.point_in_time(moments([{"id": 1, "at": 0}]), "at", ["nope"])


ENGINES = {
    "deduplicate": {},
    "write-only": {"write-only": "true", "changelog-producer": "lookup"},
    "deletion vectors": {"deletion-vectors.enabled": "true"},
    "partial-update": {
        "merge-engine": "partial-update",
        "fields.g.sequence-group": "a",
        "fields.h.sequence-group": "b",
        "partial-update.remove-record-on-sequence-group": "g",
    },
    "aggregation": {
        "merge-engine": "aggregation",
        "fields.a.aggregate-function": "sum",
        "fields.b.aggregate-function": "max",
    },
    "first-row": {"merge-engine": "first-row", "changelog-producer": "lookup"},
}
COLUMNS = {"id": "BIGINT", "g": "BIGINT", "a": "INT", "h": "BIGINT", "b": "STRING"}


def record(rng: random.Random, key: int, engine: str) -> Row:
    row: Row = {"id": key, "g": rng.randrange(9), "a": rng.randrange(5)}
    other: Row = {"h": rng.randrange(9), "b": rng.choice("xyz")}
    if engine != "partial-update":
        return row | other
    return row if rng.random() < 0.5 else {"id": key} | other


def history(
    rng: random.Random,
    folder: Path,
    engine: str,
    options: dict[str, str] | None = None,
    after: Callable[[TimedTable], object] = bool,
) -> TimedTable:
    """Random commits, compactions, rollbacks and overwrites, by clocks that are sometimes ahead. after: each step."""
    timed = TimedTable(folder, COLUMNS, ["id"], {**ENGINES[engine], **(options or {})})
    millis = 1000
    for _ in range(rng.randrange(4, 14)):
        millis += rng.choice((0, 1, 1, 7))
        keys = rng.sample(range(6), rng.randrange(1, 4))
        ahead = 90_000 if rng.random() < 0.1 else 0
        what = rng.random()
        if what < 0.6 or not timed.times:
            first = record(rng, keys[0], engine)
            timed.write(
                millis + ahead,
                *[row for key in keys if (row := record(rng, key, engine)).keys() == first.keys()],
            )
        elif what < 0.7 and engine == "deduplicate":
            timed.delete(millis + ahead, *({"id": key} for key in keys))
        elif what < 0.8:
            timed.table.rollback(rng.choice(list(timed.times)))
        elif what < 0.85:
            timed.table.overwrite([record(rng, keys[0], "")], whole_table=True)
        else:
            timed.table.compact(full=rng.random() < 0.5)
        timed.stamp(millis + ahead)
        after(timed)
    return timed


def entities(rng: random.Random, timed: TimedTable, count: int) -> pa.Table:
    known = sorted(timed.times.values())
    return moments(
        [
            {"id": rng.randrange(7), "at": rng.choice(known) + rng.choice((-1, -1e-3, 0, 0, 1))}
            for _ in range(count)
        ]
    )


@pytest.mark.parametrize("engine", sorted(ENGINES))
def test_random_histories_give_what_scans_give(
    rng: random.Random, tmp_path: Path, engine: str
) -> None:
    for number in range(4):
        timed = history(rng, tmp_path / str(number), engine)
        rows = entities(rng, timed, 40)
        features = rng.sample(["g", "a", "h", "b"], 3)
        given = timed.table.point_in_time(rows, "at", features)
        assert given.select(["id", "at"]).equals(rows.select(["id", "at"]))
        assert given.select(features).to_pylist() == timed.expected(rows, "at", features)


def test_what_is_written_later_changes_nothing(rng: random.Random, tmp_path: Path) -> None:
    """Leakage: other futures behind the same past."""
    given = []
    for future in range(3):
        timed = TimedTable(tmp_path / str(future), COLUMNS, ["id"])
        past = random.Random(rng.getstate()[1][0])
        for millis in range(1000, 1010):
            timed.write(millis, *(record(past, key, "") for key in range(4)))
        for millis in range(1010, 1013):
            timed.write(millis, *(record(random.Random(future), key, "") for key in range(6)))
        at = [{"id": key, "at": millis} for key in range(6) for millis in range(999, 1010)]
        given.append(timed.table.point_in_time(moments(at), "at").to_pylist())
    assert given[0] == given[1] == given[2]
    assert any(row["a"] is not None for row in given[0])
