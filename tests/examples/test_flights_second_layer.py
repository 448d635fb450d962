"""The demo's second layer: sums that take back and add, batches that count once, and how fresh it all is; and what
the tables around it hold that the same pipeline filled.
"""

from __future__ import annotations

import functools
import random
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import widetable as wt
from examples.flights.audit import audit_hourly, expected_hourly
from examples.flights.carrier_hourly import (
    DELTA_SCHEMA,
    HOURLY_KEY,
    HOURLY_SCHEMA,
    ROW_KIND,
    SUMS,
    changed_rows,
)
from examples.flights.dataset import read_dataset
from examples.flights.freshness import STAGES, Freshness, Journey, level0_moves, measure_freshness
from examples.flights.history import read_history
from examples.flights.inputs import FILE_COUNTS, make_streams, store_streams
from examples.flights.pipeline import PipelineRun
from examples.flights.punctuality import read_carriers
from examples.flights.second_layer import Added, add_once
from examples.flights.tables import DemoTables, create_hourly_table, open_tables
from examples.flights.verdict import judge
from examples.flights.wide_table import (
    TABLE_NAME,
    TABLE_SCHEMA,
    WIDENER_USER,
)
from examples.flights.widened import read_widened
from examples.flights.workspace import Workspace
from tests.examples.plain_pipeline import (
    deltas_of,
    fill_barrier_tables,
    fill_tables,
    join_by_dictionaries,
)

FLIGHT_COUNT = 1_500
Row = dict[str, Any]


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
    fill_barrier_tables(workspace, streams)
    return Filled(workspace, run, open_tables(workspace))


def _deltas(*rows: tuple[Any, ...]) -> pa.Table:
    columns = list(zip(*rows, strict=True)) if rows else [()] * len(DELTA_SCHEMA)
    return pa.table(
        [pa.array(c, f.type) for c, f in zip(columns, DELTA_SCHEMA, strict=True)], DELTA_SCHEMA
    )


def _present(*rows: tuple[Any, ...] | None) -> pa.Table:
    """As `Table.lookup` gives them: a row per key, None for a key that is not there."""
    texts = [dict(zip(HOURLY_SCHEMA.names, row or (), strict=False)) for row in rows]
    nullable = pa.schema([field.with_nullable(True) for field in HOURLY_SCHEMA])
    return pa.Table.from_pylist(texts, schema=nullable)


UA_8 = ("2013-01", "UA", 8)


@pytest.mark.parametrize(
    ("delta", "present", "expected"),
    [
        ((2, 1, 9, 1), None, ("+I", 2, 1, 9, 1, 9.0, 0.5)),
        ((1, 1, -4, 0), (3, 2, 10, 0), ("+U", 4, 3, 6, 0, 2.0, 0.0)),
        ((0, -1, -7, 1), (3, 1, 7, 0), ("+U", 3, 0, 0, 1, None, 1 / 3)),
        ((-3, -1, -7, -2), (3, 1, 7, 2), ("-D", 0, 0, 0, 0, None, None)),
    ],
    ids=["new", "more", "cancelled later", "last flight gone"],
)
def test_a_row_is_what_was_there_and_what_is_added(
    delta: tuple[int, ...], present: tuple[int, ...] | None, expected: tuple[Any, ...]
) -> None:
    rows = changed_rows(
        _deltas((*UA_8, *delta)), _present(None if present is None else (*UA_8, *present))
    )
    (row,) = rows.to_pylist()
    assert tuple(row[name] for name in HOURLY_KEY) == UA_8
    assert (row[ROW_KIND], *[row[name] for name in HOURLY_SCHEMA.names[3:]]) == expected


def test_a_key_that_comes_and_goes_in_one_batch_is_never_written() -> None:
    assert changed_rows(_deltas((*UA_8, 0, 0, 0, 0)), _present(None)).num_rows == 0
    assert changed_rows(_deltas(), _present()).num_rows == 0


@pytest.mark.parametrize(
    ("delta", "present"),
    [
        ((-1, 0, 0, 0), None),
        ((-1, 0, 0, 0), (1, 1, 5, 0)),
        ((0, -2, -5, 0), (3, 1, 5, 0)),
        ((0, -1, -4, 0), (3, 1, 5, 0)),
        ((0, 0, 0, 1), (1, 0, 0, 1)),
    ],
    ids=["nothing there", "delays stay", "too many back", "minutes stay", "more than flights"],
)
def test_taking_back_what_was_never_added_is_an_error(
    delta: tuple[int, ...], present: tuple[int, ...] | None
) -> None:
    there = _present(None if present is None else (*UA_8, *present))
    with pytest.raises(ValueError, match=r"carrier_hourly \('2013-01', 'UA', 8\): sums that no"):
        changed_rows(_deltas((*UA_8, *delta)), there)


