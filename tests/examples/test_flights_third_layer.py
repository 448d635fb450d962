"""The demo's third layer without Spark: two tables agree at every barrier, and their newest rows do not."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from examples.flights.barrier_files import FILE_COUNT, MOST_AHEAD, BarrierFiles
from examples.flights.barrier_tables import (
    FLIGHTS_SCHEMA,
    INTERVAL_MILLIS,
    MONTH_COUNT,
    Totals,
    astray,
    create_barrier_tables,
    of_first_months,
    totals_of_flights,
)
from examples.flights.dataset import read_dataset
from examples.flights.inputs import make_streams
from examples.flights.workspace import Workspace
from tests.examples.plain_pipeline import fill_barrier_tables, join_by_dictionaries

FLIGHT_COUNT = 1_500


@pytest.fixture(scope="module")
def streams() -> dict[str, list[pa.Table]]:
    dataset = read_dataset(FLIGHT_COUNT, month_count=MONTH_COUNT + 1)
    return make_streams(join_by_dictionaries(dataset), dataset)


def test_both_tables_agree_at_every_barrier_and_their_newest_rows_do_not(
    streams: dict[str, list[pa.Table]], tmp_path: Path
) -> None:
    workspace = Workspace(tmp_path)
    flights, counts, _ = create_barrier_tables(workspace)
    looks = fill_barrier_tables(workspace, streams)
    barriers = [(number + 1) * INTERVAL_MILLIS for number in range(FILE_COUNT)]
    assert [look.barrier for look in looks.at_barriers] == barriers
    assert [look for look in looks.at_barriers if not look.agrees] == []
    sums = [look.flights.flights for look in looks.at_barriers]
    assert sums == sorted(sums)
    assert sums[0] < sums[-1] == flights.scan().count() < FLIGHT_COUNT
    assert len(looks.disagreements) > FILE_COUNT / 2
    assert max(look.astray for look in looks.newest) > 0
    assert looks.passed
    assert not flights.audit().findings
    assert not counts.audit().findings


def test_totals_count_what_flights_say() -> None:
    key = ("2013-01", 0, "UA", 1)
    rows = [
        (*key, 7, 815, "N1", 8, 820, 9, 12, "BOEING"),
        (*key, 7, 815, "N2", 8, None, None, None, None),  # cancelled
        (*key, 7, 815, None, None, None, 9, -2, None),  # its departure is not known
        (
            *key,
            None,
            None,
            None,
            8,
            820,
            9,
            100,
            "BOEING",
        ),  # its schedule is not known: it does not count yet
    ]
    columns = list(zip(*rows, strict=True))
    table = pa.table([pa.array(c) for c in columns], FLIGHTS_SCHEMA.names)
    assert totals_of_flights(table) == Totals(3, 2, 10, 1)
    assert totals_of_flights(table.slice(0, 0)) == Totals(0, 0, 0, 0)
    makers = {"tailnum": ["N2", "N1"], "manufacturer": pa.array([None, "BOEING"], pa.string())}
    assert astray(table, pa.table(makers)) == 1, "the one without a tail number"
    assert astray(table, pa.table({**makers, "manufacturer": ["AIRBUS", "AIRBUS"]})) == 3
    assert astray(table.slice(0, 0), pa.table(makers)) == 0


def test_the_tables_hold_the_first_months_of_whatever_there_is() -> None:
    months = pa.chunked_array([[f"2013-{month:02d}" for month in (5, 3, 4, 3, 6)]])
    rows = pa.table({"month": months})
    kept = of_first_months(rows, months)["month"].to_pylist()
    assert kept == ["2013-05", "2013-03", "2013-04", "2013-03"]
    assert of_first_months(rows.slice(4), rows.slice(4)["month"]).num_rows == 1


def test_a_file_waits_for_barriers_of_the_files_before_it(
    streams: dict[str, list[pa.Table]], tmp_path: Path
) -> None:
    workspace = Workspace(tmp_path)
    create_barrier_tables(workspace)
    fill_barrier_tables(workspace, streams)
    files = BarrierFiles(workspace, pause_seconds=0.0)
    for _ in range(FILE_COUNT):
        files.bring_next(barriers_read=0)
    assert len(files.came) == MOST_AHEAD
    for read in range(FILE_COUNT):
        files.bring_next(barriers_read=read)
    assert len(files.came) == FILE_COUNT
    for name in ("schedule", "departure", "arrival", "planes"):
        assert len(list(workspace.counted_arrived(name).iterdir())) == FILE_COUNT
