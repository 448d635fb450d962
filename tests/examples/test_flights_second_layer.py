"""What the demo's tables hold, and what they say of the run: the second layer, how fresh it all is, and that flights,
aircraft and counts agree at every barrier while their newest rows do not.
"""

from __future__ import annotations

from collections import Counter
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import widetable as wt
from examples.flights.audit import audit_hourly, expected_hourly
from examples.flights.barrier_looks import Totals, astray, totals_of_flights
from examples.flights.carrier_hourly import HOURLY_KEY, HOURLY_SCHEMA, SUMS
from examples.flights.dataset import read_dataset
from examples.flights.departure_records import RECORDS_NAME
from examples.flights.inputs import FILE_COUNTS, make_streams, store_streams
from examples.flights.pipeline import PipelineRun
from examples.flights.report.freshness import (
    NO_BATCH,
    STAGES,
    Freshness,
    Journey,
    level0_moves,
    measure_freshness,
)
from examples.flights.report.history import read_history
from examples.flights.report.punctuality import read_carriers
from examples.flights.report.widened import read_widened
from examples.flights.tables import DemoTables, open_tables
from examples.flights.verdict import judge
from examples.flights.wide_table import TABLE_NAME, WIDENER_USER
from examples.flights.workspace import Workspace
from tests.examples.plain_pipeline import INTERVAL_MILLIS, fill_tables, join_by_dictionaries

FLIGHT_COUNT = 1_500


class Filled(NamedTuple):
    """Tables that the plain pipeline filled."""

    workspace: Workspace
    run: PipelineRun
    tables: DemoTables

    @property
    def wide(self) -> wt.Table:
        return self.tables.wide

    @property
    def hourly(self) -> wt.Table:
        return self.tables.hourly

    @property
    def rows(self) -> dict[str, pa.Table]:
        return {name: table.scan().to_arrow() for name, table in self.tables.by_name.items()}


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Filled:
    workspace = Workspace(tmp_path_factory.mktemp("demo"))
    dataset = read_dataset(FLIGHT_COUNT, month_count=2)
    streams = make_streams(join_by_dictionaries(dataset), dataset)
    store_streams(streams, workspace)
    run = fill_tables(workspace, streams)
    return Filled(workspace, run, open_tables(workspace))


def test_all_tables_are_as_they_must_be_and_all_laws_hold(filled: Filled) -> None:
    verdict = judge(filled.workspace, filled.wide, filled.rows, {})
    assert verdict.passed, (verdict.audits, verdict.laws.findings)
    assert verdict.wide.row_count == FLIGHT_COUNT
    assert verdict.hourly.row_count > 100
    assert verdict.laws.checks["fold"] > 0
    assert verdict.laws.checks["chain"] > 0
    assert verdict.laws.checks["widened"] == FLIGHT_COUNT
    assert verdict.laws.checks["index"] > FLIGHT_COUNT / 2
    assert all(audit.row_count for audit in verdict.audits.values())


@pytest.mark.parametrize(
    "name",
    [
        "nyc.planes",
        "nyc.weather",
        "nyc.departure_weather",
        TABLE_NAME,
        "nyc.carrier_hourly",
    ],
)
def test_a_wrong_cell_of_any_table_fails_the_verdict(filled: Filled, name: str) -> None:
    rows = filled.rows
    column = {
        "nyc.planes": "model",
        TABLE_NAME: "plane_model",
        "nyc.carrier_hourly": "delay_sum",
    }.get(name, "temp")
    index = rows[name].schema.get_field_index(column)
    values = rows[name][column].to_pylist()
    values[-1], before = None if values[-1] is not None else "nothing", values[-1]
    field = rows[name].schema.field(index)
    rows[name] = rows[name].set_column(index, field, pa.array(values, field.type))
    verdict = judge(filled.workspace, filled.wide, rows, {})
    assert not verdict.passed
    wrong = {of: audit for of, audit in verdict.audits.items() if not audit.passed}
    assert list(wrong) == [name]
    (difference,) = wrong[name].first_differences
    assert (difference.column, difference.expected, difference.found) == (
        column,
        before,
        values[-1],
    )


@pytest.mark.parametrize("what", ["one lost", "one twice"])
def test_a_record_too_few_or_too_many_fails_the_verdict(filled: Filled, what: str) -> None:
    rows = filled.rows
    records = rows[RECORDS_NAME]
    first = records.slice(0, 1)
    rows[RECORDS_NAME] = (
        records.slice(1) if what == "one lost" else pa.concat_tables([records, first])
    )
    verdict = judge(filled.workspace, filled.wide, rows, {})
    wrong = {of: audit for of, audit in verdict.audits.items() if not audit.passed}
    assert list(wrong) == [RECORDS_NAME]
    (difference,) = wrong[RECORDS_NAME].first_differences
    expected = ("one record", "no record") if what == "one lost" else ("no record", "one record")
    assert (difference.expected, difference.found) == expected
    assert difference.key == tuple(first.to_pylist()[0].values())