def _random_row(rng: random.Random, key: tuple[str, str, int]) -> Row:
    """A row of the wide table; few hours, so that flights move between keys and keys become empty."""
    row: Row = dict.fromkeys(TABLE_SCHEMA.names)
    row["month"], row["carrier"], row["flight"] = key
    row["sched_dep_time"] = rng.choice([None, 815, 859, 900])
    row["dep_seq"] = rng.choice([None, 7])
    row["dep_time"] = rng.choice([None, 901]) if row["dep_seq"] else None
    row["arr_delay"] = rng.choice([None, -3, 0, 40])
    return row


def test_random_changes_in_any_batches_give_the_aggregate_of_the_last_rows(
    rng: random.Random, tmp_path: Path
) -> None:
    workspace = Workspace(tmp_path)
    hourly = create_hourly_table(workspace)
    live: dict[tuple[str, str, int], Row] = {}
    kinds = Counter[str]()
    for batch_id in range(12):
        changes: list[Row] = []
        for _ in range(rng.choice([0, 1, 8])):
            key = ("2013-01", rng.choice("AB"), rng.randrange(3))
            before = live.pop(key, None)
            after = None if before and rng.random() < 0.4 else _random_row(rng, key)
            if before is not None:
                changes.append({**before, ROW_KIND: "-U" if after else "-D"})
            if after is not None:
                changes.append({**after, ROW_KIND: "+U" if before else "+I"})
                live[key] = after
        table = _wide(changes, TABLE_SCHEMA.append(pa.field(ROW_KIND, pa.string())))
        kinds.update(table[ROW_KIND].to_pylist())
        assert add_once(hourly, batch_id, functools.partial(deltas_of, table)) is not Added.BEFORE
    expected = expected_hourly(_wide(list(live.values()), TABLE_SCHEMA))
    found = hourly.scan().to_arrow()
    audit = audit_hourly(found, expected)
    assert (audit.difference_count, audit.row_count) == (0, expected.num_rows), kinds


def _wide(rows: list[Row], schema: pa.Schema) -> pa.Table:
    nullable = pa.schema([field.with_nullable(True) for field in schema])
    return pa.Table.from_pylist(rows, schema=nullable)


def test_a_batch_that_is_in_is_not_added_again(tmp_path: Path) -> None:
    hourly = create_hourly_table(Workspace(tmp_path))
    once = _deltas((*UA_8, 2, 1, 9, 0))
    assert add_once(hourly, 0, lambda: once) is Added.NOW
    snapshots = len(hourly.snapshots())
    again = add_once(hourly, 0, lambda: pytest.fail("read although the batch is in"))
    assert again is Added.BEFORE
    assert len(hourly.snapshots()) == snapshots
    assert hourly.scan().to_arrow()["flights"].to_pylist() == [2]
    assert add_once(hourly, 1, lambda: once) is Added.NOW
    assert hourly.scan().to_arrow()["flights"].to_pylist() == [4]
    assert add_once(hourly, 2, _deltas) is Added.NOTHING


def test_all_tables_are_as_they_must_be_and_all_laws_hold(filled: Filled) -> None:
    verdict = judge(filled.workspace, filled.wide, filled.rows)
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
        "nyc.flights_at_barriers",
        "nyc.hourly_at_barriers",
    ],
)
def test_a_wrong_cell_of_any_table_fails_the_verdict(filled: Filled, name: str) -> None:
    rows = filled.rows
    column = {
        "nyc.planes": "model",
        TABLE_NAME: "plane_model",
        "nyc.flights_at_barriers": "sched_seq",
        "nyc.hourly_at_barriers": "delay_sum",
    }.get(name, "temp")
    index = rows[name].schema.get_field_index(column)
    values = rows[name][column].to_pylist()
    values[-1], before = None if values[-1] is not None else "nothing", values[-1]
    field = rows[name].schema.field(index)
    rows[name] = rows[name].set_column(index, field, pa.array(values, field.type))
    verdict = judge(filled.workspace, filled.wide, rows)
    assert not verdict.passed
    wrong = {of: audit for of, audit in verdict.audits.items() if not audit.passed}
    assert list(wrong) == [name]
    (difference,) = wrong[name].first_differences
    assert (difference.column, difference.expected, difference.found) == (
        column,
        before,
        values[-1],
    )


def test_flights_that_came_before_their_aircraft_were_widened_later(filled: Filled) -> None:
    widened = read_widened(filled.tables, filled.run)
    commits = [each for each in filled.wide.snapshots() if each.commit_user == WIDENER_USER]
    assert widened.round_count > 3
    assert widened.row_count == sum(int(each.properties["widetable.rows"]) for each in commits)
    followed = sum(FILE_COUNTS[name] for name in ("schedule", "planes"))
    assert followed / 2 < len(widened.lags) <= followed
    assert 0 <= widened.lag(0) <= widened.lag(0.5) <= widened.lag(1)
    first = next(each for each in commits if "widen.dim" in each.properties)
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
        if snapshot.commit_kind == "APPEND" and snapshot.commit_user != WIDENER_USER
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
