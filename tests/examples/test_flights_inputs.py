"""The demo's input streams are what its story says, and its audit finds what it should find."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from examples.flights.audit import audit_table, expected_table
from examples.flights.dataset import read_dataset
from examples.flights.facts import FACT_SCHEMA
from examples.flights.inputs import FILE_COUNTS, make_streams, store_streams
from examples.flights.wide_table import GROUPS, KEY, TABLE_SCHEMA, ColumnGroup
from examples.flights.workspace import Workspace
from tests.examples.plain_pipeline import join_by_dictionaries

FLIGHT_COUNT = 4_000
NULLED_COLUMN = {
    "schedule": "tailnum",
    "departure": "dep_time",
    "arrival": "arr_delay",
    "weather": "wind_gust",
}
Row = dict[str, Any]


@pytest.fixture(scope="module")
def facts() -> pa.Table:
    return join_by_dictionaries(read_dataset(flight_count=FLIGHT_COUNT))


@pytest.fixture(scope="module")
def streams(facts: pa.Table) -> dict[str, list[pa.Table]]:
    return make_streams(facts)


@pytest.fixture(scope="module")
def expected(
    streams: dict[str, list[pa.Table]], tmp_path_factory: pytest.TempPathFactory
) -> pa.Table:
    workspace = Workspace(tmp_path_factory.mktemp("demo"))
    store_streams(streams, workspace)
    return expected_table(workspace)


def _records(streams: dict[str, list[pa.Table]], group: ColumnGroup) -> list[Row]:
    """All records of one stream in order of arrival."""
    return [row for table in streams[group.name] for row in table.to_pylist()]


def _key(row: Row) -> tuple[Any, ...]:
    return tuple(row[name] for name in KEY)


def _folded(streams: dict[str, list[pa.Table]]) -> dict[tuple[Any, ...], Row]:
    """The dict model: the highest sequence per key and stream, whatever the order of arrival."""
    model: dict[tuple[Any, ...], Row] = {}
    for group in GROUPS:
        for record in _records(streams, group):
            row = model.setdefault(_key(record), dict.fromkeys(TABLE_SCHEMA.names))
            stored = row[group.sequence]
            if stored is None or record[group.sequence] >= stored:
                row.update(record)
    return model


def test_the_same_seed_gives_the_same_files(facts: pa.Table) -> None:
    first, second = make_streams(facts, seed=5), make_streams(facts, seed=5)
    other = make_streams(facts, seed=6)
    for group in GROUPS:
        assert first[group.name] == second[group.name]
        assert first[group.name] != other[group.name]


@pytest.mark.parametrize("group", GROUPS, ids=lambda group: str(group.name))
def test_every_stream_is_cut_into_its_own_number_of_equal_files(
    streams: dict[str, list[pa.Table]], group: ColumnGroup
) -> None:
    sizes = [table.num_rows for table in streams[group.name]]
    assert len(sizes) == FILE_COUNTS[group.name]
    assert max(sizes) - min(sizes) <= 1
    assert all(table.schema == group.stream_schema for table in streams[group.name])


@pytest.mark.parametrize("group", GROUPS, ids=lambda group: str(group.name))
def test_every_stream_has_late_records(
    streams: dict[str, list[pa.Table]], group: ColumnGroup
) -> None:
    records = _records(streams, group)
    issued = np.array([record[group.sequence] for record in records])
    behind_seconds = np.maximum.accumulate(issued) - issued
    newest = {_key(record): record[group.sequence] for record in records}
    for record in records:
        newest[_key(record)] = max(newest[_key(record)], record[group.sequence])
    seen = set()
    late_count = 0
    for record, behind in zip(records, behind_seconds.tolist(), strict=True):
        version = (_key(record), record[group.sequence])
        is_news = version not in seen and record[group.sequence] == newest[_key(record)]
        late_count += is_news and behind > 86_400
        seen.add(version)
    assert late_count > 0.01 * len(records)
    assert np.median(behind_seconds) < 86_400


@pytest.mark.parametrize("group", GROUPS, ids=lambda group: str(group.name))
def test_every_stream_has_exact_repeats_and_else_unique_versions(
    streams: dict[str, list[pa.Table]], group: ColumnGroup
) -> None:
    records = _records(streams, group)
    copies = Counter(tuple(record.values()) for record in records)
    versions = {(_key(record), record[group.sequence]) for record in records}
    assert len(copies) == len(versions)
    assert sum(count - 1 for count in copies.values()) > 0.01 * len(records)


@pytest.mark.parametrize("group", GROUPS, ids=lambda group: str(group.name))
def test_every_stream_has_corrections_some_of_which_arrive_before_the_wrong_version(
    streams: dict[str, list[pa.Table]], group: ColumnGroup
) -> None:
    versions: dict[tuple[Any, ...], list[Row]] = {}
    for record in _records(streams, group):
        known = versions.setdefault(_key(record), [])
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
    reached = [max(streams[group.name][3]["time_hour"].to_pylist()) for group in GROUPS]
    assert len(set(reached)) == len(GROUPS)


def test_the_expected_join_equals_the_dict_model(
    streams: dict[str, list[pa.Table]], expected: pa.Table
) -> None:
    model = _folded(streams)
    assert {_key(row): row for row in expected.to_pylist()} == model
    assert expected.num_rows == len(model) == FLIGHT_COUNT


def test_the_expected_join_gives_back_the_data_set(facts: pa.Table, expected: pa.Table) -> None:
    """Corrections, late and repeated records leave nothing wrong behind."""
    common = [name for name in TABLE_SCHEMA.names if name in FACT_SCHEMA.names]
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