def test_flights_that_came_before_their_aircraft_were_widened_later(filled: Filled) -> None:
    widened = read_widened(filled.tables, filled.run)
    commits = [each for each in filled.wide.snapshots() if each.commit_user == WIDENER_USER]
    assert widened.round_count > 3
    assert widened.row_count == sum(int(each.properties["widetable.rows"]) for each in commits)
    followed = sum(FILE_COUNTS[name] for name in ("schedule", "planes"))
    assert followed / 2 < len(widened.lags) <= followed
    assert 0 <= widened.lag(0) <= widened.lag(0.5) <= widened.lag(1)
    first = next(each for each in commits if each.properties["widetable.rows"] != "0")
    then = filled.wide.scan(["tailnum", "plane_model"], snapshot_id=first.id).to_arrow()
    now = filled.wide.scan(["tailnum", "plane_model"]).to_arrow()
    missing_then = pc.and_(pc.is_valid(then["tailnum"]), pc.is_null(then["plane_model"]))
    missing_now = pc.and_(pc.is_valid(now["tailnum"]), pc.is_null(now["plane_model"]))
    assert pc.mean(missing_then).as_py() > 2 * pc.mean(missing_now).as_py()


@pytest.mark.parametrize("column", HOURLY_SCHEMA.names[3:])
@pytest.mark.parametrize("planted", ["null", "value"])
def test_the_audit_finds_a_planted_cell_of_the_second_layer(
    filled: Filled, column: str, planted: str
) -> None:
    expected = expected_hourly(filled.wide.scan().to_arrow())
    position = pc.index(pc.greater(expected["cancelled_count"], 0), True).as_py()
    true_value = expected[column][position].as_py()
    wrong = None if planted == "null" else true_value + 1
    values = expected[column].to_pylist()
    values[position] = wrong
    index = HOURLY_SCHEMA.get_field_index(column)
    field = HOURLY_SCHEMA.field(index)
    found = expected.set_column(index, field, pa.array(values, field.type))
    audit = audit_hourly(found, expected)
    assert not audit.passed
    (difference,) = audit.first_differences
    assert (difference.column, difference.found, difference.expected) == (column, wrong, true_value)
    assert difference.key == tuple(expected[name][position].as_py() for name in HOURLY_KEY)


