"""The demo's last step: features are what DuckDB gives, the future changes none of them, and both models are ranked."""

from __future__ import annotations

import os
import random
import shutil
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import widetable as wt
from examples.flights.audit import expected_dimension, expected_table
from examples.flights.dataset import read_dataset
from examples.flights.dimensions import WEATHER
from examples.flights.inputs import make_streams, store_streams
from examples.flights.prediction.airport_weather import AIRPORT_WEATHER_NAME
from examples.flights.prediction.expected_features import audit_features
from examples.flights.prediction.hand_made import leaked_features
from examples.flights.prediction.logistic_model import train
from examples.flights.prediction.prediction import Prediction, check_training_set, predict
from examples.flights.prediction.ranking import area_under_curve, curve
from examples.flights.prediction.training_set import (
    FEATURES,
    KNOWN_SCHEMA,
    SCHEDULED,
    TRAINING_NAME,
    store_training_set,
    with_known_features,
)
from examples.flights.wide_table import KEY, TABLE_SCHEMA
from examples.flights.workspace import Workspace
from tests.examples.plain_pipeline import join_by_dictionaries

FLIGHT_COUNT = 2_000  # of two months, as in the test of the whole demo
NOON = datetime(2013, 1, 2, 12, tzinfo=timezone.utc)


class Predicted(NamedTuple):
    """flights, weather: rows of the tables. readings: the files of the weather."""

    workspace: Workspace
    flights: pa.Table
    weather: pa.Table
    readings: list[pa.Table]
    prediction: Prediction

    @property
    def table(self) -> wt.Table:
        return wt.Catalog(str(self.workspace.warehouse)).table(TRAINING_NAME)


@pytest.fixture(scope="module")
def predicted(tmp_path_factory: pytest.TempPathFactory) -> Predicted:
    workspace = Workspace(tmp_path_factory.mktemp("demo"))
    dataset = read_dataset(FLIGHT_COUNT, month_count=2)
    streams = make_streams(join_by_dictionaries(dataset), dataset)
    store_streams(streams, workspace)
    flights, weather = expected_table(workspace), expected_dimension(WEATHER, workspace)
    prediction = predict(workspace, flights, weather)
    return Predicted(workspace, flights, weather, streams[WEATHER.name], prediction)


def test_every_feature_is_what_plain_queries_over_the_files_give(predicted: Predicted) -> None:
    arrived = predicted.flights["arr_delay"].length() - predicted.flights["arr_delay"].null_count
    for audit in (predicted.prediction.audit, check_training_set(predicted.workspace)):
        assert audit.passed, audit.first_differences
        assert audit.row_count == arrived > FLIGHT_COUNT * 0.9
        assert audit.cell_count == arrived * len(KNOWN_SCHEMA)
    rows = predicted.table.scan().to_arrow()
    for name in FEATURES:
        assert rows[name].null_count < arrived, name
    assert pc.max(rows["departures_24h"]).as_py() > 1


@pytest.mark.parametrize("column", ["late", "departures_3h", "late_share_24h", "temp"])
def test_the_audit_finds_a_planted_feature(predicted: Predicted, column: str) -> None:
    rows = predicted.table.scan().to_arrow()
    at = pc.index(pc.is_valid(rows[column]), True).as_py()
    values = rows[column].to_pylist()
    values[at] = not values[at] if column == "late" else values[at] + 1
    index = rows.schema.get_field_index(column)
    planted = rows.set_column(index, rows.schema.field(index), pa.array(values))
    audit = audit_features(planted, predicted.workspace)
    assert audit.difference_count == 1
    (difference,) = audit.first_differences
    assert (difference.column, difference.found) == (column, values[at])


