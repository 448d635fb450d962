"""The whole demo, small: Spark queries and a database, all tables checked, the report, wrong values that are found."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import widetable as wt
from examples.flights.barrier_looks import BARRIER_TABLES
from examples.flights.carrier_hourly import HOURLY_NAME
from examples.flights.database.database_job import USER
from examples.flights.dimensions import CHECKED, PLANES
from examples.flights.inputs import FILE_COUNTS
from examples.flights.prediction.training_set import TRAINING_NAME
from examples.flights.report.freshness import NO_BATCH
from examples.flights.second_layer import JOB
from examples.flights.weather.departure_weather import DEPARTURES_NAME, DEPARTURES_SCHEMA
from examples.flights.wide_table import GROUPS, TABLE_NAME, TABLE_SCHEMA, WIDENER_USER
from tests.support.faults.patience import PATIENCE_SECONDS
from widetable.format.snapshot import Snapshot

ROOT = Path(__file__).parents[2]
FLIGHT_COUNT = 2_000


@pytest.mark.slow
def test_the_demo_fills_all_tables_and_finds_wrong_values(tmp_path: Path) -> None:
    (tmp_path / "report.html").write_text("of an earlier run")
    (tmp_path / "warehouse").mkdir()
    (tmp_path / "warehouse" / "left-over").write_text("of an earlier run")
    run = _demo("--flights", str(FLIGHT_COUNT), "--months", "2", "--root", str(tmp_path))
    assert run.returncode == 0, run.stdout + run.stderr
    cells = FLIGHT_COUNT * len(TABLE_SCHEMA)
    assert f"{cells:,} cells compared: 0 different" in run.stdout
    assert re.search(r"schedule +100 %", run.stdout)
    assert not (tmp_path / "warehouse" / "left-over").exists()
    report = (tmp_path / "report.html").read_text()
    assert report.startswith("<!doctype html>")
    assert "vegaEmbed=" in report.replace(" ", ""), "the page brings along what draws its charts"
    assert report.count("<script") == report.count("</script") == 3
    assert re.search(r"ran batch \d+ again, found its commit in the table", report)
    assert re.search(
        r"nyc\.late_flights: 1,\d+ rows x 24 columns = .* compared: 0 different", run.stdout
    )
    sentence = re.search(r"AUC with features as they were known: 0\.\d+\. .*", run.stdout)
    assert sentence
    assert sentence[0] in report
    assert "Traceback" not in run.stderr

    catalog = wt.Catalog(str(tmp_path / "warehouse"))
    _check_wide(catalog.table(TABLE_NAME))
    departures, hourly = catalog.table(DEPARTURES_NAME), catalog.table(HOURLY_NAME)
    _check_planes(catalog.table(PLANES.table))
    _check_departures(departures)
    _check_hourly(hourly)
    _check_barriers(run.stdout, report, catalog)
    for job in (JOB, USER):
        catalog.topology().drop(job, force=True)  # its columns are another writer's now
    planes = catalog.table(PLANES.table)
    _plant(catalog.writer(PLANES.table, "vandal"), planes, "seats", "tailnum > 'N7'")
    _plant(catalog.writer(HOURLY_NAME, "vandal"), hourly, "delay_sum", "carrier = 'UA'")
    _plant(departures, departures, "temp", "temp > 0")
    training = catalog.table(TRAINING_NAME)
    _plant(training, training, "departures_24h", "carrier = 'UA'")
    check = _demo("--check", "--root", str(tmp_path))
    assert check.returncode == 1, check.stdout + check.stderr
    assert f"{cells:,} cells compared: 0 different" in check.stdout
    assert re.search(r"cells compared: 1 different\n +delay_sum of \(2013-01, UA, ", check.stdout)
    assert re.search(r"cells compared: 1 different\n +temp of \(2013-0", check.stdout)
    assert re.search(r"cells compared: 1 different\n +departures_24h of \(2013-0", check.stdout)
    in_database = r"nyc.planes as in the database: .* 1 different\n +seats of \(N"
    assert re.search(in_database, check.stdout)


def _demo(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "examples.flights", *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=False,
    )


def _check_wide(table: wt.Table) -> None:
    assert table.scan().to_arrow().num_rows == FLIGHT_COUNT
    appends = _of_batches(table)
    users = {snapshot.commit_user for snapshot in appends}
    assert len(users - {WIDENER_USER}) == len(GROUPS) == len(users) - 1
    assert len(appends) == len({(each.commit_user, each.commit_identifier) for each in appends})


def _of_batches(table: wt.Table) -> list[Snapshot]:
    """Appends; without those by which a job says how far it is."""
    appends = [each for each in table.snapshots() if each.commit_kind == "APPEND"]
    return [each for each in appends if each.commit_identifier != NO_BATCH]


def _check_departures(departures: wt.Table) -> None:
    """One commit per file; most flights left in an hour of which the weather is known."""
    rows = departures.scan().to_arrow()
    assert rows.schema.names == DEPARTURES_SCHEMA.names
    assert pc.count(rows["temp"]).as_py() > FLIGHT_COUNT * 0.8
    appends = [each for each in departures.snapshots() if each.commit_kind == "APPEND"]
    assert [each.commit_identifier for each in appends] == list(range(FILE_COUNTS["departure"]))
    assert len({each.commit_user for each in appends}) == 1


def _check_planes(planes: wt.Table) -> None:
    """Rows that were there before the column have its default or their correction; all rows came by one job."""
    rows = planes.scan(columns=["tailnum", CHECKED.name]).to_arrow()
    assert rows[CHECKED.name].null_count == 0
    checked = rows.filter(pc.field(CHECKED.name))["tailnum"].to_pylist()
    assert checked
    assert max(checked) < "N3"
    appends = [each for each in planes.snapshots() if each.commit_kind == "APPEND"]
    assert {each.commit_user for each in appends} == {USER}


def _check_hourly(hourly: wt.Table) -> None:
    assert pc.sum(hourly.scan(columns=["flights"]).to_arrow()["flights"]).as_py() == FLIGHT_COUNT
    appends = _of_batches(hourly)
    assert len({each.commit_user for each in appends}) == 1
    assert len(appends) == len({each.commit_identifier for each in appends}) > 1


def _check_barriers(said: str, report: str, catalog: wt.Catalog) -> None:
    """Tables agree at each barrier. One is read with the first files before others come, another one with the last."""
    sentence = re.search(
        r"(\d+) barriers were read while the streams ran, and both tables agreed at (\d+) of them\. "
        r"Their newest rows, which are not of one moment, were read \d+ times and disagreed (\d+) times",
        said,
    )
    assert sentence, said
    assert sentence[0] in report
    assert "Newest rows of each (ReadUncommitted)" in report
    read, agreed, disagreed = map(int, sentence.groups())
    assert read == agreed > 1
    assert disagreed > 0
    with catalog.session(list(BARRIER_TABLES)) as session:
        flights, _, counts = (session.table(name).scan().to_arrow() for name in BARRIER_TABLES)
    assert pc.sum(counts["flights"]).as_py() == flights.num_rows == FLIGHT_COUNT
    jobs = {job.name: job for job in catalog.topology().jobs()}
    derived = {job.sources for job in jobs.values() if job.kind == "derived"}
    assert derived == {(TABLE_NAME,), (PLANES.table,)}
    roots = {job.name for job in jobs.values() if job.kind == "root"}
    assert roots == {*(group.name for group in GROUPS), USER}


def _plant(writer: wt.Table | wt.BarrierWriter, table: wt.Table, column: str, where: str) -> None:
    """One too many in one cell."""
    rows = table.scan(filter=where).to_arrow().slice(0, 1)
    index = rows.schema.get_field_index(column)
    field = rows.schema.field(index)
    wrong = pc.add(rows[column], pa.scalar(1, field.type))
    writer.write(rows.set_column(index, field, wrong))