def test_the_expected_aggregate_equals_a_plain_count(filled: Filled) -> None:
    model: dict[tuple[Any, ...], Counter[str]] = {}
    wide = filled.wide.scan().to_arrow()
    for row in wide.to_pylist():
        counts = model.setdefault(
            (row["month"], row["carrier"], row["sched_dep_time"] // 100), Counter()
        )
        counts["flights"] += 1
        counts["delay_count"] += row["arr_delay"] is not None
        counts["delay_sum"] += row["arr_delay"] or 0
        counts["cancelled_count"] += row["dep_seq"] is not None and row["dep_time"] is None
    for row in expected_hourly(wide).to_pylist():
        counts = model.pop(tuple(row[name] for name in HOURLY_KEY))
        assert {name: row[name] for name in SUMS} == {name: counts[name] for name in SUMS}
        mean = counts["delay_sum"] / counts["delay_count"] if counts["delay_count"] else None
        assert row["mean_delay"] == mean
        assert row["cancelled_share"] == counts["cancelled_count"] / counts["flights"]
    assert not model


def test_every_row_that_was_stored_is_told_and_counted_in_this_order(filled: Filled) -> None:
    freshness = measure_freshness(filled.wide, filled.hourly, filled.run)
    stored = {
        snapshot.id: int(snapshot.properties["widetable.rows"])
        for snapshot in filled.wide.snapshots()
        if snapshot.commit_user in {stream.query_id for stream in filled.run.streams}
        and snapshot.commit_identifier != NO_BATCH
    }
    journeys = Counter[int]()
    for journey in freshness.journeys:
        journeys[journey.snapshot_id] += journey.row_count
        assert journey.age("taken") == pytest.approx(
            1
        )  # its own file's, as the plain pipeline has it
        assert journey.taken - 0.001 <= journey.stored <= journey.told <= journey.counted
    # A commit has one row per key; its records may be more.
    assert journeys.keys() == stored.keys()
    assert all(0 < journeys[id] <= stored[id] for id in stored)
    moved = level0_moves(filled.wide).items()
    assert sum(rows for (id, _), rows in moved if id in stored) == journeys.total()


def test_ages_are_weighted_by_rows() -> None:
    def journey(rows: int, told: float) -> Journey:
        return Journey("departure", 1, rows, 100.0, 100.2, 100.5, 100.0 + told, 100.0 + 2 * told)

    freshness = Freshness((journey(98, 4.0), journey(1, 9.0), journey(1, 1.0)))
    assert [freshness.quantile("told", share) for share in (0.01, 0.5, 0.99, 1.0)] == [1, 4, 4, 9]
    assert freshness.quantile("counted", 0.5) == 8.0
    ages, shares = freshness.ages("told")
    assert ages.tolist() == [1, 4, 9]
    assert shares.tolist() == pytest.approx([0.01, 0.99, 1.0])
    assert STAGES == ("stored", "told", "counted")


def test_history_counts_the_changes_that_the_table_told(filled: Filled) -> None:
    history = read_history(filled.tables, filled.run, ["2013-01", "2013-02"])
    totals = Counter[str]()
    for told in history.told:
        totals.update(told.counts)
    assert totals["+I"] == FLIGHT_COUNT
    assert totals["-U"] == totals["+U"] > FLIGHT_COUNT / 2
    assert totals["-D"] == 0
    noted = {s.id: s.changelog_record_count for s in filled.wide.snapshots()}
    assert all(sum(told.counts.values()) == noted[told.snapshot_id] for told in history.told)
    assert len(history.layer_commits) == len(filled.run.layer.batches)
    for stream in (*filled.run.streams, filled.run.lookup):
        assert len(history.of_writer(stream.group)) == len(stream.batches)
    known = [(point.known["schedule"], point.known["widener"]) for point in history.fill]
    assert known[0][1] < known[-1][1] < known[-1][0] == FLIGHT_COUNT


def test_means_of_several_months_are_made_of_sums(filled: Filled) -> None:
    wide = filled.wide.scan().to_arrow()
    found = read_carriers(filled.hourly.scan().to_arrow(), wide)
    carrier = next(iter(found.carriers))
    name, total = found.carriers[carrier]
    of_carrier = wide.filter(pc.equal(wide["carrier"], carrier))
    assert name == of_carrier["airline"][0].as_py()
    assert total.flights == of_carrier.num_rows
    assert total.mean_delay == pytest.approx(pc.mean(of_carrier["arr_delay"]).as_py())
    assert sum(cell.flights for cell in found.hours.values()) == FLIGHT_COUNT


def test_tables_agree_at_every_barrier_and_their_newest_rows_do_not(filled: Filled) -> None:
    looks = filled.run.looks
    count = max(FILE_COUNTS[stream.group] for stream in filled.run.streams)
    barriers = [(number + 1) * INTERVAL_MILLIS for number in range(count)]
    assert [look.barrier for look in looks.at_barriers] == barriers
    assert [look for look in looks.at_barriers if not look.agrees] == []
    sums = [look.flights.flights for look in looks.at_barriers]
    assert sums == sorted(sums)
    assert sums[0] < sums[-1] == FLIGHT_COUNT
    assert len(looks.disagreements) > count / 2
    assert max(look.astray for look in looks.newest) > 0
    assert looks.passed


def test_totals_count_what_flights_say() -> None:
    key = ("2013-01", 0, "UA", 1)
    rows = [
        (*key, 815, "N1", 8, 820, 12, "BOEING"),
        (*key, 815, "N2", 8, None, None, None),  # cancelled
        (*key, 815, None, None, None, -2, None),  # its departure is not known
        (*key, None, None, 8, 820, 100, "BOEING"),  # its schedule is not: it does not count yet
    ]
    names = ["sched_dep_time", "tailnum", "dep_seq", "dep_time", "arr_delay", "plane_maker"]
    columns = [pa.array(column) for column in zip(*rows, strict=True)]
    table = pa.table(columns, ["month", "time_hour", "carrier", "flight", *names])
    assert totals_of_flights(table) == Totals(3, 2, 10, 1)
    assert totals_of_flights(table.slice(0, 0)) == Totals(0, 0, 0, 0)
    makers = {"tailnum": ["N2", "N1"], "manufacturer": pa.array([None, "BOEING"], pa.string())}
    assert astray(table, pa.table(makers)) == 1, "the one without a tail number"
    assert astray(table, pa.table({**makers, "manufacturer": ["AIRBUS", "AIRBUS"]})) == 3
    assert astray(table.slice(0, 0), pa.table(makers)) == 0