def test_the_future_changes_no_feature_that_was_known_and_leaks_into_those_made_by_hand(
    predicted: Predicted, tmp_path: Path, rng: random.Random
) -> None:
    """What was reported after a moment is dealt out anew; flights that were to leave by then keep their features."""
    moment = datetime(2013, 1, 20, 15, 30, tzinfo=timezone.utc)
    seconds = int(moment.timestamp())
    flights = _dealt(predicted.flights, "dep_seq", ["dep_delay"], seconds, rng)
    readings = [
        _dealt(records, WEATHER.sequence, WEATHER.value_names, seconds, rng)
        for records in predicted.readings
    ]
    weather = _dealt(predicted.weather, WEATHER.sequence, WEATHER.value_names, seconds, rng)
    dealt = with_known_features(wt.Catalog(str(tmp_path)), flights, readings)
    known = predicted.table.scan(KNOWN_SCHEMA.names).to_arrow()
    before, after = (_by_key(rows.drop_columns("late"), moment) for rows in (known, dealt))
    assert before == after
    assert len(before) > FLIGHT_COUNT / 4
    assert _by_key(known, moment + timedelta(days=9)) != _by_key(dealt, moment + timedelta(days=9))
    times = known.select([*KEY, SCHEDULED])
    by_hand, dealt_by_hand = (
        _by_key(leaked_features(*given).join(times, list(KEY), join_type="inner"), moment)
        for given in ((predicted.flights, predicted.weather), (flights, weather))
    )
    assert by_hand.keys() == dealt_by_hand.keys() == before.keys()
    assert by_hand != dealt_by_hand


def _dealt(
    rows: pa.Table, time: str, columns: list[str], after: int, rng: random.Random
) -> pa.Table:
    """The values of these columns in another order, in rows whose time is later."""
    later = np.flatnonzero(pc.fill_null(pc.greater(rows[time], after), False).to_numpy())
    order = np.arange(rows.num_rows)
    order[later] = rng.sample(later.tolist(), len(later))
    for name in columns:
        rows = rows.set_column(rows.schema.get_field_index(name), name, rows[name].take(order))
    return rows


def _by_key(rows: pa.Table, until: datetime) -> dict[tuple[Any, ...], dict[str, Any]]:
    """Rows of flights that were to leave by then."""
    known = rows.filter(pc.field(SCHEDULED) <= until)
    return {tuple(row[name] for name in KEY): row for row in known.to_pylist()}


def test_features_of_a_few_flights_are_those_that_one_counts_by_hand(tmp_path: Path) -> None:
    """The flight of noon knows what was reported before noon, and the newest reading that was issued by then."""
    flights = [
        _flight(1, NOON - timedelta(hours=3), delay=5, reported=NOON - timedelta(hours=2, minutes=50)),
        _flight(2, NOON - timedelta(hours=2), delay=59, reported=NOON - timedelta(minutes=1)),
        _flight(3, NOON - timedelta(hours=1), delay=61, reported=NOON + timedelta(minutes=1)),
        _flight(4, NOON - timedelta(hours=1), delay=None, reported=NOON - timedelta(minutes=30)),
        _flight(5, NOON, delay=90, reported=NOON + timedelta(minutes=91)),
        _flight(6, NOON - timedelta(hours=1), delay=9, reported=NOON - timedelta(hours=1), at="LGA"),
    ]  # fmt: skip
    readings = [
        _reading(30.0, NOON - timedelta(hours=3), issued=NOON - timedelta(hours=2)),
        _reading(35.0, NOON - timedelta(hours=1), issued=NOON + timedelta(seconds=1)),
        _reading(32.0, NOON - timedelta(hours=2), issued=NOON),  # comes last
    ]
    rows = with_known_features(
        wt.Catalog(str(tmp_path)),
        pa.Table.from_pylist(flights, TABLE_SCHEMA),
        [pa.Table.from_pylist([each], WEATHER.written_schema) for each in readings],
    ).to_pylist()
    assert sorted(row["flight"] for row in rows) == [1, 2, 3, 5, 6], "the fourth did not arrive"
    noon = next(row for row in rows if row["flight"] == 5)
    assert (noon[SCHEDULED], noon["late"], noon["hour"]) == (NOON, True, 7)
    known = {name: noon[name] for name in FEATURES if name.endswith("h")}
    assert known == {
        "departures_1h": 1,
        "mean_delay_1h": 59.0,
        "late_share_1h": 1.0,
        "departures_3h": 2,
        "mean_delay_3h": 32.0,
        "late_share_3h": 0.5,
        "departures_24h": 2,
        "mean_delay_24h": 32.0,
        "late_share_24h": 0.5,
    }
    assert noon["temp"] == 32.0
    first = next(row for row in rows if row["flight"] == 1)
    assert (first["departures_24h"], first["mean_delay_24h"], first["temp"]) == (0, None, None)
    assert first["late"] is False


def test_what_is_made_by_hand_knows_the_flight_itself_and_the_reading_of_its_hour() -> None:
    flights = [
        _flight(2, NOON - timedelta(hours=2), delay=59, reported=NOON - timedelta(minutes=1)),
        _flight(3, NOON - timedelta(hours=1), delay=61, reported=NOON + timedelta(minutes=1)),
        _flight(5, NOON, delay=90, reported=NOON + timedelta(minutes=91)),
    ]
    reading = _reading(30.0, NOON, issued=NOON + timedelta(hours=1))
    rows = leaked_features(
        pa.Table.from_pylist(flights, TABLE_SCHEMA),
        pa.Table.from_pylist([reading], WEATHER.written_schema),
    ).to_pylist()
    noon = next(row for row in rows if row["flight"] == 5)
    assert (noon["departures_1h"], noon["mean_delay_1h"], noon["temp"]) == (1, 90.0, 30.0)
    assert (noon["departures_3h"], noon["mean_delay_3h"]) == (3, 70.0)
    assert noon["late_share_3h"] == 1.0


def test_features_of_other_flights_are_not_taken(predicted: Predicted, tmp_path: Path) -> None:
    known = predicted.table.scan(KNOWN_SCHEMA.names).to_arrow()
    leaked = leaked_features(predicted.flights, predicted.weather)
    catalog = wt.Catalog(str(tmp_path))
    for wrong in (leaked.slice(1), leaked.take([1, 0, *range(2, leaked.num_rows)])):
        with pytest.raises(ValueError, match=r"features made by hand: other flights, by .*flight"):
            store_training_set(catalog, known, wrong)


def _flight(
    number: int, scheduled: datetime, *, delay: int | None, reported: datetime, at: str = "JFK"
) -> dict[str, Any]:
    """Of one carrier, in the time of New York; it arrives as late as it leaves."""
    return {
        "month": "2013-01",
        "time_hour": scheduled,
        "carrier": "UA",
        "flight": number,
        "origin": at,
        "sched_dep_time": (scheduled.hour - 5) * 100,
        "distance": 500,
        "dep_seq": int(reported.timestamp()),
        "dep_delay": delay,
        "arr_delay": delay,
    }


def _reading(temperature: float, hour: datetime, *, issued: datetime) -> dict[str, Any]:
    return {
        "origin": "JFK",
        "time_hour": hour,
        "temp": temperature,
        WEATHER.sequence: int(issued.timestamp()),
    }


def test_two_runs_give_the_same_numbers_and_the_tables_of_a_user(
    predicted: Predicted, tmp_path: Path, rng: random.Random
) -> None:
    """Whatever order a scan gives rows in."""
    shutil.copytree(predicted.workspace.root / "input", tmp_path / "input")
    flights, weather = (
        rows.take(rng.sample(range(rows.num_rows), rows.num_rows))
        for rows in (predicted.flights, predicted.weather)
    )
    again = predict(Workspace(tmp_path), flights, weather)
    first = predicted.prediction
    assert (first.leaked, first.leaked_served, first.known) == (
        again.leaked,
        again.leaked_served,
        again.known,
    )
    assert first.trained + first.asked == first.audit.row_count
    assert first.trained == int(first.audit.row_count * 0.75)
    assert 0 < first.late_share < 1
    catalog = wt.Catalog(str(predicted.workspace.warehouse))
    history = catalog.table(f"{AIRPORT_WEATHER_NAME}_history").scan(["_place"]).to_arrow()
    records = sum(each.num_rows for each in predicted.readings)
    of_records = pc.sum(pc.less(history["_place"], 0).cast(pa.int64())).as_py()
    assert 0.9 * records < of_records <= records, "not the newest alone; an exact repeat is one"


def test_a_model_finds_what_decides_and_takes_null_for_the_mean(tmp_path: Path) -> None:
    table = _table_of_signs(tmp_path)
    model = train(table, ["x", "y"], "late", pc.field("id") < 3_000, by_torch=False)
    asked = table.scan(filter="id >= 3000").to_arrow()
    late = np.asarray(asked["late"].to_numpy())
    assert area_under_curve(model.scores(asked), late) > 0.99
    swapped = model.scores(asked, ["y", "x"])
    assert 0.4 < area_under_curve(swapped, late) < 0.6
    nulls = pa.table({"x": [None, model.means[0]], "y": [model.means[1]] * 2})
    assert model.scores(nulls)[0] == model.scores(nulls)[1]


@pytest.mark.slow
@pytest.mark.skipif(not os.environ.get("WIDETABLE_TORCH"), reason="make torch")
def test_pytorch_and_numpy_train_the_same_model(tmp_path: Path) -> None:
    table = _table_of_signs(tmp_path)
    by_torch, by_numpy = (
        train(table, ["x", "y"], "late", pc.field("id") < 3_000, by_torch=which)
        for which in (True, False)
    )
    assert by_torch.weights == pytest.approx(by_numpy.weights, rel=1e-9)
    assert by_torch.bias == pytest.approx(by_numpy.bias, rel=1e-9)


def _table_of_signs(folder: Path) -> wt.Table:
    """Late where x is above 0; y says nothing; x has nulls."""
    numbers = np.random.default_rng(7).normal(size=(4_000, 2))
    columns = {"id": "BIGINT", "x": "DOUBLE", "y": "DOUBLE", "late": "BOOLEAN"}
    table = wt.Catalog(str(folder)).create_table("d.signs", columns, primary_key=["id"])
    x = pa.array(numbers[:, 0], mask=(np.arange(4_000) % 50 == 0) & (np.arange(4_000) < 3_000))
    late = pa.array(numbers[:, 0] > 0)
    table.write(pa.table({"id": range(4_000), "x": x, "y": numbers[:, 1], "late": late}))
    return table


def test_the_area_is_the_share_of_pairs_in_the_right_order(rng: random.Random) -> None:
    """Equal scores count as a half; the curve encloses the same area."""
    scores = np.array([rng.randrange(40) / 8 for _ in range(300)])
    late = np.array([rng.random() < 0.2 + score / 10 for score in scores])
    pairs = [(a > b) + (a == b) / 2 for a in scores[late] for b in scores[~late]]
    area = area_under_curve(scores, late)
    assert area == pytest.approx(np.mean(pairs))
    x, y = np.array(curve(scores, late, points=20_000)).T
    assert ((y[1:] + y[:-1]) / 2 * np.diff(x)).sum() == pytest.approx(area, abs=1e-3)
    assert (x[0], y[0], x[-1], y[-1]) == (0, 0, 1, 1)
    assert np.isnan(area_under_curve(scores, np.ones(300, dtype=np.bool_)))


def test_readings_come_in_files_in_order_of_arrival(predicted: Predicted) -> None:
    """Each file is a commit, so the table learns in the order in which the demo did."""
    catalog = wt.Catalog(str(predicted.workspace.warehouse))
    snapshots = catalog.table(AIRPORT_WEATHER_NAME).snapshots()
    files = sorted(predicted.workspace.stream(WEATHER.name).glob("*.parquet"))
    counts = [each.num_rows for each in predicted.readings]
    assert [pq.read_metadata(path).num_rows for path in files] == counts
    appends = [each for each in snapshots if each.commit_kind == "APPEND"]
    assert [each.changelog_record_count for each in appends] == counts
